"""What all exports of the journal share: an entry's fields, of which a line of the kernel's log is made.

Times are microseconds: `_SOURCE_MONOTONIC_TIMESTAMP` is when the kernel spoke, since boot; `__REALTIME_TIMESTAMP`,
and `t=` of the cursor in hexadecimal, is when the journal took it, UTC. Source: systemd, the page
systemd.journal-fields. Not a format of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from thpdiag.model import Event, Fact, Problem, Record, Sample
from thpdiag.model.citation import EXCERPT
from thpdiag.reader import Source
from thpdiag.readers.kernel_log.messages import Messages

LEAST_ENTRIES = 20  # of the kernel: fewer are no log that could show what did not happen
_MICROSECONDS = re.compile(r"\d{1,17}")
_CURSOR_TIME = re.compile(r"(?:^|;)t=([0-9a-f]{1,14})(?:;|$)")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry with the line that holds its message, or all of it, as it stands in the export."""

    line: int
    raw: str
    fields: Mapping[str, object]

    @property
    def by_kernel(self) -> bool:
        return self.fields.get("_TRANSPORT") == "kernel"

    def text(self) -> str:
        """The entry as journalctl prints it with `-o short-unix`, with the time since boot where it is told."""
        said, host = self.fields.get("MESSAGE"), self.fields.get("_HOSTNAME")
        if isinstance(said, list):  # bytes that are no text
            said = bytes(b for b in said if isinstance(b, int) and 0 <= b < 256).decode(errors="replace")
        wall, boot = self._wall(), str(self.fields.get("_SOURCE_MONOTONIC_TIMESTAMP", ""))
        bracket = f"[{int(boot) / 1e6:12.6f}] " if _MICROSECONDS.fullmatch(boot) else ""
        stamp = f"{wall / 1e6:.6f} " if wall is not None else "0000000000.000000 "
        return f"{stamp}{host or 'localhost'} kernel: {bracket}{said or ''}"

    def _wall(self) -> int | None:
        wall = str(self.fields.get("__REALTIME_TIMESTAMP", ""))
        if _MICROSECONDS.fullmatch(wall):
            return int(wall)
        cursor = _CURSOR_TIME.search(str(self.fields.get("__CURSOR", "")))
        return int(cursor[1], 16) if cursor else None


def records(source: Source, reader: str, entries: Iterable[Entry]) -> Iterator[Record]:
    """The records of a kernel log, citing the lines of the export."""
    raw: dict[int, str] = {}

    def texts() -> Iterator[tuple[int, str]]:
        for entry in entries:
            if entry.by_kernel:
                raw[entry.line] = entry.raw[:EXCERPT]
                yield entry.line, entry.text()

    messages = Messages(source, reader)
    for record in messages.read(texts()):
        if isinstance(record, (Event, Fact, Problem, Sample)):
            line = record.cite.line or 0
            yield replace(record, cite=source.cite(line, raw.get(line, "")))
    if len(messages.hosts) <= 1 and len(raw) > LEAST_ENTRIES:
        yield Fact("log.read", len(raw), source.cite(next(iter(raw))))
