"""Bytes that come once, forward: a recording may stand in a compressed archive, where nothing can be read twice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

WINDOW = 8 << 20  # bytes of records that are looked at together; more do not fit into the caches of CPUs
LONGEST = 1 << 16  # a record's size has 16 bits
SLACK = 512  # zeros behind the last byte: fixed fields are fetched before the last record is known to be too short


class ByteStream:
    """Chunks as one stream; `position` is the offset of the next byte, at first that of the first chunk."""

    def __init__(self, chunks: Iterator[bytes], position: int = 0) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")
        self.position = position

    def _more(self) -> bool:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            self._rest = memoryview(chunk)
        return True

    def _taken(self, count: int) -> memoryview:
        part, self._rest = self._rest[:count], self._rest[count:]
        self.position += len(part)
        return part

    def into(self, target: memoryview) -> int:
        """Fills the target as far as the stream goes; the number of bytes."""
        done = 0
        while done < len(target) and self._more():
            part = self._taken(len(target) - done)
            target[done : done + len(part)] = part
            done += len(part)
        return done

    def read(self, count: int) -> bytes:
        """The next bytes, fewer only at the end."""
        parts: list[memoryview] = []
        while count > 0 and self._more():
            parts.append(self._taken(count))
            count -= len(parts[-1])
        return b"".join(parts)

    def skip(self, count: int | None) -> int:
        """Passes over bytes (None: all that is left); how many there were."""
        begin = self.position
        while (count is None or self.position - begin < count) and self._more():
            self._taken(len(self._rest) if count is None else count - (self.position - begin))
        return self.position - begin


def roomy(size: int) -> NDArray[np.uint8]:
    """A buffer of zeros with the slack behind it, a multiple of eight long."""
    return np.zeros((size + SLACK + 7) & ~7, np.uint8)


class Stretch:
    """The data section a window at a time: `buffer[:used]`, whose first byte stands at `base` of the file.

    What is left of a record that the end of a window cuts is moved to the front of the next one, so each window
    begins with a record, at an address that is a multiple of eight.
    """

    def __init__(self, stream: ByteStream, length: int | None, file: int | None = None) -> None:
        """`length` is that of the section, `file` that of the whole file, None where it is not known."""
        self._stream = stream
        self._left = length
        self._window = WINDOW if file is None else max(1, min(WINDOW, file))
        self.buffer = roomy(self._window + LONGEST)
        self.used = 0
        self.unpaid = 0  # bytes of a payload that the section ends before
        self.base = stream.position

    @property
    def left(self) -> int | None:
        """Bytes of the section not yet fetched, as far as it says how long it is."""
        return self._left

    def fetch(self, consumed: int, payload: int = 0) -> int:
        """Drops what was consumed and `payload` bytes behind the window, then fetches more: how many bytes came."""
        tail = self.used - consumed
        self.buffer[:tail] = self.buffer[consumed : self.used].copy()
        self.base += consumed
        if payload:
            passed = self.skip(payload)
            self.base += passed
            self.unpaid = payload - passed
        room = self._window if self._left is None else min(self._window, self._left)
        came = self._stream.into(self.buffer.data[tail : tail + room])
        self.used = tail + came
        self.buffer[self.used : self.used + SLACK] = 0
        self._pass(came)
        return came

    def skip(self, count: int | None = None) -> int:
        """Passes over bytes of the section, all by default."""
        if self._left is not None:
            count = self._left if count is None else min(count, self._left)
        passed = self._stream.skip(count)
        self._pass(passed)
        return passed

    def _pass(self, count: int) -> None:
        if self._left is not None:
            self._left -= count
