r"""pg_stat_activity of PostgreSQL, as psql prints it: what its backends wait for.

      pid  | state  | wait_event_type |  wait_event   |         query
    -------+--------+-----------------+---------------+------------------------
     25529 | active |                 |               | select count(*) from t;
     25531 | active | Lock            | transactionid | UPDATE t SET n = n + 1;
    (2 rows)

A backend that is active and has no wait event uses a CPU or waits for the kernel, of which PostgreSQL does not know.
Counted are active backends without that which asked, which is known by its query; where none has that, one running
backend is left out. Also the expanded form (\x). Varies: columns and their order; the column wait_event since 9.6
(`waiting` before it is of locks alone, and not used); backend_type since 10.
Source: PostgreSQL documentation, The Statistics Collector; recorded with 15.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from thpdiag.model import Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, any_of, with_errors

NAME = "pg_stat_activity"
_TITLES = re.compile(
    r"(?=(?:.{0,2000}\|)? *state *(?:\||$))(?=(?:.{0,2000}\|)? *wait_event *(?:\||$))[ |a-z_0-9]{10,4000}$"
)
_RULER = re.compile(r"-+(?:\+-+)+\s*$")
_FOOT = re.compile(r"\(\d{1,7} rows?\)\s*$")
_RECORD = re.compile(r"-\[ RECORD \d{1,7} \][-+]*\s*$")
_CELLS = re.compile(r"[^|\n]{0,8000}\|.*$")
_OWN = "pg_stat_activity"


@dataclass(slots=True)
class _Counts:
    """Backends of one answer."""

    running: int = 0
    asked: bool = False  # whether the backend that asked was known

    def take(self, row: Mapping[str, str]) -> None:
        """Count a backend that works and waits for nothing."""
        own = _OWN in row.get("query", "")
        self.asked = self.asked or own
        if row.get("state") == "active" and row.get("backend_type", "client backend") == "client backend" and not own:
            self.running += not row["wait_event"]

    def facts(self, source: Source, first: tuple[int, str]) -> Iterator[Fact]:
        """The count, without the backend that asked."""
        asked = 0 if self.asked else min(1, self.running)
        yield Fact("postgres.running_backends", self.running - asked, source.cite(*first), (), source.time)


@with_errors(NAME)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """postgres.running_backends of each answer."""
    titles, counts, row, first = list[str](), _Counts(), dict[str, str](), (0, "")
    for number, text in lines:
        if _RECORD.match(text) or _TITLES.match(text):
            first = first if first[0] else (number, text)
            counts.take(row) if "wait_event" in row else None
            row = {}
            titles = [] if _RECORD.match(text) else _split(text)
        elif _FOOT.match(text):
            yield from counts.facts(source, first) if first[0] else ()
            titles, counts, first = [], _Counts(), (0, "")
        elif titles and "|" in text:
            cells = _split(text)
            if "wait_event" in titles[: len(cells)] and (cells[0] or len(cells) == len(titles)):
                counts.take(dict(zip(titles, cells, strict=False)))
            elif cells[0]:  # else what goes on from a query above
                odd.note(number, text, "a row that is cut before wait_event: not counted")
        elif "|" in text:
            name, _, value = text.partition("|")
            row[name.strip()] = row.get(name.strip()) or value.strip()
        elif text.strip() and not _RULER.match(text):
            odd.note(number, text, "not a line of psql")
    counts.take(row) if "wait_event" in row else None
    yield from counts.facts(source, first) if first[0] else ()


def _split(text: str) -> list[str]:
    return [cell.strip() for cell in text.split("|")]


def _confirm(ahead: list[str]) -> bool:
    if _RECORD.match(ahead[0]):
        names = {text.partition("|")[0].strip() for text in ahead[1:]}
        return {"state", "wait_event"} <= names
    return len(ahead) > 1 and _RULER.match(ahead[1]) is not None


PARSER = Parser(
    NAME, "pg_stat_activity of PostgreSQL", read, opens=re.compile(rf"{_RECORD.pattern}|{_TITLES.pattern}"),
    continues=any_of(_RULER, _FOOT, _RECORD, _CELLS), confirm=_confirm, lookahead=30,
)  # fmt: skip
