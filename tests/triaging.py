"""Batches under test: folders of small bundles, the command beside the test, and what is in its store."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conftest import ROOT
from thpdiag.triage.store.bundle import BundleResult
from thpdiag.triage.store.reading import Reading

STORY = ROOT / "fixtures/stories/redis-shop-ubuntu/bundle/session.txt"
MEMINFO = "MemTotal:       {total} kB\nMemFree:        {free} kB\nAnonHugePages:  {huge} kB\n"
MOCKED = ROOT / "tests/triage_mocked.py"
Done = subprocess.CompletedProcess[str]


def small(folder: Path, count: int) -> Path:
    """A folder of so many bundles, each a folder with files of /proc; no two alike."""
    for number in range(count):
        bundle = folder / f"web{number:04}" / "proc"
        bundle.mkdir(parents=True)
        (bundle / "meminfo").write_text(MEMINFO.format(total=65_000_000 + number, free=9000 + number, huge=2048))
        (bundle / "vmstat").write_text(f"nr_free_pages {2250 + number}\ncompact_stall {number}\n")
    return folder


def bad(folder: Path, word: str) -> Path:
    """A bundle whose reader does what the word says (`guarded_calls`)."""
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text(f"thpdiag_mock {word}\n")
    (folder / "proc").mkdir()
    (folder / "proc/loadavg").write_text("0.41 0.32 0.20 2/345 6789\n")
    return folder


def command(*arguments: str | Path, mocked: bool = True) -> list[str]:
    """`thpdiag triage`, with the reader that misbehaves and little limits."""
    program = [str(MOCKED)] if mocked else ["-m", "thpdiag"]
    return [sys.executable, *program, "triage", *map(str, arguments)]


def triage(*arguments: str | Path, mocked: bool = True) -> Done:
    return subprocess.run(
        command(*arguments, mocked=mocked), capture_output=True, text=True, check=False, cwd=ROOT / "tests"
    )


def results(out_dir: Path) -> dict[str, BundleResult]:
    """What is stored, by path; the store is whole."""
    with Reading.at(out_dir) as store:
        store.check()
        every = [stored.result for stored in store.results()]
    found = {result.path: result for result in every}
    assert len(found) == len(every)
    return found


def ends(out_dir: Path) -> dict[str, str]:
    """How each bundle ended."""
    return {path: result.status for path, result in results(out_dir).items()}


def progress(text: str) -> list[dict[str, Any]]:
    """The lines of `--progress json` on stderr."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def one_by_one(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The documents of `analyze`, each bundle by itself."""
    return [json.loads(_plain(path)) for path in paths]


def _plain(path: Path) -> str:
    program = [sys.executable, "-m", "thpdiag", "analyze", str(path), "-f", "json"]
    return subprocess.run(program, capture_output=True, text=True, check=False).stdout
