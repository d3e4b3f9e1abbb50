"""Megabytes of noise under the name of a text: passed over after a look at how they begin, and said."""

from __future__ import annotations

import random
import tarfile
from pathlib import Path

import pytest

from thpdiag.host.options import Options
from thpdiag.host.reading import ParsedInput, read_input
from thpdiag.model import ProblemKind

NOISE = random.Random(1).randbytes(1 << 20)
RED_LINE = b"\x1b[31m\x1b[1mNov 20 03:35:43\x1b[0m host kernel: \x1b[1musb 1-1\x1b[0m: new device\a\b \r\n"


def read_as(name: str, data: bytes, folder: Path) -> ParsedInput:
    """What is read of a file of this name."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return read_input([path], Options(strict=True))


@pytest.mark.parametrize("name", ["notes.txt", "dmesg"])
def test_noise_is_said_and_not_read(name: str, tmp_path: Path) -> None:
    """Nothing but one problem comes of it; none of its lines is looked at, whose odd bytes would be told."""
    found = read_as(name, NOISE, tmp_path)
    assert [(p.kind, p.text) for p in found.problems] == [(ProblemKind.UNRECOGNISED, "not text")]
    assert [(row.reader, row.size) for row in found.inputs] == [("", len(NOISE))]


def test_noise_in_an_archive_hides_no_other_member(tmp_path: Path) -> None:
    """The member behind it is read."""
    (tmp_path / "dmesg").write_bytes(NOISE)
    (tmp_path / "vmstat").write_text("nr_free_pages 17\nthp_fault_alloc 4\n")
    with tarfile.open(tmp_path / "all.tar", "w") as archive:
        archive.add(tmp_path / "dmesg", "host/dmesg")
        archive.add(tmp_path / "vmstat", "host/proc/vmstat")
    found = read_input([tmp_path / "all.tar"], Options(strict=True))
    assert [(p.cite.member, p.text) for p in found.problems] == [("host/dmesg", "not text")]
    assert [row.member for row in found.inputs if row.reader] == ["host/proc/vmstat"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_long_recording_of_a_terminal_is_text(encoding: str, tmp_path: Path) -> None:
    """Colours, bells and carriage returns are what terminals print, and every second byte of UTF-16 is NUL."""
    found = read_as("session.txt", (RED_LINE * 5000).decode().encode(encoding), tmp_path)
    assert [row.reader for row in found.inputs] == ["kernel_log"]
    assert found.problems == []
