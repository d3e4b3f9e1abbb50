"""A buffer of records, looked at as numbers of several widths."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thpdiag.perf_data.container.header import Order

Words = NDArray[np.int64]  # places in a buffer, in words of eight bytes


class View:
    """A buffer as numbers of 64, 32 and 16 bits in the byte order of the file."""

    def __init__(self, buffer: NDArray[np.uint8], order: Order) -> None:
        self.bytes = buffer
        self.u64 = buffer.view(order + "u8")
        self.u32 = buffer.view(order + "u4")
        self.u16 = buffer.view(order + "u2")
        self.order = order

    def words(self, at: Words, place: int) -> NDArray[np.uint64]:
        """The 64-bit numbers `place` words behind the positions."""
        return self.u64[place:][at].astype(np.uint64, copy=False)

    def halves(self, at: Words, place: int, half: int) -> NDArray[np.int32]:
        """The first or second 32-bit number of such words, signed."""
        return self.u32[2 * place + half :: 2][at].astype(np.uint32, copy=False).view(np.int32)

    def kinds(self, at: Words) -> NDArray[np.uint32]:
        return self.u32[::2][at].astype(np.uint32, copy=False)

    def misc(self, at: Words) -> NDArray[np.uint16]:
        return self.u16[2::4][at].astype(np.uint16, copy=False)

    def lengths(self, at: Words) -> Words:
        """Sizes of records in whole words."""
        return (self.u16[3::4][at] >> 3).astype(np.int64)
