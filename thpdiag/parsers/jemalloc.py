"""Statistics of jemalloc: malloc_stats_print(), MALLOC_CONF=stats_print:true, MEMORY MALLOC-STATS of Redis.

    ___ Begin jemalloc statistics ___
    Version: "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c"
      opt.metadata_thp: "auto"
      opt.thp: "always"
    Allocated: 2892592, active: 3506176, metadata: 2775792 (n_thp 0), resident: 7471104, mapped: 11075584, retained: 0
    --- End jemalloc statistics ---

Units: bytes, at the time of the print. `resident` is what jemalloc believes to be in memory: pages in use, its own
data, and pages that were freed and not yet given back (dirty). What the process has above that was put there by huge
pages, or by somebody who does not use this allocator. `opt.thp` always marks all memory with madvise, never keeps it
out, default leaves it to the kernel; `opt.metadata_thp` marks the allocator's own data only. Tables of arenas are
passed over. The text may come many times, of a process each. The JSON form is not read.
Varies: opt.thp from 5.1 on, opt.metadata_thp from 5.0. Source: jemalloc src/stats.c (stats_general_print,
stats_print_helper) of 4.5, 5.0, 5.2 and 5.3; recorded with 5.3.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, with_errors

NAME = "jemalloc"
LABEL = ("app", NAME)
_BEGIN = re.compile(r"_{2,3} Begin jemalloc statistics _{2,3}\s*$")
_LINE = re.compile(  # of a table, or what a line of the statistics begins with
    r"\s|$|_{2,3} Begin|-{2,3} End|(?:Allocated|Arenas|Background threads|Page size|Quantum size|Version): "
    r"|Build-time option|Run-time option|Profiling settings|Maximum thread-cached|Number of (?:bin|thread-cache|large) "
    r"|Count of realloc|Merged |Destroyed |assigned threads: |uptime: |dss allocation|decaying: |HPA "
    r"|Bytes in small extent|arenas\[\d{1,6}\]:|[a-z_]{3,20}: {1,60}\d|[a-z_]{3,30}(?: {1,40}\d{1,20}){4}"
    r"|(?:bins|large|extents): {1,20}\S|tcache_list "
)
_VERSION = re.compile(r"Version: \"?(?P<version>\d{1,2}(?:\.\d{1,3}){1,2})(?:[-.\s\"]|$)")
_OPTION = re.compile(r"\s{1,4}opt\.(?P<name>thp|metadata_thp): \"(?P<value>[a-z]{1,20})\"")
_OPTION_BEGIN = re.compile(r"\s{1,4}opt\.(?:thp|metadata_thp):")
_SUMS = re.compile(
    r"Allocated: (?P<allocated>\d{1,18}), active: \d{1,18}, metadata: \d{1,18}(?: \(n_thp:? \d{1,18}\))?, "
    r"resident: (?P<resident>\d{1,18}), mapped: \d{1,18}(?:, retained: \d{1,18})?\s*$"
)
_SUMS_BEGIN = re.compile(r"Allocated: ")


@with_errors(NAME)
def read(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """app.version, allocator.option, and how much of the resident memory is not in use."""
    for number, text in lines:
        cite = source.cite(number, text)
        if found := _VERSION.match(text):
            yield Fact("app.version", found["version"], cite, (LABEL,), source.time)
        elif found := _OPTION.match(text):
            yield Fact("allocator.option", found["value"], cite, (LABEL, ("option", found["name"])), source.time)
        elif found := _SUMS.match(text):
            allocated, resident = int(found["allocated"]), int(found["resident"])
            yield Fact("allocator.resident_bytes", resident, cite, (LABEL,), source.time)
            if 0 < allocated <= resident:
                unused = round(1 - allocated / resident, 4)
                yield Fact("allocator.unused_ratio", unused, cite, (LABEL,), source.time)
            else:
                odd.note(number, text, "more memory allocated than resident: swapped out, or not touched")
        elif _OPTION_BEGIN.match(text) or _SUMS_BEGIN.match(text):
            odd.note(number, text, "not a whole line of jemalloc's statistics")


PARSER = Parser(NAME, "statistics of jemalloc", read, opens=_BEGIN, continues=_LINE.match)
