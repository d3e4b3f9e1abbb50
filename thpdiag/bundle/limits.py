"""Limits on how much of a bundle is read.

Reaching a limit always yields a Problem that names it. `Limits` holds the numbers; `Budget` counts against the limits
that apply to all inputs and nesting levels together. Similar problems are combined into one with a count
(`ProblemFold`), so that a hostile archive cannot flood the report.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import NoReturn

from thpdiag.model import Citation, Problem, ProblemKind
from thpdiag.model.parser import OutOfTimeError


class StreamError(Exception):
    """An error within the bundle stage, which `members` reports as a Problem.

    `taints`: the bytes before the error may be wrong too.
    """

    def __init__(self, kind: ProblemKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.taints = False

    def problem(self, member: str, text: str = "", *, hides: bool | None = None) -> Problem:
        """Return the problem at `member`; `text` is appended to the description."""
        return Problem(Citation(member), f"{self.text}{text}", self.kind, hides=hides, taints=self.taints)


def damage(text: str) -> StreamError:
    return StreamError(ProblemKind.DAMAGED, text)


def corruption(text: str) -> StreamError:
    """Return an error for damage that shows only after the damaged bytes: a checksum, or invalid packed data."""
    failure = damage(text)
    failure.taints = True
    return failure


KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits in bytes unless stated otherwise.

    `codec_memory` is for the outermost decompressor; each nested one gets half (xz -9 needs 65 MiB, zstd -22 128 MiB).
    Repetitive logs compress well, so `ratio` is checked only after `ratio_after` bytes.
    """

    total_bytes: int = 64 * GIB  # decompressed, sum of all levels
    ratio: int = 250  # decompressed bytes per byte of the customer's files
    ratio_after: int = GIB
    members: int = 1_000_000
    wanted: int = 200_000  # members that are passed to parsers
    empty: int = 1000  # wanted members without content in one archive
    metadata: int = MIB  # of one extended header, sparse map or zip record
    name: int = 4 * KIB
    nesting: int = 3  # archives in archives
    codec_memory: int = 144 * MIB
    line: int = 64 * KIB
    member_bytes: int = 4 * GIB  # of one member
    hole_bytes: int = 64 * MIB  # zeros that fill the holes of one sparse member
    held_bytes: int = 64 * MIB  # of a zip on a stream without seek, which is held in memory
    links: int = 200_000
    link_bytes: int = 32 * MIB  # of all link names of one archive
    directory_depth: int = 128
    cpu_seconds: float = 300.0
    wall_seconds: float = 3600.0


class Budget:
    """Usage counters for the limits on all inputs together. `watch` is called with the number of bytes read so far."""

    def __init__(self, limits: Limits, watch: Callable[[int], None] | None = None) -> None:
        self.limits = limits
        self._watch = watch
        self.read = 0  # bytes of the customer's files
        self.total = 0
        self.members = 0
        self.wanted = 0
        self._cpu = time.process_time() + limits.cpu_seconds
        self._wall = time.monotonic() + limits.wall_seconds

    def count_input(self, size: int) -> None:
        """Count `size` bytes read from the customer's files."""
        self.read += size
        if self._watch:
            self._watch(self.read)

    def counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks of a decompressor and count them."""
        for chunk in chunks:
            self.count_output(len(chunk))
            yield chunk

    def count_output(self, size: int) -> None:
        """Count `size` bytes from a file or a decompressor; raise StreamError if a limit is exceeded."""
        self.total += size
        limits = self.limits
        if self.total > limits.total_bytes:
            raise _limit_error("total_bytes", f"more than {limits.total_bytes} bytes in all")
        if self.total > limits.ratio_after and self.total > limits.ratio * self.read:
            raise _limit_error("ratio", f"unpacks to more than {limits.ratio} times its size")
        if time.process_time() > self._cpu:
            raise StreamError(ProblemKind.LIMIT, out_of_cpu_time(limits))
        if time.monotonic() > self._wall:
            raise _limit_error("wall_seconds", f"took more than {limits.wall_seconds:g} s")

    def count_members(self, members: int) -> None:
        """Count members of an archive or directory."""
        self.members += members
        if self.members > self.limits.members:
            raise _limit_error("members", f"more than {self.limits.members} members")

    def count_wanted(self) -> None:
        """Count a member that is passed to parsers."""
        self.wanted += 1
        if self.wanted > self.limits.wanted:
            raise _limit_error("wanted", f"more than {self.limits.wanted} members that are of interest")


def _limit_error(limit: str, text: str) -> StreamError:
    return StreamError(ProblemKind.LIMIT, f"{text} (limit {limit}); the rest was not read")


def out_of_cpu_time(limits: Limits) -> str:
    """Return the text of the problem that CPU time is used up."""
    return f"took more than {limits.cpu_seconds:g} s of CPU (limit cpu_seconds); the rest was not read"


REPEAT_SECONDS = 1.0  # CPU time until OutOfTimeError is raised again, in case the first one was caught


@contextmanager
def interrupt_when_out_of_time(seconds: float) -> Iterator[None]:
    """Raise OutOfTimeError in the body after `seconds` of CPU time, even in a loop that does not check the budget.

    Works only in the main thread and on systems with CPU timers; otherwise the supervisor of a child process ends such
    a loop.
    """
    if (
        seconds == math.inf
        or not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    before = signal.signal(signal.SIGPROF, _raise_out_of_time)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.001), REPEAT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before or signal.SIG_DFL)


def _raise_out_of_time(_number: int, _frame: FrameType | None) -> NoReturn:
    raise OutOfTimeError


class ProblemFold:
    """Combines similar problems: the first `separate` of a subject are reported as they occur, the rest as one."""

    def __init__(self, separate: int) -> None:
        self._separate = separate
        self._seen: Counter[str] = Counter()
        self._new: list[Problem] = []
        self._combined: dict[str, Problem] = {}

    def add(self, subject: str, problem: Problem) -> None:
        self._seen[subject] += 1
        if self._seen[subject] <= self._separate:
            self._new.append(problem)
        elif combined := self._combined.get(subject):
            self._combined[subject] = replace(combined, count=combined.count + problem.count)
        else:
            text = f"{problem.text}, and similar ones" if self._separate else problem.text
            self._combined[subject] = replace(problem, text=text)

    def new(self) -> Iterator[Problem]:
        """Yield the separate problems since the last call."""
        yield from self._new
        self._new.clear()

    def rest(self) -> Iterator[Problem]:
        """Yield the remaining problems at the end."""
        yield from self.new()
        yield from self._combined.values()
        self._combined.clear()
