"""Incremental reading of a JSON array: its elements one at a time, from a text of any size."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.model.parser import Content

MAX_ELEMENT_CHARS = 8 << 20  # characters of one array element
MAX_FRONT_CHARS = 1 << 16  # characters before the array
_SEPARATOR = re.compile(r"[\s,]*")
HEAD_BYTES = 4096  # first bytes of a document, from which its format is detected
JSON_OPENS = re.compile(rb"(?:\xef\xbb\xbf)?\s{0,20}\{")


class BrokenJsonError(Exception):
    """The rest of the text is not valid JSON, or exceeds a limit."""


def json_head(head: bytes) -> str:
    """Return the first characters of a JSON document."""
    return head[:HEAD_BYTES].decode("utf-8", "replace")


def json_pieces(content: Content) -> Iterator[str]:
    """Yield the decoded text of a member in pieces."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    return (text for chunk in content.chunks if (text := decoder.decode(chunk)))


@dataclass(slots=True)
class JsonArray:
    """A window on the text: `text` is the part read so far, `at` the position in it, `line` the line of `at`."""

    pieces: Iterator[str]
    line: int
    text: str = ""
    at: int = 0
    front: str = ""  # text before the array
    decoder: json.JSONDecoder = field(default_factory=json.JSONDecoder)

    def find(self, begin: re.Pattern[str]) -> re.Match[str] | None:
        """Return the next match of a pattern, reading at most `MAX_FRONT_CHARS` ahead."""
        while not (match := begin.search(self.text, self.at)):
            ahead = len(self.text) - self.at
            if ahead >= MAX_FRONT_CHARS or not self._read_more(ahead + 1):
                break
        return match

    def members(self, begin: re.Pattern[str]) -> Iterator[tuple[int, object]]:
        """Yield (line, element) for each element of the array that begins after the next match of the pattern."""
        if not (match := self.find(begin)):
            raise BrokenJsonError("it has no rows")
        self.front = self.text[self.at : match.end()]
        self._advance(match.end())
        while self._skip_separators() != "]":
            element, end = self._parse_element()
            yield self.line, element
            self._advance(end)

    def _skip_separators(self) -> str:
        """Skip blanks and commas and return the next character, or "" at the end of the text."""
        while True:
            if match := _SEPARATOR.match(self.text, self.at):
                self._advance(match.end())
            if self.at < len(self.text) or not self._read_more(1):
                return self.text[self.at : self.at + 1]

    def _parse_element(self) -> tuple[object, int]:
        """Return the value at the current position and its end, reading more text until the value is complete."""
        while True:
            try:
                return self.decoder.raw_decode(self.text, self.at)
            except RecursionError as error:
                raise BrokenJsonError("it is nested too deeply") from error
            except ValueError as error:
                length = len(self.text) - self.at
                if length > MAX_ELEMENT_CHARS or not self._read_more(2 * length):
                    raise BrokenJsonError("it is cut or broken") from error

    def _advance(self, end: int) -> None:
        self.line += self.text.count("\n", self.at, end)
        self.at = end

    def _read_more(self, length: int) -> bool:
        """Extend the window to at least `length` characters, or to the end; False if nothing was added."""
        parts = [self.text[self.at :]]
        size = size_before = len(parts[0])
        while size < length or size == size_before:
            if not (piece := next(self.pieces, "")):
                break
            parts.append(piece)
            size += len(piece)
        self.text, self.at = "".join(parts), 0
        return size > size_before
