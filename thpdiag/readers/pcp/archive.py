"""Archives of Performance Co-Pilot (pmlogger), by an installed pmrep; else the request for its CSV.

    00 00 00 84 50 05 26 02 ...      NAME.0, NAME.1 ... (values), NAME.meta (names, units), NAME.index

The three together are one archive, of which a support bundle often has some only, packed with xz. They are never taken
apart here: where pmrep is installed it prints counts of every record, in UTC. It wants them as files beside each other;
those of a bundle are unpacked into a folder first. Source: PCP pmlogger, archive versions 2 and 3 (PCP 6.0); pmrep 5.0
and later for -5.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

from thpdiag.bundle.lines import Undecoded, numbered
from thpdiag.model import Citation, Fact, Problem, ProblemKind, Record
from thpdiag.programs import Bounds, Ending, Run, installed
from thpdiag.reader import BulkReader, Content, Foreign, Source
from thpdiag.readers.elements.whole_member import as_columns
from thpdiag.readers.pcp import pmrep

NAME = "pcp_archive"
MAGIC = re.compile(rb"\0\0..\x50\x05\x26[\x02\x03]", re.DOTALL)
_NO_VOLUME = (0xFFFFFFFF, 0xFFFFFFFE)  # .meta and .index have these for the number of their volume
_LABEL = {2: (20, 24), 3: (24, 36)}  # where the number of the volume stands in the label, and the host
_PART = re.compile(r"([\w@:+.-]{1,200}\.(?:\d{1,5}|meta|index))(?:\.(?:xz|gz|bz2|zst|lzma))?")
_HOST = re.compile(rb"[\w.-]{1,255}", re.ASCII)
_METRICS = (
    "mem.vmstat", "mem.util", "mem.physmem", "mem.buddyinfo.total", "mem.numa.util", "kernel.all.cpu",
    "kernel.percpu.cpu", "kernel.all.load", "kernel.all.pswitch", "kernel.all.intr", "kernel.all.sysfork",
    "kernel.all.running", "kernel.all.blocked", "kernel.all.pressure", "swap", "hinv.ncpu", "kernel.uname.release",
)  # fmt: skip
_ASKED = "mem.vmstat mem.util mem.buddyinfo kernel.all.cpu kernel.all.load hinv.ncpu"
_BOUNDS = Bounds(seconds=300, cpu_seconds=300, output=1 << 30)
_LINE = 1 << 20  # bytes


def _claims(path: str, head: bytes, size: int | None) -> bool:
    return MAGIC.match(head) is not None


def read_bulk(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """All rows at its first volume; at the others only whose it is; a Problem where it cannot be read."""
    head = b""
    while len(head) < 512 and (chunk := next(content.chunks, b"")):
        head += chunk
    volume, name = _label(head)
    if name:
        yield Fact("host.name", name, Citation(source.member))
    if volume in _NO_VOLUME:
        return
    program = installed("pmrep")
    file = _true(content.file)
    archive = _archive(file)
    if program is None or archive is None:
        missing = "no pmrep is installed here" if archive else "its .meta, .index or first volume is not beside it"
        yield _ask(source, f"an archive of Performance Co-Pilot was not read: {missing}", ProblemKind.UNREADABLE)
    elif file == _first(archive):
        yield from _rows(source, program, archive)


def _label(head: bytes) -> tuple[int, str]:
    """The number of the volume, and the host; the times before them are longer in version 3."""
    volume, host = _LABEL.get(head[7] if len(head) > 7 else 2, _LABEL[2])
    found = _HOST.match(head, host)
    return int.from_bytes(head[volume : volume + 4], "big"), found[0].decode("ascii") if found else ""


def _true(file: Path | None) -> Path | None:
    """The path under which the file lies beside others; it comes as an open descriptor."""
    try:
        return file.resolve() if file else None
    except (OSError, RuntimeError):
        return None


def _beside(path: str, file: Path | None) -> str:
    """The name of the member among the files of its archive, where these do not lie on a disk as they are."""
    found = _PART.fullmatch(path.rpartition("/")[2])
    if not found or installed("pmrep") is None or _archive(_true(file)) is not None:
        return ""
    return found[1]


def _archive(file: Path | None) -> Path | None:
    """The common path of the three without what tells them apart."""
    if file is None or not re.fullmatch(r"\.(?:\d{1,5}|meta|index)", file.suffix):
        return None
    base = file.with_suffix("")
    whole = all(Path(f"{base}{part}").is_file() for part in (".meta", ".index"))
    return base if whole and _first(base) is not None else None


def _first(archive: Path) -> Path | None:
    """The volume that speaks for all."""
    volumes = [
        file for file in archive.parent.iterdir() if re.fullmatch(rf"{re.escape(archive.name)}\.\d{{1,5}}", file.name)
    ]
    return min(volumes, key=lambda file: int(file.suffix[1:]), default=None)


def _rows(source: Source, program: Path, archive: Path) -> Iterator[Record | Foreign]:
    """What pmrep prints; without the option for unknown metrics where it knows none, and the most needed only."""
    shown = ["-a", str(archive.absolute()), "-o", "csv", "-u", "-r", "-f", "%s"]
    for options in ([*shown, "-5", "-I", *_METRICS], [*shown, *_ASKED.split()]):
        run = Run(program, options, bounds=_BOUNDS)
        with closing(iter(run)) as printed:
            first = next(printed, b"")
            if first or run.ending is not Ending.FAILED:
                undecoded = Undecoded()
                lines = numbered(first[:65536], chain((first,), printed), _LINE, undecoded)
                yield from as_columns(pmrep.read(source, lines, NAME))
                break
    if run.ending is not Ending.DONE:
        kind = ProblemKind.LIMIT if run.ending.by_limit else ProblemKind.DAMAGED
        why = f" ({run.complaint})" if run.complaint and str(archive.parent) not in run.complaint else ""
        yield _ask(source, f"an archive of Performance Co-Pilot: pmrep {run.ending}{why}", kind)


def _ask(source: Source, text: str, kind: ProblemKind) -> Problem:
    path = f"/{source.path}" if source.path.startswith("var/") else source.path.rpartition("/")[2]
    archive = re.sub(r"(\.\d{1,5})(\.(?:xz|gz|bz2|zst))?$", "", path)
    command = f"pmrep -z -a {archive} -o csv -t 60 {_ASKED} > pcp.csv"
    return Problem(Citation(source.member), f"{text}; on the host, `{command}` makes text of it", kind, NAME)


BULK = BulkReader(NAME, "PCP archives (rows by an installed pmrep)", _claims, read_bulk, _beside)
