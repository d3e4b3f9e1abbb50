"""`journalctl -o json`: one object a line, of which the kernel's messages are read.

    {"_TRANSPORT":"kernel","__REALTIME_TIMESTAMP":"1795145743188049","_HOSTNAME":"host","MESSAGE":"INFO: task ..."}

Times are microseconds: `_SOURCE_MONOTONIC_TIMESTAMP` is when the kernel spoke, since boot;
`__REALTIME_TIMESTAMP` when the journal took it, UTC. A message with bytes that are no text is a list of numbers, one
that is too long is null. Events are those of the kernel's log. Source: systemd, src/shared/logs-show.c and the page
systemd.journal-fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from thpdiag.model import Event, Fact, Problem, Record, Sample
from thpdiag.model.citation import EXCERPT
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.kernel_log.messages import Messages

_OPENS = re.compile(r'\s{0,8}\{.{0,4000}"__REALTIME_TIMESTAMP" ?: ?"')
_KERNEL = re.compile(r'"_TRANSPORT" ?: ?"kernel"')
_MICROSECONDS = re.compile(r"\d{1,17}")


def _text(entry: dict[str, object]) -> str:
    """The entry as journalctl prints it with `-o short-unix`, with the time since boot where it is told."""
    said, host = entry.get("MESSAGE"), entry.get("_HOSTNAME")
    if isinstance(said, list):
        said = bytes(b for b in said if isinstance(b, int) and 0 <= b < 256).decode(errors="replace")
    wall, boot = (str(entry.get(name, "")) for name in ("__REALTIME_TIMESTAMP", "_SOURCE_MONOTONIC_TIMESTAMP"))
    bracket = f"[{int(boot) / 1e6:12.6f}] " if _MICROSECONDS.fullmatch(boot) else ""
    stamp = f"{int(wall) / 1e6:.6f} " if _MICROSECONDS.fullmatch(wall) else "0000000000.000000 "
    return f"{stamp}{host or 'localhost'} kernel: {bracket}{said or ''}"


class _Entries:
    """The kernel's messages of an export; the beginnings of their lines, to be cited."""

    def __init__(self, odd: Oddities) -> None:
        self.odd = odd
        self.raw: dict[int, str] = {}

    def texts(self, lines: Lines) -> Iterator[tuple[int, str]]:
        for number, line in lines:
            if not _KERNEL.search(line):
                continue
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                self.odd.note(number, line, "no whole object; the entry is left out")
                continue
            self.raw[number] = line[:EXCERPT]
            yield number, _text(entry)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """The events of a kernel log, citing the lines of the export."""
    odd = Oddities(source, READER.name)
    entries = _Entries(odd)
    for record in Messages(source, READER.name).read(entries.texts(lines)):
        if isinstance(record, (Event, Fact, Problem, Sample)):
            line = record.cite.line or 0
            yield replace(record, cite=source.cite(line, entries.raw.get(line, "")))
    yield from odd.problems()


READER = Reader(
    name="journal_json",
    title="journalctl -o json",
    read=read,
    opens=_OPENS,
    continues=lambda text: text.lstrip().startswith("{"),
    priority=12,
)
