"""Statistics of jemalloc: malloc_stats_print(), MALLOC_CONF=stats_print:true, MEMORY MALLOC-STATS of Redis.

    ___ Begin jemalloc statistics ___
    Version: "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c"
      opt.metadata_thp: "auto"
      opt.thp: "always"
    Allocated: 2892592, active: 3506176, metadata: 2775792 (n_thp 0), resident: 7471104, mapped: 11075584, retained: 0
    --- End jemalloc statistics ---

Units: bytes, at the time of the print. `resident` is the resident memory by jemalloc's own count: pages in use, its
metadata, and freed pages not yet returned (dirty). Resident memory of the process above that comes from huge pages, or
from code that does not use this allocator. `opt.thp` "always" marks all memory with madvise, "never" excludes it, and
"default" leaves it to the kernel; `opt.metadata_thp` affects the allocator's metadata only. Tables of arenas are
skipped. The text may occur several times, once per process. The JSON form is not read.
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
_LINE = re.compile(  # a line of a table, or the beginning of another line of the statistics
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
def read(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield app.version, allocator.option, and the resident memory with its unused share."""
    for number, text in lines:
        cite = source.cite(number, text)
        if version := _VERSION.match(text):
            yield Fact("app.version", version["version"], cite, (LABEL,), source.time)
        elif option := _OPTION.match(text):
            yield Fact("allocator.option", option["value"], cite, (LABEL, ("option", option["name"])), source.time)
        elif sums := _SUMS.match(text):
            allocated, resident = int(sums["allocated"]), int(sums["resident"])
            yield Fact("allocator.resident_bytes", resident, cite, (LABEL,), source.time)
            if 0 < allocated <= resident:
                unused = round(1 - allocated / resident, 4)
                yield Fact("allocator.unused_ratio", unused, cite, (LABEL,), source.time)
            else:
                errors.note(number, text, "more memory allocated than resident: swapped out, or not touched")
        elif _OPTION_BEGIN.match(text) or _SUMS_BEGIN.match(text):
            errors.note(number, text, "not a whole line of jemalloc's statistics")


PARSER = Parser(NAME, "statistics of jemalloc", read, opens=_BEGIN, continues=_LINE.match)
