"""Export of a store: one table with a row per finding as CSV, JSON Lines or Parquet, or a SQLite copy of the store.

A host without findings and a bundle without a host (status `refused`, for instance) have one row with empty cells.
Columns such as `verdict_rule` belong to the verdict of the host, columns such as `rule` to the finding. `apps` are
separated by commas; `settings`, `measures` and `options` are JSON texts.

CSV escapes formulas and control characters (`'=..`, `\\x1b`), which a spreadsheet or terminal would execute. JSON Lines
keeps every string, in ASCII. Parquet does too, except for lone surrogates, which it cannot hold (`\\udc80`).
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

ROW_GROUP: Final = 5_000  # rows in memory at a time, and in a row group of a Parquet file
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
        text.detach()  # the caller closes the stream


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
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in FLAT_COLUMNS])
    rows = _rows(store)
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        while portion := list(islice(rows, ROW_GROUP)):
            columns = [list(map(_escape_surrogates, column)) for column in zip(*portion, strict=True)]
            writer.write_table(pa.table(dict(zip(FLAT_COLUMNS, columns, strict=True)), schema=schema))


FORMATS: Final[Mapping[str, Callable[[StoreReader, BinaryIO], None]]] = MappingProxyType(
    {"csv": write_csv, "jsonl": write_json_lines, "parquet": write_parquet}
)


COPY: Final = "sqlite"
FORMAT_NAMES: Final = (*FORMATS, COPY)


def format_of_suffix(file: Path) -> str:
    """Return the format that the suffix of a file names."""
    name = file.suffix.removeprefix(".").lower()
    if name not in FORMAT_NAMES:
        raise UsageError(f"{file}: the suffix names no format; one of .{', .'.join(FORMAT_NAMES)}")
    return name


def export(store: StoreReader, file: Path, form: str = "") -> None:
    """Write a store to a file atomically, in the given format or the one that its suffix names."""
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


def _escape_surrogates(value: Any) -> Any:
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "backslashreplace").decode()
    return value
