"""The summary of a sosreport that hotsos prints (YAML): kernel, and free blocks of zones without large blocks.

    hotsos:
      version: 1.30.post8
      repo-info: f8b2e0a1
    kernel:
      version: 6.1.0-50-amd64
      memory:
        nodes:
          0:
            zones:
              Normal:
                10: 0
                9: 0

The blocks are those of /proc/buddyinfo, printed only for zones whose largest orders are empty. Because the other zones
are not printed, only the zone Normal is read: a host on which only DMA32 is empty may have enough large blocks. Its
warnings are based on totals since boot, including those of compaction, and a conclusion of another tool is not
evidence, so the report asks for the sosreport. The JSON and Markdown forms are not read. Source: hotsos
core/plugins/kernel/memory.py,
plugin_extensions/kernel/summary.py, defs/scenarios/kernel/memory.yaml of 1.30; recorded with 1.30.post8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Citation, Fact, Problem, Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, with_errors
from thpdiag.parsers._units import parse_count

NAME = "hotsos"
NOT_USED = "conclusions of hotsos, from totals since boot: not used; send the sosreport that it read"
_OPENS = re.compile(r"hotsos:\s*$")
_ROW = re.compile(r"(?P<indent> {0,40})(?P<key>[\w./ -]{1,80}):(?: (?P<value>\S.{0,400}))?\s*$")
_CONTINUES = re.compile(r" {2,40}\S|[a-z][\w-]{1,40}:\s*$")
_ISSUES = ("potential-issues", "bugs-detected")
ORDERS = range(11)  # the orders that hotsos assumes for every host


@with_errors(NAME)
def read(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield kernel.release, and a sample of each zone Normal without large blocks."""
    path: list[tuple[int, str]] = []  # indentation and key of the line and its parents
    zone: dict[str, float] = {}
    place: tuple[str, Citation] | None = None
    for number, text in lines:
        row = _ROW.match(text)
        if row is None:
            continue
        cite, indent, value = source.cite(number, text), len(row["indent"]), (row["value"] or "").strip("'")
        path = [*(part for part in path if part[0] < indent), (indent, row["key"])]
        keys = [key for _, key in path]
        if keys == ["kernel", "version"] and value:
            yield Fact("kernel.release", value, cite, time=source.time)
        elif keys[1:] and keys[-1] in _ISSUES and not value:
            yield Problem(cite, NOT_USED, reader=NAME)
        elif keys[:3] == ["kernel", "memory", "nodes"] and keys[4:6] == ["zones", "Normal"]:
            if len(keys) == 6:
                yield from _sample(zone, place)
                zone, place = {}, (keys[3], cite)
            elif (count := parse_count(value)) is not None and keys[6] in map(str, ORDERS):
                zone[f"node_buddyinfo_blocks_order{keys[6]}"] = float(count)
            else:
                errors.note(number, text, "not a number of free blocks of an order")
    yield from _sample(zone, place)


def _sample(zone: dict[str, float], place: tuple[str, Citation] | None) -> Iterator[Sample]:
    """Yield the sample of a zone with all orders; a zone that was cut off is left out."""
    if place is not None and len(zone) == len(ORDERS):
        yield Sample("zone", zone, place[1], NAME, (("node", place[0]), ("zone", "Normal")))


PARSER = Parser(
    NAME, "summaries of hotsos", read, opens=_OPENS, continues=_CONTINUES.match,
    confirm=lambda lines: any(re.match(r" {2}(?:version|repo-info): \S", line) for line in lines[1:3]),
)  # fmt: skip
