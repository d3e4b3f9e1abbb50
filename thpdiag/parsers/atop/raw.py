"""atop's raw log (atop -w, /var/log/atop/atop_YYYYMMDD): compressed C structures of one version of atop.

    EF BE ED FE, version, sizes of the structures; then per interval a record, the host's figures, those of the tasks

The layout changes with every minor version. The optional package atoparser knows those from 1.26 to 2.12; the values
are then those of `atop -P`. Decompression is limited to the size of the structures. Without the package, and for other
versions, a Problem names the text to ask for. Source: atop rawlog.h, photosyst.h, photoproc.h.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Any

from thpdiag.model import Citation, Fact, Problem, ProblemKind, Record
from thpdiag.model.parser import BulkParser, Content, Foreign, Source
from thpdiag.model.text import quoted
from thpdiag.parsers._lines import rows_as_series
from thpdiag.parsers.atop import logs as atop

NAME = "atop_raw"
MAGICS = (b"\xef\xbe\xed\xfe", b"\xfe\xed\xbe\xef")
SINCE_BOOT = 1  # flag of a record
MAX_TASKS = 1_000_000
REQUEST = "ask for its text: atop -r FILE -P ALL > atop.txt, run on the host that wrote it"
PSI_FIELDS = (("cs", "cpusome"), ("ms", "memsome"), ("mf", "memfull"), ("ios", "iosome"), ("iof", "iofull"))


class _BrokenError(Exception):
    """The file ends early or is damaged; the text is the reason."""


class _Input:
    """The bytes of a member in order, in any amount."""

    def __init__(self, content: Content) -> None:
        self._chunks = iter(content.chunks)
        self._held = bytearray()

    def take(self, count: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        while len(self._held) < count and (chunk := next(self._chunks, None)) is not None:
            self._held += chunk
        data = bytes(self._held[:count])
        del self._held[:count]
        return data

    def take_exactly(self, count: int) -> bytes:
        data = self.take(count)
        if len(data) < count:
            raise _BrokenError("it ends within an interval")
        return data

    def readinto(self, target: Any) -> int:
        """Read like a file, for the library's header."""
        view = memoryview(target).cast("B")
        data = self.take(len(view))
        view[: len(data)] = data
        return len(data)

    def inflate(self, count: int, size: int) -> bytes:
        """Return the next bytes decompressed; `size` is their exact size."""
        packed = self.take_exactly(count)
        try:
            data = zlib.decompressobj().decompress(packed, size)
        except zlib.error:
            raise _BrokenError("an interval is damaged") from None
        if len(data) < size:
            raise _BrokenError("an interval is shorter than its header states")
        return data


def _read_header(file: _Input) -> Any:
    """Return the library's header, or the reason why it cannot read this file."""
    try:
        import atoparser  # it has no type annotations
    except ImportError:
        return "the raw log of atop needs the package atoparser (pip install 'thpdiag[atop]')"
    try:
        return atoparser.get_header(file)
    except (ValueError, AttributeError):  # headers of invented versions lack fields
        return "a raw log of a version of atop that is not known here, or of another kind of machine"


def read(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """Samples of the host, of each CPU and of each process per interval; a Fact process.command per process."""
    cite = Citation(source.member)
    file = _Input(content)
    header = _read_header(file)
    if isinstance(header, str):
        yield Problem(cite, f"{header}; {REQUEST}", ProblemKind.UNREADABLE, NAME)
        return
    yield from rows_as_series(_intervals(source, file, header))


def _intervals(source: Source, file: _Input, header: Any) -> Iterator[Record]:
    host = header.utsname.nodename.decode("utf-8", "replace")
    for name, value in (("host.name", host), ("kernel.release", header.utsname.release.decode("utf-8", "replace"))):
        if value and value.isprintable():
            yield Fact(name, value, Citation(source.member))
    commands: set[int] = set()
    number = 0
    try:
        while record := file.take(header.rawreclen):
            number += 1
            yield from _interval(Citation(source.member, number), file, header, record, commands)
    except _BrokenError as end:
        cite = Citation(source.member, number)
        yield Problem(cite, f"the rest of the raw log of atop cannot be read: {quoted(end)}", ProblemKind.DAMAGED, NAME)


def _interval(cite: Citation, file: _Input, header: Any, packed: bytes, commands: set[int]) -> Iterator[Record]:
    if len(packed) < header.rawreclen:
        raise _BrokenError("it ends within an interval")
    record = header.Record.from_buffer_copy(packed)
    tasks = getattr(record, "ndeviat", None)
    tasks = record.nlist if tasks is None else tasks
    if tasks > MAX_TASKS:
        raise _BrokenError("an interval has more tasks than any host")
    size = getattr(header, "tstatlen", None) or header.pstatlen
    host = header.SStat.from_buffer_copy(file.inflate(record.scomplen, header.sstatlen))
    listed = file.inflate(record.pcomplen, tasks * size) if tasks else file.take(record.pcomplen)
    file.take_exactly(getattr(record, "ccomplen", 0) + getattr(record, "icomplen", 0))  # control groups
    interval = atop.Interval(float(record.curtime), float(record.interval), bool(record.flags & SINCE_BOOT), NAME)
    yield from _host_samples(interval, header, host, cite)
    for at in range(0, tasks * size, size):
        task = header.TStat.from_buffer_copy(listed[at : at + size])
        yield from _process(interval, header, task, cite, commands)


def _cells(structure: Any) -> dict[str, float]:
    """Return the numbers of a structure by their names."""
    pairs = ((field[0], getattr(structure, field[0])) for field in structure._fields_)
    return {name: float(value) for name, value in pairs if isinstance(value, int | float)}


def _host_samples(interval: atop.Interval, header: Any, host: Any, cite: Citation) -> Iterator[Record]:
    hertz, page = float(header.hertz), float(header.pagesize)
    yield from atop.cpu_samples(interval, _cells(host.cpu.all) | {"hertz": hertz}, cite)
    for cpu in host.cpu.cpu[: max(0, min(int(host.cpu.nrcpu), len(host.cpu.cpu)))]:
        yield from atop.cpu_samples(interval, _cells(cpu) | {"hertz": hertz}, cite, str(cpu.cpunr))
    load = {k: round(v, 2) for k, v in _cells(host.cpu).items()}  # averages are single precision
    yield from atop.system_samples(interval, {k: load[k] for k in ("lavg1", "csw", "devint") if k in load}, cite)
    memory = {k: v * page if k in atop.BYTE_METRICS and v >= 0 else v for k, v in _cells(host.mem).items()}
    for keys in (MEMORY_FIELDS, SWAP_FIELDS, PAGING_FIELDS):
        yield from atop.system_samples(interval, {k: memory[k] for k in keys if k in memory}, cite, page)
    if getattr(host, "psi", None) is not None and host.psi.present:
        averages = {
            f"{short}{window}": round(getattr(getattr(host.psi, name), f"avg{window}"), 2)
            for short, name in PSI_FIELDS
            for window in (10, 60, 300)
        }
        yield from atop.system_samples(interval, averages, cite)


THREAD_FLAGS = (0, b"\0", b"n")  # `isproc` of a thread, which repeats the sizes of its process
SWAP_FIELDS = ("totswap", "freeswap", "committed", "commitlim")
PAGING_FIELDS = ("allocstall", "swins", "swouts", "oomkills", "compactstall", "pgmigrate", "numamigrate")
MEMORY_FIELDS = tuple(name for name in (*atop.BYTE_METRICS, "tothugepage", "freehugepage") if name not in SWAP_FIELDS)


def _process(interval: atop.Interval, header: Any, tstat: Any, cite: Citation, commands: set[int]) -> Iterator[Record]:
    state = tstat.gen.state
    task = atop.Task(
        str(tstat.gen.pid),
        _text(tstat.gen.name),
        state.decode("ascii", "replace") if isinstance(state, bytes) else chr(state),
        getattr(tstat.gen, "isproc", 1) not in THREAD_FLAGS,
    )
    command = _text(tstat.gen.cmdline)
    if task.is_alive and command and tstat.gen.pid not in commands:
        commands.add(tstat.gen.pid)
        yield Fact("process.command", command, cite, (("pid", task.pid), ("comm", task.comm)), interval.time)
    yield from atop.process_start(interval, task, _cells(tstat.gen), cite)
    yield from atop.process_memory(interval, task, _cells(tstat.mem), cite)
    yield from atop.process_cpu(interval, task, _cells(tstat.cpu) | {"hertz": float(header.hertz)}, cite)


def _text(raw: bytes) -> str:
    return "".join(c if c.isprintable() else " " for c in raw.decode("utf-8", "replace"))


BULK_PARSER = BulkParser(NAME, "atop's raw log", None, read, opens=re.compile(b"|".join(MAGICS)))
