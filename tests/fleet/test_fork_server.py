"""The fork server of a triage begins before the command is loaded, where it will be of use, and outlives nobody."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path
from threading import Thread

import pytest

from conftest import ROOT, Run
from thpdiag.sandbox import preload

LOADS_FOR_EVER = "import os, signal\nos.write(1, b'%d\\n' % os.getpid())\nsignal.pause()\n"
PROGRAM = """
import signal
from thpdiag.sandbox.preload import start_fork_server
start_fork_server(["loads_for_ever"])
signal.pause()
"""


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A word for each fork server that would have been begun."""
    words: list[str] = []
    monkeypatch.setattr(forkserver, "ensure_running", lambda: words.append("begun"))
    return words


def test_it_ends_with_the_program_even_while_it_loads(tmp_path: Path) -> None:
    """The kernel tells it; it would look for the end of the program only once all is loaded."""
    (tmp_path / "loads_for_ever.py").write_text(LOADS_FOR_EVER, encoding="ascii")
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])},
    )
    with program:
        assert program.stdout is not None
        server = os.pidfd_open(int(program.stdout.readline()))
        try:
            assert not select.select([server], [], [], 0)[0]
            program.kill()
            assert select.select([server], [], [], 30)[0]
        finally:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(server, signal.SIGKILL)
            os.close(server)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nowhere"], ["begun"]),
        (["run", "nowhere"], ["begun"]),
        (["nowhere", "-j", "2", "--no-such-option"], ["begun"]),
        (["nowhere", "--scheduler", "tcp:/nowhere"], []),
        (["nowhere", "--scheduler=tcp:/nowhere"], []),
        (["run", "--help"], []),
        (["nowhere", "-h"], []),
        (["--help"], []),
        (["merge", "nowhere"], []),
        (["no", "merge"], ["begun"]),
    ],
    ids=" ".join,
)
def test_a_run_on_this_machine_begins_it(
    run: Run,
    begun: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    expected: list[str],
) -> None:
    """Neither help nor a cluster nor another part of the command has a use for it."""
    monkeypatch.chdir(tmp_path)
    run("triage", *arguments)
    assert begun == expected


def test_a_thread_begins_none_that_would_end_with_it(begun: list[str]) -> None:
    """Linux ties a process to the thread that began it, not to the process of that thread."""
    thread = Thread(target=preload.start_fork_server, args=([],))
    thread.start()
    thread.join()
    assert begun == []
    preload.start_fork_server([])
    assert begun == ["begun"]
