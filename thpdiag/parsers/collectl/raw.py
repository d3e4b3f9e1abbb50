"""collectl's own recordings, HOST-DATE-TIME.raw[.gz] and .rawp[.gz]: copies of /proc by time.

    # Collectl:   V4.3.1-1  HiRes: 1  Options: -D
    # Host:       db1  DaemonOpts: -f /var/log/collectl -r00:00,7 -m -F60 -s+YZ
    >>> 1795168268.001 <<<
    cpu  1473939 534468 222278 760777 3505 0 6100 4350 0 0
    MemTotal:       24684092 kB
    proc:2001 stat 2001 (java) S 1888 2001 1888 ...

A time opens an interval (10 s by default, 60 s for processes and slabs), its counters follow: those of the host, each
CPU, zone and NUMA node become one row per interval, those of a process (pid and start) one per sight. Times are seconds
since 1970. Varies: subsystems (-s), what of /proc/vmstat is copied (never thp_* and compact_*), Vm lines by kernel;
with --tworaw processes go to a .rawp. The header tells of the host. Source: collectl, 3.5 to 4.3.
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
    """A header or a time comes first, and a time is there, but for a log that was just begun."""
    head = head.lstrip(b"\xef\xbb\xbf\r\n \t")
    ours = head.startswith(b"#") and b"# Collectl:" in head
    found = _TIME.search(head)
    if ours:
        plotted = re.search(rb"^#(?:Date.Time|UTC).", head, re.MULTILINE)
        return bool(found) if found or plotted else bool(_NAME.search(path))
    return bool(found and (found.start() == 0 or _LINE.match(head)))


def read(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """Facts of the header, a Series of the host and of each CPU, zone, node and process, commands, problems."""
    from thpdiag.parsers.collectl._recording import records  # numpy: only where there is a recording

    return records(source, content)


BULK_PARSER = BulkParser(
    "collectl_raw", "collectl, raw recording", claims, read,
    opens=re.compile(rb"[\xef\xbb\xbf\r\n \t]*(?:#|>>> \d|" + _LINE.pattern + rb")"),
)  # fmt: skip
