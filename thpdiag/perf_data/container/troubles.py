"""What could not be read of a recording, alike ones counted together."""

from __future__ import annotations

from collections import Counter

from thpdiag.model import Citation, Problem, ProblemKind


class Troubles:
    """Collects until the next window takes them."""

    def __init__(self, cite: Citation) -> None:
        self._cite = cite
        self._counts: Counter[tuple[str, ProblemKind]] = Counter()

    def __bool__(self) -> bool:
        return bool(self._counts)

    def damaged(self, text: str, count: int = 1) -> None:
        self._counts[text, ProblemKind.DAMAGED] += count

    def limit(self, text: str, count: int = 1) -> None:
        self._counts[text, ProblemKind.LIMIT] += count

    def unreadable(self, text: str, count: int = 1) -> None:
        self._counts[text, ProblemKind.UNREADABLE] += count

    def odd(self, text: str, count: int = 1) -> None:
        self._counts[text, ProblemKind.ODD] += count

    def taken(self) -> list[Problem]:
        """All so far; they are not given twice."""
        found = [Problem(self._cite, text, kind, count=count) for (text, kind), count in self._counts.items()]
        self._counts.clear()
        return found
