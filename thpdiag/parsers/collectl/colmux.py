"""colmux: collectl of many hosts, a row of each, as one table an interval.

    # Sat Nov 28 17:19:14 2026  Connected: 2 of 2
    #         <--------CPU--------><-----------Memory----------->
    #Host     cpu sys inter  ctxsw Free Buff Cach Inac Slab  Map
    node2      99   3   696    452  19G  48M   2G   1G 612M   1G
    node1      99   3   698    454  19G  48M   2G   1G 612M   1G

Columns and units are those of collectl's brief form. The line above names the time of all rows; of a recording that is
played back it is a span (`# 17:19:14-17:19:19  Reporting: 2 of 2`), and rows are known by the time before them (-oT,
-oD). Without it they stand in the order of a column, which says nothing of when they were, and are left out.
Varies: in 4.3.1 the titles of the time come again and again. Left out: hosts side by side in one row (-cols).
Source: colmux 5.0; recorded with collectl 4.3.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from thpdiag.detect.timestamps import parse_timestamp
from thpdiag.model import Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, any_of, with_errors
from thpdiag.parsers._time import DayClock
from thpdiag.parsers.collectl._columns import TIME
from thpdiag.parsers.collectl.text import BANNER, ROW, Table

NAME = "colmux"
_SCREEN = re.compile(r"#+ (?P<time>\S.{4,60}?)  (?:Connected|Reporting): \d{1,6} of \d{1,6}\b")
_HEAD = re.compile(r"#Host\s+(?P<titles>\S.*)$")
_REPEATED = re.compile(r"\b(?:Date|Time|e)\s+")
_ROW = re.compile(r"(?P<host>[A-Za-z0-9][\w.-]{0,252})\s+(?P<row>\d[\d.:/KMGTPgt\s-]{3,400})$")


@with_errors(NAME)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """Samples of each host behind its name."""
    table, host, when = Table(source, odd), "", source.time
    for number, text in lines:
        if screen := _SCREEN.match(text):
            when = parse_timestamp(screen["time"])
        elif head := _HEAD.match(text):
            table.header(_REPEATED.sub("", head["titles"]))
        elif table.titles and (found := _ROW.match(text)) and ROW.match(found["row"]):
            at = TIME.match(found["row"])
            if at is None and when is None:
                odd.note(number, text, "a row of colmux without its time; run it with -oT")
                continue
            if found["host"] != host:
                host = found["host"]
                yield Fact("host.name", host, source.cite(number, text))
            table.clock = DayClock()  # rows are not in the order of time
            for sample in table.row(number, found["row"]):
                cite = source.cite(number, text)
                yield replace(sample, cite=cite, reader=NAME, time=sample.time if at else when)
        elif text.strip() and not BANNER.match(text):
            odd.note(number, text, "not a row of colmux")


PARSER = Parser(
    NAME, "colmux, collectl of many hosts", read, opens=_SCREEN, priority=1,
    continues=any_of(_SCREEN, _HEAD, BANNER, _ROW, blank=True),
)  # fmt: skip
