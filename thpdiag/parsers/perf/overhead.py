"""The rows of perf top and perf report: shares, then any of task, object and symbol, each with its call graph below.

    12.34%  java     [kernel.kallsyms]  [k] compact_zone          perf report
    13.33%   0.00%  java  [kernel.kallsyms]  [k] compact_zone     two events in a group: a share of each
    22.25%  [kernel]       [k] clear_page_erms                    perf top
    55.35%     0.00%  churn  libc.so.6  [.] start_thread          with Children and Self
-   2.76%     m0d  [kernel.kallsyms]   [k] generic_exec_single    copied from the terminal browser

Which columns there are is the user's choice (`--sort`); the header names them, and where it was cut off the row
itself must do. Events of a group have one share each in the same row; the graph is that of the first one. Not a reader.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from typing import NamedTuple

from thpdiag.knowledge.symbols import normalise
from thpdiag.model import Citation, Ledger, Profile, StackCounts, Stacks, Task
from thpdiag.model.profile import HIDDEN, NAMELESS, Inclusive
from thpdiag.parsers.perf._texts import Frames, kernel_dso, kernel_letter, symbol_like
from thpdiag.parsers.perf.call_graph import (
    Layout,
    OverheadRow,
    Path,
    certain_part,
    chains,
    is_cut,
    is_squeezed,
    part,
    restore_indentation,
    same_function,
    share,
    with_totals,
)

PERCENT = r"\d{1,3}[.,]\d{1,2}%"
_ROW = re.compile(rf"(?P<lead>\s*(?:[+-]\s*)?)(?P<shares>{PERCENT}(?:\s+{PERCENT}){{0,5}})(?:\s+(?P<rest>\S.*))?$")
_SYMBOL = re.compile(r"(?:^|\s)(?:0x[0-9a-f]{1,16}\s+[\w!.-]\s+)?\[(?P<letter>[k.guhHm])\]\s+(?P<symbol>\S.*)$")
_NO_SYMBOL = re.compile(rf"\s*(?:[+-]\s*)?{PERCENT}\s.*\s\[[k.guhHm]\]\s*$")  # a mail program has broken the line here
_SHARE_FIELD = re.compile(rf"{PERCENT}(?:\s+{PERCENT}){{0,5}}")
_COUNTS = re.compile(r"\d{1,18}(?=\s)")
_DIFFERENCE = re.compile(r"[+-]\d")
_PID = re.compile(r"(?:(?P<pid>\d{1,10}):\s*(?P<comm>\S.*)|(?P<comm2>\S.*?):\s*(?P<pid2>\d{1,10}))$")
_SHARED_OBJECT = re.compile(r"[\[/]|.*\.(?:so|ko|map)\b|vmlinu|bpf_prog|.*\(deleted\)$")
_KNOWN = re.compile(
    r"Overhead|Children|Self|guest sys|guest usr|sys|usr?|Samples|Period"
    r"|(?:Pid|Tid|Thread|PID|TID)\s*:\s*Command|Command\s*:\s*(?:Pid|Tid)"
    r"|Command|Shared Object|Symbol|CPU|Parent symbol|Source:Line|Source File|Socket|Weight|Time"
)
_SHARES = {"Overhead", "Children", "Self", "guest sys", "guest usr", "sys", "us", "usr"}
_NUMBERS = {"Samples", "Period", "Weight"}


class Columns(NamedTuple):
    """What the header says: share columns, then numbers, then names. `children`: one share includes callees."""

    names: tuple[str, ...] = ()
    children: bool = False
    numbers: tuple[str, ...] = ()
    levels: bool = False  # --hierarchy
    shares: int = 1  # how many columns of shares
    own_at: int | None = 0  # which of them is without callees, if one is
    total_at: int = 0  # which is with them, else the same
    events: int = 1  # in a group each share and number is there once per event
    alone: str = "Command"  # what a single column is if nothing tells


def columns(header: str) -> Columns:
    """The columns of a header line."""
    found = [re.sub(r"\s*:\s*", ":", name) for name in _KNOWN.findall(header)]
    names = tuple(n for n in found if n not in _SHARES and n not in _NUMBERS)
    numbers = tuple(n for n in found if n in _NUMBERS)
    shares = [n for n in found if n in _SHARES]
    own = next((place for place, n in enumerate(shares) if n in ("Self", "Overhead")), None if shares else 0)
    total = shares.index("Children") if "Children" in shares else own or 0
    return Columns(names, "Children" in found, numbers, " / " in header, max(1, len(shares)), own, total)


def row(text: str, known: Columns) -> OverheadRow | None:
    """A line as a row, None if it is something else."""
    match = _ROW.match(text)
    if not match:
        return None
    shares = tuple(share(s) for s in match["shares"].split())
    owns, total = _shares(shares, known)
    samples, rest = _numbers(match["rest"] or "", known)
    if "CPU" not in known.names and _DIFFERENCE.match(rest):
        return None  # perf diff
    marker = _SYMBOL.search(rest)
    middle = rest[: marker.start()].strip() if marker else rest
    names = _Names(symbol=middle) if known.levels else _names(middle, known, marked=bool(marker))
    kernel = kernel_dso(names.dso)
    if marker:
        names.symbol = _without_coverage(marker["symbol"])
        letter = kernel_letter(marker["letter"])
        kernel = letter if letter is not None else kernel
    return OverheadRow(
        owns[0], total, samples[0], names.comm, names.pid, names.dso, names.symbol, kernel, bool(marker),
        column=len(match["lead"].expandtabs()) + len(match["shares"].split()[0]),
        sign=match["lead"].strip(), gap=match.start("rest") - match.end("shares") if match["rest"] else 0,
        cpu=names.cpu, shares=shares, others=tuple(zip(owns[1:], samples[1:], strict=False)),
    )  # fmt: skip


def _shares(shares: Sequence[float], known: Columns) -> tuple[Sequence[float], float]:
    """The own share of each event, and the total of the first.

    Two shares without a header are taken for Children and Self, perf's default since 3.16.
    """
    if known.events > 1 and len(shares) >= known.events * (2 if known.children else 1):
        first = known.events * (known.own_at or 0)
        return shares[first : first + known.events], shares[known.events * known.total_at]
    if known.children and known.own_at is None:
        return (0.0,), shares[0]
    if len(shares) > 1 and known.children and known.own_at is not None and len(shares) >= known.shares:
        return shares[known.own_at : known.own_at + 1], shares[known.total_at]
    if len(shares) > 1 and not known.names and shares[0] >= shares[1]:
        return shares[1:2], shares[0]
    return shares[:1], shares[0]


def _numbers(rest: str, known: Columns) -> tuple[list[int], str]:
    """The number of samples of each event if printed, and what stands after the numbers."""
    columns = [name for name in known.numbers for _ in range(known.events)]
    samples: list[int] = []
    position = 0
    while match := _COUNTS.match(rest):
        if known.names and position >= len(columns):
            break
        if columns[position : position + 1] == ["Samples"]:
            samples.append(int(match[0]))
        rest, position = rest[match.end() :].lstrip(), position + 1
    return (samples + [0] * known.events)[: known.events], rest


@dataclass(slots=True)
class _Names:
    comm: str = ""
    pid: int | None = None
    dso: str = ""
    symbol: str = ""
    cpu: int | None = None


def _without_coverage(symbol: str) -> str:
    """The symbol without the columns `IPC [IPC Coverage]` behind it: two dashes unless branches were recorded."""
    words = symbol.rsplit(None, 2)
    return words[0] if words[1:] == ["-", "-"] or (words[-1].endswith("%]") and len(words) == 3) else symbol.rstrip()


def _names(middle: str, known: Columns, *, marked: bool) -> _Names:
    """Task, object, symbol and CPU out of the columns before the symbol, or of all columns if there is no marker."""
    wanted = [n for n in known.names if not (marked and n == "Symbol")]
    parts = re.split(r"\s{2,}|\t+", middle) if middle else []
    if len(parts) != len(wanted):
        parts, wanted = _fit(middle, parts, wanted, known.alone, marked=marked)
    names = _Names()
    for name, value in zip(wanted, parts, strict=False):
        if ":" in name and (match := _PID.match(value)):
            names.comm, names.pid = (match["comm"] or match["comm2"]).strip(), int(match["pid"] or match["pid2"])
        elif name in {"Command"} or ":" in name:
            names.comm = value
        elif name == "Shared Object":
            names.dso = value
        elif name == "Symbol":
            names.symbol = value
        elif name == "CPU" and value.isdecimal():  # -001: not recorded
            names.cpu = int(value)
    return names


def _fit(middle: str, parts: list[str], wanted: list[str], alone: str, *, marked: bool) -> tuple[list[str], list[str]]:
    """Columns without a header, or whose blanks were collapsed: the object looks like one, the rest is the task."""
    if not middle:
        return [], []
    if len(wanted) == 1:
        return [middle], wanted
    words = parts if len(parts) > 1 else middle.rsplit(None, 1)
    if not marked and not wanted and len(parts) == 1 and not _SHARED_OBJECT.match(words[-1]):
        return [middle], [alone]
    if len(words) == 1:
        return words, ["Shared Object" if _SHARED_OBJECT.match(middle) else alone]
    if wanted and "Shared Object" not in wanted:
        return [middle], [wanted[0]]
    return ["  ".join(words[:-1]), words[-1]], ["Command", "Shared Object"]


def parse_separated_row(text: str, known: Columns, sign: str) -> OverheadRow | None:
    """A row of `perf report -t SIGN`; the last column may contain the sign."""
    count = known.shares + len(known.numbers) + len(known.names)
    fields = [f.strip() for f in text.split(sign, count - 1)]
    if len(fields) < known.shares or not all(_SHARE_FIELD.fullmatch(f) for f in fields[: known.shares]):
        return None
    return row("  ".join(fields), known)


_LEVEL_GAP = 8  # blanks behind the shares of --hierarchy in the browser; other rows have two
_GAP = 3  # blanks behind the shares of --hierarchy; in call graphs of the browser there is one


@dataclass(frozen=True, slots=True)
class Entry:
    """A row with the lines of its call graph."""

    row: OverheadRow
    cite: Citation
    graph: list[str] = field(default_factory=list)


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
    cut: bool = False  # of call graphs that lost the ends of their lines, or their indentation: bars do not tell it
    exceeding: int = 0  # how often branches of a call graph add up to more than what they are branches of
    broken: tuple[str, Citation] | None = None  # a row whose symbol stands on the next line

    def take(self, text: str, cite: Citation) -> bool:
        """Take a row, or a line of the call graph below the last row; False if it is neither."""
        if not text.strip():
            self.blank = bool(self.entries)
            return True
        if _NO_SYMBOL.match(text):
            self.broken = text, cite
            return True
        if self.broken:
            (begin, cite), self.broken = self.broken, None
            text = f"{begin.rstrip()} {text.strip()}"
        entry = parse_separated_row(text, self.columns, self.sign) if self.sign else row(text, self.columns)
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
        if self.blank and not text[:1].isspace() and (graph or symbol_like(text.strip())):
            return False  # a single word after an empty line is not the graph's: it may sign a letter
        graph.append(text)
        return True

    def _is_row(self, entry: OverheadRow) -> bool:
        """Whether it is a row and no branch of the terminal browser's graph (`- 99.92% smp_call_function_single`)."""
        if not (self.entries or self.columns.names or entry.marked) and entry.sign and entry.gap >= _LEVEL_GAP:
            self.columns = self.columns._replace(levels=True)
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

    def profile(self, reader: str, name: str, cite: Citation, event: int = 0) -> Profile:
        """The stacks of one event of the group; what the rows leave of 100 % is not listed."""
        entries = [self._with_indentation(entry) for entry in self._entries_of(event)]
        counts, frames = StackCounts(), Frames()
        graphs: list[tuple[OverheadRow, Sequence[str]]] = [(e.row, e.graph) for e in entries]
        if self.columns.own_at is None or not (self.columns.children or self.live):
            graphs = with_totals(graphs, unknown_own=self.columns.own_at is None)
            entries = [replace(e, row=shown) for e, (shown, _) in zip(entries, graphs, strict=True)]
        split = chains(graphs, self._layout())
        self.exceeding += split.exceeding
        weight = 0.0
        for entry, paths in zip(entries, split.of, strict=True):
            _add(counts, frames, entry, paths, self.comm)
            weight += fsum(path.share for path in paths)
        shown = any(e.graph for e in entries)
        inclusive = tuple(
            Inclusive(
                frames.number(e.row.symbol, e.row.dso, kernel=e.row.kernel), e.row.comm or self.comm, e.row.total, line
            )
            for e in entries
            if self._has_children() and not shown and e.row.symbol and (line := e.cite.line)
        )
        cut = any(path.cut for paths in split.of for path in paths)
        return Profile(
            reader=reader,
            event=name,
            frames=frames.all(),
            chains=counts.chains(),
            tasks=counts.tasks(),
            rows=counts.rows(),
            stacks=(Stacks.PARTIAL if cut else Stacks.FULL) if shown else Stacks.NONE,
            cite=cite,
            ledger=Ledger(unlisted=max(0.0, round(100 - weight, 2))),
            percent_only=True,
            facts={"order": split.order, "shares": split.shares} if shown else {},
            inclusive=inclusive,
        )

    def _with_indentation(self, entry: Entry) -> Entry:
        is_short = is_cut(entry.graph)
        if not is_short and not is_squeezed(entry.graph):
            return entry
        graph = None if is_short else restore_indentation(entry.graph)
        self.cut |= graph is None
        return replace(entry, graph=graph or certain_part(entry.graph))

    def events(self) -> int:
        """How many events the rows have shares of."""
        entries = self._entries_of(0)
        return 1 + max((len(e.row.others) for e in entries), default=0)

    def _entries_of(self, event: int) -> list[Entry]:
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

    def _has_children(self) -> bool:
        """Whether the first share includes callees: the header says so, or the rows do where there is none."""
        if self.columns.names or self.columns.children:
            return self.columns.children
        pairs = [e.row.shares for e in self._without_head()]
        return all(len(p) == 2 and p[0] >= p[1] for p in pairs) and any(p[0] > p[1] for p in pairs)

    def _layout(self) -> Layout:
        by_symbol = self.columns.names[:1] == ("Symbol",)
        if not self.columns.names and self.entries:  # rows without a header are sorted by symbol if that is all
            by_symbol = not (self.entries[0].row.comm or self.entries[0].row.dso)
        return (Layout.BY_SYMBOL if by_symbol else Layout.PLAIN) | (Layout.LIVE if self.live else Layout.PLAIN)


def _level_names(levels: Sequence[OverheadRow]) -> tuple[str, ...]:
    """What the levels of --hierarchy are where no header tells; nothing for a row that is not the innermost."""
    if not levels[-1].marked:
        return ()
    if len(levels) == 2:
        first = levels[0].symbol or levels[0].dso
        return ("Shared Object" if kernel_dso(first) or "." in first else "Command", "Symbol")
    return ("Command", "Shared Object", *("Level" for _ in levels[3:]), "Symbol")[-len(levels) :]


def _add(counts: StackCounts, frames: Frames, entry: Entry, split: Sequence[Path], comm: str) -> None:
    """The parts of a row."""
    shown = entry.row
    for names, weight, cut, calls in split:
        own = frames.number(shown.symbol, shown.dso, kernel=shown.kernel) if shown.symbol else None
        leaf = [own] if own is not None and names and same_function(names[0], normalise(shown.symbol)) else []
        stack = leaf + [frames.number(n) for n in names[len(leaf) :]]
        if calls:
            stack = [frames.number(NAMELESS, HIDDEN, kernel=True), *stack]
        if not stack and shown.dso:
            stack = [frames.number(NAMELESS, shown.dso, kernel=shown.kernel)]
        samples = shown.samples if len(split) == 1 else round(shown.samples * weight / shown.own) if shown.own else 0
        chain = counts.add(stack, weight, samples, entry.cite, Task(shown.comm or comm, shown.pid), shown.cpu)
        if cut:
            counts.cut(chain)
