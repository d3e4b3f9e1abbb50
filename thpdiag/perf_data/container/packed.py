"""Compressed records: a stream of records that perf cut into pieces and wrote as COMPRESSED or COMPRESSED2.

Source: tools/perf/util/zstd.c, tools/perf/builtin-record.c. All pieces are one zstd stream: records and frames go on
from one to the next. zstandard is an extra (`pip install thpdiag[zstd]`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thpdiag.perf_data.container.stream import WINDOW, roomy
from thpdiag.perf_data.container.troubles import Troubles
from thpdiag.perf_data.container.view import Words

try:
    import zstandard
except ImportError:
    zstandard = None  # type: ignore[assignment]

ABSENT = "compressed by zstd, which needs the Python package zstandard: pip install thpdiag[zstd]"
BROKEN = "compressed by zstd and damaged: they do not unpack"
SPOILT = "compressed by zstd and make no sense unpacked"
BOMB = "compressed by zstd and unpack to far more than any recording does"
PIECE = 1 << 10  # bytes given to zstd at once: what comes out is 32 MiB at most
RATIO = 250  # perf's own records pack about twentyfold
RATIO_AFTER = 1 << 30
HISTORY = 1 << 27  # bytes of history that zstd may ask for


def _decoder() -> Any:
    return zstandard.ZstdDecompressor(max_window_size=HISTORY).decompressobj(read_across_frames=True)


@dataclass(frozen=True, slots=True)
class Inner:
    """Unpacked bytes `buffer[:used]`; those from `begins[i]` on came out of the record at `offsets[i]` of the file."""

    buffer: NDArray[np.uint8]
    used: int
    begins: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def offset(self, at: Words) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self.offsets[np.searchsorted(self.begins, at << 3, side="right") - 1]
        return found


class Unpacked:
    """The inner stream, a window at a time. `trouble` says why no more of it can be had, `refused` counts records."""

    def __init__(self) -> None:
        self._decoder: Any = _decoder() if zstandard else None
        self._parts: list[bytes] = []
        self._places: list[tuple[int, int]] = []
        self._size = 0
        self._in = 0
        self._out = 0
        self.trouble = "" if zstandard else ABSENT
        self.refused = 0

    @property
    def waiting(self) -> int:
        """Bytes that were unpacked and not given out."""
        return self._size

    def feed(self, packed: bytes, offset: int) -> Iterator[Inner]:
        """Unpacks the content of a record that stands at `offset`."""
        for begin in range(0, len(packed), PIECE):
            if not self.trouble:
                self._unpack(packed[begin : begin + PIECE], offset)
            if self._size >= WINDOW:
                yield self.window()
        if self.trouble:
            self.refused += 1

    def _unpack(self, piece: bytes, offset: int) -> None:
        try:
            out = self._decoder.decompress(piece)
        except zstandard.ZstdError:
            self.trouble = BROKEN
            return
        self._in += len(piece)
        self._out += len(out)
        if out:
            self._append(out, offset)
        if self._out > RATIO_AFTER and self._out > RATIO * self._in:
            self.trouble = BOMB

    def _append(self, out: bytes, offset: int) -> None:
        if not self._places or self._places[-1][1] != offset:
            self._places.append((self._size, offset))
        self._parts.append(out)
        self._size += len(out)

    def window(self) -> Inner:
        """What was unpacked since the last one, behind the record that was cut then."""
        buffer = roomy(self._size)
        buffer[: self._size] = np.frombuffer(b"".join(self._parts), np.uint8)
        places = np.array(self._places, np.int64).reshape(-1, 2)
        inner = Inner(buffer, self._size, places[:, 0], places[:, 1])
        self._parts, self._places, self._size = [], [], 0
        return inner

    def spoil(self, size: int) -> None:
        """What was unpacked is no chain of records: no more of it is read."""
        self.trouble = self.trouble or f"{SPOILT}, {size} bytes from there on are not read"
        self.refused = max(self.refused, 1)

    def tell(self, troubles: Troubles) -> None:
        """What could not be had, as a problem."""
        tell = {ABSENT: troubles.unreadable, BOMB: troubles.limit}.get(self.trouble, troubles.damaged)
        tell(f"has records that are {self.trouble}", self.refused)

    def keep(self, inner: Inner, end: int) -> None:
        """The rest of a window belongs to a record that goes on in the next one."""
        if end < inner.used:
            at = np.array([end >> 3], np.int64)
            self._append(inner.buffer[end : inner.used].tobytes(), int(inner.offset(at)[0]))
