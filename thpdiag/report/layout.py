"""Fold text to the width of a terminal.

Only words that are wider than a line are broken, and paths never are, so that they can be copied.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from unicodedata import combining, east_asian_width

WIDTH = 80
# Terminal colours (ECMA-48) by severity, and of a good verdict, headings and labels
STYLES = MappingProxyType(
    {
        **{"critical": "1;31", "high": "1;31", "medium": "1;33", "low": "1;36", "info": "1"},
        **{"good": "1;32", "bold": "1"},
    }
)
_PATH = re.compile(r"[\w.,+@*:=~%-]*/[\w./,+@*:=~%-]*")
_BREAK = re.compile(r" (?!%)|(?<!\d) ")  # a number and its % stay on one line


class Line(str):
    """A line of a report with its style. The first `label` characters are a label and printed in bold."""

    style: str
    label: int

    def __new__(cls, text: str, style: str = "", label: int = 0) -> Line:
        line = super().__new__(cls, text)
        line.style, line.label = style, label
        return line


def paint(line: str) -> str:
    """Return the line with the escape sequences of its style."""
    if not isinstance(line, Line) or not line.strip():
        return line
    if line.style:
        return f"\x1b[{STYLES[line.style]}m{line}\x1b[0m"
    return f"\x1b[1m{line[: line.label]}\x1b[0m{line[line.label :]}" if line.label else line


def columns(text: str) -> int:
    """Return the width of the text on a terminal."""
    return len(text) if text.isascii() else sum(_columns_of(character) for character in text)


def fold(text: str, first: str = "", rest: str | None = None, width: int = WIDTH) -> list[str]:
    """Return lines of at most `width` columns: the first begins with `first`, the others with `rest` (or spaces)."""
    if columns(first) > width // 2 and first.strip():  # a long label is folded together with the text
        margin = " " * (len(first) - len(first.lstrip()))
        return fold(
            f"{first.strip()} {text}", margin[: width // 2], rest if rest is not None else margin[: width // 2], width
        )
    rest = " " * columns(first) if rest is None else rest
    folded: list[str] = []
    line, room = first, width - columns(first)
    empty = True
    for word in _words(text, width - max(columns(first), columns(rest))):
        if not empty and columns(word) + 1 > room:
            folded.append(line)
            line, room, empty = rest, width - columns(rest), True
        line += word if empty else " " + word
        room -= columns(word) + (not empty)
        empty = False
    return [*folded, line.rstrip()]


def _words(text: str, width: int) -> list[str]:
    words: list[str] = []
    for word in _BREAK.split(text):
        words.extend([word] if columns(word) <= width or _PATH.fullmatch(word) else _pieces(word, width))
    return [word for word in words if word]


def _pieces(word: str, width: int) -> list[str]:
    pieces = [""]
    for character in word:
        if columns(pieces[-1] + character) > width:
            pieces.append("")
        pieces[-1] += character
    return pieces


def _columns_of(character: str) -> int:
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1
