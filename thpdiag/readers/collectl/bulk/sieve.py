"""The lines of a recording that somebody reads: most are of slabs, interrupts, disks, and of processes what has no use.

They are found by their first bytes, many lines at once, before a line becomes an object. What is not known to be of no
use stays, so that damage is seen.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from thpdiag.readers.collectl.bulk.lines import WholeLines
from thpdiag.readers.collectl.bulk.tasks import UNUSED

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]
_FARTHEST = 24  # bytes of a line that are looked at
_SHORTEST_PID, _LONGEST_PID = 1, 10


def _word(text: bytes) -> int:
    return int.from_bytes(text, "little")


_PROCESS, _SPACE = _word(b"proc"), ord(" ")
_OTHERS = np.array([_word(word) for word in (b"disk", b"Slab", b"sock")], np.uint32)  # with a blank behind
_SHORT = np.array([_word(word) for word in (b"int ", b"Net ", b"tcp-")], np.uint32)
_UNUSED = np.array([_word(word) for word in UNUSED if len(word) == 4], np.uint32)


def sieved(lines: WholeLines) -> Iterator[tuple[int, bytes]]:
    """Numbered lines without those of no use."""
    for first, block in lines.blocks():
        data = np.frombuffer(block + b"\n" * _FARTHEST, np.uint8)
        ends = np.flatnonzero(data[: len(block)] == ord("\n"))
        starts = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1))
        kept = np.flatnonzero(~_useless(data, starts))
        for place, start, end in zip((kept + first).tolist(), starts[kept].tolist(), ends[kept].tolist(), strict=True):
            yield place, block[start:end]


def _useless(data: Bytes, starts: Places) -> NDArray[np.bool_]:
    words = _words(data, starts)
    fifth = data[starts + 4]
    useless: NDArray[np.bool_] = np.isin(words, _SHORT) | (np.isin(words, _OTHERS) & (fifth == _SPACE))
    processes = np.flatnonzero((words == _PROCESS) & (fifth == ord(":")))
    useless[processes] = _unused(data, starts[processes] + 5)
    return useless


def _unused(data: Bytes, pids: Places) -> NDArray[np.bool_]:
    """Whether the words behind these pids are of no use."""
    behind = np.zeros(len(pids), np.int64)
    for length in range(_LONGEST_PID, _SHORTEST_PID - 1, -1):  # the first blank counts
        blank = data[pids + length] == _SPACE
        behind[blank] = pids[blank] + length + 1
    found: NDArray[np.bool_] = (behind > 0) & np.isin(_words(data, behind), _UNUSED)
    return found


def _words(data: Bytes, at: Places) -> NDArray[np.uint32]:
    """Four bytes from each place."""
    word = data[at].astype(np.uint32)
    for byte in range(1, 4):
        word |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word
