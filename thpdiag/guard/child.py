"""What the child does from the fork on: it confines itself, makes the call, hands over the answer, and is gone.

An answer is one line of JSON (status, detail, code, size) and that many bytes. Nothing comes back from here: no way
leads out of `become` but the end of the process.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import resource
import signal
import tempfile
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import NoReturn

from thpdiag.errors import ThpdiagError
from thpdiag.guard.confine import confine, relieved
from thpdiag.guard.limits import Cell, Limits
from thpdiag.guard.outcome import Answer, Status

LONGEST_DETAIL = 8192  # characters, of a traceback its end
_OF_ERRNO = {
    errno.EFBIG: "file size", errno.EMFILE: "open files", errno.ENOSPC: "disk space", errno.EDQUOT: "disk space",
}  # fmt: skip


def become(call: Callable[[], Answer], limits: Limits, cell: Cell, pipes: tuple[int, int], parent: int) -> NoReturn:
    """Be the child. `pipes`: where the answer goes, and what is written to stdout and stderr."""
    answer, said = pipes
    with _End(answer):
        os.setsid()  # Ctrl-C is for the parent, which ends this process
        _plumbed(cell.stdin, answer, said)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # each thread would take address space
        if cell.scratch:
            tempfile.tempdir = os.environ["TMPDIR"] = str(cell.scratch)
        confine(limits, cell, parent)
        _send(answer, call())
    os._exit(1)  # not reached


def _plumbed(stdin: int | None, answer: int, said: int) -> None:
    """Standard input, output and error lead where they should, and nothing else of the parent is open."""
    given = os.open(os.devnull, os.O_RDONLY) if stdin is None else stdin
    os.dup2(given, 0)
    os.dup2(said, 1)
    os.dup2(said, 2)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.closerange(3, answer)
    os.closerange(answer + 1, most if most != resource.RLIM_INFINITY else 1 << 20)


class _End:
    """The end of the process, whatever leads to it; a mistake is handed over by its name."""

    def __init__(self, answer: int) -> None:
        self._answer = answer

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        code = 1
        try:
            if error is not None:
                _tell(self._answer, error, at)
            code = 0
        finally:
            os._exit(code)


def _tell(answer: int, error: BaseException, at: TracebackType | None) -> None:
    if isinstance(error, MemoryError):
        relieved()
        traceback.clear_frames(at)
        gc.collect()
    if isinstance(error, ThpdiagError):
        _send(answer, Answer(b"", Status.REFUSED, str(error)), error.exit_code)
    else:
        _send(answer, _named(error))


def _named(error: BaseException) -> Answer:
    if isinstance(error, MemoryError):
        return Answer(b"", Status.OUT_OF_MEMORY)
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOMEM:
        return Answer(b"", Status.OUT_OF_MEMORY)
    if number in _OF_ERRNO:
        return Answer(b"", Status.LIMIT, _OF_ERRNO[number])
    return Answer(b"", Status.BUG, "".join(traceback.format_exception(error)))


def _send(answer: int, given: Answer, code: int = 0) -> None:
    head = {
        "status": given.status,
        "detail": given.detail[-LONGEST_DETAIL:],
        "code": code,
        "size": len(given.content),
    }
    with os.fdopen(answer, "wb") as pipe:
        pipe.write(json.dumps(head).encode() + b"\n")
        pipe.write(given.content)
