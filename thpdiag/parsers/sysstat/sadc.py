"""sysstat's own files (saDD of sadc): the header is always read, the rows by an installed sadf that fits.

    96 d5 75 21 0c 06 01 00 ... Linux ... web1 ... 2.6.32-431.el6.x86_64 ... x86_64

The header has version, host and start: magic 0xd596 in the host's byte order, the format, four bytes of version; then
numbers whose place depends on the format, and in every format sysname, nodename, release and machine one after another,
65 bytes each. 0x2170 and 0x1170 (RHEL 6.5): 9.0 to 9.1.5; 0x2171: to 10.2; 0x2173: 10.3 to 11.6; 0x2175: from 11.7.
RHEL 5 has no magic. The format changed four times and 12.x reads only its own (`sadf -c` crashed on three of sixteen
older files), so the rows are never parsed here: where no sadf fits, a problem names the command to run on the host.
sadf runs as a child process with limits, gets the file as its input and sees nothing else. Source: sysstat sa.h
(file_magic, file_header), sadf.c, 9.0 to 12.7.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from thpdiag.model import Citation, Clock, Fact, Moment, Problem, ProblemKind, Record
from thpdiag.model.parser import BulkParser, Content, Foreign, Lines, Source
from thpdiag.model.text import path_name
from thpdiag.parsers._lines import parse_member
from thpdiag.parsers._programs import ending_of, path_on_host, printed_records, request
from thpdiag.parsers.sysstat import sadf as sadf_rows
from thpdiag.parsers.sysstat._tables import UTC_ZONES
from thpdiag.sandbox.programs import STDIN, Ending, ProgramLimits, ProgramRun, find_program

MAGICS = {b"\x96\xd5": "<", b"\xd5\x96": ">"}
NAME_BYTES = 65  # of each name
HEADER_BYTES = 1024  # start of the file that has the header
_FAMILIES = frozenset((0x11, 0x21, 0x22))  # high byte of the format
_EPOCHS = range(946_684_800, 4_292_967_296)  # 2000 to 2106
_SYSNAME = b"Linux\0"
_UNSIGNED = {2: "H", 4: "I", 8: "Q"}
# By format, oldest first: the first version that writes it, offset and size of the epoch in the header (size 0: that of
# the host's long), and the distance from its end to the number of CPUs.
_FORMATS: dict[int, tuple[tuple[int, ...], int, int, int | None]] = {
    0x1170: ((), 8, 0, None),
    0x2170: ((9,), 8, 0, None),
    0x2171: ((9, 1, 6), 8, 0, None),
    0x2173: ((10, 3), 76, 0, 0),
    0x2175: ((11, 7), 76, 8, 8),
}


@dataclass(frozen=True, slots=True)
class Head:
    """The values of the header; empty or None if they are missing or the format is unknown."""

    format: int | None = None
    version: str = ""
    host: str = ""
    release: str = ""
    machine: str = ""
    cpus: int | None = None
    since: int | None = None  # seconds since 1970, UTC
    zone: str = ""  # abbreviation of the host's zone at that time, from 12.1 on


def is_sysstat(head: bytes) -> bool:
    """Whether the bytes begin like a file with a magic."""
    order = MAGICS.get(head[:2])
    return order is not None and len(head) >= 8 and head[3 if order == "<" else 2] in _FAMILIES


def is_without_magic(head: bytes) -> bool:
    """Whether the bytes may begin a file of RHEL 5: an epoch, and the names of a host soon after it."""
    _, host, release, _ = _names(head)
    return not is_sysstat(head) and int.from_bytes(head[:4], "little") in _EPOCHS and bool(host and release)


def read_head(raw: bytes) -> Head:
    """Return the values of the header."""
    _, host, release, machine = _names(raw)
    if not is_sysstat(raw):
        return Head(None, "", host, release, machine)
    order = MAGICS[raw[:2]]
    version = ".".join(str(part) for part in (raw[4:7] if not raw[7] else raw[4:8]))
    format_ = _read_unsigned(raw, order, 2, 2)
    if format_ not in _FORMATS:
        return Head(format_, version, host, release, machine)
    _, offset, size, cpus_distance = _FORMATS[format_]
    names = raw.find(_SYSNAME, 8, HEADER_BYTES)
    size = size or (raw[names - 1] if names > 8 else 0)  # sizeof(long) of the host precedes the names
    since, cpus, zone = _read_unsigned(raw, order, offset, size), None, ""
    if cpus_distance is not None and size in (4, 8):
        cpus = _read_unsigned(raw, order, offset + size + cpus_distance, 4)
    if format_ == 0x2175:
        word = raw[names + 4 * NAME_BYTES :][:8].partition(b"\0")[0]
        zone = word.decode() if word.isalpha() and word.isascii() and word.isupper() else ""
    # the file has one more, for `all`; 1 on a kernel for one CPU
    cpus = max(cpus - 1, 1) if cpus and cpus <= 65_536 else None
    since = since if since is not None and since in _EPOCHS else None
    return Head(format_, version, host, release, machine, cpus, since, zone)


def format_of(version: tuple[int, ...]) -> int | None:
    """Return the format that a version of sysstat reads and writes; None if it is unknown."""
    return next((form for form in reversed(_FORMATS) if () < _FORMATS[form][0] <= version), None)


def _names(raw: bytes) -> tuple[str, ...]:
    """Return sysname, nodename, release and machine; empty if they are not valid names."""
    offset = raw.find(_SYSNAME, 8, HEADER_BYTES)
    if offset < 0 or len(raw) < offset + 4 * NAME_BYTES:
        return ("",) * 4
    fields = [raw[offset + i * NAME_BYTES : offset + (i + 1) * NAME_BYTES].partition(b"\0")[0] for i in range(4)]
    words = [name.decode("ascii") if name.isascii() else "" for name in fields]
    return tuple(word if word.isprintable() and " " not in word else "" for word in words)


def _read_unsigned(raw: bytes, order: str, offset: int, size: int) -> int | None:
    if size not in _UNSIGNED or len(raw) < offset + size:
        return None
    return int(struct.unpack_from(order + _UNSIGNED[size], raw, offset)[0])


NAME = "sadc"
MAX_SPOOLED_BYTES = 1 << 30  # of a member that is no separate file
_DAY_FILE = re.compile(r"(?:^|/)sa\d{2,8}$", re.ASCII)
_VERSION = re.compile(rb"version (\d{1,3})\.(\d{1,3})\.(\d{1,3})")
_TABLE_OPTIONS = "-u ALL -P ALL -B -r ALL -S -W -w -q ALL -I SUM"
_LIMITS = ProgramLimits(seconds=120, cpu_seconds=120, output=1 << 30)


def _claims(path: str, head: bytes, size: int | None) -> bool:
    return is_sysstat(head) or (_DAY_FILE.search(path) is not None and is_without_magic(head))


def read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """Facts of the header; then a Series per entity, or a Problem with the command to run."""
    front = b""
    chunks = content.chunks
    while len(front) < HEADER_BYTES and (chunk := next(chunks, b"")):
        front += chunk
    head, cite = read_head(front[:HEADER_BYTES]), Citation(source.member)
    yield from _facts(head, cite)
    sadf = find_program("sadf")
    if sadf is None or head.format is None or _format_of_program(sadf) != head.format:
        text = "no sadf that reads it is installed here, so its rows were not read"
        yield _request(source, f"{_writer(head)}: {text}", ProblemKind.UNREADABLE)
        return
    with _open_member(front, chunks, content.file) as file:
        if file.tell() > MAX_SPOOLED_BYTES:
            text = f"{_writer(head)}: it is longer than {MAX_SPOOLED_BYTES} bytes and was not read"
            yield _request(source, text, ProblemKind.LIMIT)
            return
        yield from _rows(source, head, sadf, file)


def _rows(source: Source, head: Head, sadf: Path, file: IO[bytes]) -> Iterator[Record | Foreign]:
    """Yield the output of sadf: the tables that are used, or all where it does not know an option."""

    def read_rows(source: Source, lines: Lines) -> Iterator[Record]:
        return sadf_rows.read(source, lines, NAME, head.host, head.machine)

    tries = (["-d", STDIN, "--", *options.split()] for options in (_TABLE_OPTIONS, "-A"))
    run = yield from printed_records(
        sadf, tries, _LIMITS, lambda printed: parse_member(source, printed, NAME, read_rows), file
    )
    if run.ending is not Ending.DONE:
        how, kind = ending_of(run)
        yield _request(source, f"{_writer(head)}: sadf {how}", kind)


def _facts(head: Head, cite: Citation) -> Iterator[Fact]:
    since = None if head.since is None else Moment(head.since, Clock.UTC)
    named = {"host.name": head.host, "kernel.release": head.release, "kernel.arch": head.machine}
    for name, value in (named | {"sysstat.version": head.version}).items():
        if value:
            yield Fact(name, value, cite, time=since if name == "sysstat.version" else None)
    if head.cpus is not None:
        yield Fact("cpu.count", head.cpus, cite)
    if head.zone in UTC_ZONES:
        yield Fact("host.utc_offset", 0.0, cite, time=since)


def _writer(head: Head) -> str:
    return f"sysstat {head.version} wrote it" if head.version else "a sysstat before 9.0 wrote it"


def _request(source: Source, text: str, kind: ProblemKind) -> Problem:
    return request(
        source, NAME, text, kind, f"LC_ALL=C S_TIME_FORMAT=ISO sar -A -f {path_name(path_on_host(source))} > sar.txt"
    )


@cache
def _format_of_program(sadf: Path) -> int | None:
    match = _VERSION.search(b"".join(ProgramRun(sadf, ["-V"], bounds=ProgramLimits(seconds=10, output=4096))))
    return format_of(tuple(int(part) for part in match.groups())) if match else None


def _open_member(front: bytes, chunks: Iterator[bytes], file: Path | None) -> IO[bytes]:
    """Return the member as an open file: its own, or a temporary one, which ends where it gets too long."""
    if file is not None:
        return file.open("rb")
    spooled = TemporaryFile()  # noqa: SIM115
    spooled.write(front)
    for chunk in chunks:
        spooled.write(chunk)
        if spooled.tell() > MAX_SPOOLED_BYTES:
            break
    spooled.flush()
    return spooled


BULK_PARSER = BulkParser(
    NAME, "sysstat's own files, saDD (rows by an installed sadf)", _claims, read_bulk,
    opens=re.compile(rb"\x96\xd5|\xd5\x96|.{8,%d}?Linux\0" % HEADER_BYTES, re.DOTALL),
)  # fmt: skip
