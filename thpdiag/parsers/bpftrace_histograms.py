"""Maps that bpftrace prints at its end: histograms and sums, of which the names say what they measure.

    @compact_us[store, 9]:
    [256, 512)            17 |                                                    |
    [512, 1K)           1258 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

    @total_us[store]: count 1529, average 916, total 1401668

Units: as the script says; a name that ends in ns, us or ms (or nsecs, usecs, msecs) tells, else it is not used. What is
measured is taken from the name of the map or from the probes of the command above it: compaction, direct reclaim, a
collapse. K, M, G are powers of 1024. Keys are what the script made them; the first word is taken for the task's name.
hist() has buckets of powers of two, lhist() of equal size with `(..., 0)` and `[100, ...)` at the ends.
Source: bpftrace src/output.cpp (0.17); recorded with 0.17.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from thpdiag.model import Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._kernel_events import (
    BACKGROUND,
    COLLAPSE,
    COMPACTION,
    KERNEL_THREAD,
    RECLAIM,
    UNKNOWN,
    comm_of,
    shown,
)
from thpdiag.parsers._lines import ParseErrors, any_of, with_errors

NAME = "bpftrace_histograms"
MAP = re.compile(r"@(?P<map>\w{0,60})(?:\[(?P<keys>[^\]]{0,120})\])?:\s*(?P<rest>.*)$")
_EDGE = r"(?:-?\d{1,18}[KMGTPE]?|\.\.\.)"
BUCKET = re.compile(rf"[\[(](?P<low>{_EDGE})(?:, (?P<high>{_EDGE}))?[\])]\s+(?P<count>\d{{1,18}}) \|[@ ]{{0,60}}\|\s*$")
ATTACHING = re.compile(r"Attaching \d{1,5} probes?\.\.\.$|(?:ERROR|WARNING|stdin:\d|Lost \d)")
_UNITS = {"ns": 1e-9, "nsecs": 1e-9, "us": 1e-6, "usecs": 1e-6, "ms": 1e-3, "msecs": 1e-3}
_UNIT = re.compile(r"(?:^|_)(ns|us|ms|nsecs|usecs|msecs)$")
_KINDS = (
    (COLLAPSE, re.compile("collapse")), (RECLAIM, re.compile("reclaim")), (COMPACTION, re.compile("compact")),
)  # fmt: skip
_POWERS = {letter: 1024**power for power, letter in enumerate("KMGTPE", 1)}


@dataclass(slots=True)
class _Histogram:
    """Buckets (low, high, count) of one key of a map; an open end has the other end's value."""

    line: int
    text: str
    map: str
    keys: str
    buckets: list[tuple[float, float, int]] = field(default_factory=list)

    def at(self, share: float) -> tuple[float, float]:
        """The bucket that so many of all lie in or below."""
        left = share * sum(count for _, _, count in self.buckets)
        filled = [bucket for bucket in self.buckets if bucket[2]]
        for low, high, count in filled:
            left -= count
            if left <= 0:
                return low, high
        return filled[-1][:2]


@with_errors(NAME)
def read(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """The spread of what a histogram is of."""
    current: _Histogram | None = None
    found: list[_Histogram] = []
    for number, text in lines:
        if start := MAP.match(text):
            current = None
            if not start["rest"]:
                current = _Histogram(number, text, start["map"], start["keys"] or "")
                found.append(current)
        elif (bucket := BUCKET.match(text)) and current is not None:
            low, high = _edge(bucket["low"]), _edge(bucket["high"] or bucket["low"])
            low, high = (high if low is None else low), (low if high is None else high)
            if low is not None and high is not None:
                current.buckets.append((low, high, int(bucket["count"])))
        elif text.strip() and not ATTACHING.match(text):
            errors.note(number, text, "a line that bpftrace does not print for a map")
    for histogram in found:
        yield from _spread(histogram, source)


def _edge(text: str) -> float | None:
    if text == "...":
        return None
    return float(text[:-1]) * _POWERS[text[-1]] if text[-1] in _POWERS else float(text)


def _spread(histogram: _Histogram, source: Source) -> Iterator[Record]:
    unit = _UNIT.search(histogram.map)
    said = f"{histogram.map} {source.command}"
    kind = next((kind for kind, words in _KINDS if words.search(said)), None)
    count = sum(count for _, _, count in histogram.buckets)
    if unit is None or kind is None or not count:
        return
    size = _UNITS[unit[1]]
    comm = comm_of(histogram.keys.partition(",")[0]) or "all tasks"
    purpose = BACKGROUND if KERNEL_THREAD.match(comm) else UNKNOWN
    labels = (("comm", comm), ("purpose", purpose), ("times", str(count)))
    parts = ((0.5, "median"), (0.99, "99 % within"), (1.0, "longest"))
    words = [
        f"{word} {shown(low * size)} to {shown(high * size)}" for s, word in parts for low, high in (histogram.at(s),)
    ]
    cite = source.cite(histogram.line, histogram.text)
    yield Fact(f"{kind}.spread", ", ".join(words), cite, labels)
    if kind == COMPACTION:
        yield Fact("compaction.longest", histogram.at(1.0)[0] * size, cite, labels)


PARSER = Parser(
    NAME, "histograms of bpftrace", read, opens=re.compile(r"@\w{0,60}(?:\[[^\]]{0,120}\])?:\s*$"),
    continues=any_of(MAP, BUCKET, ATTACHING, blank=True),
    confirm=lambda ahead: any(BUCKET.match(text) for text in ahead[1:2]),
)  # fmt: skip
