"""Rows of series as CSV, as one JSON document, or as a Parquet file: the columns of one metric of one entity each."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thpdiag.errors import UsageError
from thpdiag.host.catalogue import make_tables
from thpdiag.host.series import Table
from thpdiag.knowledge.vocabulary import possible_names, term
from thpdiag.model import Case, Clock, Entity, Series
from thpdiag.model.document import compact
from thpdiag.report.escaping import csv_writer

SCHEMA = "thpdiag/series/1"
WALL_CLOCKS = (Clock.UTC, Clock.LOCAL)
FIRST_COLUMNS = ("host", "metric", "time", "clock")
LAST_COLUMNS = ("value", "unit", "since_boot", "member", "reader", "line")
NO_PARQUET = "Parquet is written by pyarrow, which is not installed: pip install 'thpdiag[parquet]'"


@dataclass(frozen=True, slots=True)
class Recorded:
    """The rows of `metric` from one source, as columns of equal length.

    `times` are ISO 8601 texts on a wall clock (with a Z for UTC), else seconds of `clock`; None for rows without a
    time. `since_boot` marks averages since boot.
    """

    host: str
    metric: str
    unit: str
    kind: str
    means: str
    entity: Mapping[str, str]
    member: str
    reader: str
    clock: str
    resolution: float
    times: Sequence[str | float | None]
    values: Sequence[float]
    lines: Sequence[int | None]
    since_boot: Sequence[bool]


@dataclass(slots=True)
class Listed:
    """The amount of data of a metric: rows, entities with their kinds, and members."""

    rows: int = 0
    entities: dict[Entity, str] = field(default_factory=dict)
    members: set[str] = field(default_factory=set)


def list_metrics(cases: Iterable[Case]) -> dict[str, Listed]:
    """Return all metrics by name."""
    metrics: dict[str, Listed] = {}
    for table in (table for case in cases for state in case.states for table in make_tables(state.samples)):
        for name in table.metrics:
            listed = metrics.setdefault(name, Listed())
            if isinstance(table.samples, Series):
                listed.rows += int(np.count_nonzero(~np.isnan(table.samples.values[name])))
            else:
                listed.rows += sum(name in sample.values for sample in table.samples)
            listed.entities[table.entity] = table.kind
            listed.members.add(table.member)
    return dict(sorted(metrics.items()))


def match_metrics(wanted: Sequence[str], known: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the metrics that match names, aliases and patterns, and the words that match none."""
    matched: dict[str, None] = {}
    unknown = []
    for word in wanted:
        if set("*?[") & set(word) and word not in known:
            names = [name for name in known if fnmatchcase(name, word)]
        else:
            names = [name for name in possible_names(word) if name in known][:1]
        matched |= dict.fromkeys(names)
        unknown += [word] * (not names)
    return list(matched), unknown


def metric_rows(cases: Iterable[Case], metrics: Sequence[str]) -> Iterator[Recorded]:
    """Yield all rows of these metrics, metric by metric."""
    tables = [(case.name, table) for case in cases for state in case.states for table in make_tables(state.samples)]
    for metric in metrics:
        known = term(metric)
        meaning = (known.unit, known.kind, known.means) if known else ("", "", "")
        for host, table in tables:
            if metric in table.metrics:
                entity, source = dict(table.entity), (table.member, table.reader)
                clock, resolution, times, values, lines, marks = _columns(table, metric)
                yield Recorded(host, metric, *meaning, entity, *source, clock, resolution, times, values, lines, marks)


Floats = NDArray[np.float64]
Columns = tuple[str, float, list[str | float | None], list[float], list[int | None], list[bool]]


def _columns(table: Table, metric: str) -> Columns:
    """Return clock and resolution, then times, values, lines and since-boot marks of the rows with the metric."""
    if isinstance(samples := table.samples, Series):
        column = samples.values[metric]
        keep = ~np.isnan(column)
        values, lines = column[keep], samples.lines[keep].tolist()
        seconds = np.full(len(values), np.nan) if samples.seconds is None else samples.seconds[keep]
        marks = [False] * len(values) if samples.since_boot is None else samples.since_boot[keep].tolist()
        resolution = samples.resolution.get(metric, 0.0)
        clock = samples.clock
    else:
        resolution = max((sample.resolution.get(metric, 0.0) for sample in samples), default=0.0)
        rows = [sample for sample in samples if metric in sample.values]
        clocks = list(dict.fromkeys(row.time.clock for row in rows if row.time))
        clock = clocks[0] if len(clocks) == 1 else None
        values = np.array([row.values[metric] for row in rows], np.float64)
        seconds = np.array([row.time.seconds if row.time and clock else np.nan for row in rows], np.float64)
        lines, marks = [row.cite.line or 0 for row in rows], [row.since_boot for row in rows]
    name = clock.value if clock else ""
    return name, resolution, _times(seconds, clock), values.tolist(), [line or None for line in lines], marks


def _times(seconds: Floats, clock: Clock | None) -> list[str | float | None]:
    known = ~np.isnan(seconds)
    if clock is None or not known.any():
        return [None] * len(seconds)
    if clock not in WALL_CLOCKS:
        return [second if good else None for second, good in zip(seconds.tolist(), known.tolist(), strict=True)]
    stamps = np.round(np.where(known, seconds, 0.0) * 1000).astype("datetime64[ms]")
    whole = bool((stamps == stamps.astype("datetime64[s]")).all())
    zone = "Z" if clock is Clock.UTC else ""
    texts = np.datetime_as_string(stamps, unit="s" if whole else "ms").tolist()
    return [f"{text}{zone}" if good else None for text, good in zip(texts, known.tolist(), strict=True)]


def csv_text(recorded: Sequence[Recorded]) -> str:
    """Return a header, then a row per value, with a column per label of the entities."""
    labels = _labels(recorded)
    text = io.StringIO()
    write = csv_writer(text, "\n")
    write((*FIRST_COLUMNS, *labels, *LAST_COLUMNS))
    for series in recorded:
        entity, source = tuple(series.entity.get(label) for label in labels), (series.member, series.reader)
        for time, value, mark, line in zip(series.times, series.values, series.since_boot, series.lines, strict=True):
            # integers without a fraction, other values with full precision
            number = int(value) if math.isfinite(value) and value == int(value) else value
            write((series.host, series.metric, time, series.clock, *entity, number, series.unit, mark, *source, line))
    return text.getvalue()


def _labels(recorded: Iterable[Recorded]) -> list[str]:
    """Return the labels of the entities in order of appearance."""
    return list(dict.fromkeys(label for series in recorded for label in series.entity))


def json_text(recorded: Sequence[Recorded]) -> str:
    """Return one document with each series once, its rows as [time, value, line]."""
    series = [
        {
            **{name: getattr(item, name) for name in ("host", "metric", "unit", "kind", "means")},
            "entity": dict(item.entity),
            "member": item.member,
            "reader": item.reader,
            "clock": item.clock or None,
            "resolution": item.resolution,
            "columns": ["time", "value", "line"],
            "rows": [list(row) for row in zip(item.times, item.values, item.lines, strict=True)],
            "since_boot": [at for at, mark in enumerate(item.since_boot) if mark],
        }
        for item in recorded
    ]
    return compact({"schema": SCHEMA, "series": series}) + "\n"


def parquet_bytes(recorded: Sequence[Recorded]) -> bytes:
    """Return the rows of the CSV as a Parquet file: values as doubles; times as timestamps if all are in UTC."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as missing:
        raise UsageError(NO_PARQUET) from missing
    columns: dict[str, Any] = {name: [] for name in (*FIRST_COLUMNS, *_labels(recorded), *LAST_COLUMNS)}
    for row in recorded:
        varying = {"time": row.times, "value": row.values, "since_boot": row.since_boot, "line": row.lines}
        constants = {name: getattr(row, name) for name in ("host", "metric", "unit", "member", "reader")}
        constants |= {"clock": row.clock or None, **row.entity}
        for name, column in columns.items():
            column += varying.get(name) or [constants.get(name)] * len(row.values)
    kinds = {"value": pa.float64(), "since_boot": pa.bool_(), "line": pa.int64()}
    times = columns["time"]
    arrays = {name: pa.array(cells, kinds.get(name, pa.string())) for name, cells in columns.items() if name != "time"}
    if {row.clock for row in recorded} - {""} == {"utc"}:
        plain = pa.array([None if time is None else str(time).removesuffix("Z") for time in times], pa.string())
        arrays["time"] = plain.cast(pa.timestamp("ms")).cast(pa.timestamp("ms", tz="UTC"))
    else:
        arrays["time"] = pa.array([None if time is None else str(time) for time in times], pa.string())
    written = io.BytesIO()
    pq.write_table(pa.table({name: arrays[name] for name in columns}), written)
    return written.getvalue()


FORMATS: Mapping[str, Callable[[Sequence[Recorded]], str | bytes]] = {
    "csv": csv_text,
    "json": json_text,
    "parquet": parquet_bytes,
}


def target(text: str) -> tuple[str, Path]:
    """Return format and file of `-o`: `csv`, `parquet=FILE`, or a file with an extension; `-` is standard output."""
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
