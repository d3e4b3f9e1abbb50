"""Lines that no parser reads, of tables and call graphs whose beginning was lost or is not known."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from functools import partial

from thpdiag.detect.transcript import TextLine
from thpdiag.model import Citation, Problem, ProblemKind
from thpdiag.model.parser import Parser

# A row of a table: up to three words, numbers, up to two words; or a share first. Few such lines may be anything.
_NUMBER = r"[-+]?\d[\d.:%/]*[A-Za-z]{0,2}"
_ROW_OF_NUMBERS = re.compile(
    rf"\s*(?:[^\s,;]+[\s,;]+){{0,3}}?{_NUMBER}(?:[\s,;]+{_NUMBER}){{3,400}}(?:[\s,;]+[^\s,;]+){{0,2}}[\s,;]*$"
    r"|\s*\d{1,3}[.,]\d{1,4}%\s"
)
_NUMBERS = re.compile(r"(?<![^\s,;])[-+]?\d[\d.:%]{0,20}(?![^\s,;])")  # as words: not those of times and versions
MIN_ROWS = 5
MANY = 8  # numbers of a row of a table, whatever words stand between them
MIN_FIGURES, FIGURES = 10, 3  # lines of a text that is none of sentences, and numbers in each of them
MAX_CHARS = 200  # of a line that are looked at
_INDENTED = " \t|-+"  # what lines of call graphs begin with


@dataclass(slots=True)
class Remains:
    """Lines that no parser reads, of tables and call graphs whose beginning was lost or is not known.

    `rows` are those of the last table so far, `graph` the indented lines that would have belonged to the block before;
    few are not counted. `above` are the latest lines that no parser knows.
    """

    lines: int = 0
    first: int = 0
    rows: int = 0
    row: int = 0  # the line of the last one
    parser: Parser | None = None  # of the block before
    graph: int = 0
    since: int = 0  # the line of the first row, or of the graph
    above: deque[TextLine] = field(default_factory=partial(deque, maxlen=2 * MIN_ROWS))
    unknown: int = 0  # lines in a row that no parser knows
    figures: int = 0  # lines with several numbers, as long as no block was found
    first_figure: int = 0  # the first of them

    def see(self, line: TextLine) -> None:
        """Take a line that no parser knows."""
        self.unknown = self.unknown + 1 if self.above and line.number <= self.above[-1].number + 1 else 1
        self.above.append(line)
        if self.parser is None and len(_NUMBERS.findall(line.text[:MAX_CHARS])) >= FIGURES:
            self.first_figure = self.first_figure or line.number
            self.figures += 1
        if _ROW_OF_NUMBERS.match(line.text) or len(_NUMBERS.findall(line.text[:MAX_CHARS])) >= MANY:
            self.rows = self.rows + 1 if line.number <= self.row + 1 else 1
            self.since = line.number if self.rows == 1 else self.since
            self.row = line.number
            self._count(self.rows, MIN_ROWS)
        else:
            self.graph = self.graph + 1 if self.parser and self._is_of(self.parser, line) else 0
            self.since = line.number if self.graph == 1 else self.since
            self._count(self.graph, 2 * MIN_ROWS)

    def begin_block(self, parser: Parser, first: TextLine) -> None:
        """A block begins: indented lines right above it may be the end of one of its kind."""
        is_full = len(self.above) == self.above.maxlen and self.above[-1].number + 1 >= first.number > self.row + 1
        if is_full and not self.graph and all(self._is_of(parser, line) for line in self.above):
            self.since = self.above[-1].number - self.unknown + 1
            self._count(self.unknown, self.unknown)
        self.parser, self.graph = parser, 0
        self.above.clear()

    @staticmethod
    def _is_of(parser: Parser, line: TextLine) -> bool:
        return line.text[0] in _INDENTED and bool(parser.continues(line.text))

    def _count(self, lines: int, least: int) -> None:
        if lines >= least:
            self.first = self.first or self.since
            self.lines += lines if lines == least else 1

    def problem(self, member: str) -> Problem | None:
        """What was not read, if that is more than a few lines."""
        if self.lines:
            text = f"{self.lines} lines belong to tables or call graphs whose beginning is missing or unknown; not read"
            return Problem(Citation(member, self.first), text, ProblemKind.UNRECOGNISED)
        if self.parser is None and self.figures >= MIN_FIGURES:
            text = f"only prose was read; {self.figures} lines with numbers are in no known format"
            return Problem(Citation(member, self.first_figure), text, ProblemKind.UNRECOGNISED)
        return None
