"""perf top as text: which functions the CPUs are in right now, with `-g` also from where they were called.

       PerfTop:   16096 irqs/sec  kernel:92.6%  exact:  0.0% [1000Hz cycles],  (all, 16 CPUs)
               223182.00 93.8% _spin_lock_irq                 [kernel.kallsyms]

Shares are percent of the samples that perf top has not yet forgotten (it forgets an eighth per screen), so they are not
additive over screens; of several screens the last complete one counts. With `-g` the first of two shares includes
callees, and the graph of a row was made a moment later than the row, so that parts may exceed their whole. Layouts:

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
from thpdiag.parsers.perf.call_graph import OverheadRow, part, share
from thpdiag.parsers.perf.overhead import Columns, Entry, Table, row

_TITLE = re.compile(r"\s*PerfTop:\s")
_COLUMNS = re.compile(r"\s*(?:samples|weight|events)\s+pcnt\b(?P<rest>.*)")
_KEYS = re.compile(r"\s*(?:Mapped keys:|Enter selection, or unmapped|\[\w{1,2}\]\s+\S)")
_RULER = re.compile(r"\s*[-_][-_ \t]{3,}$")
_PIECE = re.compile(
    r"\s*(?=\S.{0,160}$)(?:.*\birqs/sec\b|(?:kernel|exact|lost|us|guest \w+):"
    r"|\[\d+\w*\s|\S{1,60}\],\s|\((?:all|target_\w+)\b)"
)
_COUNTED = re.compile(
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
_NO_HEAD = Columns(alone="Shared Object")  # perf top --stdio prints no column names, and sorts by object and symbol
_REMEMBERED = 2  # screens kept to choose from
_BARS = re.compile(r"\s{3,}(?:\||--)|\s{12}\s*\S")
_LOST = re.compile(r"\blost:\s*(\d{1,18})/(\d{1,18})")  # while this screen was collected, and since the start


@dataclass(slots=True)
class _Screen:
    """One refresh of the display."""

    cite: Citation
    title: str = ""
    open_title: bool = False  # the title may go on in the next line
    dso_column: bool = True
    table: Table = field(default_factory=lambda: Table(_NO_HEAD, live=True))

    @property
    def rows(self) -> list[Entry]:
        return self.table.entries


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One profile, the last complete screen, and cpu.count if it is of all CPUs.

    Odd lines are counted, an output without samples is a problem.
    """
    seen, errors = _Screens(), ParseErrors(source, PARSER.name)
    for number, text in lines:
        cite = source.cite(number, text)
        if not _line(seen.screen_of(text, cite), text, cite):
            errors.note(number, text, "a line of perf top that fits none of its layouts")
    yield from errors.problems()
    if chosen := seen.last_complete():
        profile = _profile(chosen, seen.full)
        yield profile
        if (cpus := profile.facts.get("cpus", "")).isdecimal() and profile.facts.get("target", "").startswith("all, "):
            yield Fact("cpu.count", int(cpus), chosen.cite, time=source.time)
    elif seen.kept:
        text = "perf top printed its prompts but no samples (its input was closed); perf record gives the same data"
        yield Problem(seen.kept[0].cite, text, reader=PARSER.name, count=seen.empty + 1)


@dataclass(slots=True)
class _Screens:
    """The last screens, and how many there were."""

    kept: list[_Screen] = field(default_factory=list)
    empty: int = 0
    before: int = 0  # full screens before the last

    @property
    def full(self) -> int:
        return self.before + bool(self.kept and self.kept[-1].rows)

    def screen_of(self, text: str, cite: Citation) -> _Screen:
        """The screen that a line belongs to."""
        if not self.kept or _TITLE.match(text) or (_COLUMNS.match(text) and self.kept[-1].rows):
            if self.kept and self.kept[-1].rows:
                self.before += 1
            elif self.kept:
                self.kept.pop()
                self.empty += 1
            self.kept = [*self.kept[-_REMEMBERED:], _Screen(cite)]
        return self.kept[-1]

    def last_complete(self) -> _Screen | None:
        """The last complete screen: the very last may be cut, then it has fewer rows than the one before."""
        full = [s for s in self.kept if s.rows]
        if len(full) > 1 and len(full[-1].rows) < len(full[-2].rows):
            full.pop()
        return full[-1] if full else None


def _line(screen: _Screen, text: str, cite: Citation) -> bool:
    """Take one line into the screen; False if it does not fit."""
    if match := _COLUMNS.match(text):
        screen.dso_column, screen.open_title = "DSO" in match["rest"], False
    elif _TITLE.match(text):
        screen.title, screen.open_title = text, not text.rstrip().endswith(")")
    elif entry := _parse_counted_row(text, screen) or row(text, _NO_HEAD):
        screen.rows.append(Entry(entry, cite))
        screen.open_title = False
    elif _graph(text) and screen.table.take(text, cite):
        screen.open_title = False
    elif screen.open_title and text.strip() and _PIECE.match(text):
        screen.title += " " + text.strip()
    else:
        return not text.strip() or bool(
            _RULER.match(text) or _KEYS.match(text) or text.lstrip().startswith(("#", "Overhead"))
        )
    return True


def _graph(text: str) -> bool:
    """A line of a call graph: bars, or names that are indented as far as those."""
    return bool(_BARS.match(text)) and part(text)


def _parse_counted_row(text: str, screen: _Screen) -> OverheadRow | None:
    """A row of the layouts with a number of samples."""
    match = _COUNTED.match(text)
    if not match:
        return None
    name, dso = match["rest"].strip(), ""
    if len(words := name.rsplit(None, 1)) > 1 and _OBJECT.match(words[1]):
        name, dso = words
    own = share(match["share"])
    samples = int(float(match["samples"].replace(",", ".")))
    kernel = kernel_dso(dso) if screen.dso_column else True
    return OverheadRow(own, own, samples, dso=dso, symbol=name, kernel=kernel)


def _profile(screen: _Screen, screens: int) -> Profile:
    if screen.dso_column and any(entry.row.dso for entry in screen.rows):
        # A function without an object is not the kernel's, whose object is short.
        screen.table.entries = [e if e.row.dso else replace(e, row=replace(e.row, kernel=False)) for e in screen.rows]
    event = _EVENT.search(screen.title)
    profile = screen.table.profile(PARSER.name, event["event"] if event else "", screen.cite)
    facts = {name: match[1] for name, pattern in _TITLE_FACTS.items() if (match := pattern.search(screen.title))}
    ledger = profile.ledger
    if lost := _LOST.search(screen.title):  # beside the samples of a second: the delay between screens is 2 s
        read = int(facts.get("irqs_per_second", 0)) if int(lost[1]) else 0
        ledger = replace(ledger, read=read, kept=read, lost=int(lost[1]))
    facts |= {**profile.facts, "screens": str(screens), "screen": "the last complete one"}
    return replace(profile, ledger=ledger, facts=facts)


def continues(text: str) -> bool:
    """Blank lines, titles, column heads, rows and prompts belong; a sentence does not."""
    if not text.strip():
        return True
    kinds = (_TITLE, _COLUMNS, _COUNTED, _RULER, _KEYS, _PIECE)
    if any(kind.match(text) for kind in kinds):
        return True
    entry = row(text, _NO_HEAD)
    if entry is not None and (entry.marked or entry.dso):
        return True
    return _graph(text)


PARSER = Parser(
    "perf_top", "perf top --stdio, or a copy of its screen", read,
    opens=re.compile(r"\s*PerfTop:\s+\d|\s*(?:samples|weight|events)\s+pcnt\s|Mapped keys:"), continues=continues,
    priority=10,
)  # fmt: skip
