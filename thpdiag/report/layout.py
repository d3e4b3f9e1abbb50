"""Fold text to the width of a terminal.

Words are broken only when they are wider than a line and are no path: paths stay whole, so that they can be copied.
"""

from __future__ import annotations

import re
from unicodedata import combining, east_asian_width

WIDTH = 80
_PATH = re.compile(r"[\w.,+@*:=~%-]*/[\w./,+@*:=~%-]*")


def columns(text: str) -> int:
    """Columns that the text takes on a terminal."""
    return len(text) if text.isascii() else sum(_columns_of(character) for character in text)


def fold(text: str, first: str = "", rest: str | None = None) -> list[str]:
    """Lines of at most `WIDTH` columns: the first begins with `first`, the others with `rest` (or spaces)."""
    if columns(first) > WIDTH // 2 and first.strip():  # a label too long to stand before the text is folded with it
        margin = " " * (len(first) - len(first.lstrip()))
        return fold(f"{first.strip()} {text}", margin[: WIDTH // 2], rest if rest is not None else margin[: WIDTH // 2])
    rest = " " * columns(first) if rest is None else rest
    folded: list[str] = []
    line, room = first, WIDTH - columns(first)
    empty = True
    for word in _words(text, WIDTH - max(columns(first), columns(rest))):
        if not empty and columns(word) + 1 > room:
            folded.append(line)
            line, room, empty = rest, WIDTH - columns(rest), True
        line += word if empty else " " + word
        room -= columns(word) + (not empty)
        empty = False
    return [*folded, line.rstrip()]


def _words(text: str, width: int) -> list[str]:
    words: list[str] = []
    for word in text.split(" "):
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
