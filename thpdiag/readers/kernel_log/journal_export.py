"""`journalctl -o export`, `-o verbose`, `-o json-pretty`: a field a line, of which the kernel's messages are read.

    __CURSOR=s=...;t=648...          Fri 2026-11-20 03:35:43.188049 UTC [s=...;t=648...;x=1]      {
    _TRANSPORT=kernel                    _TRANSPORT=kernel                                            "_TRANSPORT" : "kernel",
    MESSAGE=INFO: task ...               MESSAGE=INFO: task ...                                       "MESSAGE" : "INFO: ..."
                                                                                                  }

An export ends an entry with an empty line, verbose begins one with its date, in the zone of who printed it: the time
is that of the cursor. Fields: see journal.py. A field of bytes (export: its name alone on a line, then its length as
eight bytes) is no kernel message. Source: systemd, src/shared/logs-show.c, the page systemd.io/JOURNAL_EXPORT_FORMATS.
"""  # noqa: E501

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from thpdiag.model import Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.kernel_log.journal import Entry, records

_CURSOR = r"s=[0-9a-f]{1,32};i=[0-9a-f]{1,16};.{1,200}"
_DATE = r"[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})? \S{1,6}"
_BEGINS = re.compile(rf"__CURSOR={_CURSOR}|{_DATE} \[(?P<cursor>{_CURSOR})\]$")
_PRETTY = re.compile(r"\{$")
_FIELD = re.compile(r"\s{0,8}(?P<name>_{0,2}[A-Z][A-Z0-9_]{0,63})=(?P<value>.*)")
_JSON_FIELD = re.compile(r'\s{0,8}"(?P<name>_{0,2}[A-Z][A-Z0-9_]{0,63})" : (?P<value>.*?),?$')
_CONTINUES = re.compile(rf"\s*$|\{{$|\}}$|[ \t]|_{{0,2}}[A-Z][A-Z0-9_]{{0,63}}(?:=|$)|{_DATE} \[{_CURSOR}\]$")


def _entries(lines: Lines) -> Iterator[Entry]:
    fields: dict[str, object] = {}
    place = (0, "")
    for number, line in lines:
        if begins := _begins(line):
            if fields:
                yield Entry(*place, fields)
            fields, place = {}, (number, line)
            if begins["cursor"]:
                fields["__CURSOR"] = begins["cursor"]
        name, value = _field(line)
        if name == "MESSAGE":
            place = (number, line)
        if name:
            fields.setdefault(name, value)
    if fields:
        yield Entry(*place, fields)


def _begins(line: str) -> dict[str, str | None] | None:
    found = _BEGINS.match(line)
    if found:
        return found.groupdict()
    return {"cursor": None} if _PRETTY.match(line) else None


def _field(line: str) -> tuple[str, object]:
    """The field of a line; without a name if it holds none."""
    if found := _FIELD.match(line):
        return found["name"], found["value"]
    if found := _JSON_FIELD.match(line):
        try:
            return found["name"], json.loads(found["value"])
        except (ValueError, RecursionError):  # a list of bytes over several lines
            pass
    return "", ""


def _confirmed(lines: list[str]) -> bool:
    """Of what begins with a brace, whether the journal's fields follow."""
    return not _PRETTY.match(lines[0]) or any('"__CURSOR" : "' in line or '"_BOOT_ID" : "' in line for line in lines)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """The events of a kernel log, citing the lines of their messages."""
    yield from records(source, READER.name, _entries(lines))


READER = Reader(
    name="journal_export",
    title="journalctl -o export, verbose, json-pretty",
    read=read,
    opens=re.compile(f"{_BEGINS.pattern.replace('(?P<cursor>', '(?:')}|{_PRETTY.pattern}"),
    continues=_CONTINUES.match,
    confirm=_confirmed,
    priority=12,
)
