"""What did not fit: alike oddities of one block become one Problem with a count. Not a format of its own."""

from __future__ import annotations

from thpdiag.model import Citation, Problem, ProblemKind
from thpdiag.reader import Source

REASONS = 50  # different reasons kept per block; there are only a handful


class Oddities:
    """Collects what a reader could not use of one block."""

    def __init__(self, source: Source, reader: str) -> None:
        self._source = source
        self._reader = reader
        self._first: dict[str, Citation] = {}
        self._count: dict[str, int] = {}

    def note(self, number: int, line: str, reason: str) -> None:
        """The line did not fit for this reason."""
        if reason not in self._first:
            if len(self._first) >= REASONS:
                reason = "further lines do not fit the format"
            self._first.setdefault(reason, self._source.cite(number, line))
        self._count[reason] = self._count.get(reason, 0) + 1

    def problems(self) -> list[Problem]:
        """One Problem per reason, at the first line that had it."""
        return [
            Problem(cite, reason, ProblemKind.ODD, self._reader, self._count[reason])
            for reason, cite in self._first.items()
        ]
