"""perf report as text: `perf report --stdio`, or a copy of what the terminal browser showed.

    # Samples: 124K of event 'cycles'
    # Overhead  Command  Shared Object      Symbol
         2.76%  m0d      [kernel.kallsyms]  [k] generic_exec_single
                |
                --- generic_exec_single
                   |--99.92%-- smp_call_function_single

Shares are percent of the event. A row is split over the chains below it: what the branches leave over stays with the
stem, and what no chain shows stays with the row. Varies: callee order (leaf first) or caller order (root first), told
by where the row's own function is; shares of everything or of the parent (fractal), told by parts that exceed their
whole; `Children` columns, of which only `Self` is weight; one text with several events; `-t` separators;
`--hierarchy`. Versions before 3.15 write `# Events: 1K cycles`, 2.6.32 `# Samples: 1234567` (a period). Source:
tools/perf/ui/stdio/hist.c, ui/browsers/hists.c; recorded with perf 6.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from thpdiag.knowledge.symbols import normalise
from thpdiag.model import Citation, Ledger, Problem, Profile, Record, StackCounts, Stacks, Task
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers import perf_header
from thpdiag.readers.perf_chains import Chains, chains
from thpdiag.readers.perf_columns import PERCENT, Columns, OverheadRow, columns, row, separated
from thpdiag.readers.perf_report_tree import part
from thpdiag.readers.perf_stacks import Frames

_COUNT = r"\d{1,18}(?:,\d{3}){0,5}(?:\.\d{1,3})?"
_EVENT = re.compile(
    rf"#?\s*Samples:\s*(?P<count>{_COUNT})(?P<unit>[KMGT]?)(?:\s+of events?\s+'(?P<event>[^']{{1,200}})')?(?:,|\s|$)"
    rf"|#\s*Events:\s*(?P<count2>{_COUNT})(?P<unit2>[KMGT]?)\s+(?P<event2>\S.{{0,200}})$"
)
_PERIOD = re.compile(r"\bEvent count \(approx\.\):\s*(\d{1,20})")
_LOST = re.compile(r"#\s*Total Lost Samples:\s*(\d{1,18})")
_HEAD = re.compile(r"#?\s*(?:Overhead|Children)\b(?!:)(?=.*\b(?:Command|Shared Object|Symbol|CPU|Self|Parent)\b|\s*$)")
_FOOT = re.compile(
    r"\s*(?:Press '\?' for help|For a higher level overview|Tip: |Cannot load tips|no symbols found|\(Tip)"
)
_SEPARATED = re.compile(r"#\s*(?:Overhead|Children)(?P<sign>[^\w\s]|\t)")
_ROW_OPENS = rf"\s*(?:[+-]\s*)?{PERCENT}\s+(?:{PERCENT}\s+)?(?:\S.{{0,300}}?\s)?\[[k.guH]\]\s+\S"
_UNITS = {"": 1, "K": 1_000, "M": 1_000_000, "G": 10**9, "T": 10**12}


@dataclass(slots=True)
class _Entry:
    """A row with the lines of its call graph."""

    row: OverheadRow
    cite: Citation
    graph: list[str] = field(default_factory=list)
    blank: bool = False  # an empty line was seen below it


@dataclass(slots=True)
class _Part:
    """What the text shows of one event."""

    cite: Citation
    event: str = ""
    samples: int | None = None
    facts: dict[str, str] = field(default_factory=dict)
    lost: int | None = None
    columns: Columns = field(default_factory=Columns)
    sign: str = ""  # separator of -t
    entries: list[_Entry] = field(default_factory=list)
    levels: list[tuple[int, OverheadRow]] = field(default_factory=list)
    edge: int = 0  # where the shares of rows end


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One profile per event; lines that fit nothing are counted in one problem."""
    header: dict[str, str] = {}
    odd: list[Citation] = []
    current: _Part | None = None
    for number, text in lines:
        cite = source.cite(number, text)
        if found := perf_header.fact(text):
            header.setdefault(*found)
            continue
        if current is None or (_EVENT.match(text) and (current.entries or current.samples is not None)):
            if current is not None:
                yield from _profile(current, header)
            lost = current.lost if current else None
            current = _Part(cite, lost=lost)
        if not (_head(current, text) or _body(current, text, cite)):
            odd.append(cite)
    if odd:
        yield Problem(
            odd[0],
            "a line of perf report that is neither a row nor part of a call graph",
            reader=READER.name,
            count=len(odd),
        )
    if current is not None:
        yield from _profile(current, header)


def _head(current: _Part, text: str) -> bool:
    """Take a line that stands above the rows."""
    if found := _EVENT.match(text):
        current.event = _event(found["event"] or found["event2"] or "")
        count = found["count"] or found["count2"]
        if found["event"] or found["event2"]:  # 2.6.32 prints the period here
            current.samples = round(float(count.replace(",", "")) * _UNITS[found["unit"] or found["unit2"] or ""])
    elif found := _LOST.match(text):
        current.lost = int(found[1])
    elif found := _SEPARATED.match(text):
        current.columns, current.sign = columns(text), found["sign"]
    elif _HEAD.match(text):
        current.columns = columns(text)
    else:
        return bool(not text.strip() and not current.entries) or bool(
            perf_header.COMMENT.match(text) or _FOOT.match(text)
        )
    if period := _PERIOD.search(text):
        current.facts["event_count"] = period[1]
    return True


def _event(text: str) -> str:
    """The first event of a group: its shares stand in the first column."""
    inner = text[text.find("{") + 1 : text.rfind("}")] if "{" in text else text
    return inner.split(",")[0].strip()


def _body(current: _Part, text: str, cite: Citation) -> bool:
    """Take a row, or a line of the call graph below the last row."""
    if not text.strip():
        if current.entries:
            current.entries[-1].blank = True
        return True
    entry = separated(text, current.columns, current.sign) if current.sign else row(text, current.columns)
    if entry is not None and _is_row(current, entry):
        if current.columns.levels:
            _level(current, entry, cite)
        else:
            current.entries.append(_Entry(entry, cite))
        return True
    if not current.entries or not part(text):
        return False
    last = current.entries[-1]
    if last.blank and last.graph and not text[:1].isspace():
        return False  # a single word after an empty line is not the graph's
    last.graph.append(text)
    return True


def _is_row(current: _Part, entry: OverheadRow) -> bool:
    """Whether it is a row and no branch of the terminal browser's graph (`- 99.92% smp_call_function_single`)."""
    if current.sign or current.columns.levels:
        return True
    if entry.marked or not current.entries:
        current.edge = current.edge or entry.column
        return entry.marked or bool(entry.comm or entry.dso or entry.symbol)
    if current.entries[-1].row.marked:
        return False
    return abs(entry.column - current.edge) <= 1 and bool(entry.comm or entry.dso or entry.symbol)


def _level(current: _Part, entry: OverheadRow, cite: Citation) -> None:
    """A row of --hierarchy: the outer names are those of the rows above it that are indented less."""
    while current.levels and current.levels[-1][0] >= entry.column:
        current.levels.pop()
    names = current.columns.names
    kind = names[len(current.levels)] if len(current.levels) < len(names) else ""
    current.levels.append((entry.column, entry))
    if kind != names[-1]:
        return
    outer = {n: r for n, (_, r) in zip(names, current.levels, strict=False)}
    word = {n: r.symbol or r.dso or r.comm for n, r in outer.items()}
    whole = OverheadRow(
        entry.own, entry.total, comm=word.get("Command", ""), dso=word.get("Shared Object", ""),
        symbol=word.get("Symbol", ""), kernel=entry.kernel, marked=entry.marked,
    )  # fmt: skip
    current.entries.append(_Entry(whole, cite))


def _profile(current: _Part, header: dict[str, str]) -> Iterator[Record]:
    """The rows of an event, split over the chains below them."""
    if not current.entries:
        if current.samples:
            yield Problem(current.cite, "a perf report of which no row is in the text", reader=READER.name)
        return
    frames, counts = Frames(), StackCounts()
    told = chains([(e.row, e.graph) for e in current.entries])
    weight = 0.0
    for entry, split in zip(current.entries, told.of, strict=True):
        _add(counts, frames, entry, split)
        weight += sum(part for _, part in split)
    shown = any(e.graph for e in current.entries)
    graphs = {"order": told.order, "shares": "relative" if told.fractal else "absolute"} if shown else {}
    yield Profile(
        reader=READER.name,
        event=current.event,
        frames=frames.all(),
        chains=counts.chains(),
        tasks=counts.tasks(),
        rows=counts.rows(),
        stacks=_stacks(current.entries, told),
        cite=current.cite,
        ledger=Ledger(lost=current.lost, unlisted=max(0.0, round(100 - weight, 2))),
        percent_only=True,
        total_samples=current.samples,
        facts={**header, **current.facts, **graphs},
    )


def _stacks(entries: Sequence[_Entry], told: Chains) -> Stacks:
    deep = any(len(names) > 1 for split in told.of for names, _ in split)
    return Stacks.PARTIAL if deep or any(e.graph for e in entries) else Stacks.NONE


def _add(counts: StackCounts, frames: Frames, entry: _Entry, split: Sequence[tuple[list[str], float]]) -> None:
    """The parts of a row."""
    shown = entry.row
    own = normalise(shown.symbol)
    for names, weight in split:
        leaf = [frames.number(n, shown.dso, kernel=shown.kernel) for n in names[:1] if normalise(n) == own]
        stack = leaf + [frames.number(n) for n in names[len(leaf) :]]
        if not stack and shown.dso:
            stack = [frames.number("[unknown]", shown.dso, kernel=shown.kernel)]
        samples = shown.samples if len(split) == 1 else round(shown.samples * weight / shown.own) if shown.own else 0
        counts.add(stack, weight, samples, entry.cite, Task(shown.comm, shown.pid))


def continues(text: str) -> bool:
    """Blank lines, perf's comments, rows and call graphs belong; sentences do not."""
    if not text.strip():
        return True
    if text.lstrip().startswith("#"):
        return bool(perf_header.COMMENT.match(text))
    if _EVENT.match(text) or _HEAD.match(text) or _FOOT.match(text):
        return True
    return row(text, Columns()) is not None or part(text) or bool(_CSV_ROW.match(text))


_CSV_ROW = re.compile(rf"\s*{PERCENT}\s*[^\w\s%]\s*\S")


def _confirm(ahead: list[str]) -> bool:
    """A comment header is perf report's if a line about rows follows it before any sample of perf script does."""
    if not re.match(perf_header.OPENS, ahead[0]):
        return True
    for text in ahead[1:]:
        if _HEAD.match(text) or _EVENT.match(text) or _LOST.match(text):
            return True
        if not perf_header.COMMENT.match(text) and text.strip():
            return bool(re.match(_ROW_OPENS, text))
    return False


READER = Reader(
    name="perf_report",
    title="perf report --stdio, or a copy of its screen",
    read=read,
    opens=re.compile(
        rf"{_ROW_OPENS}|{perf_header.OPENS}|#\s(?:To display the perf\.data header|Total Lost Samples:|Samples:\s*\d"
        r"|Events:\s*\d+[KMG]?\s|(?:Overhead|Children)\b[^\w:]\s*\w)"
        r"|Samples:\s*\d+[KMG]?\s+of event|(?:Overhead|Children)\s{2,}(?:Self|Command|Shared Object|Symbol)\b"
    ),
    continues=continues,
    confirm=_confirm,
    lookahead=80,
)
