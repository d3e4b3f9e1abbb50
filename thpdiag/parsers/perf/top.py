"""perf top as text: the functions that CPUs are currently in, with `-g` also their callers.

       PerfTop:   16096 irqs/sec  kernel:92.6%  exact:  0.0% [1000Hz cycles],  (all, 16 CPUs)
               223182.00 93.8% _spin_lock_irq                 [kernel.kallsyms]

Shares are percent of the samples that perf top still keeps (it decays them by an eighth per screen), so they are not
additive over screens; of several screens the last complete one counts. With `-g` the first of two shares includes
callees, and the graph of a row is made a moment later than the row, so that branches may exceed their parent. Layouts:

- 2.6.31: `samples  pcnt  [RIP]  kernel function`, the kernel only, fields joined by ` - `
- 2.6.33 to 3.1: `samples  pcnt  function  DSO`; names are cut to the width of the screen, an object that is too long is
  left out
- 3.2 to today: the rows of perf report, by default `share  object  [k] symbol`

`perf top --stdio` with its input closed prints prompts without end and no samples. Source: tools/perf/builtin-top.c
of those versions, screens recorded with perf 6.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from thpdiag.model import Citation, Fact, Problem, Profile, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors
from thpdiag.parsers.perf._texts import kernel_dso
from thpdiag.parsers.perf.call_graph import OverheadRow, is_graph_line, parse_percent
from thpdiag.parsers.perf.overhead import Columns, Entry, Table, parse_row

_TITLE = re.compile(r"\s*PerfTop:\s")
_COLUMNS = re.compile(r"\s*(?:samples|weight|events)\s+pcnt\b(?P<rest>.*)")
_KEYS = re.compile(r"\s*(?:Mapped keys:|Enter selection, or unmapped|\[\w{1,2}\]\s+\S)")
_RULER = re.compile(r"\s*[-_][-_ \t]{3,}$")
_TITLE_PART = re.compile(
    r"\s*(?=\S.{0,160}$)(?:.*\birqs/sec\b|(?:kernel|exact|lost|us|guest \w+):"
    r"|\[\d+\w*\s|\S{1,60}\],\s|\((?:all|target_\w+)\b)"
)
_COUNTED_ROW = re.compile(
    r"\s*(?P<samples>\d{1,15}(?:[.,]\d{1,2})?)\s+(?:-\s+)?(?P<share>\d{1,3}[.,]\d{1,2})%\s+(?:-\s+)?"
    r"(?:(?P<rip>[0-9a-f]{8,16})(?:\s*:)?\s+)?(?P<rest>\S.*)$"
)
_OBJECT = re.compile(r"\[[\w.-]+\](?:\.[\w.]+)?$|/\S+$|[^\s(]+\.(?:so|ko)[.\d]*$")
_TITLE_FACTS = {
    "irqs_per_second": re.compile(r"(\d{1,12}) irqs/sec"),
    "kernel_percent": re.compile(r"\bkernel:\s*(\d+(?:[.,]\d+)?)%"),
    "exact_percent": re.compile(r"\bexact:\s*(\d+(?:[.,]\d+)?)%"),
    "frequency": re.compile(r"\[(\d+)Hz "),
    "target": re.compile(r"\],?\s+\(([^()]{1,80})\)"),
    "cpus": re.compile(r"\((?:[^()]{0,60},)?\s*(?:CPUs?:?\s*)?(\d+) CPUs?\)"),
}
_EVENT = re.compile(r"\[(?:\d+(?:Hz)?\s+)?(?P<event>[^\]\s][^\]]{0,80})\]")
# perf top --stdio prints no column names, and sorts by object and symbol
_DEFAULT_COLUMNS = Columns(lone_title="Shared Object")
_MAX_EARLIER_SCREENS = 2  # kept to choose from
_INDENTED = re.compile(r"\s{3,}(?:\||--)|\s{12}\s*\S")
_LOST = re.compile(r"\blost:\s*(\d{1,18})/(\d{1,18})")  # while this screen was collected, and since the start


@dataclass(slots=True)
class _Screen:
    """One refresh of the display."""

    cite: Citation
    title: str = ""
    open_title: bool = False  # the title may continue on the next line
    dso_column: bool = True
    table: Table = field(default_factory=lambda: Table(_DEFAULT_COLUMNS, live=True))

    @property
    def rows(self) -> list[Entry]:
        return self.table.entries


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One profile, of the last complete screen, and cpu.count if perf top ran on all CPUs.

    Odd lines are counted; an output without samples is a problem.
    """
    screens, errors = _Screens(), ParseErrors(source, PARSER.name)
    for number, text in lines:
        cite = source.cite(number, text)
        if not _take_line(screens.screen_of(text, cite), text, cite):
            errors.note(number, text, "a line of perf top that fits none of its layouts")
    yield from errors.problems()
    if chosen := screens.last_complete():
        profile = _profile(chosen, screens.full_count)
        yield profile
        if (cpus := profile.facts.get("cpus", "")).isdecimal() and profile.facts.get("target", "").startswith("all, "):
            yield Fact("cpu.count", int(cpus), chosen.cite, time=source.time)
    elif screens.kept:
        text = "perf top printed its prompts but no samples (its input was closed); perf record gives the same data"
        yield Problem(screens.kept[0].cite, text, reader=PARSER.name, count=screens.empty + 1)


@dataclass(slots=True)
class _Screens:
    """The last screens, and how many there were."""

    kept: list[_Screen] = field(default_factory=list)
    empty: int = 0
    before: int = 0  # screens with rows before the last

    @property
    def full_count(self) -> int:
        return self.before + bool(self.kept and self.kept[-1].rows)

    def screen_of(self, text: str, cite: Citation) -> _Screen:
        """Return the screen that a line belongs to."""
        if not self.kept or _TITLE.match(text) or (_COLUMNS.match(text) and self.kept[-1].rows):
            if self.kept and self.kept[-1].rows:
                self.before += 1
            elif self.kept:
                self.kept.pop()
                self.empty += 1
            self.kept = [*self.kept[-_MAX_EARLIER_SCREENS:], _Screen(cite)]
        return self.kept[-1]

    def last_complete(self) -> _Screen | None:
        """Return the last complete screen: the very last may be cut, then it has fewer rows than the one before."""
        full = [s for s in self.kept if s.rows]
        if len(full) > 1 and len(full[-1].rows) < len(full[-2].rows):
            full.pop()
        return full[-1] if full else None


def _take_line(screen: _Screen, text: str, cite: Citation) -> bool:
    """Take one line into the screen; return False if it does not fit."""
    if match := _COLUMNS.match(text):
        screen.dso_column, screen.open_title = "DSO" in match["rest"], False
    elif _TITLE.match(text):
        screen.title, screen.open_title = text, not text.rstrip().endswith(")")
    elif entry := _parse_counted_row(text, screen) or parse_row(text, _DEFAULT_COLUMNS):
        screen.rows.append(Entry(entry, cite))
        screen.open_title = False
    elif _is_graph(text) and screen.table.take_line(text, cite):
        screen.open_title = False
    elif screen.open_title and text.strip() and _TITLE_PART.match(text):
        screen.title += " " + text.strip()
    else:
        return not text.strip() or bool(
            _RULER.match(text) or _KEYS.match(text) or text.lstrip().startswith(("#", "Overhead"))
        )
    return True


def _is_graph(text: str) -> bool:
    """Whether the line is part of a call graph: bars, or names that are indented as far as those."""
    return bool(_INDENTED.match(text)) and is_graph_line(text)


def _parse_counted_row(text: str, screen: _Screen) -> OverheadRow | None:
    """Return a row of the layouts with a number of samples."""
    match = _COUNTED_ROW.match(text)
    if not match:
        return None
    name, dso = match["rest"].strip(), ""
    if len(words := name.rsplit(None, 1)) > 1 and _OBJECT.match(words[1]):
        name, dso = words
    percent = parse_percent(match["share"])
    samples = int(float(match["samples"].replace(",", ".")))
    kernel = kernel_dso(dso) if screen.dso_column else True
    return OverheadRow(percent, percent, samples, dso=dso, symbol=name, kernel=kernel)


def _profile(screen: _Screen, screens: int) -> Profile:
    if screen.dso_column and any(entry.row.dso for entry in screen.rows):
        # A function without an object is none of the kernel: `[kernel]` is short and always fits.
        screen.table.entries = [e if e.row.dso else replace(e, row=replace(e.row, kernel=False)) for e in screen.rows]
    event = _EVENT.search(screen.title)
    profile = screen.table.profile(PARSER.name, event["event"] if event else "", screen.cite)
    facts = {name: match[1] for name, pattern in _TITLE_FACTS.items() if (match := pattern.search(screen.title))}
    ledger = profile.ledger
    if lost := _LOST.search(screen.title):  # next to the samples of a second; screens are 2 s apart
        read = int(facts.get("irqs_per_second", 0)) if int(lost[1]) else 0
        ledger = replace(ledger, read=read, kept=read, lost=int(lost[1]))
    facts |= {**profile.facts, "screens": str(screens), "screen": "the last complete one"}
    return replace(profile, ledger=ledger, facts=facts)


def continues(text: str) -> bool:
    """Whether the line is empty, a title, a column head, a row or a prompt; sentences are none of these."""
    if not text.strip():
        return True
    kinds = (_TITLE, _COLUMNS, _COUNTED_ROW, _RULER, _KEYS, _TITLE_PART)
    if any(kind.match(text) for kind in kinds):
        return True
    entry = parse_row(text, _DEFAULT_COLUMNS)
    if entry is not None and (entry.marked or entry.dso):
        return True
    return _is_graph(text)


PARSER = Parser(
    "perf_top", "perf top --stdio, or a copy of its screen", read,
    opens=re.compile(r"\s*PerfTop:\s+\d|\s*(?:samples|weight|events)\s+pcnt\s|Mapped keys:"), continues=continues,
    priority=10,
)  # fmt: skip
