"""/sys/kernel/mm/ksm: the merging of equal pages (KSM), one number per file.

    /sys/kernel/mm/ksm/run:1
    /sys/kernel/mm/ksm/pages_sharing:4096

run, pages_to_scan and sleep_millisecs are settings (ksm.run ...); pages_shared, pages_sharing, pages_unshared,
pages_volatile, ksm_zero_pages (6.6) are gauges in pages, full_scans and pages_scanned (6.6) counters: X becomes
node_ksm_X. Other files are tuning of no account here (merge_across_nodes, max_page_sharing, stable_node_*, smart_scan,
advisor_* from 6.8, general_profit in bytes). Source: kernel tree, mm/ksm.c, Documentation/admin-guide/mm/ksm.rst.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.dated import dated
from thpdiag.readers.elements.kernel_numbers import NOT_A_COUNT, whole
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.value_files import Rows, of_files

_FILE = re.compile(r"sys/kernel/mm/ksm/(\w+)$")
_SETTINGS = frozenset({"run", "pages_to_scan", "sleep_millisecs"})
_COUNTS = frozenset(
    {
        "pages_shared", "pages_sharing", "pages_unshared", "pages_volatile", "pages_skipped", "ksm_zero_pages",
        "full_scans", "pages_scanned",
    }
)  # fmt: skip
_OPENS = re.compile(r"(?:\S{0,100}?/)?sys/kernel/mm/ksm/\w+:\S+\s*$|==> \S{0,100}sys/kernel/mm/ksm/\w+ <==\s*$")
_CONTINUES = re.compile(rf"{_OPENS.pattern}|\d{{1,19}}\s*$")


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A fact per setting, and one sample of the system per snapshot."""
    odd, facts = Oddities(source, READER.name), list[Fact]()
    yield from dated(source, _samples(source, lines, odd, facts))
    yield from facts
    yield from odd.problems()


def _samples(source: Source, lines: Lines, odd: Oddities, facts: list[Fact]) -> Iterator[Sample]:
    rows = Rows(source, READER.name, "system")
    for number, line, path, text in of_files(source, lines):
        file = _FILE.search(path)
        name = file[1] if file else ""
        if name not in _SETTINGS | _COUNTS:
            continue
        value = whole(text)
        if value is None:
            odd.note(number, line, NOT_A_COUNT)
        elif name in _SETTINGS:
            facts.append(Fact(f"ksm.{name}", value, source.cite(number, line), time=source.time))
        else:
            yield from rows.add((), f"node_ksm_{name.removeprefix('ksm_')}", value, number, line)
    yield from rows.rest()


READER = Reader(
    name="ksm_sysfs",
    title="merging of equal pages in /sys/kernel/mm/ksm",
    read=read,
    opens=_OPENS,
    continues=_CONTINUES.match,
    paths=(re.compile(r"(?:^|/)sys/kernel/mm/ksm/\w+$"),),
)
