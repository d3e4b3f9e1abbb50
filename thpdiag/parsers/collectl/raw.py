"""Raw recordings of collectl, HOST-DATE-TIME.raw[.gz] and .rawp[.gz]: copies of /proc by time.

    # Collectl:   V4.3.1-1  HiRes: 1  Options: -D
    # Host:       db1  DaemonOpts: -f /var/log/collectl -r00:00,7 -m -F60 -s+YZ
    >>> 1795168268.001 <<<
    cpu  1473939 534468 222278 760777 3505 0 6100 4350 0 0
    MemTotal:       24684092 kB
    proc:2001 stat 2001 (java) S 1888 2001 1888 ...

A time begins an interval (10 s by default, 60 s for processes and slabs); the counters follow. Those of the host, each
CPU, zone and NUMA node become one row per interval; those of a process (pid and start time) one per occurrence. Times
are seconds since 1970. Varies: subsystems (-s), the copied lines of /proc/vmstat (never thp_* and compact_*), Vm lines
by kernel; with --tworaw processes are in a .rawp file. The header describes the host. Source: collectl, 3.5 to 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Record
from thpdiag.model.parser import BulkParser, Content, Foreign, Source

_TIME = re.compile(rb"^>>> \d{9,10}\.\d{1,6} <<<\r?$", re.MULTILINE)
_LINE = re.compile(rb"cpu \s*\d+ \d|buddy Node \d|disk\s+\d|proc:\d+ \w|MemTotal: |load \d|int |Slab ")
_NAME = re.compile(r"\.rawp?$|\.rawp?\.(gz|bz2|xz|zst)$")


def claims(path: str, head: bytes, size: int | None) -> bool:
    """Return whether a header or time comes first and a time occurs; a log that has just begun has only a header."""
    head = head.lstrip(b"\xef\xbb\xbf\r\n \t")
    time = _TIME.search(head)
    if head.startswith(b"#") and b"# Collectl:" in head:
        is_plot = re.search(rb"^#(?:Date.Time|UTC).", head, re.MULTILINE)
        return bool(time) if time or is_plot else bool(_NAME.search(path))
    return bool(time and (time.start() == 0 or _LINE.match(head)))


def read(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """Yield facts of the header, a series of the host and each CPU, zone, node and process, commands and problems."""
    from thpdiag.parsers.collectl._recording import records  # imported late: numpy is needed only for recordings

    return records(source, content)


BULK_PARSER = BulkParser(
    "collectl_raw", "collectl, raw recording", claims, read,
    opens=re.compile(rb"[\xef\xbb\xbf\r\n \t]*(?:#|>>> \d|" + _LINE.pattern + rb")"),
)  # fmt: skip
