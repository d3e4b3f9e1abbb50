"""What is read a second time: a list of symbols that a recording asks for, a line far down; never a pipe."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from conftest import ROOT
from kernel_symbol_files import samples
from thpdiag.bundle import Limits, members
from thpdiag.bundle.open import is_rereadable, reread_members
from thpdiag.engine.load import rule_set
from thpdiag.host import reading
from thpdiag.host.excerpts import reread
from thpdiag.host.options import Options
from thpdiag.host.reading import ParsedInput, read_input
from thpdiag.model import Profile, SymbolList
from thpdiag.model.parser import Content, Source
from thpdiag.parsers import kernel_symbols
from thpdiag.pipeline import analyze

FOLDER = ROOT / "fixtures/readers/perf_data"
PERF_DATA, KALLSYMS = FOLDER / "plain/perf.data", FOLDER / "plain.kallsyms.txt"
NAMES = {"perf.data": PERF_DATA, "proc/kallsyms": KALLSYMS}
LATE = b"[61001.000001] khugepaged: page allocation failure: order:9, mode:0xcc0(GFP_KERNEL), nodemask=(null)\n"


def packed(path: Path, *names: str, kind: str = "w:xz") -> Path:
    with tarfile.open(path, kind) as tar:
        for name in names:
            tar.add(NAMES[name], name)
    return path


def profile(found: ParsedInput) -> Profile:
    (only,) = (r.record for rs in found.readings.values() for r in rs if isinstance(r.record, Profile))
    return only


def is_named(found: ParsedInput) -> bool:
    return any("clear_page_erms" in chain for chain in samples(profile(found)))


def unpacked(folder: Path) -> Path:
    for name, file in NAMES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder / name)
    return folder


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The members that were asked for a second time."""
    asked: list[set[str]] = []

    def told(left: dict[str, set[str]], paths: list[Path], limits: Limits) -> Iterator[object]:
        asked.append(set(left))
        return reread(left, paths, limits)

    monkeypatch.setattr(reading, "reread", told)
    return asked


@pytest.mark.parametrize("names", [("perf.data", "proc/kallsyms"), ("proc/kallsyms", "perf.data")])
def test_a_list_is_read_again_for_a_recording_of_its_archive(
    names: tuple[str, ...], tmp_path: Path, second: list[set[str]]
) -> None:
    """Whichever of them comes first; the table is that of a list that was held."""
    found = read_input([packed(tmp_path / "a.tar.xz", *names)], Options(strict=True))

    assert is_named(found)
    assert second == [{"proc/kallsyms"}]
    held = read_input([PERF_DATA, KALLSYMS], Options(strict=True))
    assert samples(profile(found)) == samples(profile(held))
    assert found.problems == []


def test_a_list_is_read_again_in_a_folder_and_in_an_inner_archive(tmp_path: Path, second: list[set[str]]) -> None:
    """By the name under which it was met."""
    assert is_named(read_input([unpacked(tmp_path / "folder")], Options(strict=True)))

    inner = packed(tmp_path / "inner.tar.xz", *NAMES)
    with tarfile.open(tmp_path / "outer.tar", "w") as tar:
        tar.add(inner, "sosreport-a.tar.xz")
    assert is_named(
        read_input([tmp_path / "outer.tar", ROOT / "fixtures/readers/perf_data/ORIGIN.md"], Options(strict=True))
    )
    assert second == [{"proc/kallsyms"}, {"outer.tar/sosreport-a.tar.xz/proc/kallsyms"}]


def test_without_a_recording_nothing_is_read_again(tmp_path: Path, second: list[set[str]]) -> None:
    """Nor for one that is named beside the archive, since it says beforehand that it will ask."""
    alone = packed(tmp_path / "a.tar.xz", "proc/kallsyms")

    found = read_input([alone], Options(strict=True))
    assert [row.records for row in found.inputs] == [1]
    assert not found.texts.texts("proc/kallsyms")[found.inputs[0].sha256].begin
    assert is_named(read_input([alone, PERF_DATA], Options(strict=True)))
    assert second == []


def test_of_a_stream_the_list_is_held(tmp_path: Path, second: list[set[str]]) -> None:
    """It comes once."""
    data = packed(tmp_path / "a.tar.xz", *NAMES).read_bytes()

    assert is_named(read_input([Path("-")], Options(strict=True), stdin=io.BytesIO(data)))
    assert second == []


def test_a_list_that_has_changed_names_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another kernel's names would be wrong ones. The report says what is missing."""
    folder = unpacked(tmp_path / "folder")

    def changed(left: dict[str, set[str]], paths: list[Path], limits: Limits) -> Iterator[object]:
        text = KALLSYMS.read_bytes().replace(b"clear_page_erms", b"clear_page_orig")
        (folder / "proc/kallsyms").write_bytes(text)
        return reread(left, paths, limits)

    monkeypatch.setattr(reading, "reread", changed)
    found = read_input([folder], Options(strict=True))
    assert not is_named(found)
    assert [p.text for p in found.problems if p.cite.member == "proc/kallsyms"] == [
        "changed since it was read, so its names are missing"
    ]


@pytest.mark.parametrize("twice", [True, False])
def test_the_reader_leaves_a_list_where_it_is(twice: bool) -> None:
    """All of it goes by, so that its end and its SHA-256 are known; the beginning alone is held."""
    text = KALLSYMS.read_bytes() * 5
    chunks = iter([text[at : at + 5000] for at in range(0, len(text), 5000)])
    (listed,) = kernel_symbols.read_kallsyms(Source("kallsyms"), Content(chunks, len(text), again=twice))

    assert isinstance(listed, SymbolList)
    assert listed.whole is not twice
    assert sum(map(len, listed.chunks)) == (5000 if twice else len(text))
    assert next(chunks, None) is None


@pytest.mark.parametrize("twice", [True, False])
def test_what_is_odd_about_a_list_is_told_in_either_case(twice: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut, and more than is read: a list that is left was seen to its end."""
    text = KALLSYMS.read_bytes() * 5
    (problem, _) = kernel_symbols.read_kallsyms(Source("k"), Content(iter([text[:6000], text[6000:-3]]), again=twice))
    assert "ends within a line" in str(problem)

    monkeypatch.setattr(kernel_symbols, "MAX_LIST_BYTES", 9000)
    (problem, listed) = kernel_symbols.read_kallsyms(
        Source("k"), Content(iter([text[:6000], text[6000:]]), again=twice)
    )
    assert "only the first 9000 bytes were read" in str(problem)
    assert isinstance(listed, SymbolList)
    assert len(listed.text) == 6000 if twice else 8900 < len(listed.text) <= 9000


def test_a_named_pipe_is_not_opened_a_second_time(tmp_path: Path) -> None:
    """That would wait for ever. What is cited far down is cited all the same, without the line's text."""
    early = b"".join(b"[%5d.000001] usb 1-1: new high-speed USB device number %d\n" % (n, n) for n in range(45_000))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=(early + LATE,), daemon=True)
    writer.start()
    document = analyze([pipe], rule_set())
    writer.join(60)

    assert not writer.is_alive()
    finding = next(found for found in document["findings"] if found["rule"] == "THP-061")
    assert "order 9" in str(finding)


def test_pipes_are_passed_over_and_streams_begin_anew(tmp_path: Path) -> None:
    """The names of the others stay those of the first reading."""
    pipe, file = tmp_path / "pipe", tmp_path / "file"
    os.mkfifo(pipe)
    file.write_bytes(b"file\n")
    stdin = io.BytesIO(b"stream\n")
    stdin.read()

    paths = [pipe, Path("-"), file, tmp_path / "gone"]
    assert [is_rereadable(path) for path in paths] == [False, False, True, False]
    found = [(m.path, b"".join(m.chunks())) for m in reread_members(paths, str, stdin=stdin)]
    assert found == [("-", b"stream\n"), ("file", b"file\n")]
    assert [m.path for m in reread_members(paths, str)] == ["file"]


def test_the_second_reading_ends_where_all_was_met(tmp_path: Path) -> None:
    """And goes on past a member of that name with another content."""
    for name, text in (("a", b"other\n"), ("b", b"wanted\n"), ("c", b"wanted\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_bytes(text)
    sha256 = {m.path: (m.finish(), m.sha256)[1] for m in members([tmp_path], str)}  # type: ignore[union-attr]
    left = {"b/x": {sha256["c/x"]}}

    assert [m.path for m in reread(left, [tmp_path], Limits())] == ["b/x"]
    assert left == {}
    left = {"a/x": {sha256["c/x"]}}
    assert [m.path for m in reread(left, [tmp_path], Limits())] == ["a/x"]
    assert left == {"a/x": {sha256["c/x"]}}
