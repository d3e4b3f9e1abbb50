"""A store for others: one table, a row per finding, as CSV, JSON Lines or Parquet, written as it is read; or a whole
copy of it (SQLite), which triage reads as it reads a store.

A host without findings, and a bundle without a host (`refused`, for instance), has one row, in which the columns of
what it lacks are empty. `verdict_rule` and its like are of the host's verdict, `rule` and its like of the finding.
`apps` has commas between, `settings`, `measures` and `options` are JSON texts.

A spreadsheet acts upon formulas and a terminal upon escapes: CSV shows them (`'=..`, `\\x1b`), as the reports do. JSON
Lines has every string as it was, in ASCII. Parquet too, but for lone surrogates, which it cannot hold (`\\udc80`).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final

from thpdiag.errors import UsageError
from thpdiag.model.document import compact
from thpdiag.report.escaping import csv_writer
from thpdiag.store.reading import FLAT_COLUMNS, StoreReader
from thpdiag.store.schema import write_errors

ROW_GROUP: Final = 5_000  # rows that are in memory at a time, and in a row group of a Parquet file
INTEGER_COLUMNS: Final = ("size", "attempts", "undecided")
NO_PARQUET: Final = "Parquet is written by pyarrow, which is not installed: pip install 'thpdiag[parquet]'"
_APPS: Final = FLAT_COLUMNS.index("apps")


def write_csv(store: StoreReader, out: BinaryIO) -> None:
    text = io.TextIOWrapper(out, "utf-8", newline="", write_through=True)
    try:
        write = csv_writer(text)
        write(FLAT_COLUMNS)
        for row in _rows(store):
            write(row)
    finally:
        text.detach()  # the stream is the caller's


def write_json_lines(store: StoreReader, out: BinaryIO) -> None:
    for row in _rows(store):
        out.write(compact(dict(zip(FLAT_COLUMNS, row, strict=True))).encode() + b"\n")


def write_parquet(store: StoreReader, out: BinaryIO) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as missing:
        raise UsageError(NO_PARQUET) from missing
    kinds = dict.fromkeys(INTEGER_COLUMNS, pa.int64())
    form = pa.schema([(name, kinds.get(name, pa.string())) for name in FLAT_COLUMNS])
    rows = _rows(store)
    with pq.ParquetWriter(out, form, compression="zstd") as writer:
        while portion := list(islice(rows, ROW_GROUP)):
            columns = [list(map(_utf8, column)) for column in zip(*portion, strict=True)]
            writer.write_table(pa.table(dict(zip(FLAT_COLUMNS, columns, strict=True)), schema=form))


FORMATS: Final[Mapping[str, Callable[[StoreReader, BinaryIO], None]]] = MappingProxyType(
    {"csv": write_csv, "jsonl": write_json_lines, "parquet": write_parquet}
)


COPY: Final = "sqlite"
FORMAT_NAMES: Final = (*FORMATS, COPY)


def format_of_suffix(file: Path) -> str:
    """The format that the end of a file's name says."""
    name = file.suffix.removeprefix(".").lower()
    if name not in FORMAT_NAMES:
        raise UsageError(f"{file}: the suffix names no format; one of .{', .'.join(FORMAT_NAMES)}")
    return name


def export(store: StoreReader, file: Path, form: str = "") -> None:
    """Write a store to a file, in the format that is given or its suffix names; whole, or not at all."""
    form = form or format_of_suffix(file)
    part = file.with_name(f".{file.name}.part")
    with write_errors(file, UsageError), ExitStack() as undo:
        with part.open("wb") as out:
            undo.callback(part.unlink, missing_ok=True)
            if form == COPY:
                store.copy_to(part)
            else:
                FORMATS[form](store, out)
        part.replace(file)


def _rows(store: StoreReader) -> Iterator[list[Any]]:
    for flat in store.flat():
        row = list(flat)
        row[_APPS] = None if row[_APPS] is None else ",".join(json.loads(row[_APPS]))
        yield row


def _utf8(value: Any) -> Any:
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "backslashreplace").decode()
    return value
