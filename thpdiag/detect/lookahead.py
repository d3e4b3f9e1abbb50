"""The cleaned lines of a text, looked ahead into, and stretches of them without what stands before each line."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice, takewhile

from thpdiag.bundle.member import Block, NumberedLines
from thpdiag.detect.cut_lines import may_be_cut, without_cut_words
from thpdiag.detect.layout import Change
from thpdiag.detect.named_files import is_section
from thpdiag.detect.transcript import TextLine, clean_lines, plain_lines
from thpdiag.detect.wrapped import joined_tables, may_be_wrapped


class LookaheadLines:
    """An iterator over cleaned lines that can be looked ahead into.

    Lines of a piece of text in which nothing is to be cleaned off are made when they are asked for; rows of a table can
    be taken from it many at once.
    """

    def __init__(self, lines: Iterable[tuple[int, str]], on_intruder: Callable[[str], None], *, markup: bool) -> None:
        self.on_intruder = on_intruder  # is told of lines in the middle of a block that are none of it
        self._plain: list[str] = []  # what is left of a piece, the next line last
        self._number = 0  # of that line
        self._buffer: deque[TextLine] = deque()
        if isinstance(lines, NumberedLines) and not markup:
            cleaned_lines = self._lines_of(lines.blocks)
        else:
            cleaned_lines = without_cut_words(joined_tables(clean_lines(lines, markup=markup)))
        self._pull: Callable[[], TextLine | None] = partial(next, cleaned_lines, None)
        self.stops: set[int] = set()  # lines at which a block ends, as another command printed them
        self._stretches = 0  # that are read without what stands before their lines

    def _lines_of(self, blocks: Iterator[Block]) -> Iterator[TextLine]:
        for block in blocks:
            plain = plain_lines(block)
            if plain is None or may_be_cut(plain) or may_be_wrapped(block.text):
                yield from without_cut_words(joined_tables(clean_lines(block.lines(), markup=False)))
                continue
            self._plain, self._number = plain[::-1], block.number
            while self._plain:
                self._number += 1
                yield TextLine(self._number - 1, self._plain.pop())

    def take_rows(self, matches: Callable[[str], object]) -> list[str]:
        """Takes the next lines that match, as far as they are at hand."""
        if self._buffer or self._stretches:
            return []
        rows = list(takewhile(matches, reversed(self._plain)))
        del self._plain[len(self._plain) - len(rows) :]
        self._number += len(rows)
        return rows

    def peek(self, count: int) -> list[TextLine]:
        """The lines that come next, fewer at the end."""
        while len(self._buffer) < count and (line := self._pull()) is not None:
            self._buffer.append(line)
        return list(islice(self._buffer, count))

    def next(self) -> TextLine | None:
        """The line that is taken next."""
        if not self._buffer and (line := self._pull()) is not None:
            self._buffer.append(line)
        return self._buffer[0] if self._buffer else None

    def take(self) -> TextLine | None:
        return self._buffer.popleft() if self._buffer else self._pull()

    def put_back(self, line: TextLine) -> None:
        """Have a line come next."""
        self._buffer.appendleft(line)

    def change(self, change: Change) -> None:
        """From the next line on, give the lines that `change` makes of them, up to the first that it gives back."""
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
                self._stretches -= 1
            return raw()

        self._pull = pull
        self._stretches += 1


class SectionLines:
    """The lines to the next section of supportconfig, without the empty ones before it; how many there were."""

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
