"""Bytes to windows of whole lines, cut where a line is empty, with the places of all lines.

What comes is put into one buffer; a window is valid until the next is asked for. Line ends of two characters are made
one. A block that is longer than a window is cut at a line; a line that is longer than any that is read, by its rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thpdiag.bundle.limits import Limits
from thpdiag.readers.perf.script_bulk.hashing import BLOCK, Bytes, Ints

SIZE = 1 << 22
ROOM = 2 * BLOCK  # bytes before and behind the text that may be looked at
LINE = Limits().line
_BLANK = 10


class Feed(Protocol):
    """Where bytes come from."""

    def into(self, room: memoryview) -> int:
        """Put bytes into the room; how many. None at the end."""
        ...


class ChunkFeed:
    """Bytes of an iterator."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = memoryview(b"")

    def into(self, room: memoryview) -> int:
        done = 0
        while done < len(room):
            if not self._left:
                if (chunk := next(self._chunks, None)) is None:
                    break
                self._left = memoryview(chunk)
            part = self._left[: len(room) - done]
            room[done : done + len(part)] = part
            self._left = self._left[len(part) :]
            done += len(part)
        return done


class FileFeed:
    """Bytes of a part of a file. Where it cannot be read on, `failure` says why."""

    def __init__(self, file: Path, begin: int, end: int) -> None:
        self._file = file.open("rb", buffering=0)
        self._file.seek(begin)
        self._left = end - begin
        self.failure: OSError | None = None

    def __enter__(self) -> FileFeed:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def into(self, room: memoryview) -> int:
        try:
            done = self._file.readinto(room[: self._left]) if self._left else 0
        except OSError as failure:
            self.failure, done = failure, 0
        self._left -= done or self._left
        return done or 0


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Whole lines. Line `i` is `buffer[starts[i]:ends[i]]`, its number `first + i`.

    `fresh`: the first line stands behind an empty one. `closed`: the last line is empty or the last of all.
    """

    buffer: Bytes
    starts: Ints
    ends: Ints
    first: int
    fresh: bool
    closed: bool

    def raw(self, line: int) -> bytes:
        return self.buffer[self.starts[line] : self.ends[line]].tobytes()

    def raws(self, lines: Ints) -> list[bytes]:
        view = self.buffer.data
        places = zip(self.starts[lines].tolist(), self.ends[lines].tolist(), strict=True)
        return [bytes(view[begin:end]) for begin, end in places]

    def lines(self, begin: int, end: int) -> bytes:
        """The bytes of some lines, with the end of the last."""
        return self.buffer[self.starts[begin] : self.ends[end - 1] + 1].tobytes()


def windows(feed: Feed, size: int = SIZE) -> Iterator[Window]:
    """The text in windows of about `size` bytes."""
    buffer = np.zeros(ROOM + size + max(size, 2 * LINE) + ROOM, np.uint8)
    view = buffer.data
    end, first, fresh, over = ROOM, 1, True, False
    while got := feed.into(view[end : end + size]):
        begun, end = end, end + got
        end, over = _rest_dropped(buffer, begun, end) if over else (end, False)
        end = _single_ends(buffer, max(ROOM, begun - 1), end)
        newlines = np.flatnonzero(buffer[ROOM:end] == _BLANK) + ROOM
        lines, closed = _whole(newlines)
        if lines:
            yield _window(buffer, newlines[:lines], first, fresh, closed)
            first, fresh = first + lines, closed
            cut = int(newlines[lines - 1]) + 1
            buffer[ROOM : ROOM + end - cut] = buffer[cut:end].copy()
            end = ROOM + end - cut
        if end - ROOM > LINE and not len(newlines[lines:]):
            end, over = ROOM + LINE + 1, True
    if end > ROOM:
        missing = buffer[end - 1] != _BLANK
        buffer[end] = _BLANK
        newlines = np.flatnonzero(buffer[ROOM : end + missing] == _BLANK) + ROOM
        yield _window(buffer, newlines, first, fresh, closed=True)


def _window(buffer: Bytes, newlines: Ints, first: int, fresh: bool, closed: bool) -> Window:  # noqa: FBT001
    starts = np.empty(len(newlines), np.int64)
    starts[0] = ROOM
    starts[1:] = newlines[:-1] + 1
    return Window(buffer, starts, newlines, first, fresh, closed)


def _whole(newlines: Ints) -> tuple[int, bool]:
    """How many lines to the last empty one, else to the last; whether it is empty."""
    for back in (64, 4096, len(newlines)):  # it is near the end
        last = newlines[-back:]
        empty: NDArray[np.int64] = np.flatnonzero(np.diff(last) == 1)
        if len(empty):
            return len(newlines) - len(last) + int(empty[-1]) + 2, True
    return len(newlines), False


def _rest_dropped(buffer: Bytes, begun: int, end: int) -> tuple[int, bool]:
    """Without the rest of a line that is too long; whether it goes on."""
    found = np.flatnonzero(buffer[begun:end] == _BLANK)
    if not len(found):
        return begun, True
    cut = begun + int(found[0])
    buffer[begun : begun + end - cut] = buffer[cut:end].copy()
    return begun + end - cut, False


def _single_ends(buffer: Bytes, begin: int, end: int) -> int:
    """Line feeds for carriage returns with line feeds, if the first or last line ends so; the new end.

    Where only some lines between do, the exact grammar reads those.
    """
    first, last = buffer[begin : begin + LINE].tobytes(), buffer[max(begin, end - LINE) : end].tobytes()
    if not first[: first.find(b"\n")].endswith(b"\r") and not last[: last.rfind(b"\n")].endswith(b"\r"):
        return end
    data = buffer[begin:end].tobytes().replace(b"\r\n", b"\n")
    buffer[begin : begin + len(data)] = np.frombuffer(data, np.uint8)
    return begin + len(data)
