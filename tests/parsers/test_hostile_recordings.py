"""What a whole recording takes of memory and work, however it was made: ten times its size at most on top of a floor,
and twice the work for twice the size.

Lines without end, columns and brackets without end, nothing but line ends, headers that come again and again with
times that go back. THPDIAG_PROOF=1 makes them of megabytes, as windows and tables of numbers have a size of their own.
"""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Callable
from cProfile import Profile

import pytest

from test_any_bytes import READERS, members, read
from thpdiag.model.parser import BulkParser
from thpdiag.parsers import _table

MIB = 1 << 20
PROOF = os.environ.get("THPDIAG_PROOF") == "1"
SIZE = 5 * MIB if PROOF else MIB // 16
FLOOR = 96 * MIB if PROOF else 4 * MIB  # windows of whole lines, tables of numbers
TIMES = 10  # the size of the input
OF_LINES = 60 if PROOF else 160  # the same where every byte is a line, of which some numbers are kept
SMALL = 100_000  # bytes of which the work is counted, a quarter where every byte is a line
LOADED = _table  # by a reader of many rows; to import it is no work of the reader
PIECE = 1 << 16


def filled(piece: bytes, size: int) -> bytes:
    return (piece * (size // len(piece) + 1))[:size]


def _wide(data: bytes, more: bytes, size: int) -> bytes:
    """The first three lines much longer."""
    lines = data[:2000].split(b"\n")
    return b"\n".join([*(line + filled(more, size // 3) for line in lines[:3]), *lines[3:]])


def _renamed(data: bytes, size: int) -> bytes:
    """Every line with another word in it."""
    lines = data[:2000].split(b"\n")
    return b"\n".join(lines[n % len(lines)].replace(b" ", b" x%d" % n, 1) for n in range(size // 60))


SHAPES: dict[str, Callable[[bytes, int], bytes]] = {
    "again and again": lambda data, size: filled(data + b"\n", size),
    "numbers in a line": lambda data, size: data[:2000] + filled(b"1" * 50 + b" ", size),
    "one number": lambda data, size: data[:2000] + b"9" * size,
    "zero bytes": lambda data, size: data[:2000] + bytes(size),
    "lines of zero bytes": lambda data, size: data[:2000] + filled(bytes(40) + b"\n", size),
    "empty lines": lambda data, size: data[:2000] + b"\n" * size,
    "columns by blanks": lambda data, size: _wide(data, b"a b ", size),
    "columns by commas": lambda data, size: _wide(data, b",x", size),
    "brackets": lambda data, size: data[:200] + filled(b'{"a":[', size),
    "quotes": lambda data, size: data[:200] + filled(b'"a",', size),
    "begun in the middle": lambda data, size: data[len(data) // 2 :] + filled(data[:3000], size),
    "other names": _renamed,
}


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_memory_keeps_within_ten_times_the_input(reader: BulkParser) -> None:
    """Of Python and numpy at the peak, without what is imported and cached the first time."""
    path, data = members(reader.name)[0]
    read(reader, data, path, PIECE)
    for shape, make in SHAPES.items():
        large = make(data, SIZE)
        tracemalloc.start()
        try:
            read(reader, large, path, PIECE)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < FLOOR + (OF_LINES if shape == "empty lines" else TIMES) * len(large), shape


@pytest.mark.parametrize("reader", READERS, ids=lambda r: r.name)
def test_twice_the_input_is_twice_the_work(reader: BulkParser) -> None:
    """Counted in calls of functions, not by the clock."""
    path, data = members(reader.name)[0]
    read(reader, data, path, PIECE)
    for shape, make in SHAPES.items():
        small = SMALL // 4 if shape == "empty lines" else SMALL
        once, twice = (calls(reader, make(data, size), path) for size in (small, 2 * small))
        assert twice <= 2.5 * once + 10_000, shape


def calls(reader: BulkParser, data: bytes, path: str) -> int:
    """Calls that reading takes."""
    profile = Profile(subcalls=False)
    profile.enable()
    read(reader, data, path, PIECE)
    profile.disable()
    return sum(entry.callcount for entry in profile.getstats())
