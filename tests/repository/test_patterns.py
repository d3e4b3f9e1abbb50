"""Regular expressions meet hostile lines of 64 KiB: none may backtrack without end."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import ROOT, SUPPORT

# Characters: an exponential or cubic pattern does not end at the one, a square one not at the other.
SMALL, LARGE = 700, 60_000
SLOW_SECONDS = 2  # of the processor for one use of one pattern; the runner names those which take more
HANG_SECONDS = 900  # for all; the kernel ends a runner that its own timer cannot


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (HANG_SECONDS, HANG_SECONDS))


def run(length: int) -> str:
    """The last line of the runner."""
    runner = [sys.executable, SUPPORT / "regex_timing.py", str(length), "--seconds", str(SLOW_SECONDS)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(runner, capture_output=True, text=True, check=False, env=environment, preexec_fn=limited)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-400:]
    return done.stdout.splitlines()[-1]


def test_no_pattern_backtracks_without_end() -> None:
    """All patterns, on texts made of each of their repeats."""
    assert int(run(SMALL).split()[0]) > 1200


@pytest.mark.proof
def test_proof_at_the_longest_line() -> None:
    """The same at the length of the longest line that is read."""
    run(LARGE)


@pytest.mark.proof
def test_proof_of_hostile_lines_in_a_file(tmp_path: Path) -> None:
    """The texts of the patterns of each parser, ten at a time, within a file that the parser opens."""
    done = subprocess.run(
        [sys.executable, SUPPORT / "hostile_lines.py", str(LARGE)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
