"""Statements about huge pages: warnings that applications print, and prose that reports a rising counter.

    1234:M 25 Jul 10:00:00.000 # WARNING you have Transparent Huge Pages (THP) support enabled in your kernel.
    And indeed the compact_fail counter was noticed incrementing.

The value of app.thp_warning is the application; its text is the cited line. The value of note.counter_rising is the
counter. Only English statements that somebody observed it count, not instructions (`check whether compact_fail grows`)
nor the kernel's documentation (`compact_fail is incremented if ...`). Such a note is testimony, not a measurement.
Source: the messages in Redis (also `latency doctor`), MongoDB, TokuDB, ClickHouse, Couchbase.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.model.parser import Lines, Parser, Source

_WARNINGS = (
    ("redis", re.compile(r".{0,200}WARNING:? [Yy]ou have Transparent Huge Pages \(THP\) support enabled")),
    ("redis", re.compile(r"- I detected a non zero amount of anonymous huge pages used by your process")),
    (
        "mongodb",
        re.compile(r".{0,300}/sys/kernel/mm/(?:redhat_)?transparent_hugepage/(?:enabled|defrag) is ['‘]always['’]"),
    ),
    ("tokudb", re.compile(r".{0,200}(?:TokuDB|PerconaFT|TokuFT)\b.{0,80}[Tt]ransparent [Hh]uge ?[Pp]ages")),
    ("clickhouse", re.compile(r".{0,200}Linux transparent hugepages are set to [\"']always[\"']")),
    (
        "couchbase",
        re.compile(r".{0,200}Transparent [Hh]uge ?[Pp]ages.{0,20} (?:is |are )?enabled and must be disabled"),
    ),
)
_COUNTER = r"((?:compact|thp|allocstall|pgmigrate|numa)_?\w{0,40})"
_RISES = r"(?:incrementing|increasing|growing|rising|climbing|going up)"
_NOTICED = r"(?:noticed|seen|observed|found)(?: to be)?(?: rapidly| steadily)?"
_STEADY = r"(?:rapidly|steadily|constantly|continuously|quickly)"
_KIND = r"(?: counters?| values?| numbers?)?,?"
_RISING = (
    re.compile(rf"\b{_COUNTER}{_KIND} (?:was|were) {_NOTICED} {_RISES}\b"),
    re.compile(rf"\b{_COUNTER}{_KIND} (?:keeps|kept) (?:on )?{_RISES}\b"),
    re.compile(rf"\b{_COUNTER}{_KIND} (?:was|were|is|are) {_STEADY} {_RISES}\b"),
    re.compile(rf"\b(?:noticed|saw|see|observed)(?: that)? (?:the )?{_COUNTER}{_KIND} (?:was |is )?{_RISES}\b"),
)
_NO_STATEMENT = re.compile(
    r"\b(?:if|whether|when|unless|until|check|should|may|might|could|would|not|no longer|never|watch)\b|\?",
    re.IGNORECASE,
)
_OPENS = re.compile(
    r"- I detected a non zero amount of anonymous huge pages|"
    r"(?=.{0,300}(?:ransparent|(?:compact|thp|allocstall|pgmigrate|numa)_\w))"
    r"(?:.{0,200}WARNING:? [Yy]ou have Transparent Huge Pages|"
    r".{0,300}transparent_hugepage/(?:enabled|defrag) is ['‘]always|"
    r".{0,200}(?:TokuDB|PerconaFT|TokuFT)\b.{0,80}[Tt]ransparent|.{0,200}Linux transparent hugepages are set|"
    r".{0,200}Transparent [Hh]uge ?[Pp]ages.{0,20} (?:is |are )?enabled and must|"
    rf".{{0,300}}\b(?:compact|thp|allocstall|pgmigrate|numa)_\w+.{{0,60}} {_RISES}\b)"
)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """Yield app.thp_warning and note.counter_rising."""
    for number, line in lines:
        cite = source.cite(number, line)
        for app, warning in _WARNINGS:
            if warning.match(line):
                yield Fact("app.thp_warning", app, cite, (("app", app),), time=source.time)
                break
        else:
            if counter := _rising_counter(line):
                yield Fact("note.counter_rising", counter, cite, time=source.time, provenance="prose")


def _rising_counter(line: str) -> str | None:
    """Return the counter that the line reports as observed to rise."""
    match = next((m for m in (pattern.search(line) for pattern in _RISING) if m), None)
    if not match:
        return None
    sentence = line[line.rfind(". ", 0, match.start()) + 1 : match.end() + 1]
    return None if _NO_STATEMENT.search(sentence) else match[1]


PARSER = Parser(
    "app_notes", "applications' warnings about huge pages, and counters reported to rise", read, opens=_OPENS,
    continues=lambda _: False, priority=-10,  # every other format takes precedence over prose
)  # fmt: skip
