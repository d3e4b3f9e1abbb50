"""Rows of series as CSV, as one JSON document, or as a Parquet file: each the columns of one metric of one entity."""

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
    """The rows of `metric` that a source has: equally long columns.

    `times` are dates and times in ISO 8601 on a wall clock (with a Z if it is UTC), else seconds of `clock`; None where
    a row has none. A row that is an average since boot is marked.
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
    """How much there is of a metric: rows, entities with their kinds, and in which files."""

    rows: int = 0
    entities: dict[Entity, str] = field(default_factory=dict)
    members: set[str] = field(default_factory=set)


def list_metrics(cases: Iterable[Case]) -> dict[str, Listed]:
    """All metrics, by name."""
    found: dict[str, Listed] = {}
    for table in (table for case in cases for state in case.states for table in make_tables(state.samples)):
        for name in table.metrics:
            one = found.setdefault(name, Listed())
            if isinstance(table.samples, Series):
                one.rows += int(np.count_nonzero(~np.isnan(table.samples.values[name])))
            else:
                one.rows += sum(name in sample.values for sample in table.samples)
            one.entities[table.entity] = table.kind
            one.members.add(table.member)
    return dict(sorted(found.items()))


def match_metrics(wanted: Sequence[str], known: Collection[str]) -> tuple[list[str], list[str]]:
    """The metrics that are meant by names, aliases and patterns; and what means none."""
    found: dict[str, None] = {}
    unknown = []
    for word in wanted:
        if set("*?[") & set(word) and word not in known:
            names = [name for name in known if fnmatchcase(name, word)]
        else:
            names = [name for name in possible_names(word) if name in known][:1]
        found |= dict.fromkeys(names)
        unknown += [word] * (not names)
    return list(found), unknown


def metric_rows(cases: Iterable[Case], metrics: Sequence[str]) -> Iterator[Recorded]:
    """All rows of these metrics, metric by metric."""
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
    """Clock and resolution; times, values, lines, marks of averages since boot, of the rows with the metric."""
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


def csv_text(found: Sequence[Recorded]) -> str:
    """A header, then a row per value; a column per label of the entities."""
    labels = _labels(found)
    text = io.StringIO()
    write = csv_writer(text, "\n")
    write((*FIRST_COLUMNS, *labels, *LAST_COLUMNS))
    for one in found:
        entity, source = tuple(one.entity.get(label) for label in labels), (one.member, one.reader)
        for time, value, mark, line in zip(one.times, one.values, one.since_boot, one.lines, strict=True):
            # whole numbers without a fraction, others as exactly as they are known
            number = int(value) if math.isfinite(value) and value == int(value) else value
            write((one.host, one.metric, time, one.clock, *entity, number, one.unit, mark, *source, line))
    return text.getvalue()


def _labels(found: Iterable[Recorded]) -> list[str]:
    """The labels that tell entities apart, in the order in which they come."""
    return list(dict.fromkeys(label for one in found for label in one.entity))


def json_text(found: Sequence[Recorded]) -> str:
    """One document: each series once, its rows as [time, value, line]."""
    series = [
        {
            **{name: getattr(one, name) for name in ("host", "metric", "unit", "kind", "means")},
            "entity": dict(one.entity),
            "member": one.member,
            "reader": one.reader,
            "clock": one.clock or None,
            "resolution": one.resolution,
            "columns": ["time", "value", "line"],
            "rows": [list(row) for row in zip(one.times, one.values, one.lines, strict=True)],
            "since_boot": [at for at, mark in enumerate(one.since_boot) if mark],
        }
        for one in found
    ]
    return compact({"schema": SCHEMA, "series": series}) + "\n"


def parquet_bytes(found: Sequence[Recorded]) -> bytes:
    """The rows of the CSV as a Parquet file: values as doubles; times as timestamps where all of them are in UTC."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as missing:
        raise UsageError(NO_PARQUET) from missing
    columns: dict[str, Any] = {name: [] for name in (*FIRST_COLUMNS, *_labels(found), *LAST_COLUMNS)}
    for one in found:
        of_row = {"time": one.times, "value": one.values, "since_boot": one.since_boot, "line": one.lines}
        same = {name: getattr(one, name) for name in ("host", "metric", "unit", "member", "reader")}
        same |= {"clock": one.clock or None, **one.entity}
        for name, column in columns.items():
            column += of_row.get(name) or [same.get(name)] * len(one.values)
    kinds = {"value": pa.float64(), "since_boot": pa.bool_(), "line": pa.int64()}
    times = columns["time"]
    arrays = {name: pa.array(cells, kinds.get(name, pa.string())) for name, cells in columns.items() if name != "time"}
    if {one.clock for one in found} - {""} == {"utc"}:
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
