"""Iterators over the cleaned lines of a text, with lookahead, and with line prefixes stripped where they are found."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice, takewhile

from thpdiag.bundle.member import Block, NumberedLines
from thpdiag.detect.layout import Change
from thpdiag.detect.named_files import is_section
from thpdiag.detect.transcript import TextLine, clean_lines, plain_lines
from thpdiag.detect.wrapped import join_wrapped_rows, may_be_cut, may_be_wrapped, without_cut_words


class LookaheadLines:
    """An iterator over cleaned lines with lookahead.

    A piece of text that needs no cleaning is split into lines on demand, and rows of a table can be taken from it in
    batches.
    """

    def __init__(self, lines: Iterable[tuple[int, str]], on_intruder: Callable[[str], None], *, markup: bool) -> None:
        self.on_intruder = on_intruder  # called for foreign lines within a block
        self._plain: list[str] = []  # remaining lines of a piece in reverse order
        self._number = 0  # number of the next line of the piece
        self._buffer: deque[TextLine] = deque()
        if isinstance(lines, NumberedLines) and not markup:
            cleaned_lines = self._clean_blocks(lines.blocks)
        else:
            cleaned_lines = without_cut_words(join_wrapped_rows(clean_lines(lines, markup=markup)))
        self._pull: Callable[[], TextLine | None] = partial(next, cleaned_lines, None)
        self.stops: set[int] = set()  # numbers of lines that another command printed, so that a block ends there
        self._filters = 0  # number of active line filters (see `change`)

    def _clean_blocks(self, blocks: Iterator[Block]) -> Iterator[TextLine]:
        for block in blocks:
            plain = plain_lines(block)
            if plain is None or may_be_cut(plain) or may_be_wrapped(block.text):
                yield from without_cut_words(join_wrapped_rows(clean_lines(block.lines(), markup=False)))
                continue
            self._plain, self._number = plain[::-1], block.number
            while self._plain:
                self._number += 1
                yield TextLine(self._number - 1, self._plain.pop())

    def take_rows(self, matches: Callable[[str], object]) -> list[str]:
        """Take those of the next lines that match and are already split."""
        if self._buffer or self._filters:
            return []
        rows = list(takewhile(matches, reversed(self._plain)))
        del self._plain[len(self._plain) - len(rows) :]
        self._number += len(rows)
        return rows

    def peek(self, count: int) -> list[TextLine]:
        """Return the next lines without taking them; fewer at the end of the text."""
        while len(self._buffer) < count and (line := self._pull()) is not None:
            self._buffer.append(line)
        return list(islice(self._buffer, count))

    def peek_texts(self, count: int) -> list[str]:
        return [line.text for line in self.peek(count)]

    def next(self) -> TextLine | None:
        """Return the next line without taking it."""
        if not self._buffer and (line := self._pull()) is not None:
            self._buffer.append(line)
        return self._buffer[0] if self._buffer else None

    def take(self) -> TextLine | None:
        return self._buffer.popleft() if self._buffer else self._pull()

    def put_back(self, line: TextLine) -> None:
        """Insert a line before the next one."""
        self._buffer.appendleft(line)

    def change(self, change: Change) -> None:
        """Filter the lines from the next one on, until `change` returns, which may put lines back."""
        below, back, self._buffer = self._pull, self._buffer, deque()

        def raw() -> TextLine | None:
            return back.popleft() if back else below()

        changed = change(raw, back)

        def pull() -> TextLine | None:
            nonlocal changed
            if (line := next(changed, None)) is not None:
                return line
            if not back and self._pull is pull:
                self._pull = below
                self._filters -= 1
            return raw()

        self._pull = pull
        self._filters += 1


class SectionLines:
    """Iterator over the lines up to the next section of supportconfig, without trailing empty lines; counts them."""

    def __init__(self, ahead: LookaheadLines) -> None:
        self.count = 0
        self._ahead = ahead
        self._lines = self._all()

    def __iter__(self) -> Iterator[tuple[int, str]]:
        return self._lines

    def __next__(self) -> tuple[int, str]:
        return next(self._lines)

    def _all(self) -> Iterator[tuple[int, str]]:
        held: list[tuple[int, str]] = []
        while (line := self._ahead.next()) is not None and not is_section(line.text):
            self._ahead.take()
            held.append((line.number, line.text))
            if line.text.strip():
                self.count += len(held)
                yield from held
                held.clear()
