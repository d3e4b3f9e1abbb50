"""Bytes of a member as numbered lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from thpdiag.model import Problem, ProblemKind
from thpdiag.reader import Source

LONGEST = 1 << 20
BLOCK = 1 << 19  # bytes that are looked at together


class WholeLines:
    """Lines without their ends. A last one that has no end may be cut and is not given; nor are endless ones."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.number = 0  # of lines given so far
        self._first_long = self._long = 0
        self._cut = False

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for first, block in self.blocks():
            yield from enumerate(block[:-1].split(b"\n"), first)

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Whole lines together, each with its end, and the number of the first."""
        tail, too_long = b"", False
        for piece in self._pieces():
            data = tail + piece
            end = data.rfind(b"\n") + 1
            whole, tail = data[:end], data[end:]
            if whole and too_long:  # the end of a line whose beginning was left out
                whole, too_long = b"\n" + whole.partition(b"\n")[2], False
            if whole:
                first, self.number = self.number + 1, self.number + whole.count(b"\n")
                yield first, whole
            if len(tail) > LONGEST:
                self._long += not too_long
                self._first_long = self._first_long or self.number + 1
                tail, too_long = b"", True
        if tail:
            self.number += 1
            self._cut = True

    def _pieces(self) -> Iterator[bytes]:
        """The chunks, small ones joined."""
        held: list[bytes] = []
        size = 0
        for chunk in self._chunks:
            held.append(chunk)
            size += len(chunk)
            if size >= BLOCK:
                yield b"".join(held)
                held, size = [], 0
        yield b"".join(held)

    def problems(self, source: Source, reader: str) -> Iterator[Problem]:
        """Once all lines were taken."""
        if self._cut:
            text = "ends in the middle of a line, which is left out"
            yield Problem(source.cite(self.number), text, ProblemKind.DAMAGED, reader)
        if self._long:
            text = f"lines of more than {LONGEST} bytes; they are left out"
            yield Problem(source.cite(self._first_long), text, ProblemKind.LIMIT, reader, count=self._long)
