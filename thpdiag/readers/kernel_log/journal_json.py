"""`journalctl -o json`, `-o json-sse`: one object a line, of which the kernel's messages are read.

    {"_TRANSPORT":"kernel","__REALTIME_TIMESTAMP":"1795145743188049","_HOSTNAME":"host","MESSAGE":"INFO: task ..."}
    data: {"_TRANSPORT":"kernel", ...}

Fields: see journal.py. A message with bytes that are no text is a list of numbers, one that is too long is null.
Source: systemd, src/shared/logs-show.c.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from thpdiag.model import Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.kernel_log.journal import Entry, records

_OPENS = re.compile(r'\s{0,8}(?:data: )?\{.{0,4000}"__REALTIME_TIMESTAMP" ?: ?"')
_KERNEL = re.compile(r'"_TRANSPORT" ?: ?"kernel"')
_CONTINUES = re.compile(r"\s*(?:(?:data: )?\{|$)")


def _entries(lines: Lines, odd: Oddities) -> Iterator[Entry]:
    for number, line in lines:
        if not _KERNEL.search(line):
            continue
        try:
            entry = json.loads(line.strip().removeprefix("data: "))
        except (ValueError, RecursionError):
            odd.note(number, line, "no whole object; the entry is left out")
            continue
        yield Entry(number, line, entry)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """The events of a kernel log, citing the lines of the export."""
    odd = Oddities(source, READER.name)
    yield from records(source, READER.name, _entries(lines, odd))
    yield from odd.problems()


READER = Reader(
    name="journal_json",
    title="journalctl -o json",
    read=read,
    opens=_OPENS,
    continues=_CONTINUES.match,
    priority=12,
)
