"""A long text in ranges that several processes read at once.

A file is cut between two whole samples, where nothing that was read before matters. This process reads the first range,
each other one has a process of its own; if that dies, or cannot be started, its range is read here. What each has read
is joined in the order of the ranges, so that the result is that of one process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pickle import UnpicklingError

from thpdiag.bundle.limits import Limits
from thpdiag.model import Problem, ProblemKind, Record
from thpdiag.reader import Content, Foreign, Source
from thpdiag.readers.perf.script_bulk.cuts import Range, ranges_of
from thpdiag.readers.perf.script_bulk.part import Part, joined, records
from thpdiag.readers.perf.script_bulk.text import Text
from thpdiag.readers.perf.script_bulk.windows import SIZE, ChunkFeed, FileFeed
from thpdiag.readers.perf.script_samples import NAME

WORTH = 64 << 20  # bytes; for less, the start of a process takes longer than it saves
MOST = 8  # processes, this one among them
_LARGEST = Limits().member_bytes  # what is larger must be cut by who gives the bytes
_FOREIGN = 100_000  # lines of other formats that a process may give back; with more, the range is read here


def profiles(
    source: Source, content: Content, workers: int | None = None, worth: int = WORTH, size: int = SIZE
) -> Iterator[Record | Foreign]:
    """All records of a text. `workers`: processes at most, None: one per CPU, up to MOST."""
    ranges = _ranges(content, workers, worth)
    if not ranges:
        text = Text(source)
        yield from text.read(ChunkFeed(content.chunks), size)
        yield from records(text.part(), source)
        return
    parts: list[Part] = []
    for found in _read(source, ranges, size):
        if isinstance(found, Foreign):
            before = sum(part.count for part in parts)
            yield Foreign(tuple((number + before, text) for number, text in found.lines))
        elif isinstance(found, Problem):
            yield found
        else:
            parts.append(found)
    yield from records(joined(parts), source)


def _ranges(content: Content, workers: int | None, worth: int) -> list[Range]:
    """The ranges of the file; none if the bytes are better taken as they come."""
    if workers is None:
        workers = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, MOST)
    if content.file is None:
        return []
    try:
        length = content.file.stat().st_size
        return ranges_of(content.file, length, max(workers, 1)) if worth <= length <= _LARGEST else []
    except OSError:
        return []


def _read(source: Source, ranges: list[Range], size: int) -> Iterator[Foreign | Problem | Part]:
    """Each range in order: the lines of other formats in it, then what was read."""
    with ExitStack() as stack:
        others = [stack.enter_context(Worker(source, place, size)) for place in ranges[1:]]
        yield from _here(source, ranges[0], size)
        for place, other in zip(ranges[1:], others, strict=True):
            if (done := other.result()) is None:
                yield from _here(source, place, size)
            else:
                yield from done.foreign
                yield done.part


def _here(source: Source, place: Range, size: int) -> Iterator[Foreign | Problem | Part]:
    text = Text(source)
    with FileFeed(place.file, place.begin, place.end) as feed:
        yield from text.read(feed, size)
        if feed.failure:
            why = f"the file could not be read to its end ({feed.failure.strerror})"
            yield Problem(source.cite(0), why, ProblemKind.DAMAGED, NAME)
    yield text.part()


@dataclass(frozen=True, slots=True)
class Done:
    """What a process gives back."""

    part: Part
    foreign: tuple[Foreign, ...]


class Worker:
    """A process that reads a range; one that is not wanted any more is ended."""

    def __init__(self, source: Source, place: Range, size: int) -> None:
        self._arguments = source, place, size
        self._process: multiprocessing.process.BaseProcess | None = None
        self._answer: Connection | None = None

    def __enter__(self) -> Worker:
        if multiprocessing.current_process().daemon:
            return self  # a daemon may have no children
        spawn = multiprocessing.get_context("spawn")
        try:
            self._answer, given = spawn.Pipe(duplex=False)
            with given:
                process = spawn.Process(target=work, args=(given, *self._arguments), daemon=True)
                process.start()
        except (OSError, RuntimeError, ImportError):
            return self
        self._process = process
        return self

    def result(self) -> Done | None:
        """What was read; None if nothing came of it."""
        if self._process is None or self._answer is None:
            return None
        try:
            done = self._answer.recv()
        except (EOFError, OSError, UnpicklingError, MemoryError):
            return None
        return done if isinstance(done, Done) else None

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
        if self._answer is not None:
            self._answer.close()


def work(answer: Connection, source: Source, place: Range, size: int) -> None:
    """What a process does; it answers nothing if there is too much that is no perf script."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it will end it
    text = Text(source)
    foreign: list[Foreign] = []
    lines = 0
    with FileFeed(place.file, place.begin, place.end) as feed:
        for found in text.read(feed, size):
            foreign.append(found)
            lines += len(found.lines)
            if lines > _FOREIGN:
                return
        if not feed.failure:
            answer.send(Done(text.part(), tuple(foreign)))
