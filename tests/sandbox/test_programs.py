"""Child processes: what they get, what they print, and how they are ended."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from conftest import ROOT
from thpdiag.sandbox.programs import Ending, ProgramLimits, ProgramRun, find_program

PYTHON = Path(sys.executable).resolve()


def script(code: str, bounds: ProgramLimits = ProgramLimits()) -> ProgramRun:  # noqa: B008
    return ProgramRun(PYTHON, ["-I", "-c", code], bounds=bounds)


def test_what_a_program_prints_comes_whole() -> None:
    """All of its output, how it ended, and what it said beside."""
    run = script("import sys; print('x' * 300_000); sys.stderr.write('a word')")
    assert b"".join(run) == b"x" * 300_000 + b"\n"
    assert (run.ending, run.stderr) == (Ending.DONE, b"a word")


def test_the_input_is_an_open_file_that_has_no_name() -> None:
    """A program that wants a name opens /dev/stdin, from its start, whatever was read of the file before."""
    with TemporaryFile() as file:
        file.write(b"what was sent")
        file.flush()
        run = ProgramRun(PYTHON, ["-I", "-c", "print(open('/dev/stdin').read())"], stdin=file)
        assert b"".join(run) == b"what was sent\n"


def test_nothing_of_the_environment_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Language, zone and PATH are set; there is no other variable, and it stands in the root folder."""
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    printed = b"".join(script("import os; print(sorted(os.environ), os.environ['TZ'], os.getcwd())"))
    assert printed == b"['LC_ALL', 'PATH', 'TZ'] UTC /\n"


@pytest.mark.parametrize(
    ("code", "bounds", "ending"),
    [
        ("raise SystemExit(3)", ProgramLimits(), Ending.FAILED),
        ("import os; os.abort()", ProgramLimits(), Ending.CRASHED),
        ("import signal; signal.pause()", ProgramLimits(seconds=0.2), Ending.TIMED_OUT),
        ("while True: pass", ProgramLimits(cpu_seconds=1), Ending.TIMED_OUT),
        ("while True: print('x' * 9999)", ProgramLimits(output=100_000), Ending.TOO_LONG),
        ("x = bytearray(1 << 30)", ProgramLimits(memory=1 << 28), Ending.FAILED),
        ("import os; os.write(os.open('WRITTEN', os.O_CREAT | os.O_WRONLY), b'x')", ProgramLimits(), Ending.FAILED),
    ],
    ids=["error", "crash", "hangs", "cpu", "endless", "memory", "writes"],
)
def test_how_programs_end(code: str, bounds: ProgramLimits, ending: Ending, tmp_path: Path) -> None:
    """Each way to misbehave ends it, and its ending says which."""
    run = script(code.replace("WRITTEN", str(tmp_path / "written")), bounds)
    assert sum(map(len, run)) <= bounds.output
    assert run.ending is ending
    assert not any(file.stat().st_size for file in tmp_path.iterdir())


def test_a_program_ends_with_what_it_started() -> None:
    """Nothing goes on when the reader stops early, not even a child of the child."""
    code = "import os\npid = os.fork()\nprint(pid or os.getpid(), flush=True)\nwhile True: pass"
    run = script(code)
    pieces = iter(run)
    pids = [int(word) for word in next(pieces).split()]
    watched = [os.pidfd_open(pid) for pid in pids]
    pieces.close()
    assert run.ending is Ending.STOPPED
    for process in watched:  # readable once the process is gone
        assert select.select([process], [], [], 30)[0]
        os.close(process)


def test_a_program_that_is_not_there() -> None:
    """No exception, no output."""
    run = ProgramRun(Path("/nowhere/sadf"), [])
    assert list(run) == []
    assert run.ending is Ending.NOT_STARTED


def test_programs_are_looked_for_in_absolute_folders_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in the folder of the bundle is never the one that is run."""
    planted = tmp_path / "sadf-planted"
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".{os.pathsep}:")
    assert find_program("sadf-planted") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("sadf-planted") == planted


def test_only_one_module_starts_programs() -> None:
    """subprocess, os.system and their like stand in programs.py alone."""
    words = ("subprocess", "os.system", "os.exec", "os.spawn", "os.popen", "pty.spawn")
    using = {
        str(f.relative_to(ROOT)) for f in (ROOT / "thpdiag").rglob("*.py") if any(w in f.read_text() for w in words)
    }
    assert using == {"thpdiag/sandbox/programs.py"}
