"""Rows of perf top and perf report: shares, then any of task, object and symbol, each with its call graph below.

    12.34%  java     [kernel.kallsyms]  [k] compact_zone          perf report
    13.33%   0.00%  java  [kernel.kallsyms]  [k] compact_zone     two events in a group: a share of each
    22.25%  [kernel]       [k] clear_page_erms                    perf top
    55.35%     0.00%  churn  libc.so.6  [.] start_thread          with Children and Self
-   2.76%     m0d  [kernel.kallsyms]   [k] generic_exec_single    copied from the terminal browser

The user chooses the columns (`--sort`). The header names them; where it was cut off, they are derived from the row.
Events of a group have one share each in the same row; the graph is that of the first event.
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
    correct_totals,
    is_cut,
    is_graph_line,
    is_squeezed,
    parse_percent,
    restore_indentation,
    same_function,
    shared_stem,
    split_rows,
)

PERCENT = r"\d{1,3}[.,]\d{1,2}%"
_ROW = re.compile(rf"(?P<lead>\s*(?:[+-]\s*)?)(?P<shares>{PERCENT}(?:\s+{PERCENT}){{0,5}})(?:\s+(?P<rest>\S.*))?$")
_SYMBOL = re.compile(r"(?:^|\s)(?:0x[0-9a-f]{1,16}\s+[\w!.-]\s+)?\[(?P<letter>[k.guhHm])\]\s+(?P<symbol>\S.*)$")
_NO_SYMBOL = re.compile(rf"\s*(?:[+-]\s*)?{PERCENT}\s.*\s\[[k.guhHm]\]\s*$")  # a mail program wrapped the line here
_SHARE_FIELD = re.compile(rf"{PERCENT}(?:\s+{PERCENT}){{0,5}}")
_COUNT = re.compile(r"\d{1,18}(?=\s)")
_DIFFERENCE = re.compile(r"[+-]\d")
_PID_AND_COMM = re.compile(r"(?:(?P<pid>\d{1,10}):\s*(?P<comm>\S.*)|(?P<comm2>\S.*?):\s*(?P<pid2>\d{1,10}))$")
_SHARED_OBJECT = re.compile(r"[\[/]|.*\.(?:so|ko|map)\b|vmlinu|bpf_prog|.*\(deleted\)$")
_TITLES = re.compile(
    r"Overhead|Children|Self|guest sys|guest usr|sys|usr?|Samples|Period"
    r"|(?:Pid|Tid|Thread|PID|TID)\s*:\s*Command|Command\s*:\s*(?:Pid|Tid)"
    r"|Command|Shared Object|Symbol|CPU|Parent symbol|Source:Line|Source File|Socket|Weight|Time"
)
_SHARE_TITLES = {"Overhead", "Children", "Self", "guest sys", "guest usr", "sys", "us", "usr"}
_NUMBER_TITLES = {"Samples", "Period", "Weight"}


class Columns(NamedTuple):
    """Columns of the header: shares, then numbers, then names. `children`: one share includes callees."""

    names: tuple[str, ...] = ()
    children: bool = False
    numbers: tuple[str, ...] = ()
    levels: bool = False  # --hierarchy
    shares: int = 1  # number of columns with shares
    self_index: int | None = 0  # index of the share without callees, None if there is none
    total_index: int = 0  # index of the share with callees, else the same
    events: int = 1  # events of a group: each share and number is there once per event
    lone_title: str = "Command"  # meaning of a single column without a header


def parse_columns(header: str) -> Columns:
    """Return the columns of a header line."""
    titles = [re.sub(r"\s*:\s*", ":", name) for name in _TITLES.findall(header)]
    names = tuple(n for n in titles if n not in _SHARE_TITLES and n not in _NUMBER_TITLES)
    numbers = tuple(n for n in titles if n in _NUMBER_TITLES)
    shares = [n for n in titles if n in _SHARE_TITLES]
    self_index = next((place for place, n in enumerate(shares) if n in ("Self", "Overhead")), None if shares else 0)
    total = shares.index("Children") if "Children" in shares else self_index or 0
    return Columns(names, "Children" in titles, numbers, " / " in header, max(1, len(shares)), self_index, total)


def parse_row(text: str, columns: Columns) -> OverheadRow | None:
    """Return the row of a line, None if it is something else."""
    match = _ROW.match(text)
    if not match:
        return None
    shares = tuple(parse_percent(s) for s in match["shares"].split())
    self_shares, total = _self_and_total(shares, columns)
    samples, rest = _split_numbers(match["rest"] or "", columns)
    if "CPU" not in columns.names and _DIFFERENCE.match(rest):
        return None  # perf diff
    marker = _SYMBOL.search(rest)
    before = rest[: marker.start()].strip() if marker else rest
    names = _Names(symbol=before) if columns.levels else _parse_names(before, columns, marked=bool(marker))
    kernel = kernel_dso(names.dso)
    if marker:
        names.symbol = _without_coverage(marker["symbol"])
        letter = kernel_letter(marker["letter"])
        kernel = letter if letter is not None else kernel
    return OverheadRow(
        self_shares[0], total, samples[0], names.comm, names.pid, names.dso, names.symbol, kernel, bool(marker),
        column=len(match["lead"].expandtabs()) + len(match["shares"].split()[0]),
        sign=match["lead"].strip(), gap=match.start("rest") - match.end("shares") if match["rest"] else 0,
        cpu=names.cpu, shares=shares, others=tuple(zip(self_shares[1:], samples[1:], strict=False)),
    )  # fmt: skip


def _self_and_total(shares: Sequence[float], columns: Columns) -> tuple[Sequence[float], float]:
    """Return the self share of each event, and the total of the first.

    Two shares without a header are taken as Children and Self, perf's default since 3.16.
    """
    if columns.events > 1 and len(shares) >= columns.events * (2 if columns.children else 1):
        first = columns.events * (columns.self_index or 0)
        return shares[first : first + columns.events], shares[columns.events * columns.total_index]
    if columns.children and columns.self_index is None:
        return (0.0,), shares[0]
    if len(shares) > 1 and columns.children and columns.self_index is not None and len(shares) >= columns.shares:
        return shares[columns.self_index : columns.self_index + 1], shares[columns.total_index]
    if len(shares) > 1 and not columns.names and shares[0] >= shares[1]:
        return shares[1:2], shares[0]
    return shares[:1], shares[0]


def _split_numbers(rest: str, columns: Columns) -> tuple[list[int], str]:
    """Return the number of samples of each event, 0 if not printed, and the text after the numbers."""
    titles = [name for name in columns.numbers for _ in range(columns.events)]
    samples: list[int] = []
    position = 0
    while match := _COUNT.match(rest):
        if columns.names and position >= len(titles):
            break
        if titles[position : position + 1] == ["Samples"]:
            samples.append(int(match[0]))
        rest, position = rest[match.end() :].lstrip(), position + 1
    return (samples + [0] * columns.events)[: columns.events], rest


@dataclass(slots=True)
class _Names:
    comm: str = ""
    pid: int | None = None
    dso: str = ""
    symbol: str = ""
    cpu: int | None = None


def _without_coverage(symbol: str) -> str:
    """Return the symbol without the columns `IPC [IPC Coverage]` after it: two dashes unless branches were recorded."""
    words = symbol.rsplit(None, 2)
    return words[0] if words[1:] == ["-", "-"] or (words[-1].endswith("%]") and len(words) == 3) else symbol.rstrip()


def _parse_names(text: str, columns: Columns, *, marked: bool) -> _Names:
    """Return task, object, symbol and CPU from the columns before the symbol, without a marker from all columns."""
    wanted = [n for n in columns.names if not (marked and n == "Symbol")]
    parts = re.split(r"\s{2,}|\t+", text) if text else []
    if len(parts) != len(wanted):
        parts, wanted = _fit_names(text, parts, wanted, columns.lone_title, marked=marked)
    names = _Names()
    for name, value in zip(wanted, parts, strict=False):
        if ":" in name and (match := _PID_AND_COMM.match(value)):
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


def _fit_names(
    text: str, parts: list[str], titles: list[str], default: str, *, marked: bool
) -> tuple[list[str], list[str]]:
    """Split columns without a header, or with collapsed blanks: the object looks like one, the rest is the task."""
    if not text:
        return [], []
    if len(titles) == 1:
        return [text], titles
    words = parts if len(parts) > 1 else text.rsplit(None, 1)
    if not marked and not titles and len(parts) == 1 and not _SHARED_OBJECT.match(words[-1]):
        return [text], [default]
    if len(words) == 1:
        return words, ["Shared Object" if _SHARED_OBJECT.match(text) else default]
    if titles and "Shared Object" not in titles:
        return [text], [titles[0]]
    return ["  ".join(words[:-1]), words[-1]], ["Command", "Shared Object"]


def parse_separated_row(text: str, columns: Columns, sign: str) -> OverheadRow | None:
    """Return a row of `perf report -t SIGN`; the last column may contain the sign."""
    count = columns.shares + len(columns.numbers) + len(columns.names)
    fields = [f.strip() for f in text.split(sign, count - 1)]
    if len(fields) < columns.shares or not all(_SHARE_FIELD.fullmatch(f) for f in fields[: columns.shares]):
        return None
    return parse_row("  ".join(fields), columns)


_BROWSER_LEVEL_GAP = 8  # least number of blanks after the shares of --hierarchy in the browser; other rows have two
_LEVEL_GAP = 3  # least number of blanks after the shares of --hierarchy; call graphs of the browser have one


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
    sign: str = ""  # separator (-t)
    comm: str = ""  # the task of all rows, where the text shows only one
    live: bool = False  # from perf top
    entries: list[Entry] = field(default_factory=list)
    levels: list[tuple[int, OverheadRow]] = field(default_factory=list)
    share_end: int = 0  # column in which the shares of rows end
    after_blank: bool = False  # an empty line follows the last row
    cut: bool = False  # call graphs lost the ends of their lines, or an indentation that their bars do not restore
    exceeding: int = 0  # number of forks whose branches add up to more than their parent
    wrapped_row: tuple[str, Citation] | None = None  # a row whose symbol is on the next line

    def take_line(self, text: str, cite: Citation) -> bool:
        """Take a row, or a line of the call graph below the last row; return False if it is neither."""
        if not text.strip():
            self.after_blank = bool(self.entries)
            return True
        if _NO_SYMBOL.match(text):
            self.wrapped_row = text, cite
            return True
        if self.wrapped_row:
            (start, cite), self.wrapped_row = self.wrapped_row, None
            text = f"{start.rstrip()} {text.strip()}"
        entry = parse_separated_row(text, self.columns, self.sign) if self.sign else parse_row(text, self.columns)
        if entry is not None and self._is_row(entry):
            self.after_blank = False
            if self.columns.levels:
                self._add_level(entry, cite)
            else:
                self.entries.append(Entry(entry, cite))
            return True
        if not self.entries or not is_graph_line(text):
            return False
        graph = self.entries[-1].graph
        if self.after_blank and not text[:1].isspace() and (graph or symbol_like(text.strip())):
            return False  # a single word after an empty line may be the signature of a mail
        graph.append(text)
        return True

    def _is_row(self, entry: OverheadRow) -> bool:
        """Whether it is a row and not a branch of the browser's graph (`- 99.92% smp_call_function_single`)."""
        if not (self.entries or self.columns.names or entry.marked) and entry.sign and entry.gap >= _BROWSER_LEVEL_GAP:
            self.columns = self.columns._replace(levels=True)
        if self.sign or self.columns.levels:
            return bool(self.sign) or entry.gap >= _LEVEL_GAP
        named = entry.marked or bool(entry.comm or entry.dso or entry.symbol)
        if entry.marked or not self.entries:
            self.share_end = self.share_end or entry.column
            return named
        first, last = self.entries[0].row, self.entries[-1].row
        if last.marked or entry.gap < min(first.gap, 2):
            return False
        return abs(entry.column - self.share_end) <= 1 and named

    def _add_level(self, entry: OverheadRow, cite: Citation) -> None:
        """Take a row of --hierarchy: the outer names are those of the rows above it with less indentation."""
        while self.levels and self.levels[-1][0] >= entry.column:
            self.levels.pop()
        self.levels.append((entry.column, entry))
        names = self.columns.names or _level_names([row for _, row in self.levels])
        if len(self.levels) != len(names):
            return
        word = {n: r.symbol or r.dso or r.comm for n, (_, r) in zip(names, self.levels, strict=True)}
        comm, dso = word.get("Command", ""), word.get("Shared Object", "")
        self.entries.append(Entry(replace(entry, comm=comm, dso=dso, symbol=word.get("Symbol", "")), cite))

    def profile(self, reader: str, name: str, cite: Citation, event: int = 0) -> Profile:
        """Return the stacks of one event of the group; what the rows lack to 100 % is not listed."""
        entries = [self._with_indentation(entry) for entry in self._entries_of(event)]
        counts, frames = StackCounts(), Frames()
        graphs: list[tuple[OverheadRow, Sequence[str]]] = [(e.row, e.graph) for e in entries]
        if self.columns.self_index is None or not (self.columns.children or self.live):
            graphs = correct_totals(graphs, has_totals_only=self.columns.self_index is None)
            entries = [replace(e, row=row) for e, (row, _) in zip(entries, graphs, strict=True)]
        split = split_rows(graphs, self._layout())
        self.exceeding += split.exceeding
        weight = 0.0
        for entry, paths in zip(entries, split.by_row, strict=True):
            _add_row(counts, frames, entry, paths, self.comm)
            weight += fsum(path.share for path in paths)
        has_graphs = any(e.graph for e in entries)
        inclusive = tuple(
            Inclusive(
                frames.number(e.row.symbol, e.row.dso, kernel=e.row.kernel), e.row.comm or self.comm, e.row.total, line
            )
            for e in entries
            if self._has_children() and not has_graphs and e.row.symbol and (line := e.cite.line)
        )
        cut = any(path.cut for paths in split.by_row for path in paths)
        return Profile(
            reader=reader,
            event=name,
            frames=frames.all(),
            chains=counts.chains(),
            tasks=counts.tasks(),
            rows=counts.rows(),
            stacks=(Stacks.PARTIAL if cut else Stacks.FULL) if has_graphs else Stacks.NONE,
            cite=cite,
            ledger=Ledger(unlisted=max(0.0, round(100 - weight, 2))),
            percent_only=True,
            facts={"order": split.order, "shares": split.shares} if has_graphs else {},
            inclusive=inclusive,
        )

    def _with_indentation(self, entry: Entry) -> Entry:
        is_short = is_cut(entry.graph)
        if not is_short and not is_squeezed(entry.graph):
            return entry
        graph = None if is_short else restore_indentation(entry.graph)
        self.cut |= graph is None
        return replace(entry, graph=graph or shared_stem(entry.graph))

    def events(self) -> int:
        """Return the number of events that the rows have shares of."""
        entries = self._entries_of(0)
        return 1 + max((len(e.row.others) for e in entries), default=0)

    def _entries_of(self, event: int) -> list[Entry]:
        """Return the rows with the share of one event; those of later events have no graph."""
        entries = self._without_head()
        if not event:
            return entries
        rows = []
        for entry in entries:
            share, samples = entry.row.others[event - 1] if len(entry.row.others) >= event else (0.0, 0)
            if share or samples:
                rows.append(Entry(replace(entry.row, self_share=share, total=share, samples=samples), entry.cite))
        return rows

    def _without_head(self) -> list[Entry]:
        """Return the rows of a text without a header: two shares are of two events if any Self exceeds Children."""
        pairs = [e.row.shares for e in self.entries]
        if self.columns.names or any(len(p) != 2 for p in pairs) or all(p[0] >= p[1] for p in pairs):
            return self.entries
        return [
            replace(e, row=replace(e.row, self_share=p[0], total=p[0], others=((p[1], 0),)))
            for e, p in zip(self.entries, pairs, strict=True)
        ]

    def _has_children(self) -> bool:
        """Whether the first share includes callees, according to the header, or to the rows where there is none."""
        if self.columns.names or self.columns.children:
            return self.columns.children
        pairs = [e.row.shares for e in self._without_head()]
        return all(len(p) == 2 and p[0] >= p[1] for p in pairs) and any(p[0] > p[1] for p in pairs)

    def _layout(self) -> Layout:
        by_symbol = self.columns.names[:1] == ("Symbol",)
        # rows without a header are sorted by symbol if they have nothing else
        if not self.columns.names and self.entries:
            by_symbol = not (self.entries[0].row.comm or self.entries[0].row.dso)
        return (Layout.BY_SYMBOL if by_symbol else Layout.PLAIN) | (Layout.LIVE if self.live else Layout.PLAIN)


def _level_names(levels: Sequence[OverheadRow]) -> tuple[str, ...]:
    """Return the names of the levels of --hierarchy without a header; none for a row that is not the innermost."""
    if not levels[-1].marked:
        return ()
    if len(levels) == 2:
        first = levels[0].symbol or levels[0].dso
        return ("Shared Object" if kernel_dso(first) or "." in first else "Command", "Symbol")
    return ("Command", "Shared Object", *("Level" for _ in levels[3:]), "Symbol")[-len(levels) :]


def _add_row(counts: StackCounts, frames: Frames, entry: Entry, paths: Sequence[Path], comm: str) -> None:
    """Add the chains of a row."""
    row = entry.row
    for names, weight, cut, calls in paths:
        function = frames.number(row.symbol, row.dso, kernel=row.kernel) if row.symbol else None
        leaf = [function] if function is not None and names and same_function(names[0], normalise(row.symbol)) else []
        stack = leaf + [frames.number(n) for n in names[len(leaf) :]]
        if calls:
            stack = [frames.number(NAMELESS, HIDDEN, kernel=True), *stack]
        if not stack and row.dso:
            stack = [frames.number(NAMELESS, row.dso, kernel=row.kernel)]
        share = row.self_share
        samples = row.samples if len(paths) == 1 else round(row.samples * weight / share) if share else 0
        chain = counts.add(stack, weight, samples, entry.cite, Task(row.comm or comm, row.pid), row.cpu)
        if cut:
            counts.cut(chain)
