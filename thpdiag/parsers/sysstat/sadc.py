"""sysstat's own files (sadc's saDD): the header always, the rows by an installed sadf that fits.

    96 d5 75 21 0c 06 01 00 ... Linux ... web1 ... 2.6.32-431.el6.x86_64 ... x86_64

The header says which sysstat, which host, since when: magic 0xd596 in the host's byte order, the format, four bytes of
version; then numbers that moved with the format, and in every format sysname, nodename, release and machine one after
another, 65 bytes each. 0x2170 and 0x1170 (RHEL 6.5): 9.0 to 9.1.5; 0x2171: to 10.2; 0x2173: 10.3 to 11.6; 0x2175: from
11.7. RHEL 5 has no magic.
The format changed four times and 12.x reads its own only (`sadf -c` crashed on three of sixteen older files), so that
the rows are never taken apart here: where no sadf fits, the answer is what to run on the host. sadf runs as a child
with limits, gets the file as its input and sees nothing else.
Source: sysstat sa.h (file_magic, file_header), sadf.c, 9.0 to 12.7.
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
from thpdiag.parsers.sysstat._tables import ON_UTC
from thpdiag.sandbox.programs import STDIN, Ending, ProgramLimits, ProgramRun, find_program

MAGICS = {b"\x96\xd5": "<", b"\xd5\x96": ">"}
NAME_BYTES = 65  # bytes of each name
HEADER_BYTES = 1024  # bytes in which all of it stands
_FAMILIES = frozenset((0x11, 0x21, 0x22))  # high byte of the format
_EPOCHS = range(946_684_800, 4_292_967_296)  # 2000 to 2106
_SYSNAME = b"Linux\0"
_UNSIGNED = {2: "H", 4: "I", 8: "Q"}
# The first version that writes a format, in order of age; where the epoch stands in its header, in how many bytes
# (0: as many as a long of the host has), and how far behind them the number of CPUs.
_FORMATS: dict[int, tuple[tuple[int, ...], int, int, int | None]] = {
    0x1170: ((), 8, 0, None),
    0x2170: ((9,), 8, 0, None),
    0x2171: ((9, 1, 6), 8, 0, None),
    0x2173: ((10, 3), 76, 0, 0),
    0x2175: ((11, 7), 76, 8, 8),
}


@dataclass(frozen=True, slots=True)
class Head:
    """What the header says; empty or None what it does not, or what stands elsewhere in a format we do not know."""

    format: int | None = None
    version: str = ""
    host: str = ""
    release: str = ""
    machine: str = ""
    cpus: int | None = None
    since: int | None = None  # seconds since 1970, UTC
    zone: str = ""  # abbreviation of the host's zone then, from 12.1 on


def is_sysstat(head: bytes) -> bool:
    """Whether the bytes begin as a file with a magic does."""
    order = MAGICS.get(head[:2])
    return order is not None and len(head) >= 8 and head[3 if order == "<" else 2] in _FAMILIES


def without_magic(head: bytes) -> bool:
    """Whether the bytes may begin a file of RHEL 5: an epoch, and the names of a host soon after."""
    _, host, release, _ = _names(head)
    return not is_sysstat(head) and int.from_bytes(head[:4], "little") in _EPOCHS and bool(host and release)


def read_head(raw: bytes) -> Head:
    """The facts of the header."""
    _, host, release, machine = _names(raw)
    if not is_sysstat(raw):
        return Head(None, "", host, release, machine)
    order = MAGICS[raw[:2]]
    version = ".".join(str(part) for part in (raw[4:7] if not raw[7] else raw[4:8]))
    form = _read_unsigned(raw, order, 2, 2)
    if form not in _FORMATS:
        return Head(form, version, host, release, machine)
    _, at, size, cpus_behind = _FORMATS[form]
    names = raw.find(_SYSNAME, 8, HEADER_BYTES)
    size = size or (raw[names - 1] if names > 8 else 0)  # sizeof(long) of the host stands before the names
    since, cpus, zone = _read_unsigned(raw, order, at, size), None, ""
    if cpus_behind is not None and size in (4, 8):
        cpus = _read_unsigned(raw, order, at + size + cpus_behind, 4)
    if form == 0x2175:
        word = raw[names + 4 * NAME_BYTES :][:8].partition(b"\0")[0]
        zone = word.decode() if word.isalpha() and word.isascii() and word.isupper() else ""
    # one more than there are, for `all`; 1 on a kernel for one CPU
    cpus = max(cpus - 1, 1) if cpus and cpus <= 65_536 else None
    since = since if since is not None and since in _EPOCHS else None
    return Head(form, version, host, release, machine, cpus, since, zone)


def format_of(version: tuple[int, ...]) -> int | None:
    """The format that a version of sysstat reads and writes; None if it is not known."""
    return next((form for form in reversed(_FORMATS) if () < _FORMATS[form][0] <= version), None)


def _names(raw: bytes) -> tuple[str, ...]:
    """sysname, nodename, release, machine; empty if they are none that can be."""
    at = raw.find(_SYSNAME, 8, HEADER_BYTES)
    if at < 0 or len(raw) < at + 4 * NAME_BYTES:
        return ("",) * 4
    found = [raw[at + i * NAME_BYTES : at + (i + 1) * NAME_BYTES].partition(b"\0")[0] for i in range(4)]
    words = [name.decode("ascii") if name.isascii() else "" for name in found]
    return tuple(word if word.isprintable() and " " not in word else "" for word in words)


def _read_unsigned(raw: bytes, order: str, at: int, size: int) -> int | None:
    if size not in _UNSIGNED or len(raw) < at + size:
        return None
    return int(struct.unpack_from(order + _UNSIGNED[size], raw, at)[0])


NAME = "sadc"
MAX_SPOOLED_BYTES = 1 << 30  # bytes of a member that is no file of its own
_OF_A_DAY = re.compile(r"(?:^|/)sa\d{2,8}$", re.ASCII)
_VERSION = re.compile(rb"version (\d{1,3})\.(\d{1,3})\.(\d{1,3})")
_USEFUL = "-u ALL -P ALL -B -r ALL -S -W -w -q ALL -I SUM"
_LIMITS = ProgramLimits(seconds=120, cpu_seconds=120, output=1 << 30)


def _claims(path: str, head: bytes, size: int | None) -> bool:
    return is_sysstat(head) or (_OF_A_DAY.search(path) is not None and without_magic(head))


def read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """Facts of the header; then a Series per entity, or a Problem that says what to ask for."""
    front = b""
    chunks = content.chunks
    while len(front) < HEADER_BYTES and (chunk := next(chunks, b"")):
        front += chunk
    head, cite = read_head(front[:HEADER_BYTES]), Citation(source.member)
    yield from _facts(head, cite)
    sadf = find_program("sadf")
    if sadf is None or head.format is None or _format_read_by(sadf) != head.format:
        text = "no sadf that reads it is installed here, so its rows were not read"
        yield _ask(source, f"{_writer(head)}: {text}", ProblemKind.UNREADABLE)
        return
    with _open_member(front, chunks, content.file) as file:
        if file.tell() > MAX_SPOOLED_BYTES:
            yield _ask(
                source,
                f"{_writer(head)}: it is longer than {MAX_SPOOLED_BYTES} bytes and was not read",
                ProblemKind.LIMIT,
            )
            return
        yield from _rows(source, head, sadf, file)


def _rows(source: Source, head: Head, sadf: Path, file: IO[bytes]) -> Iterator[Record | Foreign]:
    """What sadf prints of the file: the tables that are of use, or all where it does not know an option."""

    def read_rows(source: Source, lines: Lines) -> Iterator[Record]:
        return sadf_rows.read(source, lines, NAME, head.host, head.machine)

    tries = (["-d", STDIN, "--", *options.split()] for options in (_USEFUL, "-A"))
    run = yield from printed_records(
        sadf, tries, _LIMITS, lambda printed: parse_member(source, printed, NAME, read_rows), file
    )
    if run.ending is not Ending.DONE:
        how, kind = ending_of(run)
        yield _ask(source, f"{_writer(head)}: sadf {how}", kind)


def _facts(head: Head, cite: Citation) -> Iterator[Fact]:
    since = None if head.since is None else Moment(head.since, Clock.UTC)
    named = {"host.name": head.host, "kernel.release": head.release, "kernel.arch": head.machine}
    for name, value in (named | {"sysstat.version": head.version}).items():
        if value:
            yield Fact(name, value, cite, time=since if name == "sysstat.version" else None)
    if head.cpus is not None:
        yield Fact("cpu.count", head.cpus, cite)
    if head.zone in ON_UTC:
        yield Fact("host.utc_offset", 0.0, cite, time=since)


def _writer(head: Head) -> str:
    return f"sysstat {head.version} wrote it" if head.version else "a sysstat before 9.0 wrote it"


def _ask(source: Source, text: str, kind: ProblemKind) -> Problem:
    return request(source, NAME, text, kind, f"LC_ALL=C sar -A -f {path_name(path_on_host(source))} > sar.txt")


@cache
def _format_read_by(sadf: Path) -> int | None:
    match = _VERSION.search(b"".join(ProgramRun(sadf, ["-V"], bounds=ProgramLimits(seconds=10, output=4096))))
    return format_of(tuple(int(part) for part in match.groups())) if match else None


def _open_member(front: bytes, chunks: Iterator[bytes], file: Path | None) -> IO[bytes]:
    """The bytes of the member as an open file: its own, or one without a name, which ends where it gets too long."""
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
