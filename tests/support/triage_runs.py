"""Batches under test: folders of small bundles, the command in another process, and the content of its store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from command_line import ROOT
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import BundleResult

FULL = os.environ.get("THPDIAG_PROOF") == "1"
STORY = ROOT / "fixtures/stories/redis-shop-ubuntu/bundle/session.txt"
MEMINFO = "MemTotal:       {total} kB\nMemFree:        {free} kB\nAnonHugePages:  {huge} kB\n"
MOCKED = ROOT / "tests/support/triage_misbehaving.py"
Done = subprocess.CompletedProcess[str]


def small(folder: Path, count: int) -> Path:
    """Write a folder of this many bundles, each a folder with files of /proc; no two are equal."""
    for number in range(count):
        bundle = folder / f"web{number:04}" / "proc"
        bundle.mkdir(parents=True)
        (bundle / "meminfo").write_text(MEMINFO.format(total=65_000_000 + number, free=9000 + number, huge=2048))
        (bundle / "vmstat").write_text(f"nr_free_pages {2250 + number}\ncompact_stall {number}\n")
    return folder


def bad(folder: Path, word: str) -> Path:
    """Write a bundle whose parser does what the word names (`misbehaving_calls`)."""
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text(f"thpdiag_mock {word}\n")
    (folder / "proc").mkdir()
    (folder / "proc/loadavg").write_text("0.41 0.32 0.20 2/345 6789\n")
    return folder


def command(*arguments: str | Path, mocked: bool = True) -> list[str]:
    """Return `thpdiag triage` with the misbehaving parser and low limits."""
    program = [str(MOCKED)] if mocked else ["-m", "thpdiag"]
    return [sys.executable, *program, "triage", *map(str, arguments)]


def triage(*arguments: str | Path, mocked: bool = True) -> Done:
    return subprocess.run(
        command(*arguments, mocked=mocked), capture_output=True, text=True, check=False, cwd=ROOT / "tests/support"
    )


def results(out_dir: Path) -> dict[str, BundleResult]:
    """Return the stored results by path; the store must be intact."""
    with StoreReader.at(out_dir) as store:
        store.check()
        every = [stored.result for stored in store.results()]
    found = {result.path: result for result in every}
    assert len(found) == len(every)
    return found


def ends(out_dir: Path) -> dict[str, str]:
    """Return the status of each bundle."""
    return {path: result.status for path, result in results(out_dir).items()}


def progress(text: str) -> list[dict[str, Any]]:
    """Return the lines of `--progress json` on stderr."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def started(place: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    """Start the command in a process group of its own, as a shell does; it prints each result."""
    return subprocess.Popen(
        command(place, "--out-dir", out, "-j", "2", "--resume", "--progress", "json", *more),
        stderr=subprocess.PIPE, text=True, cwd=ROOT / "tests/support", start_new_session=True,
    )  # fmt: skip


def after(run: subprocess.Popen[str], lines: int) -> int:
    """Read this many lines of progress, or all; return the number."""
    assert run.stderr is not None
    return sum(1 for _, line in zip(range(lines), run.stderr, strict=False) if line.startswith("{"))


def after_results(run: subprocess.Popen[str], count: int) -> None:
    """Read until the run has analyzed this many bundles, or all lines; skipped bundles do not count."""
    assert run.stderr is not None
    done = 0
    while done < count and (line := run.stderr.readline()):
        done = sum(json.loads(line)["statuses"].values()) if line.startswith("{") else done


def ended(run: subprocess.Popen[str]) -> str:
    """Return the remaining output until the end."""
    return run.communicate(timeout=300)[1]
