"""kill -9 at any line of what stores an upload: after the next start all that was told is true.

Of single bundles, of a case of several files, and of one that gets more. THPDIAG_PROOF=1 and the marker `proof` kill at
every fifth line instead of some.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from command_line import SUPPORT
from conftest import ROOT


def killed(folder: Path, database: str | None, first: int, stride: int) -> int:
    """How often a process was killed, each time with everything in order afterwards."""
    program = [
        sys.executable,
        SUPPORT / "serve_kill_points.py",
        folder,
        database or "-",
        str(first),
        str(stride),
    ]
    ran = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


def test_nothing_that_was_told_is_lost(tmp_path: Path, database: str | None) -> None:
    """Accepted bundles are there once and analysed, deleted ones are gone, and pruning finds all that is left over."""
    assert killed(tmp_path / "data", database, 3, 331) > 15


@pytest.mark.proof
def test_proof_of_every_fifth_line(tmp_path: Path, database: str | None) -> None:
    """The same at many more lines."""
    assert killed(tmp_path / "data", database, 0, 5) > 1_000
