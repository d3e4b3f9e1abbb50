"""A file that should have been an archive and is none is a loss that is named, alone and beside good evidence."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import STRICT, found, rules
from command_line import ROOT
from packed_bundles import tar, xz, zipped
from thpdiag.pipeline import analyze
from thpdiag.report.presentation import exit_code

STORY = ROOT / "fixtures" / "stories" / "hadoop-centos62" / "bundle" / "ticket.txt"
NOISE = random.Random(7).randbytes(5000)
PACKED = xz(tar({"proc/meminfo": b"MemTotal: 16384000 kB\n"}))


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]


BROKEN = {
    "noise.tar.xz": (NOISE, "not the first bytes of one"),
    "one-bit.tar.xz": (flipped(PACKED, 0), "not the first bytes of one"),
    "one-bit-of-no-name": (flipped(PACKED, 0), "with one bit changed"),
    "zeros.tgz": (bytes(5000), "holds only zeros"),
    "empty.zip": (b"", "is empty"),
    "cut.tar.xz": (PACKED[:20], "xz data end early"),
    "no-tar-within.tar.xz": (xz(NOISE), "not the first bytes of one"),
    "messages.gz": (NOISE, "not the first bytes of one"),
}


def in_folder(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def in_tar(folder: Path, files: dict[str, bytes]) -> Path:
    (folder / "case.tar").write_bytes(tar(files))
    return folder / "case.tar"


def in_zip(folder: Path, files: dict[str, bytes]) -> Path:
    (folder / "case.zip").write_bytes(zipped(files))
    return folder / "case.zip"


def problems_of(document: dict[str, Any], member: str) -> list[dict[str, Any]]:
    return [one for one in document["problems"] if one["member"].endswith(member)]


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_archive_alone(tmp_path: Path, name: str) -> None:
    """Nothing is recognised, and why is said."""
    data, reason = BROKEN[name]
    document = analyze([in_folder(tmp_path, {name: data}) / name], rules(), STRICT)
    (problem,) = problems_of(document, name)
    assert reason in problem["text"]
    assert (problem["kind"], problem["hides"]) == ("damaged", True)
    assert exit_code(document) == 3


@pytest.mark.parametrize("pack", [in_folder, in_tar, in_zip])
def test_broken_archives_beside_good_evidence(tmp_path: Path, pack: Any) -> None:
    """What is there is diagnosed, and exit 5 says that something is missing."""
    files = {name: data for name, (data, _) in BROKEN.items()}
    document = analyze([pack(tmp_path, {**files, "ticket.txt": STORY.read_bytes()})], rules(), STRICT)
    assert "THP-001" in found(document)
    for name in BROKEN:
        (problem,) = problems_of(document, name)
        assert (problem["kind"], problem["hides"]) == ("damaged", True), name
    assert exit_code(document) == 5


@pytest.mark.parametrize(("name", "is_archive"), [("ticket.tar.gz", True), ("ticket.zip", True), ("ticket.gz", False)])
def test_a_text_keeps_its_evidence_whatever_it_is_called(tmp_path: Path, name: str, is_archive: bool) -> None:
    """What was in an archive may be lost with its beginning; a compressed text that somebody unpacked is whole."""
    document = analyze([in_folder(tmp_path, {name: STORY.read_bytes()})], rules(), STRICT)
    assert "THP-001" in found(document)
    assert [one["hides"] for one in problems_of(document, name)] == [True] * is_archive


def test_a_zip_before_a_zip_is_named(tmp_path: Path) -> None:
    """The last one is read, as its list is at the end."""
    meminfo = zipped({"host/proc/meminfo": b"MemTotal: 16384000 kB\n"})
    document = analyze([in_folder(tmp_path, {"a.zip": meminfo + zipped({"ticket.txt": STORY.read_bytes()})})], rules())
    assert "THP-001" in found(document)
    (problem,) = problems_of(document, "a.zip")
    assert f"{len(meminfo)} bytes before the zip archive" in problem["text"]
    assert problem["hides"]


@pytest.mark.parametrize("first", [True, False])
def test_absolute_names_beside_relative_ones_are_no_evidence(tmp_path: Path, first: bool) -> None:
    """Whichever comes first."""
    mine, theirs = ("/srv/ticket.txt", STORY.read_bytes()), ("host/proc/meminfo", b"MemTotal: 16384000 kB\n")
    (tmp_path / "a.tar").write_bytes(tar(dict((mine, theirs) if first else (theirs, mine))))
    document = analyze([tmp_path / "a.tar"], rules(), STRICT)
    assert not found(document)
    (problem,) = problems_of(document, "srv/ticket.txt")
    assert (problem["kind"], problem["hides"]) == ("refused", True)
    assert "absolute name" in problem["text"]


def test_an_archive_of_absolute_names_is_evidence(tmp_path: Path) -> None:
    """As `tar -P` packs the files of a host."""
    (tmp_path / "a.tar").write_bytes(tar({"/srv/ticket.txt": STORY.read_bytes()}))
    document = analyze([tmp_path / "a.tar"], rules(), STRICT)
    assert "THP-001" in found(document)
