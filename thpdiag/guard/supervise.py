"""Fork a child for one call, watch it, and name how it ended.

The parent reads our own JSON, never a customer's byte.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from thpdiag.guard.child import become
from thpdiag.guard.limits import Cell, Limits
from thpdiag.guard.orphans import Orphans
from thpdiag.guard.outcome import Answer, Outcome, Status

_CHUNK = 1 << 16
_TOLD = 4096  # bytes kept of the end of what it said
_HEAD = 1 << 16  # bytes of the line before the answer
_GRACE = 2.0  # seconds in which a child that closed its answer must be gone
_PAUSE = 0.001
Call = Callable[[], Answer]


def guarded(call: Call, limits: Limits = Limits(), cell: Cell = Cell()) -> Outcome:  # noqa: B008
    """Make the call in a child that may use and touch no more than is given.

    Only from a process with one thread: a lock that another thread holds would be held in the child for ever.
    `thpdiag.guard.preloaded` has a process for parents with more.
    """
    if threading.active_count() > 1:
        raise RuntimeError("a process with several threads must not fork; use thpdiag.guard.preloaded")
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError, OSError, AttributeError):  # closed, or none
            stream.flush()
    with Orphans():
        return _Watched(call, limits, cell).outcome()


class _Watched:
    """A child from its start to its end."""

    def __init__(self, call: Call, limits: Limits, cell: Cell) -> None:
        self._limits = limits
        self._answer = bytearray()
        self._said = b""
        self._said_size = 0
        self._ended_for: Outcome | None = None
        parent = os.getpid()
        (answer, give), (said, say) = os.pipe(), os.pipe()
        self._pid = os.fork()
        if not self._pid:
            become(call, limits, cell, (give, say), parent)
        os.close(give)
        os.close(say)
        self._pipes = {answer: self._answered, said: self._spoken}
        self._code = 0
        self._seconds = 0.0  # of CPU

    def outcome(self) -> Outcome:
        """Watch it to its end, whatever comes between."""
        try:
            self._watch()
            found = self._ended_for or self._whole()
            if found is None:
                self._wait_a_little()
        finally:
            self._end()
        said = self._said.decode("utf-8", "replace")
        return replace(found or self._died(), said=said)

    def _watch(self) -> None:
        """Take what comes until the answer ends, a limit is passed or time is over."""
        until = time.monotonic() + self._limits.wall_seconds
        answer = next(iter(self._pipes))
        with selectors.DefaultSelector() as open_pipes:
            for pipe in self._pipes:
                open_pipes.register(pipe, selectors.EVENT_READ)
            while answer in open_pipes.get_map() and self._ended_for is None:
                ready = open_pipes.select(max(until - time.monotonic(), 0))
                if not ready:
                    self._ended_for = Outcome(Status.TIMEOUT)
                for key, _ in ready:
                    part = os.read(key.fd, _CHUNK)
                    self._pipes[key.fd](part)
                    if not part:
                        open_pipes.unregister(key.fd)

    def _answered(self, part: bytes) -> None:
        self._answer += part
        if len(self._answer) > self._limits.answer + _HEAD:
            self._ended_for = Outcome(Status.LIMIT, "the answer's size")

    def _spoken(self, part: bytes) -> None:
        self._said = (self._said + part)[-_TOLD:]
        self._said_size += len(part)
        if self._said_size > self._limits.said:
            self._ended_for = Outcome(Status.LIMIT, "output")

    def _whole(self) -> Outcome | None:
        """The answer, if all of it came."""
        end = self._answer.find(b"\n")
        end = len(self._answer) if end < 0 else end
        content = bytes(memoryview(self._answer)[end + 1 :])
        try:
            head = json.loads(self._answer[:end])
            if head["size"] != len(content):
                return None
            return Outcome(Status(head["status"]), str(head["detail"]), content, code=int(head["code"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def _wait_a_little(self) -> None:
        """It closed its answer, so it is about to end; how says why."""
        until = time.monotonic() + _GRACE
        while not self._reaped(os.WNOHANG) and time.monotonic() < until:
            time.sleep(_PAUSE)

    def _end(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            self._reaped(0)
        for pipe in self._pipes:
            os.close(pipe)

    def _reaped(self, options: int) -> bool:
        pid, status, used = os.wait4(self._pid, options)
        if pid:
            self._pid, self._code = 0, os.waitstatus_to_exitcode(status)
            self._seconds = used.ru_utime + used.ru_stime
        return bool(pid)

    def _died(self) -> Outcome:
        """The name of an end without an answer."""
        number = -self._code
        if number == signal.SIGXCPU or (number == signal.SIGKILL and self._seconds >= self._limits.cpu_seconds):
            return Outcome(Status.LIMIT, "CPU time")
        if number == signal.SIGXFSZ:
            return Outcome(Status.LIMIT, "file size")
        if b"bad_alloc" in self._said or b"MemoryError" in self._said:  # of a library, and of an interpreter that ends
            return Outcome(Status.OUT_OF_MEMORY)
        if number > 0:
            return Outcome(Status.SIGNAL, str(int(number)))
        return Outcome(Status.BUG, f"it ended with code {self._code} and without an answer")
