"""What perf report and perf top -g share: rows of shares, each with the lines of its call graph below it. Not a reader.

       15.89%  churn worker 2  churn  [.] compute
               |
               ---compute
                  |--8.41%--second
                   --4.67%--start_thread

Events of a group have one share each in the same row; the graph is that of the first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from thpdiag.model import Chains, Citation, Rows, StackCounts, Stacks, Task
from thpdiag.model.profile import NAMELESS, Frame
from thpdiag.readers.perf.chains import Layout, Split, chains
from thpdiag.readers.perf.columns import Columns, OverheadRow, kind, row, separated
from thpdiag.readers.perf.report_tree import Path, part
from thpdiag.readers.perf.stacks import Frames, kernel_dso

_LEVEL_GAP = 8  # blanks behind the shares of --hierarchy in the browser; other rows have two
_GAP = 3  # blanks behind the shares of --hierarchy; in call graphs of the browser there is one


@dataclass(frozen=True, slots=True)
class Entry:
    """A row with the lines of its call graph."""

    row: OverheadRow
    cite: Citation
    graph: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Told:
    """The stacks that a table tells of one event, and how it told them. `weight` is their sum in percent."""

    frames: tuple[Frame, ...]
    tasks: tuple[Task, ...]
    chains: Chains
    rows: Rows
    stacks: Stacks
    weight: float
    facts: dict[str, str]


@dataclass(slots=True)
class Table:
    """The rows of one event, or of a group of events, in the order of the text."""

    columns: Columns = field(default_factory=Columns)
    sign: str = ""  # separator of -t
    comm: str = ""  # of all rows, where the text shows only this task's
    live: bool = False  # of perf top
    entries: list[Entry] = field(default_factory=list)
    levels: list[tuple[int, OverheadRow]] = field(default_factory=list)
    edge: int = 0  # where the shares of rows end
    blank: bool = False  # an empty line was seen below the last row

    def take(self, text: str, cite: Citation) -> bool:
        """Take a row, or a line of the call graph below the last row; False if it is neither."""
        if not text.strip():
            self.blank = bool(self.entries)
            return True
        entry = separated(text, self.columns, self.sign) if self.sign else row(text, self.columns)
        if entry is not None and self._is_row(entry):
            self.blank = False
            if self.columns.levels:
                self._level(entry, cite)
            else:
                self.entries.append(Entry(entry, cite))
            return True
        if not self.entries or not part(text):
            return False
        graph = self.entries[-1].graph
        if self.blank and graph and not text[:1].isspace():
            return False  # a single word after an empty line is not the graph's
        graph.append(text)
        return True

    def _is_row(self, entry: OverheadRow) -> bool:
        """Whether it is a row and no branch of the terminal browser's graph (`- 99.92% smp_call_function_single`)."""
        if not (self.entries or self.columns.names or entry.marked) and entry.sign and entry.gap >= _LEVEL_GAP:
            self.columns = replace(self.columns, levels=True)
        if self.sign or self.columns.levels:
            return bool(self.sign) or entry.gap >= _GAP
        named = entry.marked or bool(entry.comm or entry.dso or entry.symbol)
        if entry.marked or not self.entries:
            self.edge = self.edge or entry.column
            return named
        first, last = self.entries[0].row, self.entries[-1].row
        if last.marked or entry.gap < min(first.gap, 2):
            return False
        return abs(entry.column - self.edge) <= 1 and named

    def _level(self, entry: OverheadRow, cite: Citation) -> None:
        """A row of --hierarchy: the outer names are those of the rows above it that are indented less."""
        while self.levels and self.levels[-1][0] >= entry.column:
            self.levels.pop()
        self.levels.append((entry.column, entry))
        names = self.columns.names or _level_names([shown for _, shown in self.levels])
        if len(self.levels) != len(names):
            return
        word = {n: r.symbol or r.dso or r.comm for n, (_, r) in zip(names, self.levels, strict=True)}
        comm, dso = word.get("Command", ""), word.get("Shared Object", "")
        self.entries.append(Entry(replace(entry, comm=comm, dso=dso, symbol=word.get("Symbol", "")), cite))

    def told(self, event: int = 0) -> Told:
        """The stacks of one event of the group."""
        entries = self._of(event)
        counts, frames = StackCounts(), Frames()
        said = chains([(e.row, e.graph) for e in entries], self._layout())
        weight = 0.0
        for entry, split in zip(entries, said.of, strict=True):
            _add(counts, frames, entry, split, self.comm)
            weight += sum(path.share for path in split)
        shown = any(e.graph for e in entries)
        facts = {"order": said.order, "shares": said.shares} if shown else {}
        stacks = _stacks(said.of) if shown else Stacks.NONE
        return Told(frames.all(), counts.tasks(), counts.chains(), counts.rows(), stacks, weight, facts)

    def events(self) -> int:
        """How many events the rows have shares of."""
        entries = self._of(0)
        return 1 + max((len(e.row.others) for e in entries), default=0)

    def _of(self, event: int) -> list[Entry]:
        """The rows with the share of one event; those of further ones have no graph."""
        entries = self._without_head()
        if not event:
            return entries
        found = []
        for entry in entries:
            own, samples = entry.row.others[event - 1] if len(entry.row.others) >= event else (0.0, 0)
            if own or samples:
                found.append(Entry(replace(entry.row, own=own, total=own, samples=samples), entry.cite))
        return found

    def _without_head(self) -> list[Entry]:
        """The rows, where no header tells what two shares are: Self is never more than Children."""
        pairs = [e.row.shares for e in self.entries]
        if self.columns.names or any(len(p) != 2 for p in pairs) or all(p[0] >= p[1] for p in pairs):
            return self.entries
        return [
            replace(e, row=replace(e.row, own=p[0], total=p[0], others=((p[1], 0),)))
            for e, p in zip(self.entries, pairs, strict=True)
        ]

    def _layout(self) -> Layout:
        names = self.columns.names or (kind(self.entries[0].row) if self.entries else "",)
        by_symbol = Layout.BY_SYMBOL if names[0] == "Symbol" else Layout.PLAIN
        return by_symbol | (Layout.LIVE if self.live else Layout.PLAIN)


def _level_names(levels: Sequence[OverheadRow]) -> tuple[str, ...]:
    """What the levels of --hierarchy are where no header tells; nothing for a row that is not the innermost."""
    if not levels[-1].marked:
        return ()
    if len(levels) == 2:
        first = levels[0].symbol or levels[0].dso
        return ("Shared Object" if kernel_dso(first) or "." in first else "Command", "Symbol")
    return ("Command", "Shared Object", *("Level" for _ in levels[3:]), "Symbol")[-len(levels) :]


def _stacks(splits: Sequence[Split]) -> Stacks:
    """Whole, if the text has a graph for each row and none ends early."""
    return Stacks.PARTIAL if any(path.cut for split in splits for path in split) else Stacks.FULL


def _add(counts: StackCounts, frames: Frames, entry: Entry, split: Sequence[Path], comm: str) -> None:
    """The parts of a row."""
    shown = entry.row
    for names, weight, cut in split:
        leaf = [frames.number(shown.symbol, shown.dso, kernel=shown.kernel)] if shown.symbol and names else []
        stack = leaf + [frames.number(n) for n in names[len(leaf) :]]
        if not stack and shown.dso:
            stack = [frames.number(NAMELESS, shown.dso, kernel=shown.kernel)]
        samples = shown.samples if len(split) == 1 else round(shown.samples * weight / shown.own) if shown.own else 0
        chain = counts.add(stack, weight, samples, entry.cite, Task(shown.comm or comm, shown.pid), shown.cpu)
        if cut:
            counts.cut(chain)
