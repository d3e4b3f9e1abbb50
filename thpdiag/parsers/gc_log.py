"""Pauses of a Java virtual machine (HotSpot): how long its garbage collector stopped the program, and the CPU time.

    [2026-11-27T09:56:25.446+0000][0.342s][info][gc,cpu] GC(0) User=0.01s Sys=0.02s Real=0.06s
    2016-02-09T00:30:52.886-0500: 1700.401: [Full GC ... 7.26 secs] [Times: user=9.50 sys=0.01, real=7.27 secs]

Units: seconds with two decimals, each of the collector's threads counted in user and sys. They are summed up from the
first line on, so that a change is what the pauses in between took. Lines without a date, whose seconds count from the
start of the virtual machine, have no time.
Varies: the decorations before a line (-Xlog:gc*:file=...:DECORATIONS); JDK 8 and older write all of a pause in a line,
its times at the end, without a date unless -XX:+PrintGCDateStamps was given. Source: OpenJDK gcTraceTime.cpp of
17 and 25, gcTraceTime.cpp of 8 (TraceCPUTime); recorded with 17.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Moment, Record, Sample
from thpdiag.model.facts import zoned_moment
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, any_of, with_errors
from thpdiag.parsers._time import date_seconds, day_seconds

_DATE = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.,]\d{3}(?:[+-]\d{4}|Z)?"
_NUMBER = r"(\d{1,9}\.\d\d)"
_TAGS = r"(?:\[[^\[\]]{1,40}\]){0,8}\[gc(?:,[a-z]{2,20}){0,4} {0,20}\]"
TIMES = re.compile(rf"{_TAGS} GC\(\d{{1,9}}\) User={_NUMBER}s Sys={_NUMBER}s Real={_NUMBER}s")
LINE = re.compile(_TAGS)
OLD_TIMES = re.compile(rf"\[Times: user={_NUMBER} sys={_NUMBER}, real={_NUMBER} secs\]")
OLD_LINE = re.compile(rf"(?:{_DATE}: )?(?:\d{{1,9}}\.\d{{3}}: )?\[(?:Full )?GC\b")
OLD_REST = re.compile(
    r"\s{0,8}\[(?:Times: |PSYoungGen|ParOldGen|ParNew|CMS|Eden|Parallel Time|GC Worker|Code Root|Clear CT|Other"
    r"|Ext Root|Update RS|Scan RS|Object Copy|Termination|Choose CSet|Ref |Redirty|Humongous|Free CSet)"
)
MOMENT = re.compile(r"\[?(\d{4})-(\d\d)-(\d\d)T(\d\d:\d\d:\d\d[.,]\d{3})([+-]\d{4}|Z)?")
METRICS = ("jvm_gc_user_seconds_total", "jvm_gc_system_seconds_total", "jvm_gc_pause_seconds_total")


def _moment(text: str) -> Moment | None:
    found = MOMENT.match(text)
    day = date_seconds(int(found[1]), int(found[2]), int(found[3])) if found else None
    time = day_seconds(found[4].replace(",", ".")) if found else None
    return zoned_moment(day + time, found[5] or "") if found and day is not None and time is not None else None


@with_errors("gc_log")
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """A Sample of the host for each pause: all pauses of the text up to it."""
    totals, time = [0.0] * len(METRICS), None
    for line, text in lines:
        found = TIMES.match(text) or OLD_TIMES.search(text)
        if found is None and text.strip() and not belongs(text):
            odd.note(line, text, "not a line of a log of garbage collections")
        time = _moment(text) or time
        if found:
            totals = [round(total + float(spent), 2) for total, spent in zip(totals, found.groups(), strict=True)]
            yield Sample("system", dict(zip(METRICS, totals, strict=True)), source.cite(line, text), "gc_log", (), time)


belongs = any_of(LINE, OLD_LINE, OLD_REST, blank=True)
PARSER = Parser(
    "gc_log", "log of garbage collections (Java)", read, continues=belongs,
    opens=re.compile(f"{TIMES.pattern}|{OLD_LINE.pattern}"),
)  # fmt: skip
