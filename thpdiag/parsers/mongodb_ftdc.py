"""MongoDB's full-time diagnostic data (FTDC), diagnostic.data/metrics.*: a sample per second of the host and of mongod.

    {"_id": date, "type": 0, "doc": {"hostInfo": ..., "buildInfo": ...}}
    {"_id": date, "type": 1, "data": bytes}

A sequence of BSON documents. The bytes of type 1 are a length and zlib data, which contain a complete sample as BSON,
the number of its numbers, the number of further samples, and the differences, number by number: LEB128, where a zero is
followed by the count of zeros that follow it. Numbers are doubles, integers, booleans, dates and both halves of a
timestamp, in document order; other types are skipped. Units: milliseconds of CPU, KiB (`_kb`), MiB (`mem`),
microseconds (`extra_info`). Times are those of the server, UTC. A host name that is a Docker id belongs to a container
and is not read. Varies: systemMetrics since 3.4, user_time_us since 4.4; metrics.interim is an unfinished chunk.
Source: MongoDB src/mongo/db/ftdc (README, compressor.cpp, util.cpp, ftdc_system_stats_linux.cpp), 3.4 to 8.0; tried on
files of a server 7.0.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Citation, Clock, Entity, Fact, Problem, ProblemKind, Record, Series
from thpdiag.model.parser import BulkParser, Content, Foreign, Source
from thpdiag.parsers._lines import printable
from thpdiag.parsers._units import MAX_QUANTITY

NAME = "mongodb_ftdc"
ALTERNATIVE = "send db.serverStatus() every 10 s, and the output of sar or vmstat"
MAX_DOCUMENT_BYTES = 16 << 20
MAX_NUMBERS = 1 << 25  # numbers in all samples of one chunk
MAX_DEPTH = 30
SIZES = {1: 8, 6: 0, 7: 12, 8: 1, 9: 8, 10: 0, 16: 4, 17: 8, 18: 8, 19: 16, 127: 0, 255: 0}
FORMATS = {1: "<d", 8: "<B", 9: "<q", 16: "<i", 18: "<q"}
MEMORY = ("MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "AnonPages", "AnonHugePages", "SwapTotal",
          "SwapFree", "SUnreclaim")  # fmt: skip
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
HOST = {
    **{f"systemMetrics.memory.{name}_kb": (f"node_memory_{name}_bytes", 1024.0) for name in MEMORY},
    **{f"systemMetrics.cpu.{mode}_ms": (f"node_cpu_seconds_total.{mode}", 0.001) for mode in MODES},
    "systemMetrics.cpu.ctxt": ("node_context_switches_total", 1.0),
    "systemMetrics.cpu.processes": ("node_forks_total", 1.0),
    "systemMetrics.cpu.procs_running": ("node_procs_running", 1.0),
    "systemMetrics.cpu.procs_blocked": ("node_procs_blocked", 1.0),
    **{
        f"systemMetrics.vmstat.{name}": (f"node_vmstat_{name}", 1.0)
        for name in ("balloon_deflate", "balloon_inflate", "pgfault", "pgmajfault", "pswpin", "pswpout")
    },
}
MONGOD = {
    "serverStatus.extra_info.user_time_us": ("process_cpu_seconds_total.user", 1e-6),
    "serverStatus.extra_info.system_time_us": ("process_cpu_seconds_total.system", 1e-6),
    "serverStatus.extra_info.page_reclaims": ("process_minor_faults_total", 1.0),
    "serverStatus.extra_info.page_faults": ("process_major_faults_total", 1.0),
    "serverStatus.mem.resident": ("process_resident_memory_bytes", 2.0**20),
    "serverStatus.mem.virtual": ("process_virtual_memory_bytes", 2.0**20),
}
FACTS = {"hostInfo.extra.kernelVersion": "kernel.release", "hostInfo.system.hostname": "host.name"}
_CONTAINER_ID = re.compile(r"[0-9a-f]{12}$")


Numbers = dict[str, NDArray[np.float64]]  # by path


class _DamagedError(Exception):
    """The bytes do not have the format."""


class _Field(NamedTuple):
    path: str
    kind: int
    value: float | bytes


def _fields(data: bytes, at: int = 0, path: str = "", depth: int = 0) -> Iterator[_Field]:
    """Yield the values of a document in order, with their dotted paths."""
    end = at + _length(data, at) - 1
    at += 4
    while at < end:
        kind, stop = data[at], data.find(b"\0", at + 1, end)
        if stop < 0:
            raise _DamagedError
        name, at = path + data[at + 1 : stop].decode("utf-8", "replace"), stop + 1
        size = _size(data, at, kind, end)
        if kind in (3, 4):
            if depth == MAX_DEPTH:
                raise _DamagedError
            yield from _fields(data[: at + size], at, f"{name}.", depth + 1)
        elif kind in FORMATS:
            yield _Field(name, kind, struct.unpack_from(FORMATS[kind], data, at)[0])
        else:
            yield _Field(name, kind, data[at : at + size])
        at += size


def _length(data: bytes, at: int) -> int:
    """Return the length of the document at this position, including the four bytes of the length."""
    length = int.from_bytes(data[at : at + 4], "little")
    if not 5 <= length <= len(data) - at:
        raise _DamagedError
    return length


def _size(data: bytes, at: int, kind: int, end: int) -> int:
    if kind in SIZES:
        size = SIZES[kind]
    elif kind in (3, 4):
        size = _length(data, at)
    elif kind in (2, 5, 13, 14):
        size = 4 + int.from_bytes(data[at : at + 4], "little") + (kind == 5)
    else:
        raise _DamagedError
    if at + size > end:
        raise _DamagedError
    return size


def _documents(content: Content) -> Iterator[bytes]:
    """Yield the documents of a file."""
    buffer = b""
    for chunk in content.chunks:
        buffer, at = buffer + chunk, 0
        while len(buffer) - at > 4:
            size = int.from_bytes(buffer[at : at + 4], "little")
            if not 5 <= size <= MAX_DOCUMENT_BYTES:
                raise _DamagedError
            if size > len(buffer) - at:
                break
            yield buffer[at : at + size]
            at += size
        buffer = buffer[at:]
    if buffer:
        raise _DamagedError


def _samples(packed: bytes) -> Numbers:
    """Return the known numbers of a chunk by path, each with the values of all samples."""
    unpack = zlib.decompressobj()
    plain = unpack.decompress(packed, MAX_DOCUMENT_BYTES)
    start = _length(plain, 0)
    count, more = struct.unpack_from("<II", plain, start)
    if not unpack.eof or count * more > MAX_NUMBERS:
        raise _DamagedError
    names: list[tuple[str, float]] = []
    for field in _fields(plain[:start]):
        if field.kind in FORMATS or field.kind in (17, 19):
            first = field.value if isinstance(field.value, int | float) and abs(field.value) < MAX_QUANTITY else 0
            names += [(field.path, first)] * (2 if field.kind == 17 else 1)
    deltas = _deltas(np.frombuffer(plain, np.uint8, offset=start + 8), count * more)
    if len(names) != count or len(deltas) != count * more:
        raise _DamagedError
    table = deltas.reshape(count, more)
    numbers = {
        name: np.concatenate(([value], value + np.cumsum(row, dtype=np.int64)))
        for (name, value), row in zip(names, table, strict=True)
        if name == "start" or name in HOST or name in MONGOD
    }
    if any((column < 0).any() or (column > MAX_QUANTITY).any() for column in numbers.values()):
        raise _DamagedError
    return numbers


def _deltas(data: NDArray[np.uint8], count: int) -> NDArray[np.int64]:
    """Decode the differences of all numbers, number by number; an empty array if there are more than `count`."""
    ends = np.flatnonzero(data < 128)
    starts = np.concatenate(([0], ends[:-1] + 1)) if len(ends) else ends
    lengths = ends - starts + 1
    values = np.zeros(len(ends), np.uint64)
    for index in range(min(int(lengths.max(initial=0)), 10)):
        has_byte = lengths > index
        values[has_byte] |= (data[starts[has_byte] + index] & 127).astype(np.uint64) << np.uint64(7 * index)
    repeats, run_length_index = np.ones(len(values), np.int64), -1
    for index in np.flatnonzero(values[:-1] == 0).tolist():
        if index != run_length_index:
            run_length_index = index + 1
            repeats[index], repeats[run_length_index] = 1 + min(int(values[run_length_index]), count), 0
    return np.repeat(values, repeats).view(np.int64) if int(repeats.sum()) <= count else values[:0].view(np.int64)


def _facts(document: bytes, cite: Citation) -> Iterator[Fact]:
    """Yield the facts of the host and the server in the first document."""
    for field in _fields(document):
        path, value = field.path.removeprefix("doc."), field.value
        text = printable(value[4:-1].decode("utf-8", "replace"))[:255] if isinstance(value, bytes) else ""
        if field.kind != 2 or not text:
            continue
        if path == "buildInfo.version":
            yield Fact("app.version", text, cite, (("app", "mongodb"),))
        elif path in FACTS and not (FACTS[path] == "host.name" and _CONTAINER_ID.match(text)):
            yield Fact(FACTS[path], text.partition(":")[0], cite)


def read(source: Source, content: Content) -> Iterator[Record | Foreign]:
    """Yield facts of the host, a series of the host and one of mongod."""
    parts: list[tuple[int, Numbers]] = []
    number = 0
    try:
        for number, document in enumerate(_documents(content), 1):
            fields = {field.path: field.value for field in _fields(document) if field.path in ("type", "data")}
            if fields.get("type") == 0 and number == 1:
                yield from _facts(document, Citation(source.member, number))
            elif fields.get("type") == 1 and isinstance(packed := fields.get("data"), bytes):
                parts.append((number, _samples(packed[9:])))  # after two lengths and the binary subtype
    except (_DamagedError, struct.error, zlib.error):
        text = f"diagnostic data of MongoDB that is cut or damaged: what is beyond was not read; {ALTERNATIVE}"
        yield Problem(Citation(source.member, number + 1), text, ProblemKind.DAMAGED, NAME)
    yield from _series(source, parts, HOST, "system", ())
    yield from _series(source, parts, MONGOD, "process", (("pid", "?"), ("comm", "mongod")))


def _series(
    source: Source,
    parts: list[tuple[int, Numbers]],
    names: Mapping[str, tuple[str, float]],
    kind: str,
    entity: Entity,
) -> Iterator[Series]:
    """Yield one series for each set of numbers that chunks have in common."""
    by_paths: dict[tuple[str, ...], list[tuple[int, Numbers]]] = defaultdict(list)
    for number, part in parts:
        if "start" in part:
            by_paths[tuple(name for name in names if name in part)].append((number, part))
    for paths, chunks in by_paths.items():
        if paths:
            seconds = np.concatenate([part["start"] for _, part in chunks]) / 1000
            columns = {names[path][0]: np.concatenate([p[path] for _, p in chunks]) * names[path][1] for path in paths}
            lines = np.concatenate([np.full(len(part["start"]), number) for number, part in chunks])
            yield Series(kind, columns, source.member, lines, NAME, entity, seconds, Clock.UTC)


BULK_PARSER = BulkParser(
    NAME, "diagnostic data of MongoDB", None, read, opens=re.compile(rb"(?s).{4}\x09_id\x00.{8}\x10type\x00")
)
