"""sysstat's own files (sadc's saDD): the header always, the rows by an installed sadf that fits.

    96 d5 75 21 0c 06 01 00 ... Linux ... web1 ... 2.6.32-431.el6.x86_64 ... x86_64

The format changed four times and 12.x reads its own only (`sadf -c` crashed on three of sixteen older files), so that
the rows are never taken apart here: where no sadf fits, the answer is what to run on the host. sadf runs as a child
with limits, gets the file as its input and sees nothing else. Source: sysstat sa.h, sadf.c, 9.0 to 12.7.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from thpdiag.model import Citation, Clock, Fact, Moment, Problem, ProblemKind, Record
from thpdiag.programs import STDIN, Bounds, Ending, Run, installed
from thpdiag.reader import BulkReader, Content, Foreign, Source
from thpdiag.readers.sysstat.sadc_header import LOOK, Head, format_of, is_sysstat, read_head, without_magic
from thpdiag.readers.sysstat.tables import ON_UTC

NAME = "sadc"
SPOOLED = 1 << 30  # bytes of a member that is no file of its own
_OF_A_DAY = re.compile(r"(?:^|/)sa\d{2,8}$", re.ASCII)
_VERSION = re.compile(rb"version (\d{1,3})\.(\d{1,3})\.(\d{1,3})")
_USEFUL = "-u ALL -P ALL -B -r ALL -S -W -w -q ALL -I SUM".split()  # noqa: SIM905
_BOUNDS = Bounds(seconds=120, cpu_seconds=120, output=1 << 30)


def _claims(path: str, head: bytes, size: int | None) -> bool:
    return is_sysstat(head) or (_OF_A_DAY.search(path) is not None and without_magic(head))


def read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """Facts of the header; then a Series per entity, or a Problem that says what to ask for."""
    front = b""
    chunks = content.chunks
    while len(front) < LOOK and (chunk := next(chunks, b"")):
        front += chunk
    head, cite = read_head(front[:LOOK]), Citation(source.member)
    yield from _facts(head, cite)
    sadf = installed("sadf")
    if sadf is None or head.format is None or _format_read_by(sadf) != head.format:
        text = "no sadf that reads it is installed here, so its rows were not read"
        yield _ask(source, f"{_wrote(head)}: {text}", ProblemKind.UNREADABLE)
        return
    with _opened(front, chunks, content.file) as file:
        if file.tell() > SPOOLED:
            yield _ask(source, f"{_wrote(head)}: it is longer than {SPOOLED} bytes and was not read", ProblemKind.LIMIT)
            return
        yield from _rows(source, head, sadf, file)


def _rows(source: Source, head: Head, sadf: Path, file: IO[bytes]) -> Iterator[Record | Foreign]:
    """What sadf prints of the file: the tables that are of use, or all where it does not know an option."""
    from thpdiag.readers.sysstat.bulk.sadf_members import read_lines  # numpy: only where there is a recording

    for options in (_USEFUL, ["-A"]):
        run = Run(sadf, ["-d", STDIN, "--", *options], file, _BOUNDS)
        with closing(iter(run)) as printed:
            first = next(printed, b"")
            if first or run.ending is not Ending.FAILED:
                yield from read_lines(source, chain((first,), printed), head)
                break
    if run.ending is not Ending.DONE:
        kind = ProblemKind.LIMIT if run.ending.by_limit else ProblemKind.DAMAGED
        why = f" ({run.complaint})" if run.complaint else ""
        yield _ask(source, f"{_wrote(head)}: sadf {run.ending}{why}", kind)


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


def _wrote(head: Head) -> str:
    return f"sysstat {head.version} wrote it" if head.version else "a sysstat before 9.0 wrote it"


def _ask(source: Source, text: str, kind: ProblemKind) -> Problem:
    path = f"/{source.path}" if source.path.startswith("var/") else source.path.rpartition("/")[2]
    return Problem(
        Citation(source.member),
        f"{text}; on the host, `LC_ALL=C sar -A -f {path} > sar.txt` makes text of it",
        kind,
        NAME,
    )


@cache
def _format_read_by(sadf: Path) -> int | None:
    found = _VERSION.search(b"".join(Run(sadf, ["-V"], bounds=Bounds(seconds=10, output=4096))))
    return format_of(tuple(int(part) for part in found.groups())) if found else None


def _opened(front: bytes, chunks: Iterator[bytes], file: Path | None) -> IO[bytes]:
    """The bytes of the member as an open file: its own, or one without a name, which ends where it gets too long."""
    if file is not None:
        return file.open("rb")
    spooled = TemporaryFile()  # noqa: SIM115
    spooled.write(front)
    for chunk in chunks:
        spooled.write(chunk)
        if spooled.tell() > SPOOLED:
            break
    spooled.flush()
    return spooled


BULK = BulkReader(NAME, "sysstat's own files, saDD (rows by an installed sadf)", _claims, read_bulk)
