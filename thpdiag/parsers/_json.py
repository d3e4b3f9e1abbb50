"""The members of one array in a JSON text of any size, one at a time."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.model.parser import Content

MAX_ELEMENT_CHARS = 8 << 20  # characters of one member
MAX_FRONT_CHARS = 1 << 16  # characters in which an array begins
_BETWEEN = re.compile(r"[\s,]*")


HEAD_BYTES = 4096  # in which a document shows what it is
JSON_OPENS = re.compile(rb"(?:\xef\xbb\xbf)?\s{0,20}\{")


class BrokenJsonError(Exception):
    """The text cannot be read further."""


def json_head(head: bytes) -> str:
    """How a JSON document begins."""
    return head[:HEAD_BYTES].decode("utf-8", "replace")


def json_pieces(content: Content) -> Iterator[str]:
    """The text of a member in pieces."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    return (text for chunk in content.chunks if (text := decoder.decode(chunk)))


@dataclass(slots=True)
class JsonArray:
    """The text from `at` on, as far as it was read; `line` is that of `at`."""

    pieces: Iterator[str]
    line: int
    text: str = ""
    at: int = 0
    front: str = ""  # what stands before the array
    decoder: json.JSONDecoder = field(default_factory=json.JSONDecoder)

    def find(self, begin: re.Pattern[str]) -> re.Match[str] | None:
        """Where the pattern, behind which an array begins, stands next."""
        while not (found := begin.search(self.text, self.at)):
            ahead = len(self.text) - self.at
            if ahead >= MAX_FRONT_CHARS or not self._more(ahead + 1):
                break
        return found

    def members(self, begin: re.Pattern[str]) -> Iterator[tuple[int, object]]:
        """The members of the next array that begins behind the pattern, each with its line."""
        if not (found := self.find(begin)):
            raise BrokenJsonError("it has no rows")
        self.front = self.text[self.at : found.end()]
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
                raise BrokenJsonError("it is nested too deeply") from error
            except ValueError as error:
                length = len(self.text) - self.at
                if length > MAX_ELEMENT_CHARS or not self._more(2 * length):
                    raise BrokenJsonError("it is cut or broken") from error

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
