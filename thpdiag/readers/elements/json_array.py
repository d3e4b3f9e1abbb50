"""The members of one array in a JSON text of any size, one at a time. Not a format of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

LONGEST = 8 << 20  # characters of one member
FRONT = 1 << 16  # characters in which the array begins
_BETWEEN = re.compile(r"[\s,]*")


class BrokenError(Exception):
    """The text cannot be read further."""


@dataclass(slots=True)
class Elements:
    """The text from `at` on, as far as it was read; `line` is that of `at`."""

    pieces: Iterator[str]
    line: int
    text: str = ""
    at: int = 0
    front: str = ""  # what stands before the array
    decoder: json.JSONDecoder = field(default_factory=json.JSONDecoder)

    def members(self, begin: re.Pattern[str]) -> Iterator[tuple[int, object]]:
        """The members of the array that begins behind the pattern, each with its line."""
        while not (found := begin.search(self.text)) and len(self.text) < FRONT and self._more(len(self.text) + 1):
            pass
        if not found:
            raise BrokenError("it has no rows")
        self.front = self.text[: found.end()]
        self._advance(found.end())
        while self._next() != "]":
            member, end = self._element()
            yield self.line, member
            self._advance(end)

    def _next(self) -> str:
        """The first character of what comes behind blanks and commas, if there is anything."""
        while True:
            if found := _BETWEEN.match(self.text, self.at):
                self._advance(found.end())
            if self.at < len(self.text) or not self._more(1):
                return self.text[self.at : self.at + 1]

    def _element(self) -> tuple[object, int]:
        """The value that begins here, and its end; more is read until it is whole."""
        while True:
            try:
                return self.decoder.raw_decode(self.text, self.at)
            except RecursionError as error:
                raise BrokenError("it is nested too deeply") from error
            except ValueError as error:
                length = len(self.text) - self.at
                if length > LONGEST or not self._more(2 * length):
                    raise BrokenError("it is cut or broken") from error

    def _advance(self, end: int) -> None:
        self.line += self.text.count("\n", self.at, end)
        self.at = end

    def _more(self, length: int) -> bool:
        """Have this many characters, or what there is; False at the end."""
        parts = [self.text[self.at :]]
        have = before = len(parts[0])
        while have < length or have == before:
            if not (piece := next(self.pieces, "")):
                break
            parts.append(piece)
            have += len(piece)
        self.text, self.at = "".join(parts), 0
        return have > before
