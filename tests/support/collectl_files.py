"""Recordings and plot files of collectl read by the parsers, and by collectl itself for comparison."""

from __future__ import annotations

import gzip
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from shutil import which

import pytest

from command_line import ROOT
from thpdiag.model import Problem, Record, Series, Subject
from thpdiag.model.parser import BulkParser, Content, Foreign, Source
from thpdiag.parsers.collectl import plot as collectl_plot
from thpdiag.parsers.collectl import raw as collectl_raw

FIXTURES = ROOT / "fixtures" / "readers"
GROWTH = FIXTURES / "collectl_raw" / "growth" / "db1-20261120-095401.raw.gz"
ROLLED = FIXTURES / "collectl_raw" / "rolled" / "app7-20151103.raw"
HOST = ("system", ())


def read(reader: BulkParser, data: bytes, piece: int = 4096) -> list[Record]:
    """Return the records of the bytes, given in pieces."""
    chunks = (data[at : at + piece] for at in range(0, len(data), piece))
    records = reader.read(Source("host.raw"), Content(chunks, len(data)))
    return [r for r in records if not isinstance(r, Foreign)]


def raw(data: bytes, piece: int = 4096) -> list[Record]:
    return read(collectl_raw.BULK_PARSER, data, piece)


def plot(data: bytes) -> list[Record]:
    return read(collectl_plot.BULK_PARSER, data)


def series(records: Iterable[Record]) -> Mapping[Subject, Series]:
    """Return series by kind and entity; each entity has one."""
    found = [r for r in records if isinstance(r, Series)]
    by_entity = {(s.kind, s.entity): s for s in found}
    assert len(by_entity) == len(found)
    return by_entity


def of(records: Iterable[Record], kind: str) -> list[Series]:
    """Return all series of a kind of entity, in order."""
    return [r for r in records if isinstance(r, Series) and r.kind == kind]


def problems(records: Iterable[Record]) -> list[tuple[str, int]]:
    return [(r.text, r.count) for r in records if isinstance(r, Problem)]


def growth() -> bytes:
    return gzip.decompress(GROWTH.read_bytes())


def intervals(data: bytes) -> tuple[bytes, list[bytes]]:
    """Return the header of a recording and its intervals."""
    first = data.index(b">>> ")
    parts = data[first:].split(b">>> ")[1:]
    return data[:first], [b">>> " + part for part in parts]


def collectl(file: Path, *options: str, folder: Path | None = None) -> str:
    """Return the output of collectl for a recording, in UTC."""
    program = which("collectl")
    if program is None:
        pytest.skip("collectl is not installed")
    environment = {**os.environ, "TZ": "UTC"}
    done = subprocess.run(
        [program, "-p", str(file), *options], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def changed_times(parts: Iterable[bytes], by: float) -> Iterator[bytes]:
    """Return intervals with other times."""
    for part in parts:
        head, _, rest = part.partition(b"\n")
        epoch = float(head.split()[1])
        yield b">>> %.3f <<<\n" % (epoch + by) + rest
