"""Bytes of a member as numbered lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from thpdiag.model import Problem, ProblemKind
from thpdiag.reader import Source

LONGEST = 1 << 20


class WholeLines:
    """Lines without their ends. A last one that has no end may be cut and is not given; nor are endless ones."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.number = 0
        self._first_long = self._long = 0
        self._cut = False

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        tail, too_long = b"", False
        for chunk in self._chunks:
            lines = (tail + chunk).split(b"\n")
            tail = lines.pop()
            if lines and too_long:
                lines[0], too_long = b"", False
            for line in lines:
                self.number += 1
                yield self.number, line
            if len(tail) > LONGEST:
                self._long += not too_long
                self._first_long = self._first_long or self.number + 1
                tail, too_long = b"", True
        if tail:
            self.number += 1
            self._cut = True

    def problems(self, source: Source, reader: str) -> Iterator[Problem]:
        """Once all lines were taken."""
        if self._cut:
            text = "ends in the middle of a line, which is left out"
            yield Problem(source.cite(self.number), text, ProblemKind.DAMAGED, reader)
        if self._long:
            text = f"lines of more than {LONGEST} bytes; they are left out"
            yield Problem(source.cite(self._first_long), text, ProblemKind.LIMIT, reader, count=self._long)
