"""Parts of a batch: shards and their merge, other rules, what is imported, what is told on the way."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from command_line import Run
from conftest import ROOT
from small_results import result
from thpdiag.cli.triage import show_batch_progress
from thpdiag.fleet.batch import Tally
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import pack_result
from triage_runs import command, results, small

BASE = {"found", "listed", "done", "skipped", "twice", "statuses", "hosts", "findings", "schema", "seconds"}


def test_shards_together_are_one_run(tmp_path: Path, run: Run) -> None:
    """Each bundle in exactly one shard; merged they are what one run makes of all."""
    place = small(tmp_path / "in", 7)
    shards = [tmp_path / f"shard{number}" for number in (1, 2, 3)]
    codes = [run("triage", place, "--out-dir", out, "-j", "1", "--shard", f"{out.name[5:]}/3").code for out in shards]
    merged = run("triage", "merge", *shards, "--out-dir", tmp_path / "all")
    run("triage", place, "--out-dir", tmp_path / "one", "-j", "2")

    assert (codes, merged.code, merged.out) == ([0, 0, 0], 0, "")
    assert sum(len(results(out)) for out in shards) == 7
    assert results(tmp_path / "all") == results(tmp_path / "one")


def test_a_shard_without_bundles(tmp_path: Path, run: Run) -> None:
    """Of few bundles many shards: it has done its part."""
    place = small(tmp_path / "in", 1)
    codes = {run("triage", place, "--out-dir", tmp_path / str(n), "--shard", f"{n}/3").code for n in (1, 2, 3)}

    assert codes == {0}


def test_other_rules_are_another_analysis(tmp_path: Path, run: Run) -> None:
    """--resume with them does all anew, and both results stay; with the first ones again nothing is left to do."""
    place, out = small(tmp_path / "in", 2), tmp_path / "out"
    for more in ((), ("--set", "THP-013.often=0.1 /s"), ()):
        assert run("triage", place, "--out-dir", out, "-j", "1", "--resume", *more).code == 0

    with StoreReader.at(out) as store:
        assert [each["bundles"] for each in store.runs()] == [2, 2, 0]


@pytest.mark.parametrize("arguments", [("--help",), ("triage", "--help"), ("triage",)])
def test_help_is_quick(arguments: tuple[str, ...]) -> None:
    """What works on bundles is not loaded to say how it is called."""
    program = (
        "import atexit, sys\nsys.argv = ['thpdiag', *sys.argv[1:]]\nfrom thpdiag.cli import main\n"
        "heavy = {'numpy', 'pandas', 'distributed', 'fsspec', 'sqlite3', 'jinja2'}\n"
        "atexit.register(lambda: print(sorted(heavy & set(sys.modules))))\nmain()"
    )
    run = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)

    assert run.stdout.splitlines()[-1] == "[]"


class Clock:
    """Seconds as they are set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def told(kind: str, *moments: tuple[float, Callable[[Tally], object]]) -> list[str]:
    """The lines that are written when the numbers change so at these times."""
    out, clock, tally = io.StringIO(), Clock(), Tally()
    with show_batch_progress(kind, out, clock) as watch:
        for at, change in moments:
            clock.now = at
            change(tally)
            watch(tally)
    return out.getvalue().splitlines()


def found(count: int, *, listed: bool) -> Callable[[Tally], object]:
    def change(tally: Tally) -> None:
        tally.bundles, tally.listed = count, listed

    return change


def came(count: int) -> Callable[[Tally], object]:
    def change(tally: Tally) -> None:
        for number in range(count):
            tally.count(pack_result(result(number)))

    return change


def test_lines_of_a_log() -> None:
    """One every 30 s, one at the end; how long it takes is told once all are listed."""
    lines = told(
        "log", (1, found(10, listed=False)), (30, came(3)), (31, came(1)), (60, found(20, listed=True)), (61, came(16))
    )

    assert [line.partition(";")[0] for line in lines] == [
        "triage: 3 of 10 or more bundles",
        "triage: 4 of 20 bundles, about 240 s left",
        "triage: 20 of 20 bundles",
    ]
    assert all("; findings: " in line for line in lines)


def test_lines_for_machines() -> None:
    """At most one a second while bundles end, one every 30 s while none does; the last one has the end."""
    lines = told(
        "json", (0.5, came(1)), (1, came(1)), (20, found(4, listed=True)), (31, lambda _: None), (31.1, came(2))
    )
    read = [json.loads(line) for line in lines]

    assert [(line["seconds"], line["done"]) for line in read] == [(1.0, 2), (31.0, 2), (31.1, 4)]
    assert all(set(line) == BASE and line["schema"] == "thpdiag/progress/1" for line in read)


def test_a_bar_on_a_terminal(tmp_path: Path) -> None:
    """On one line of 80 columns; standard output has the report only."""
    place, (here, there) = small(tmp_path / "in", 3), pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    run = subprocess.Popen(
        command(place, "--out-dir", tmp_path / "out", "-j", "1", mocked=False),
        stdout=subprocess.PIPE, stderr=there, text=True, env=environment, cwd=ROOT,
    )  # fmt: skip
    os.close(there)
    shown = b""
    with suppress(OSError):  # the other side has ended
        while part := os.read(here, 1 << 16):
            shown += part
    os.close(here)
    report = run.communicate()[0]

    frames = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frame) for frame in re.split(r"[\r\n]", shown.decode())]
    bars = [frame for frame in frames if "\u2501" in frame]
    assert bars
    assert "3/3" in bars[-1]
    assert max(map(len, bars)) <= 80
    assert report.startswith("3 bundles")
