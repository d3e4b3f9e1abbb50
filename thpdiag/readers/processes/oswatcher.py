"""The head of a file of OSWatcher: version and host, then settings. The outputs below have readers of their own.

    Linux OSWbb v8.4.0 node1
    SNAP_INTERVAL 30
    CPU_CORES 8
    VCPUS 16
    OSWBB_ARCHIVE_DEST /opt/oswbb/archive
    zzz ***Fri Nov 20 10:54:16 CET 2026

Files of versions before 4 have no head. The host stands there since 8, and only in some of the files.
Source: OSWatcher.sh, 3 to 8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.reader import Lines, Reader, Source

HEAD = re.compile(r"Linux OSW(?:bb)? v?\d[\w.]{0,20}(?: (\S{1,255}))?\s*$")
ZZZ = re.compile(r"zzz [*<]")  # the time line above each output
LARGE = 1 << 20  # bytes; shorter files go through the search for blocks
SETTING = re.compile(r"(SNAP_INTERVAL|CPU_CORES|VCPUS|OSWBB_ARCHIVE_DEST)\s+(\S{1,255})\s*$")


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """Facts: the host, its CPUs, and what recorded it."""
    for line, text in lines:
        cite = source.cite(line, text)
        if head := HEAD.match(text):
            if head[1]:
                yield Fact("host.name", head[1], cite)
        elif (setting := SETTING.match(text)) and setting[1] == "VCPUS":
            count = setting[2]
            if count.isdecimal() and len(count) < 6 and int(count):
                yield Fact("cpu.count", int(count), cite)


def first_output(head: bytes, size: int | None) -> list[str]:
    """Of a large file that begins with an output under its time line: the lines of it, as far as `head` goes."""
    if size is None or size < LARGE:
        return []
    lines = [line for line in head[:8192].decode("utf-8", "replace").split("\n") if line.strip()]
    rest = [line for line in lines if not (HEAD.match(line) or SETTING.match(line))]
    return rest[1:] if rest and ZZZ.match(rest[0]) else []


READER = Reader("oswatcher", "head of an OSWatcher file", read, opens=HEAD, continues=SETTING.match)
