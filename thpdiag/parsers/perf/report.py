"""perf report as text: `perf report --stdio`, or a copy of what the terminal browser showed.

    # Samples: 124K of event 'cycles'
    # Overhead  Command  Shared Object      Symbol
         2.76%  m0d      [kernel.kallsyms]  [k] generic_exec_single
                |
                --- generic_exec_single
                   |--99.92%-- smp_call_function_single

Shares are percent of the event. A row is split over the chains below it: what the branches leave over stays with the
stem, and what no chain shows stays with the row. Varies: callee order (leaf first) or caller order (root first),
recognised by the place of the row's own function; shares of everything or of the parent (fractal), recognised by
branches that exceed their parent; `Children` columns, of which only `Self` is weight; several events in one text; `-t`
separators; `--hierarchy`. Versions before 3.15 write `# Events: 1K cycles`, 2.6.32 `# Samples: 1234567` (a period).
Source: tools/perf/ui/stdio/hist.c, ui/browsers/hists.c; recorded with perf 6.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from thpdiag.model import Citation, Problem, ProblemKind, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors
from thpdiag.parsers.perf._texts import HEADER_COMMENT, HEADER_OPENS, header_fact, host_facts
from thpdiag.parsers.perf.call_graph import is_graph_line
from thpdiag.parsers.perf.overhead import PERCENT, Columns, Table, parse_columns, parse_row

_COUNT = r"\d{1,18}(?:,\d{3}){0,5}(?:\.\d{1,3})?"
_EVENT = re.compile(
    rf"#?\s*Samples:\s*(?P<count>{_COUNT})(?P<unit>[KMGT]?)(?:\s+of events?\s+'(?P<event>[^']{{1,200}})')?(?:,|\s|$)"
    rf"|#\s*Events:\s*(?P<count2>{_COUNT})(?P<unit2>[KMGT]?)\s+(?P<event2>\S.{{0,200}})$"
)
_PERIOD = re.compile(r"\bEvent count \(approx\.\):\s*(\d{1,20})")
_LOST = re.compile(r"#\s*Total Lost Samples:\s*(\d{1,18})")
_BRANCHES = re.compile(r"\b(?:Source|From|Target|To) Symbol\b")
_LIVE_LOST = re.compile(r"\blost:\s*\d{1,18}/(\d{1,18})\s+drop:")
_FILTER = re.compile(r"#\s(?P<what>comm|dso|symbol|thread|socket):\s+(?P<only>\S.{0,200})$")
_MAX_SUM_PERCENT = 100.5  # of all rows
_MAX_ROUNDING_PERCENT = 0.005  # by which a share may be too high
_COLUMN_HEAD = re.compile(
    r"#?\s*(?:Overhead|Children)\b(?!:)(?=.*\b(?:Command|Shared Object|Symbol|CPU|Self|Parent)\b|\s*$)"
)
_HINT = re.compile(
    r"\s*(?:Press '\?' for help|For a higher level overview|Tip: |Cannot load tips|no symbols found|\(Tip)"
)
_ELISION = re.compile(r"\s*[\[(<]?(?:\.{3,}|…|snip)[\])>]?\s*$")  # in place of rows that were left out
_IGNORED = re.compile(rf"{HEADER_COMMENT.pattern}|{_HINT.pattern}|{_ELISION.pattern}")
_SEPARATED = re.compile(r"#\s*(?:Overhead|Children)(?P<sign>[^\w\s]|\t)")
_ROW_OPENS = rf"\s*(?:[+-]\s*)?{PERCENT}\s+(?:{PERCENT}\s+)?(?:\S.{{0,300}}?\s)?\[[k.guH]\]\s+\S"
_ROW_LIKE = re.compile(r"\s*[\d.,]{3,12}%\s*\S")  # with -t, or damaged
_BROWSER_ROW = re.compile(rf"[+-]\s{{1,4}}{PERCENT}\s{{2,}}\S")
_BRANCH_BELOW = re.compile(rf"\s{{2,}}[+-]\s+(?:{PERCENT}\s+)?[\w\[]\S*(?:\s|$)")
_UNITS = {"": 1, "K": 1_000, "M": 1_000_000, "G": 10**9, "T": 10**12}


@dataclass(slots=True)
class _Section:
    """The text of one event, or of one group of events."""

    cite: Citation
    events: tuple[str, ...] = ()
    samples: int | None = None
    facts: dict[str, str] = field(default_factory=dict)
    lost: int | None = None
    table: Table = field(default_factory=Table)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """Facts of the header, and one profile per event. Lines that fit nothing are counted in one problem."""
    header: dict[str, str] = {}
    errors = ParseErrors(source, PARSER.name)
    current: _Section | None = None
    for number, text in lines:
        cite = source.cite(number, text)
        if fact := header_fact(text):
            if header.setdefault(*fact) is fact[1]:
                yield from host_facts(dict([fact]), cite)
            continue
        if current is None or _is_next_event(current, text):
            if current is not None:
                yield from _profiles(current, header)
            current = _Section(cite, lost=current.lost if current else None)
        if not (_take_head(current, text) or current.table.take_line(text, cite)):
            errors.note(number, text, "a line of perf report that is neither a row nor part of a call graph")
    yield from errors.problems()
    if current is not None:
        yield from _profiles(current, header)


def _is_next_event(current: _Section, text: str) -> bool:
    """Whether another event begins on this line."""
    if _LOST.match(text):
        return bool(current.table.entries)
    return bool(_EVENT.match(text) and (current.table.entries or current.samples is not None))


def _take_head(current: _Section, text: str) -> bool:
    """Take a line above the rows; return False if it is none."""
    table = current.table
    if match := _EVENT.match(text):
        _take_samples(current, match, text)
    elif match := _LOST.match(text):
        current.lost = int(match[1])
    elif match := _FILTER.match(text):
        current.facts["filter"] = f"{match['what']} {match['only']}"
        table.comm = match["only"] if match["what"] == "comm" and "," not in match["only"] else ""
    elif _COLUMN_HEAD.match(text) or _SEPARATED.match(text):
        sign = _SEPARATED.match(text)
        table.columns = parse_columns(text)._replace(events=max(1, len(current.events)))
        table.sign = sign["sign"] if sign else ""
        if _BRANCHES.search(text):
            current.facts["branches"] = "yes"
    elif not (_IGNORED.match(text) if table.entries else _IGNORED.match(text) or not text.strip()):
        return False
    if period := _PERIOD.search(text):
        current.facts["event_count"] = period[1]
    return True


def _take_samples(current: _Section, match: re.Match[str], text: str) -> None:
    """Take the number of samples (of a group the sum) and the events. The browser of perf top shows losses here."""
    name = match["event"] or match["event2"] or ""
    inner = name[name.find("{") + 1 : name.rfind("}")] if "{" in name else name
    current.events = tuple(event.strip() for event in inner.split(",")) if "{" in name else (inner.strip(),)
    if name:  # without a name it is 2.6.32, which prints the period
        count, unit = match["count"] or match["count2"], match["unit"] or match["unit2"] or ""
        current.samples = round(float(count.replace(",", "")) * _UNITS[unit])
    if lost := _LIVE_LOST.search(text):
        current.lost = int(lost[1])


def _profiles(current: _Section, header: dict[str, str]) -> Iterator[Record]:
    """Yield one profile for each event of a group, its rows split over the chains below them."""
    table = current.table
    if "branches" in current.facts:
        text = "a perf report of branches taken (--sort symbol_from): it shows jumps, not where the time went"
        yield Problem(current.cite, text, ProblemKind.ODD, PARSER.name, count=max(1, len(table.entries)))
        return
    if not table.entries:
        if current.samples:
            yield Problem(current.cite, "a perf report without any row in the text", reader=PARSER.name)
        return
    events = table.events()
    names = (*current.events, *[""] * events)[:events]
    if len(current.events) > 1:
        current.facts["group"] = ", ".join(current.events)
    for number, name in enumerate(names):
        profile = table.profile(PARSER.name, name, current.cite, number)
        total = float(profile.rows.weight.sum())
        if total > _MAX_SUM_PERCENT + _MAX_ROUNDING_PERCENT * len(profile.rows):
            text = f"rows of perf report with {total:.0f} % in all, whose header is missing or belongs to another table"
            yield Problem(current.cite, text, ProblemKind.ODD, PARSER.name)
        # a group has only the sum of all events as `samples`
        samples = current.samples if events == 1 else int(profile.rows.samples.sum()) or None
        yield replace(
            profile,
            ledger=replace(profile.ledger, read=samples or 0, kept=samples or 0, lost=current.lost),
            total_samples=samples,
            facts={**header, **current.facts, **profile.facts},
        )
    if table.exceeding:
        text = "branches of a call graph that add up to more than the whole: a line is damaged or duplicated"
        yield Problem(current.cite, text, ProblemKind.ODD, PARSER.name, count=table.exceeding)
    if table.cut:
        text = (
            "call graphs that lost their indentation or the ends of their lines: only the functions above the first "
            "branch of each are certain"
        )
        yield Problem(current.cite, text, ProblemKind.ODD, PARSER.name)


def continues(text: str) -> bool:
    """Whether the line is empty, a comment of perf, a row or part of a call graph; sentences are none of these."""
    if not text.strip():
        return True
    if text.lstrip().startswith("#"):
        return bool(HEADER_COMMENT.match(text))
    if any(known.match(text) for known in (_EVENT, _COLUMN_HEAD, _HINT, _ELISION)):
        return True
    return parse_row(text, Columns()) is not None or is_graph_line(text) or bool(_ROW_LIKE.match(text))


def _confirm(ahead: list[str]) -> object:
    """Whether a comment header is followed by a line about rows before any sample of perf script.

    A row of the browser without a letter before its symbol counts as one if a branch follows.
    """
    if _BROWSER_ROW.match(ahead[0]) and not re.match(_ROW_OPENS, ahead[0]):
        return len(ahead) > 1 and _BRANCH_BELOW.match(ahead[1])
    if not re.match(HEADER_OPENS, ahead[0]):
        return True
    for text in ahead[1:]:
        if _COLUMN_HEAD.match(text) or _EVENT.match(text) or _LOST.match(text):
            return True
        if not HEADER_COMMENT.match(text) and text.strip():
            return bool(re.match(_ROW_OPENS, text))
    return False


PARSER = Parser(
    "perf_report", "perf report --stdio, or a copy of its screen", read, continues=continues, confirm=_confirm,
    lookahead=80,
    opens=re.compile(
        r"(?!(?:\s{0,40}\d{1,3}\.\d\d%){3,8}\s+0x[0-9a-f]{1,4}\s)"  # of perf c2c: accesses to a cache line
        rf"(?:{_ROW_OPENS}|{_BROWSER_ROW.pattern}|{HEADER_OPENS}"
        r"|#\s(?:To display the perf\.data header|Total Lost Samples:|Samples:\s*\d|Events:\s*\d+[KMG]?\s)"
        r"|#\s(?:Overhead|Children)\b[^\w:]\s*\w"
        r"|Samples:\s*\d+[KMG]?\s+of event|(?:Overhead|Children)\s{2,}(?:Self|Command|Shared Object|Symbol)\b)"
    ),
)  # fmt: skip
