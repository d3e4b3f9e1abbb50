"""Supervision of a forked child: it makes one call under limits, is watched, and how it ended gets a name.

From the fork on the child confines itself, makes the call, hands over the answer, and is gone: no way leads out of
`child_main` but the end of the process. An answer is one line of JSON (status, detail, code, size) and that many bytes;
the parent reads this, never a customer's byte.

Programs that the child has started are ended with it. They have sessions of their own, so no signal to a group reaches
them. The parent adopts them instead (`Reaper`), and what it adopted is what is a child of it now and was none before;
so nobody else may start one meanwhile.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import resource
import selectors
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from thpdiag.errors import SandboxError, ThpdiagError
from thpdiag.sandbox.confine import adopt_orphans, confine, forget_environment, raise_memory_limit
from thpdiag.sandbox.outcome import Allowed, Answer, Layer, Limits, Outcome, Status

MAX_DETAIL_CHARS = 8192  # characters, of a traceback its end
_HANDLED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)  # that a parent may have handlers for
_LIMIT_OF_ERRNO = {
    errno.EFBIG: "file size", errno.EMFILE: "open files", errno.ENOSPC: "disk space", errno.EDQUOT: "disk space",
}  # fmt: skip


def child_main(
    call: Callable[[], Answer], limits: Limits, cell: Allowed, pipes: tuple[int, int], parent: int
) -> NoReturn:
    """Be the child. `pipes`: where the answer goes, and what is written to stdout and stderr."""
    answer, said = pipes
    with _End(answer):
        os.setsid()  # Ctrl-C is for the parent, which ends this process
        _redirect_files(cell.stdin, answer, said)
        for number in _HANDLED_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED_SIGNALS)
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # each thread would take address space
        if cell.scratch:
            tempfile.tempdir = os.environ["TMPDIR"] = str(cell.scratch)
        forget_environment()
        layers = confine(limits, cell, parent)
        missing = [layer for layer in Layer if layer not in layers]
        if missing and limits.every_layer:
            raise SandboxError(f"the sandbox is incomplete on this machine, which lacks: {', '.join(missing)}")
        _send(answer, call(), missing=missing)
    os._exit(1)  # not reached


def _redirect_files(stdin: int | None, answer: int, said: int) -> None:
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
                _send_error(self._answer, error, at)
            code = 0
        finally:
            os._exit(code)


def _send_error(answer: int, error: BaseException, at: TracebackType | None) -> None:
    if isinstance(error, MemoryError):
        raise_memory_limit()
        traceback.clear_frames(at)
        gc.collect()
    if isinstance(error, ThpdiagError):
        _send(answer, Answer(b"", Status.REFUSED, str(error)), error.exit_code)
    else:
        _send(answer, _answer_of_error(error))


def _answer_of_error(error: BaseException) -> Answer:
    if isinstance(error, MemoryError):
        return Answer(b"", Status.OUT_OF_MEMORY)
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOMEM:
        return Answer(b"", Status.OUT_OF_MEMORY)
    if number in _LIMIT_OF_ERRNO:
        return Answer(b"", Status.LIMIT, _LIMIT_OF_ERRNO[number])
    return Answer(b"", Status.BUG, "".join(traceback.format_exception(error)))


def _send(answer: int, given: Answer, code: int = 0, missing: Sequence[Layer] = ()) -> None:
    detail, size = given.detail[-MAX_DETAIL_CHARS:], len(given.content)
    head = {"status": given.status, "detail": detail, "code": code, "size": size, "missing": missing}
    with os.fdopen(answer, "wb") as pipe:
        pipe.write(json.dumps(head).encode() + b"\n")
        pipe.write(given.content)


class Reaper:
    """As a context: when it ends, so does all that was left behind within it."""

    def __enter__(self) -> Reaper:
        with suppress(OSError):
            adopt_orphans()
        self._before = children()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        while left := children() - self._before:
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with suppress(ChildProcessError):
                    os.waitpid(pid, 0)


def children() -> frozenset[int]:
    """The processes whose parent is this one, those that ended and were not asked for among them."""
    try:
        lists = [file.read_text(encoding="ascii") for file in Path("/proc/self/task").glob("*/children")]
    except OSError:
        lists = []
    if lists:
        return frozenset(int(pid) for text in lists for pid in text.split())
    own = os.getpid()  # a kernel without these lists
    return frozenset(pid for pid in running_processes() if parent_of(pid) == own)


def running_processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def parent_of(pid: int) -> int:
    """The fourth word of /proc/PID/stat, behind the name in brackets; 0 if the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    words = text.rpartition(")")[2].split()
    return int(words[1]) if len(words) > 1 else 0


_READ_BYTES = 1 << 16
_KEPT_OUTPUT_BYTES = 4096  # bytes kept of the end of what it said
_MAX_HEAD_BYTES = 1 << 16  # bytes of the line before the answer
_GRACE_S = 2.0  # seconds in which a child that closed its answer must be gone
_POLL_S = 0.001
_SCRATCH_BEAT_S = 0.5  # seconds between two looks at what a child has written
_MAX_SCRATCH_FILES = 10_000
Call = Callable[[], Answer]
Listener = Callable[[bytes], None]


def run_in_child(
    call: Call, limits: Limits = Limits(), cell: Allowed = Allowed(),  # noqa: B008
    listen: Listener | None = None,
) -> Outcome:  # fmt: skip
    """Make the call in a child that may use and touch no more than is given.

    `listen` gets what it writes to stdout and stderr, piece by piece as it comes; a hostile child writes anything.
    Only from a process with one thread: a lock that another thread holds would be held in the child for ever.
    `thpdiag.sandbox.preload` has a process for parents with more.
    """
    if threading.active_count() > 1:
        raise RuntimeError("a process with several threads must not fork; use thpdiag.sandbox.preload")
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError, OSError, AttributeError):  # closed, or none
            stream.flush()
    with Reaper():
        return _Child(call, limits, cell, listen).outcome()


def read_pipes(
    pipes: Sequence[int], seconds: float, last: int | None = None, beat: float | None = None
) -> Iterator[tuple[int, bytes]]:
    """What comes out of pipes, piece by piece, until all have ended, or the `last` of them.

    An empty piece of no pipe (-1) comes where nothing else does for `beat` seconds. TimeoutError once `seconds` were
    spent on waiting: who takes the pieces slowly costs the writer nothing.
    """
    left = seconds
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map() if last is None else last in selector.get_map():
            began = time.monotonic()
            ready = selector.select(left if beat is None else min(left, beat))
            left -= time.monotonic() - began
            if left <= 0 or not (ready or beat):
                raise TimeoutError
            if not ready:
                yield -1, b""
            for key, _ in ready:
                if part := os.read(key.fd, _READ_BYTES):
                    yield key.fd, part
                else:
                    selector.unregister(key.fd)


def _holds_more(folder: Path, most: int) -> bool:
    """Whether more than `most` bytes, or far too many files, lie below a folder."""
    size = files = 0
    for where, folders, names in os.walk(folder):
        for name in (*folders, *names):
            with suppress(OSError):  # gone meanwhile
                size += os.lstat(os.path.join(where, name)).st_blocks * 512  # noqa: PTH118 - a hostile child's names
            files += 1
            if size > most or files > _MAX_SCRATCH_FILES:
                return True
    return False


class _Child:
    """A child from its start to its end."""

    def __init__(self, call: Call, limits: Limits, cell: Allowed, listen: Listener | None) -> None:
        self._limits = limits
        self._listen = listen
        self._scratch = cell.scratch
        self._answer = bytearray()
        self._said = b""
        parent = os.getpid()
        (answer, give), (said, say) = os.pipe(), os.pipe()
        # Python calls functions of its own after a fork, and drops what a signal's handler raises within them.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED_SIGNALS)
        try:
            self._pid = os.fork()
            if not self._pid:
                child_main(call, limits, cell, (give, say), parent)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(give)
        os.close(say)
        self._pipes = (answer, said)
        self._code = 0
        self._seconds = 0.0  # of CPU

    def outcome(self) -> Outcome:
        """Watch it to its end, whatever comes between."""
        try:
            found = self._watch() or self._parse_answer()
            if found is None:
                self._wait_for_end()
        finally:
            self._finish()
        said = self._said.decode("utf-8", "replace")
        return replace(found or self._name_death(), said=said)

    def _watch(self) -> Outcome | None:
        """Take what comes until the answer ends; the outcome if a limit is passed or time is over."""
        said_bytes, due = 0, time.monotonic() + _SCRATCH_BEAT_S
        beat = _SCRATCH_BEAT_S if self._scratch else None
        try:
            for pipe, part in read_pipes(self._pipes, self._limits.wall_seconds, self._pipes[0], beat):
                if self._scratch and time.monotonic() >= due:
                    if _holds_more(self._scratch, self._limits.scratch):
                        return Outcome(Status.LIMIT, "scratch space")
                    due = time.monotonic() + _SCRATCH_BEAT_S
                if pipe == self._pipes[0]:
                    self._answer += part
                    if len(self._answer) > self._limits.answer + _MAX_HEAD_BYTES:
                        return Outcome(Status.LIMIT, "the answer's size")
                elif part:
                    self._said = (self._said + part)[-_KEPT_OUTPUT_BYTES:]
                    said_bytes += len(part)
                    if said_bytes > self._limits.said:
                        return Outcome(Status.LIMIT, "output")
                    if self._listen:
                        self._listen(part)
        except TimeoutError:
            return Outcome(Status.TIMEOUT)
        return None

    def _parse_answer(self) -> Outcome | None:
        """The answer, if all of it came."""
        end = self._answer.find(b"\n")
        end = len(self._answer) if end < 0 else end
        content = bytes(memoryview(self._answer)[end + 1 :])
        try:
            head = json.loads(self._answer[:end])
            if head["size"] != len(content):
                return None
            missing = tuple(map(Layer, head["missing"]))
            found = Outcome(Status(head["status"]), str(head["detail"]), content, code=int(head["code"]))
            return replace(found, missing=missing)
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def _wait_for_end(self) -> None:
        """It closed its answer, so it is about to end; how says why."""
        until = time.monotonic() + _GRACE_S
        while not self._reap(os.WNOHANG) and time.monotonic() < until:
            time.sleep(_POLL_S)

    def _finish(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            self._reap(0)
        for pipe in self._pipes:
            os.close(pipe)

    def _reap(self, options: int) -> bool:
        pid, status, used = os.wait4(self._pid, options)
        if pid:
            self._pid, self._code = 0, os.waitstatus_to_exitcode(status)
            self._seconds = used.ru_utime + used.ru_stime
        return bool(pid)

    def _name_death(self) -> Outcome:
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
