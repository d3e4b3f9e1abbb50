"""A long text of perf script that several processes read says what one process would."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from conftest import ROOT
from perf_script_twice import SOURCE, by_lines, canonical, set_aside
from thpdiag.model import Record
from thpdiag.reader import Content, Foreign
from thpdiag.readers.perf.script_bulk import ranges
from thpdiag.readers.perf.script_bulk.cuts import ranges_of

FIXTURES = ROOT / "fixtures" / "readers" / "perf_script"
DEFAULT = (FIXTURES / "default" / "script.txt").read_bytes()
BEHIND = b"[root@db12 ~]# cat /proc/vmstat\nnr_free_pages 123456\ncompact_stall 17\n"


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several events, odd lines, and another command's output near the end; no empty line at the end."""
    texts = [(FIXTURES / name / "script.txt").read_bytes() for name in ("default", "two_events", "odd_lines")]
    path = tmp_path_factory.mktemp("perf") / "script.txt"
    path.write_bytes(b"\n".join(texts) + b"\n" + DEFAULT * 3 + BEHIND + DEFAULT.rstrip())
    return path


def read(path: Path, workers: int) -> list[Record | Foreign]:
    """The records, with any file worth processes; the chunks must not be needed."""
    return list(ranges.profiles(SOURCE, Content(iter(()), None, path), workers, worth=1, size=1 << 14))


def dies(*_: object) -> None:
    """What a process does that is killed."""
    os._exit(9)


def test_three_processes_say_what_one_says(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames, chains, tasks, rows, lines, losses and what is set aside; and what one says is what the lines say."""
    answers: list[object] = []
    result = ranges.Worker.result
    monkeypatch.setattr(ranges.Worker, "result", lambda worker: answers.append(result(worker)) or answers[-1])
    one, three = read(script, 1), read(script, 3)
    assert [type(answer) for answer in answers] == [ranges.Done, ranges.Done]
    assert set_aside(three) == set_aside(one)
    assert [text for _, text in set_aside(one)][:3] == BEHIND.decode().splitlines()
    assert canonical(three) == canonical(one)
    assert canonical(one) == canonical(by_lines(script.read_bytes(), set_aside(one)))


def test_what_a_dead_process_should_have_read_is_read_here(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost but time."""
    monkeypatch.setattr(ranges, "work", dies)
    assert canonical(read(script, 2)) == canonical(read(script, 1))


def test_a_daemon_reads_all_by_itself(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have no processes of its own."""
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    assert canonical(read(script, 3)) == canonical(read(script, 1))


def test_processes_that_cannot_be_started_are_done_without(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sandbox may forbid them."""

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(multiprocessing.get_context("spawn"), "Process", refused)
    assert canonical(read(script, 3)) == canonical(read(script, 1))


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_ranges_are_cut_between_samples(tmp_path: Path, count: int, end: bytes) -> None:
    """They follow one another without a gap, and all but the first begin at a head behind an empty line."""
    path = tmp_path / "script.txt"
    data = (DEFAULT * 2).replace(b"\n", end)
    path.write_bytes(data)
    found = ranges_of(path, len(data), count)
    assert len(found) == count
    assert [r.begin for r in found] == [0, *(r.end for r in found[:-1])]
    assert found[-1].end == len(data)
    for place in found[1:]:
        assert data[: place.begin].endswith(end * 2)
        assert data[place.begin :].startswith(b"churn")


def test_samples_of_one_line_are_cut_between_lines(tmp_path: Path) -> None:
    """A recording without chains has no empty lines; several processes read it like one."""
    path = tmp_path / "script.txt"
    path.write_bytes((FIXTURES / "without_chains" / "script.txt").read_bytes() * 20)
    assert len(ranges_of(path, path.stat().st_size, 3)) == 3
    assert canonical(read(path, 2)) == canonical(read(path, 1)) == canonical(by_lines(path.read_bytes()))


def test_a_text_without_samples_is_one_range(tmp_path: Path) -> None:
    """There is nowhere to cut it."""
    path = tmp_path / "script.txt"
    path.write_bytes(b"\tffffffff815ceeb2 compact_zone+0x52 ([kernel.kallsyms])\n\n" * 10_000)
    assert len(ranges_of(path, path.stat().st_size, 4)) == 1


def test_a_file_that_is_gone_is_read_from_its_chunks(tmp_path: Path) -> None:
    """The file is only another way to the bytes."""
    content = Content(iter((DEFAULT,)), len(DEFAULT), tmp_path / "gone")
    assert canonical(ranges.profiles(SOURCE, content, 2, worth=1)) == canonical(by_lines(DEFAULT))


def test_a_short_text_starts_no_process(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the size that is worth it the bytes are taken as they come."""
    monkeypatch.setattr(ranges, "Worker", None)
    data = script.read_bytes()
    found = list(ranges.profiles(SOURCE, Content(iter((data,)), len(data), script)))
    assert canonical(found) == canonical(by_lines(data, set_aside(found)))
