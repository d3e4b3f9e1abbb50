"""Regular expressions meet hostile lines of 64 KiB: none may backtrack without end."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

SMALL, LARGE = (
    3000,
    32_000,
)  # characters: an exponential or cubic pattern does not end at the one, a square one not at the other
ALLOWED = 60  # seconds of the processor for all patterns together, of which they take a few


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (ALLOWED, ALLOWED))


def run(length: int) -> str:
    """The output of the runner; the kernel ends it where a pattern does not."""
    runner = [sys.executable, str(Path(__file__).parents[1] / "support/regex_timing.py"), str(length)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(runner, capture_output=True, text=True, check=False, env=environment, preexec_fn=limited)
    assert done.returncode == 0, f"ended at {done.stdout.splitlines()[-1:]}: {done.stderr[-400:]}"
    return done.stdout.splitlines()[-1]


def test_no_pattern_backtracks_without_end() -> None:
    """All patterns, each on some fifty texts that lead it astray."""
    assert int(run(SMALL).split()[0]) > 300


@pytest.mark.proof
def test_proof_at_half_the_longest_line() -> None:
    """The same at 32,000 characters."""
    run(LARGE)
