"""Damaged input of every kind: no hang, no traceback, no Problem that says that thpdiag made a mistake.

`tests/support/fuzz.py` says what is damaged and how. What ever failed lies in `inputs/`, by a name that says why.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import SUPPORT
from fuzz import BINARY

FUZZ = SUPPORT / "fuzz.py"
INPUTS = sorted((Path(__file__).parent / "inputs").iterdir())
COUNT = 20_000 if os.environ.get("THPDIAG_PROOF") == "1" else 150
MISBEHAVING = "import fuzz, misbehaving_parser, sys; fuzz.HANG_SECONDS = {seconds}; sys.exit(fuzz.main())"


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A process of its own, since one with threads does not fork."""
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment)


def test_damaged_input_is_read_or_refused(tmp_path: Path) -> None:
    """The same inputs in each run; the proof takes more."""
    done = run(FUZZ, str(COUNT), "--folder", tmp_path)
    faults = [f"{file.parent.name}: {file.read_text()}" for file in tmp_path.glob("*/fault.txt")]
    assert done.returncode == 0, "\n".join([done.stdout, done.stderr, *faults[:3]])


@pytest.mark.proof
@pytest.mark.parametrize("name", BINARY)
def test_proof_of_a_hundred_thousand_damaged_binaries(name: str, tmp_path: Path) -> None:
    """Of each binary format that is decoded, and of each archive: no hang, no traceback, and memory with a bound."""
    done = run(FUZZ, "100000", "--format", name, "--folder", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_ever_failed_is_well_now() -> None:
    """Each input that was found by damaging others, and mended."""
    done = run(FUZZ, "--again", *INPUTS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": well, ") == len(INPUTS) > 0


@pytest.mark.parametrize(
    ("seconds", "faults"), [(1, {"loops": "hang"}), (60, {"raises": "bug", "aborts": "death", "allocates": "memory"})]
)
def test_a_parser_that_misbehaves_is_seen(tmp_path: Path, seconds: int, faults: dict[str, str]) -> None:
    """Each fault has its name, and fails the run; what comes after it is tried all the same."""
    for call in faults:
        file = tmp_path / f"text-{call}" / "input" / "mail.txt"
        file.parent.mkdir(parents=True)
        file.write_text(f"thpdiag_mock {call}\n")
    inputs = (tmp_path / f"text-{call}" for call in faults)
    done = run("-c", MISBEHAVING.format(seconds=seconds), "--again", *inputs)
    assert (done.returncode, done.stderr) == (1, "")
    assert dict(re.findall(r"^\S+/text-(\w+): (\w+),", done.stdout, re.MULTILINE)) == faults
