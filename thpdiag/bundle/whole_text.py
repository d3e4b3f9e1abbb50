"""A text that one reader reads from end to end, and of which it may pass over most lines without looking at them.

Of a log of a hundred thousand lines a few hundred hold a word that matters. One search for these words in the bytes of
many lines costs a hundredth of what it costs to make each of them a string with a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import re2

from thpdiag.bundle.lines import Block, NumberedLines
from thpdiag.bundle.transcript import TextLine, cleaned, cleaned_line

_Find = Callable[[bytes, int], Any]  # a match behind an offset, or None
_CLEANED = (
    rb"[^\t\n -~]"  # what cleaning may take off or replace, so that a word stands there that was not in the bytes
)


class WholeText:
    """The cleaned lines of a member, with their numbers."""

    def __init__(self, lines: Iterable[tuple[int, str]], *, markup: bool) -> None:
        in_blocks = lines.blocks if isinstance(lines, NumberedLines) and not markup else None
        self._blocks = in_blocks or iter((Block(1, "", lines),))
        self._markup = markup
        self._lines: Iterator[TextLine] = iter(())  # of one block
        self._held: tuple[int, str] | None = None

    @property
    def number(self) -> int | None:
        """Of the next line; None at the end."""
        self._held = self._held or next(self, None)
        return self._held[0] if self._held else None

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return self

    def __next__(self) -> tuple[int, str]:
        if held := self._held:
            self._held = None
            return held
        while (line := next(self._lines, None)) is None:
            if not self._next_block():
                raise StopIteration
        return line.number, line.text

    def pass_over(self, words: tuple[str, ...]) -> int:
        """Pass over lines that hold none of these words of plain ASCII, and say how many; it may stop before others."""
        if self._held:
            return 0
        find, passed = _any_of(words), 0
        while isinstance(self._lines, _Searched):
            passed += self._lines.pass_over(find)
            if not (self._lines.at_end and self._next_block()):
                break
        return passed

    def _next_block(self) -> bool:
        block = next(self._blocks, None)
        if block is None:
            return False
        self._lines = _Searched(block) if block.parted is None else cleaned(block.parted, markup=self._markup)
        return True


class _Searched:
    """The lines of a block, as bytes until they are asked for."""

    def __init__(self, block: Block) -> None:
        self._text = block.text.encode()
        self._number, self._at = block.number, 0  # of the next line

    @property
    def at_end(self) -> bool:
        return self._at > len(self._text)

    def __iter__(self) -> Iterator[TextLine]:
        return self

    def __next__(self) -> TextLine:
        if self.at_end:
            raise StopIteration
        end = self._text.find(b"\n", self._at)
        end = end if end >= 0 else len(self._text)
        line = cleaned_line(self._number, self._text[self._at : end].decode())
        self._number, self._at = self._number + 1, end + 1
        return line

    def pass_over(self, find: _Find) -> int:
        """Go to the line with the next match, or to the end, and say how many lines that is."""
        if self.at_end:
            return 0
        if found := find(self._text, self._at):
            begin = self._text.rfind(b"\n", self._at, found.start()) + 1 or self._at
            passed = self._text.count(b"\n", self._at, begin)
        else:
            begin, passed = len(self._text) + 1, self._text.count(b"\n", self._at) + 1
        self._number, self._at = self._number + passed, begin
        return passed


@cache
def _any_of(words: tuple[str, ...]) -> _Find:
    """A search for the first line of interest: that holds a word, or that cleaning may change."""
    found: _Find = re2.compile(b"|".join((_CLEANED, *(re2.escape(word.encode()) for word in words)))).search
    return found
