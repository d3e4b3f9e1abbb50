"""How much of a bundle is read before thpdiag stops and says so.

Every limit ends with a Problem that names it; none is silent. `Limits` are the numbers, `Budget` counts against those
that hold for all inputs and all nesting levels together. Many problems alike become one with a count (`ProblemFold`),
so that a hostile archive cannot flood the report.
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
    """Raised inside the bundle stage only; it always ends as a Problem, never as an exception of `members`.

    `taints` says that the bytes before it may be wrong too.
    """

    def __init__(self, kind: ProblemKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.taints = False

    def problem(self, member: str, text: str = "", *, hides: bool | None = None) -> Problem:
        """The problem at `member`; `text` is said after what happened."""
        return Problem(Citation(member), f"{self.text}{text}", self.kind, hides=hides, taints=self.taints)


def damage(text: str) -> StreamError:
    return StreamError(ProblemKind.DAMAGED, text)


def corruption(text: str) -> StreamError:
    """Damage that shows only behind what it spoils: a checksum, or packed data that make no sense from here on."""
    failure = damage(text)
    failure.taints = True
    return failure


KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes unless said otherwise.

    `codec_memory` is for the outermost decompressor; one inside another gets half (xz -9 needs 65 MiB, zstd -22 128
    MiB). Repetitive logs pack well, so `ratio` is asked only after `ratio_after` bytes.
    """

    total_bytes: int = 64 * GIB  # decompressed, all levels added
    ratio: int = 250  # decompressed bytes per byte of the customer's files
    ratio_after: int = GIB
    members: int = 1_000_000
    wanted: int = 200_000  # members that are given to readers
    empty: int = 1000  # of them those without content, in one archive
    metadata: int = MIB  # of one extended header, sparse map or zip record
    name: int = 4 * KIB
    nesting: int = 3  # archives in archives
    codec_memory: int = 144 * MIB
    line: int = 64 * KIB
    member_bytes: int = 4 * GIB  # of one member
    hole_bytes: int = 64 * MIB  # zeros put in for the holes of one sparse member
    held_bytes: int = 64 * MIB  # a zip that cannot be sought in is held in memory
    links: int = 200_000
    link_bytes: int = 32 * MIB  # of all link names of one archive
    directory_depth: int = 128
    cpu_seconds: float = 300.0
    wall_seconds: float = 3600.0


class Budget:
    """What has been used of the limits that hold for everything together. `watch` gets the bytes read so far."""

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
        """`size` bytes of the customer's files were read."""
        self.read += size
        if self._watch:
            self._watch(self.read)

    def counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks, each counted as it comes out of a decompressor."""
        for chunk in chunks:
            self.count_output(len(chunk))
            yield chunk

    def count_output(self, size: int) -> None:
        """`size` bytes came out of a file or a decompressor; raises StreamError when a limit is passed."""
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
        """`members` more members were seen."""
        self.members += members
        if self.members > self.limits.members:
            raise _limit_error("members", f"more than {self.limits.members} members")

    def count_wanted(self) -> None:
        """One more member goes to the readers."""
        self.wanted += 1
        if self.wanted > self.limits.wanted:
            raise _limit_error("wanted", f"more than {self.limits.wanted} members that are of interest")


def _limit_error(limit: str, text: str) -> StreamError:
    return StreamError(ProblemKind.LIMIT, f"{text} (limit {limit}); the rest was not read")


def out_of_cpu_time(limits: Limits) -> str:
    """The sentence for a reading that took too long."""
    return f"took more than {limits.cpu_seconds:g} s of CPU (limit cpu_seconds); the rest was not read"


RAISE_AGAIN_SECONDS = 1.0  # of CPU; whatever catches the first OutOfTimeError gets a second one


@contextmanager
def interrupt_when_out_of_time(seconds: float) -> Iterator[None]:
    """OutOfTimeError is raised within after so much CPU time, for a loop that reads nothing asks no budget.

    Only in the main thread and where the system has timers of CPU time; elsewhere the supervisor of a child process is
    what ends such a loop.
    """
    if (
        seconds == math.inf
        or not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    before = signal.signal(signal.SIGPROF, _raise_out_of_time)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.001), RAISE_AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before or signal.SIG_DFL)


def _raise_out_of_time(_number: int, _frame: FrameType | None) -> NoReturn:
    raise OutOfTimeError


class ProblemFold:
    """The first `apart` problems of a subject are given as they come, the others as one at the end."""

    def __init__(self, apart: int) -> None:
        self._apart = apart
        self._seen: dict[str, int] = {}
        self._new: list[Problem] = []
        self._rest: dict[str, Problem] = {}
        self._further: Counter[str] = Counter()  # problems like that in `_rest`

    def add(self, subject: str, problem: Problem) -> None:
        self._seen[subject] = seen = self._seen.get(subject, 0) + 1
        if seen <= self._apart:
            self._new.append(problem)
        elif subject in self._rest:
            self._further[subject] += problem.count
        else:
            self._rest[subject] = replace(problem, text=f"{problem.text}, and similar ones") if self._apart else problem

    def new(self) -> Iterator[Problem]:
        """The problems since the last call."""
        yield from self._new
        self._new.clear()

    def rest(self) -> Iterator[Problem]:
        """What is left at the end."""
        yield from self.new()
        for subject, problem in self._rest.items():
            yield replace(problem, count=problem.count + self._further[subject])
        self._rest.clear()
