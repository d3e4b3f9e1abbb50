"""Lines of a table that do not fit: collected, alike ones folded into one Problem with a count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from thpdiag.model import Problem, ProblemKind
from thpdiag.reader import Source


@dataclass(slots=True)
class Oddities:
    """What was odd in one block. Iterating gives the Problems, each at the first line of its sort."""

    source: Source
    reader: str
    _found: dict[str, Problem] = field(default_factory=dict)

    def add(self, number: int, text: str, why: str) -> None:
        known = self._found.get(why)
        if known is None:
            self._found[why] = Problem(self.source.cite(number, text), why, ProblemKind.ODD, self.reader)
        else:
            self._found[why] = replace(known, count=known.count + 1)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found.values())
