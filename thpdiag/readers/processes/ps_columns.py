"""Splitting a row of ps by its header: some columns are several words, one is free text."""

from __future__ import annotations

from collections.abc import Sequence

COMMANDS = {"COMMAND", "CMD", "ARGS"}
DATES = {"START", "STARTED", "STIME", "LSTART"}


def _forward(words: Sequence[str], at: int) -> int:
    """How many words the start time at `at` is: `03:35`, `Oct25`, `Oct 25`, `Fri Nov 20 03:35:43 2026`."""
    if not words[at].isalpha() or at + 1 >= len(words):
        return 1
    return 5 if words[at + 1].isalpha() else 2 if words[at + 1].isdecimal() and len(words[at + 1]) < 3 else 1


def _backward(words: Sequence[str], end: int) -> int:
    """The same for a start time that ends before `end`."""
    if end >= 5 and words[end - 5].isalpha() and words[end - 4].isalpha() and words[end - 1].isdecimal():
        return 5
    return 2 if end >= 2 and words[end - 1].isdecimal() and len(words[end - 1]) < 3 and words[end - 2].isalpha() else 1


class Columns:
    """The columns of a header. The last COMMAND, CMD or ARGS is the free text, called COMMAND in what `split` gives."""

    __slots__ = ("after", "before", "command")

    def __init__(self, words: Sequence[str]) -> None:
        at = max((i for i, word in enumerate(words) if word in COMMANDS), default=None)
        self.command = at is not None
        self.before = list(words if at is None else words[:at])
        self.after = [] if at is None else list(words[at + 1 :])

    def split(self, text: str) -> dict[str, str] | None:
        """Cells by column name, None if the row does not fit."""
        words = text.split()
        cells: dict[str, str] = {}
        at = self._take(words, cells)
        if at is None:
            return None
        if not self.command:
            return cells if at == len(words) else None
        if not self.after:
            rest = text.split(None, at)
            return cells | {"COMMAND": rest[at]} if len(rest) > at else None
        end = self._take_back(words, at, cells)
        return None if end is None else cells | {"COMMAND": " ".join(words[at:end])}

    def _take(self, words: Sequence[str], cells: dict[str, str]) -> int | None:
        at = 0
        for column in self.before:
            if at >= len(words):
                return None
            width = _forward(words, at) if column in DATES else 1
            cells.setdefault(column, " ".join(words[at : at + width]))
            at += width
        return at

    def _take_back(self, words: Sequence[str], start: int, cells: dict[str, str]) -> int | None:
        end = len(words)
        for column in reversed(self.after):
            width = _backward(words, end) if column in DATES else 1
            end -= width
            if end <= start:
                return None
            cells.setdefault(column, " ".join(words[end : end + width]))
        return end
