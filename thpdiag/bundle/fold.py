"""Many problems alike become one with a count, so that a hostile archive cannot flood the report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from thpdiag.model import Problem


class Fold:
    """The first `apart` problems of a subject are given as they come, the others as one at the end."""

    def __init__(self, apart: int) -> None:
        self._apart = apart
        self._seen: dict[str, int] = {}
        self._new: list[Problem] = []
        self._rest: dict[str, Problem] = {}

    def add(self, subject: str, problem: Problem) -> None:
        self._seen[subject] = seen = self._seen.get(subject, 0) + 1
        if seen <= self._apart:
            self._new.append(problem)
        elif subject in self._rest:
            folded = self._rest[subject]
            self._rest[subject] = replace(folded, count=folded.count + problem.count)
        else:
            self._rest[subject] = replace(problem, text=f"{problem.text}, and others alike") if self._apart else problem

    def new(self) -> Iterator[Problem]:
        """The problems since the last call."""
        yield from self._new
        self._new.clear()

    def rest(self) -> Iterator[Problem]:
        """What is left at the end."""
        yield from self.new()
        yield from self._rest.values()
        self._rest.clear()
