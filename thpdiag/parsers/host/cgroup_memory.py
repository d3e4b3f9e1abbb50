"""Memory of control groups: the files memory.* below /sys/fs/cgroup, versions 1 and 2.

    /sys/fs/cgroup/a.slice/memory.stat:anon_thp 2097152      /sys/fs/cgroup/memory/a/memory.stat:total_rss_huge 2097152
    /sys/fs/cgroup/a.slice/memory.events:high 12             /sys/fs/cgroup/memory/a/memory.failcnt:12
    memory.pressure:some avg10=90.42 avg60=72.59 avg300=78.30 total=298252577711        grepped within a group's folder

Units: bytes; events are totals since the group was created. The entity is the path of the group. In memory.stat of
version 1 the lines total_X (the group with its children, as in version 2) take precedence: total_rss is anon,
total_rss_huge is anon_thp.
failcnt of version 1 counts how often the limit was reached, like `max` in memory.events. The value for no limit (`max`,
or nearly 2^63) is left out. anon_thp exists since about 5.6. sos copies these files from 3.0 on (plugin cgroups).
Source: kernel tree, mm/memcontrol.c, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import ParseErrors, ValueRows, lines_of_files, snapshots
from thpdiag.parsers._units import NOT_A_COUNT, parse_count

_KIND = (
    r"(?:stat|events(?:\.local)?|pressure|max|high|current|peak"
    r"|limit_in_bytes|usage_in_bytes|max_usage_in_bytes|failcnt)"
)
_ROOT = r"(?:sys/fs/)?cgroup"  # /cgroup on RHEL 6
_FILE = re.compile(rf"(?:{_ROOT}/(?:(?:memory|unified)/)?(?:(.{{1,400}})/)?|^(?:\./)?)memory\.({_KIND})$")
_GREP_PATH = rf"(?:\S{{0,100}}?/)?{_ROOT}/(?:\S{{1,400}}?/)?memory\.{_KIND}"
_VALUE = r"(?:max|\d{1,20}|[a-z][\w.]{1,60} \d{1,20}|(?:some|full) avg10=\d.{1,80})\s*$"
_OPENS = re.compile(rf"{_GREP_PATH}:\S|==> \S{{0,100}}?{_GREP_PATH} <==\s*$|(?:\./)?memory\.{_KIND}:{_VALUE}")
_PRESSURE = re.compile(
    r"(some|full) avg10=(\d{1,3}(?:\.\d\d?)?) avg60=(\d{1,3}(?:\.\d\d?)?) avg300=(\d{1,3}(?:\.\d\d?)?) "
)
_OTHER_FILE = rf"(?:(?:\S{{0,100}}?/)?{_ROOT}/(?:\S{{1,400}}?/)?|(?:\./)?)memory\.[\w.]{{1,40}}:"
_CONTINUES = re.compile(
    rf"{_OPENS.pattern}|{_OTHER_FILE}|(?:some|full) avg10=|[a-z][\w.]{{1,60}} \d{{1,20}}\s*$|(?:max|\d{{1,20}})\s*$"
)
_SIZES = {  # files with one number each
    "max": "limit", "limit_in_bytes": "limit", "high": "high_limit", "current": "usage", "usage_in_bytes": "usage",
    "peak": "peak", "max_usage_in_bytes": "peak",
}  # fmt: skip
_STAT_SIZES = {
    "anon": "anon", "total_rss": "anon", "anon_thp": "anon_thp", "total_rss_huge": "anon_thp", "file": "file",
    "total_cache": "file", "shmem": "shmem", "total_shmem": "shmem", "file_thp": "file_thp", "shmem_thp": "shmem_thp",
    "rss": "anon", "rss_huge": "anon_thp", "cache": "file",  # version 1 without children, used if there is no total
    "slab_unreclaimable": "slab_unreclaimable", "inactive_anon": "inactive_anon", "active_anon": "active_anon",
    "total_inactive_anon": "inactive_anon", "total_active_anon": "active_anon", "swapcached": "swapcached",
    "total_swapcached": "swapcached",
}  # fmt: skip
_STAT_COUNTS = frozenset(
    {"thp_fault_alloc", "thp_collapse_alloc", "thp_swpout", "thp_swpout_fallback", "pglazyfree", "pglazyfreed"}
)
_EVENTS = frozenset({"low", "high", "max", "oom", "oom_kill", "oom_group_kill"})
UNNAMED = "unnamed"  # the group of files that are printed without their directory
_EPOCH = re.compile(r"1[4-9]\d{8}")  # seconds, 2014 to 2033
_PAGE_BYTES = 4096
_NO_LIMIT = 2**62  # version 1 prints the largest multiple of a page below 2^63


@snapshots("cgroup_memory")
def read(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Sample]:
    """Yield one sample per group and snapshot."""
    rows = ValueRows(source, PARSER.name, "cgroup")
    for number, line, path, text in lines_of_files(source, lines):
        file = _FILE.search(path)
        if file is None or text == "max":
            continue
        group = (("cgroup", UNNAMED if path.startswith((".", "memory.")) else f"/{file[1] or ''}"),)
        if pressure := _PRESSURE.match(text) if file[2] == "pressure" else None:
            for window, percent in zip((10, 60, 300), pressure.groups()[1:], strict=True):
                name = f"cgroup_memory_{pressure[1]}_avg{window}"
                yield from rows.add(group, name, float(percent) / 100, number, line)
            continue
        key, _, digits = text.rpartition(" ")
        value = parse_count(digits)
        if value is None and not digits.isdigit():
            errors.note(number, line, NOT_A_COUNT)
        elif (name := _metric_name(file[2], key)) and value is not None and value < _NO_LIMIT:
            metric = f"cgroup_memory_{name}"
            if key.startswith("total_"):
                rows.update(group, {metric: value}, number, line)
            else:
                yield from rows.add(group, metric, value, number, line)
    yield from rows.finish()


def _metric_name(file: str, key: str) -> str:
    """Return the metric of a line without prefix, or "" if it is not used."""
    if file == "stat":
        if key in _STAT_SIZES:
            return f"{_STAT_SIZES[key]}_bytes"
        return f"{key}_total" if key in _STAT_COUNTS else ""
    if file == "events":
        return f"{key}_events_total" if key in _EVENTS else ""
    if file == "failcnt":
        return "max_events_total"
    return f"{_SIZES[file]}_bytes" if file in _SIZES and not key else ""


def _continues(line: str) -> bool:
    """Return whether a line belongs to the snapshot.

    A plain number may be a size below a banner, or the time of the next snapshot; sizes are multiples of a page.
    """
    if not _CONTINUES.match(line):
        return False
    time = _EPOCH.fullmatch(line.strip())
    return time is None or int(time[0]) % _PAGE_BYTES == 0


PARSER = Parser(
    "cgroup_memory", "memory of control groups below /sys/fs/cgroup", read, opens=_OPENS, continues=_continues,
    paths=(re.compile(rf"(?:^|/){_ROOT}/(?:.{{1,400}}/)?memory\.{_KIND}$"),), priority=2,
)  # fmt: skip
