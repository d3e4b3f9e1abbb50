"""The line above a row that names its columns, as far as the text itself shows which one that is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from thpdiag.bundle.transcript import TextLine, cleaned

LEAST = 3  # columns
_NUMBER = re.compile(r"(?:^|\s)[-+]?\d[\d.,]*[kKmMgGtT%]?(?=\s|$)")
_TIME = re.compile(r"\d\d:\d\d:\d\d(?:\.\d+)?|[AP]M|\d{4}-?\d\d-?\d\d")
_LAST = ("COMMAND", "Command", "CMD")  # may have blanks in it


@dataclass(slots=True)
class ColumnNames:
    """Reads a text line by line and remembers the last that can be a heading.

    A heading holds no number and as many words as the row; an empty line, or lines that were not looked at, end it.
    """

    _line: int = 0
    _heading: str = ""

    def look(self, number: int, text: str) -> None:
        if number > self._line + 1 or not text.strip():
            self._heading = ""
        if text and not _NUMBER.search(text):
            self._heading = text
        self._line = number

    def above(self, row: TextLine) -> str:
        """The heading of the row, as it stands there; empty if there is none."""
        if not self._heading or row.number > self._line + 1:
            return ""
        heading = next(cleaned([(self._line, self._heading)], markup=False))
        fits = heading.depth == row.depth and _fits(_words(heading.text), _words(row.text))
        return self._heading if fits else ""


def _words(text: str) -> list[str]:
    """The words of a line behind the time that begins it; recorders put a sign before headings."""
    words = text.replace("#", " ").split()
    while words and (words[0] in ("Date", "Time") or _TIME.fullmatch(words[0])):
        del words[0]
    return words


def _fits(names: list[str], values: list[str]) -> bool:
    """As many words as columns, numbers among them; a listing of processes has more words and fewer numbers."""
    if len(names) < LEAST:
        return False
    numbers = [bool(_NUMBER.fullmatch(word)) for word in values]
    if names[-1] in _LAST and len(values) >= len(names):
        return 3 * sum(numbers[: len(names)]) >= len(names)
    titled = bool(values) and values[0].endswith(":")
    return len(values) == len(names) + titled and 2 * sum(numbers) >= len(values)
