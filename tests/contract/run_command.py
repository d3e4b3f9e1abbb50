"""The command line in this process: what it prints and the exit code; paths are relative to the repository."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from thpdiag.cli import main
from thpdiag.parsers import pcp

ROOT = Path(__file__).resolve().parents[2]
TERMINAL = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}  # nothing is wrapped or coloured by who runs the tests


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def run_command(*arguments: str | Path, stdin: io.BytesIO | None = None) -> Outcome:
    """A command as a user types it in the folder of the repository; none of its streams is a terminal."""
    if "--isolate" in arguments:  # forks, which a process must not in which other tests have left threads
        with start_command(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
            out_text, err_text = run.communicate((stdin or io.BytesIO()).read().decode())
        return Outcome(run.returncode, out_text, err_text)
    out, err = _Stream(), _Stream()
    with (
        contextlib.chdir(ROOT),
        mock.patch.dict(os.environ, TERMINAL),
        mock.patch.object(pcp, "find_program", return_value=None),  # recorded where no pmrep is installed
        mock.patch.object(sys, "stdin", io.TextIOWrapper(stdin or io.BytesIO())),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main([str(argument) for argument in arguments])
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return Outcome(code, out.written(), err.written())


def start_command(*arguments: str | Path, **streams: Any) -> subprocess.Popen[str]:
    """The same in a process of its own, which ends with the test."""
    command = [sys.executable, "-m", "thpdiag", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, **TERMINAL}, text=True, **streams)


class _Stream(io.TextIOWrapper):
    """A stream that takes text and, at `buffer`, bytes."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="")

    def written(self) -> str:
        self.flush()
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined]
