"""What counters of /proc/vmstat rose by, row by row, in a table that somebody made by hand or with a script.

     #     lat   d_pgmigrate  d_compact_scan  d_stall  (start)
     1   95.9s       825669        13303880     1242   08:51:03  <-- slow
     2    0.1s            0               0        0   08:54:35

The header names at least two counters, as the kernel does, or shortened, after `d_`, `delta_`, `diff_` or nothing, or
with `/s` behind them. Without such a mark it is a table of what was added only if a figure falls from row to row; a
total never does. A column `lat`, `took`, `seconds` or the like is how long a piece of work took, in seconds unless it
says `ms`. With that, or `/s`, the rows are rates. How much longer work took where programs compacted memory than where
they did not is somebody's word, for nobody knows how it was measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from thpdiag.model import Fact, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, with_errors

NAME = "counter_deltas"
_COUNTER = re.compile(
    r"(?P<mark>(?:d|delta|diff)_|Δ)?(?P<name>compact_(?:stall|fail|success|migrate_scanned|free_scanned|isolated|scan(?:ned)?)"
    r"|pgmigrate(?:_success|_fail)?|thp_[a-z_]{4,40}|allocstall[a-z_]{0,12}|pg(?:scan|steal)_[a-z_]{4,20}|stalls?)"
    r"(?P<per>/s(?:ec)?)?"
)
_SHORT = {
    "pgmigrate": "pgmigrate_success", "compact_scan": "compact_migrate_scanned",
    "compact_scanned": "compact_migrate_scanned", "stall": "compact_stall", "stalls": "compact_stall",
}  # fmt: skip
_WORK = re.compile(r"(?:lat|latency|took|elapsed|seconds|secs?|duration|dur)(?:\(m?s\))?")
_SECONDS = re.compile(r"(?P<number>\d{1,7}(?:\.\d{1,6})?)(?P<unit>ms|s|)")
_NUMBER = re.compile(r"\+?\d{1,18}(?:\.\d{1,3})?")
_OPENS = re.compile(r"(?=.{0,200}(?:compact_|pgmigrate))\s{0,12}\S{1,40}(?:\s{1,24}\S{1,40}){1,11}\s*$")
_ROW = re.compile(r"\s{0,12}(?:#?\d|\+\d)")
MIN_STALLS = 10  # of a row in which programs compacted
MIN_ROWS = 2  # with such stalls, and without any
MAX_ROWS = 100_000


class _Column(NamedTuple):
    at: int
    counter: str
    is_delta: bool
    is_rate: bool


def _columns(header: str) -> tuple[list[_Column], int | None]:
    """The columns of counters, and the place of that of work."""
    words = header.split()
    found = [(at, match) for at, word in enumerate(words) if (match := _COUNTER.fullmatch(word))]
    if not any("compact" in match["name"] or "pgmigrate" in match["name"] for _, match in found):
        return [], None
    columns = [
        _Column(at, _SHORT.get(match["name"], match["name"]), bool(match["mark"]), bool(match["per"]))
        for at, match in found
    ]
    return columns, next((at for at, word in enumerate(words) if _WORK.fullmatch(word.lower())), None)


def _values(text: str, columns: Sequence[_Column]) -> dict[str, float] | None:
    words = text.split()
    if len(words) <= columns[-1].at or not all(_NUMBER.fullmatch(words[column.at]) for column in columns):
        return None
    return {column.counter: float(words[column.at]) for column in columns}


def _confirm(lines: list[str]) -> bool:
    columns, _ = _columns(lines[0])
    return len(columns) >= 2 and any(_ROW.match(line) and _values(line, columns) for line in lines[1:3])


class _Table(NamedTuple):
    """A header's columns, the place of that of work, and the rows below it."""

    columns: list[_Column]
    work: int | None
    rows: list[tuple[int, str, dict[str, float]]]


@with_errors(NAME)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A Sample for each row whose time is known, and how much longer work took where programs compacted memory."""
    table = _Table([], None, [])
    for number, text in lines:
        if len((header := _columns(text))[0]) > 1:
            yield from _records(source, table)
            table = _Table(*header, [])
        elif table.columns and _ROW.match(text) and len(table.rows) < MAX_ROWS:
            if (values := _values(text, table.columns)) is None:
                odd.note(number, text, "a row without a number in each column of a counter")
            else:
                table.rows.append((number, text, values))
    yield from _records(source, table)


def _records(source: Source, table: _Table) -> Iterator[Record]:
    marked = any(column.is_delta or column.is_rate for column in table.columns)
    if not table.rows or not (marked or _falls([values for _, _, values in table.rows])):
        return
    took_by_kind: dict[bool, list[float]] = {True: [], False: []}
    for number, text, values in table.rows:
        took = _seconds(text.split(), table.work)
        if span := 1.0 if all(column.is_rate for column in table.columns) else took:
            rates = {f"node_vmstat_{name}:rate": value / span for name, value in values.items()}
            yield Sample("system", rates, source.cite(number, text), NAME)
        stalls = values.get("compact_stall")
        if took and stalls is not None and (stalls >= MIN_STALLS or stalls == 0):
            took_by_kind[stalls > 0].append(took)
    if min(map(len, took_by_kind.values())) >= MIN_ROWS:
        ratio = round(median(took_by_kind[True]) / median(took_by_kind[False]), 1)
        yield Fact("testimony.slower_with_stalls", ratio, source.cite(*table.rows[0][:2]), provenance="prose")


def _falls(rows: Sequence[Mapping[str, float]]) -> bool:
    return any(after[name] < before[name] for before, after in pairwise(rows) for name in before)


def _seconds(words: Sequence[str], at: int | None) -> float | None:
    found = _SECONDS.fullmatch(words[at]) if at is not None and at < len(words) else None
    return float(found["number"]) * (0.001 if found["unit"] == "ms" else 1.0) if found else None


PARSER = Parser(
    NAME, "table of what counters of /proc/vmstat rose by", read, opens=_OPENS, continues=_ROW.match, confirm=_confirm,
    priority=-3,
)  # fmt: skip
