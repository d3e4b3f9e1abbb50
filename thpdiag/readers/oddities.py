"""Numbers as the kernel prints them, and what did not fit: alike oddities of one block become one Problem with a count.

Not a format of its own: the readers of /proc and /sys files use it.
"""

from __future__ import annotations

from thpdiag.model import Citation, Problem, ProblemKind
from thpdiag.reader import Source

LARGEST = 2**63  # the kernel's unsigned longs beyond this are counters that went below zero
LARGEST_KIB = 2**53  # what a double counts exactly
REASONS = 50  # different reasons kept per block; there are only a handful

NOT_A_COUNT = "not a number from 0 to 2^63; the value is left out"


def whole(text: str) -> int | None:
    """A plain count, None if the text is anything else: signed, fractional, empty, or larger than a counter can be."""
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        return None
    value = int(text)
    return value if value < LARGEST else None


def kib(text: str) -> int | None:
    """A size in bytes of `1700 kB`, as the kernel prints KiB; None without the unit or for more than memory can be."""
    value = whole(text.removesuffix("kB").strip()) if text.endswith("kB") else None
    return None if value is None or value > LARGEST_KIB else value * 1024


def fraction(text: str) -> float | None:
    """A number with an optional fraction and no sign, None if the text is anything else."""
    before, _, after = text.partition(".")
    if whole(before) is None or (after and whole(after[:18]) is None):
        return None
    return float(text)


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
