"""Rows of series as CSV, as one JSON document, or as a Parquet file."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from thpdiag.errors import UsageError
from thpdiag.exported.columns import Recorded
from thpdiag.json_text import compact
from thpdiag.reports.visible import visible

SCHEMA = "thpdiag/series/1"
FIRST = ("host", "metric", "time", "clock")
LAST = ("value", "unit", "since_boot", "member", "reader", "line")
NO_PARQUET = "Parquet is written by pyarrow, which is not installed: pip install 'thpdiag[parquet]'"


def labels_of(found: Iterable[Recorded]) -> list[str]:
    """The labels that tell entities apart, in the order in which they come."""
    return list(dict.fromkeys(label for one in found for label in one.entity))


def csv_text(found: Sequence[Recorded]) -> str:
    """A header, then a row per value; a column per label of the entities."""
    labels = labels_of(found)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*FIRST, *labels, *LAST))
    for one in found:
        before = tuple(visible(one.entity.get(label, "")) for label in labels)
        source = (visible(one.member), visible(one.reader))
        for time, value, mark, line in zip(one.times, one.values, one.since_boot, one.lines, strict=True):
            shown = "" if time is None else time
            cells = (_plain(value), one.unit, int(mark), *source, line)
            writer.writerow((visible(one.host), one.metric, shown, one.clock, *before, *cells))
    return text.getvalue()


def _plain(value: float) -> str:
    """Whole numbers without a fraction, others as exactly as they are known."""
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(value)


def json_text(found: Sequence[Recorded]) -> str:
    """One document: each series once, its rows as [time, value, line]."""
    return compact({"schema": SCHEMA, "series": [_series(one) for one in found]}) + "\n"


def _series(one: Recorded) -> dict[str, Any]:
    return {
        "host": one.host, "metric": one.metric, "unit": one.unit, "kind": one.kind, "means": one.means,
        "entity": dict(one.entity), "member": one.member, "reader": one.reader, "clock": one.clock or None,
        "resolution": one.resolution, "columns": ["time", "value", "line"],
        "rows": [list(row) for row in zip(one.times, one.values, one.lines, strict=True)],
        "since_boot": [at for at, mark in enumerate(one.since_boot) if mark],
    }  # fmt: skip


def parquet_bytes(found: Sequence[Recorded]) -> bytes:
    """The rows of the CSV as a Parquet file: values as doubles; times as timestamps where all of them are in UTC."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as missing:
        raise UsageError(NO_PARQUET) from missing
    columns: dict[str, Any] = {name: [] for name in (*FIRST, *labels_of(found), *LAST)}
    for one in found:
        for name, column in _cells(one, list(columns)):
            columns[name] += column
    columns["time"] = _moments(pa, columns["time"], {one.clock for one in found})
    kinds = {"value": pa.float64(), "since_boot": pa.bool_(), "line": pa.int64()}
    arrays = {
        name: cells if name == "time" else pa.array(cells, kinds.get(name, pa.string()))
        for name, cells in columns.items()
    }
    written = io.BytesIO()
    pq.write_table(pa.table(arrays), written)
    return written.getvalue()


def _cells(one: Recorded, names: Sequence[str]) -> Iterator[tuple[str, Sequence[object]]]:
    rows: dict[str, Sequence[object]] = {
        "time": one.times, "value": one.values, "since_boot": one.since_boot, "line": one.lines,
    }  # fmt: skip
    same = {
        "host": one.host, "metric": one.metric, "clock": one.clock or None, "unit": one.unit, "member": one.member,
        "reader": one.reader, **one.entity,
    }  # fmt: skip
    return ((name, rows.get(name) or [same.get(name)] * len(one.values)) for name in names)


def _moments(pa: Any, times: Sequence[str | float | None], clocks: set[str]) -> Any:
    if clocks - {""} == {"utc"}:
        plain = pa.array([None if time is None else str(time).removesuffix("Z") for time in times], pa.string())
        return plain.cast(pa.timestamp("ms")).cast(pa.timestamp("ms", tz="UTC"))
    return pa.array([None if time is None else str(time) for time in times], pa.string())


def target(text: str) -> tuple[str, Path]:
    """Format and file of `-o`: `csv`, `parquet=FILE`, or a file whose name says it; `-` is standard output."""
    name, sign, rest = text.partition("=")
    if sign and name in FORMATS and rest:
        return name, Path(rest)
    if not sign and text in FORMATS:
        return text, Path("-")
    suffix = Path(text).suffix.removeprefix(".")
    if not sign and suffix in FORMATS:
        return suffix, Path(text)
    if Path(text).is_dir():
        raise UsageError(f"-o {text}: that is a folder; name a file in it, such as {Path(text) / 'values.csv'}")
    raise UsageError(f"-o takes csv, json, parquet, FORMAT=FILE, or a file that ends in one of these, not '{text}'")


FORMATS: Mapping[str, Callable[[Sequence[Recorded]], str | bytes]] = {
    "csv": csv_text,
    "json": json_text,
    "parquet": parquet_bytes,
}
