"""Supervision of a forked child that makes one call under limits.

After the fork the child confines itself, makes the call, sends the answer and exits: `child_main` never returns. An
answer is one line of JSON (status, detail, code, size) and `size` bytes. The parent parses only that line, never the
customer's data.

Programs that the child has started end with it. They are in their own sessions, so a signal to a process group does not
reach them. Instead the parent becomes their subreaper (`Reaper`) and kills every new child process, so it must not
start other processes meanwhile.
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

MAX_DETAIL_CHARS = 8192  # of a traceback the end is kept
_HANDLED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)  # the parent may have handlers
_LIMIT_OF_ERRNO = {
    errno.EFBIG: "file size", errno.EMFILE: "open files", errno.ENOSPC: "disk space", errno.EDQUOT: "disk space",
}  # fmt: skip


def child_main(
    call: Callable[[], Answer], limits: Limits, allowed: Allowed, pipes: tuple[int, int], parent: int
) -> NoReturn:
    """Run the child. `pipes` are those for the answer, and for stdout and stderr."""
    answer, output = pipes
    with _ExitAtEnd(answer):
        os.setsid()  # Ctrl-C goes to the parent only, which ends this process
        _redirect_files(allowed.stdin, answer, output)
        for number in _HANDLED_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED_SIGNALS)
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # each thread needs address space
        if allowed.scratch:
            tempfile.tempdir = os.environ["TMPDIR"] = str(allowed.scratch)
        forget_environment()
        layers = confine(limits, allowed, parent)
        missing = [layer for layer in Layer if layer not in layers]
        if missing and limits.every_layer:
            raise SandboxError(f"the sandbox is incomplete on this machine, which lacks: {', '.join(missing)}")
        _send(answer, call(), missing=missing)
    os._exit(1)  # not reached


def _redirect_files(stdin: int | None, answer: int, output: int) -> None:
    """Redirect the standard streams, and close all other files of the parent except the answer pipe."""
    source = os.open(os.devnull, os.O_RDONLY) if stdin is None else stdin
    os.dup2(source, 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    max_files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.closerange(3, answer)
    os.closerange(answer + 1, max_files if max_files != resource.RLIM_INFINITY else 1 << 20)


class _ExitAtEnd:
    """Context that ends the process at its end, and sends an exception as an answer."""

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


def _send(descriptor: int, answer: Answer, code: int = 0, missing: Sequence[Layer] = ()) -> None:
    detail, size = answer.detail[-MAX_DETAIL_CHARS:], len(answer.content)
    head = {"status": answer.status, "detail": detail, "code": code, "size": size, "missing": missing}
    with os.fdopen(descriptor, "wb") as pipe:
        pipe.write(json.dumps(head).encode() + b"\n")
        pipe.write(answer.content)


class Reaper:
    """Context that at its end kills all processes that were started in it and became children of this process."""

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
    """Return the child processes of this one, including zombies."""
    try:
        lists = [file.read_text(encoding="ascii") for file in Path("/proc/self/task").glob("*/children")]
    except OSError:
        lists = []
    if lists:
        return frozenset(int(pid) for text in lists for pid in text.split())
    parent = os.getpid()  # a kernel without CONFIG_PROC_CHILDREN has no such lists
    return frozenset(pid for pid in running_processes() if parent_of(pid) == parent)


def running_processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def parent_of(pid: int) -> int:
    """Return the parent: field 4 of /proc/PID/stat, after the name in parentheses; 0 if the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    words = text.rpartition(")")[2].split()
    return int(words[1]) if len(words) > 1 else 0


_READ_BYTES = 1 << 16
_KEPT_OUTPUT_BYTES = 4096  # of the end of stdout and stderr
_MAX_HEAD_BYTES = 1 << 16  # of the JSON line of an answer
_GRACE_S = 2.0  # for a child to exit after it has closed the answer pipe
_POLL_S = 0.001
_SCRATCH_INTERVAL_S = 0.5  # between two measurements of the scratch folder
_MAX_SCRATCH_FILES = 10_000
Call = Callable[[], Answer]
Listener = Callable[[bytes], None]


def run_in_child(
    call: Call, limits: Limits = Limits(), allowed: Allowed = Allowed(),  # noqa: B008
    listen: Listener | None = None,
) -> Outcome:  # fmt: skip
    """Make the call in a child with these limits and permissions.

    `listen` gets the child's stdout and stderr as they come, which may be any bytes if the child is hostile. The
    process must have one thread only: a lock held by another thread would never be released in the child.
    `thpdiag.sandbox.preload` does this for parents with threads.
    """
    if threading.active_count() > 1:
        raise RuntimeError("a process with several threads must not fork; use thpdiag.sandbox.preload")
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError, OSError, AttributeError):  # closed, or None
            stream.flush()
    with Reaper():
        return _Child(call, limits, allowed, listen).outcome()


def read_pipes(
    pipes: Sequence[int], seconds: float, main_pipe: int | None = None, interval: float | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield what comes out of pipes, in pieces, until all have ended, or `main_pipe` has.

    If nothing comes for `interval` seconds, an empty piece of pipe -1 is yielded. Raises TimeoutError once `seconds`
    were spent on waiting; the time of the consumer does not count.
    """
    left = seconds
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map() if main_pipe is None else main_pipe in selector.get_map():
            began = time.monotonic()
            ready = selector.select(left if interval is None else min(left, interval))
            left -= time.monotonic() - began
            if left <= 0 or not (ready or interval):
                raise TimeoutError
            if not ready:
                yield -1, b""
            for key, _ in ready:
                if part := os.read(key.fd, _READ_BYTES):
                    yield key.fd, part
                else:
                    selector.unregister(key.fd)


def _exceeds(folder: Path, max_bytes: int) -> bool:
    """Whether a folder contains more than these bytes, or more than `_MAX_SCRATCH_FILES` files."""
    size = files = 0
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            with suppress(OSError):  # deleted meanwhile
                size += os.lstat(os.path.join(parent, name)).st_blocks * 512  # noqa: PTH118 - a hostile child's names
            files += 1
            if size > max_bytes or files > _MAX_SCRATCH_FILES:
                return True
    return False


class _Child:
    """A forked child, from its start to its end."""

    def __init__(self, call: Call, limits: Limits, allowed: Allowed, listen: Listener | None) -> None:
        self._limits = limits
        self._listen = listen
        self._scratch = allowed.scratch
        self._answer = bytearray()
        self._output = b""
        parent = os.getpid()
        (answer, answer_end), (output, output_end) = os.pipe(), os.pipe()
        # Python runs callbacks after a fork, and drops an exception that a signal handler raises in them.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED_SIGNALS)
        try:
            self._pid = os.fork()
            if not self._pid:
                child_main(call, limits, allowed, (answer_end, output_end), parent)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(answer_end)
        os.close(output_end)
        self._pipes = (answer, output)
        self._code = 0
        self._cpu_seconds = 0.0

    def outcome(self) -> Outcome:
        """Watch the child to its end and return the outcome; kills the child on an exception."""
        try:
            outcome = self._watch() or self._parse_answer()
            if outcome is None:
                self._wait_for_exit()
        finally:
            self._clean_up()
        return replace(outcome or self._death_outcome(), output=self._output.decode("utf-8", "replace"))

    def _watch(self) -> Outcome | None:
        """Read the pipes until the answer ends; return an outcome if a limit or the time is exceeded."""
        output_bytes, due = 0, time.monotonic() + _SCRATCH_INTERVAL_S
        interval = _SCRATCH_INTERVAL_S if self._scratch else None
        try:
            for pipe, part in read_pipes(self._pipes, self._limits.wall_seconds, self._pipes[0], interval):
                if self._scratch and time.monotonic() >= due:
                    if _exceeds(self._scratch, self._limits.scratch):
                        return Outcome(Status.LIMIT, "scratch space")
                    due = time.monotonic() + _SCRATCH_INTERVAL_S
                if pipe == self._pipes[0]:
                    self._answer += part
                    if len(self._answer) > self._limits.answer + _MAX_HEAD_BYTES:
                        return Outcome(Status.LIMIT, "the answer's size")
                elif part:
                    self._output = (self._output + part)[-_KEPT_OUTPUT_BYTES:]
                    output_bytes += len(part)
                    if output_bytes > self._limits.output:
                        return Outcome(Status.LIMIT, "output")
                    if self._listen:
                        self._listen(part)
        except TimeoutError:
            return Outcome(Status.TIMEOUT)
        return None

    def _parse_answer(self) -> Outcome | None:
        """Return the answer, or None if it is incomplete."""
        end = self._answer.find(b"\n")
        end = len(self._answer) if end < 0 else end
        content = bytes(memoryview(self._answer)[end + 1 :])
        try:
            head = json.loads(self._answer[:end])
            if head["size"] != len(content):
                return None
            missing = tuple(map(Layer, head["missing"]))
            status, detail = Status(head["status"]), str(head["detail"])
            return Outcome(status, detail, content, code=int(head["code"]), missing=missing)
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def _wait_for_exit(self) -> None:
        """Wait for the exit status of a child that has closed the answer pipe."""
        deadline = time.monotonic() + _GRACE_S
        while not self._reap(os.WNOHANG) and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def _clean_up(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            self._reap(0)
        for pipe in self._pipes:
            os.close(pipe)

    def _reap(self, options: int) -> bool:
        pid, status, usage = os.wait4(self._pid, options)
        if pid:
            self._pid, self._code = 0, os.waitstatus_to_exitcode(status)
            self._cpu_seconds = usage.ru_utime + usage.ru_stime
        return bool(pid)

    def _death_outcome(self) -> Outcome:
        """Return the outcome of a child that exited without an answer."""
        number = -self._code
        if number == signal.SIGXCPU or (number == signal.SIGKILL and self._cpu_seconds >= self._limits.cpu_seconds):
            return Outcome(Status.LIMIT, "CPU time")
        if number == signal.SIGXFSZ:
            return Outcome(Status.LIMIT, "file size")
        if b"bad_alloc" in self._output or b"MemoryError" in self._output:  # from C++, or from the exiting interpreter
            return Outcome(Status.OUT_OF_MEMORY)
        if number > 0:
            return Outcome(Status.SIGNAL, str(int(number)))
        return Outcome(Status.BUG, f"it ended with code {self._code} and without an answer")
