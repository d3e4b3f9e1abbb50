"""One metric of one entity of one source as columns: what a row of every output format is made of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from thpdiag.derive.catalogue import tables
from thpdiag.derive.series import Table
from thpdiag.knowledge.aliases import meant
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Case, Clock, Entity, Series

WALL = (Clock.UTC, Clock.LOCAL)
_GLOB = frozenset("*?[")


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


def listed(cases: Iterable[Case]) -> dict[str, Listed]:
    """All metrics, by name."""
    found: dict[str, Listed] = {}
    for table in (table for case in cases for state in case.states for table in tables(state.samples)):
        for name in table.metrics:
            one = found.setdefault(name, Listed())
            one.rows += _count(table, name)
            one.entities[table.entity] = table.kind
            one.members.add(table.member)
    return dict(sorted(found.items()))


def _count(table: Table, metric: str) -> int:
    if isinstance(table.samples, Series):
        column = table.samples.values[metric]
        return int((column == column).sum())
    return sum(metric in sample.values for sample in table.samples)


def chosen(wanted: Sequence[str], known: Collection[str]) -> tuple[list[str], list[str]]:
    """The metrics that are meant by names, aliases and patterns; and what means none."""
    found: dict[str, None] = {}
    unknown = []
    for word in wanted:
        if _GLOB & set(word) and word not in known:
            names = [name for name in known if fnmatchcase(name, word)]
        else:
            names = [name for name in meant(word) if name in known][:1]
        found |= dict.fromkeys(names)
        unknown += [word] * (not names)
    return list(found), unknown


def recorded(cases: Iterable[Case], metrics: Sequence[str]) -> Iterator[Recorded]:
    """All rows of these metrics, metric by metric."""
    every = [(case.name, table) for case in cases for state in case.states for table in tables(state.samples)]
    for metric in metrics:
        for host, table in every:
            if metric in table.metrics:
                yield _recorded(host, table, metric)


def _recorded(host: str, table: Table, metric: str) -> Recorded:
    values, seconds, lines, marks, clocks = _arrays(table, metric)
    known = term(metric)
    clock = clocks[0] if len(clocks) == 1 else None
    return Recorded(
        host,
        metric,
        known.unit if known else "",
        known.kind if known else "",
        known.means if known else "",
        dict(table.entity),
        table.member,
        table.reader,
        clock.value if clock else "",
        _resolution(table, metric),
        _times(seconds, clock),
        values.tolist(),
        [line or None for line in lines.tolist()],
        marks.tolist(),
    )


Floats = NDArray[np.float64]


def _arrays(table: Table, metric: str) -> tuple[Floats, Floats, NDArray[np.int64], NDArray[np.bool_], list[Clock]]:
    """Values, seconds (NaN: none), lines, marks of averages since boot, and the clocks of the rows with the metric."""
    samples = table.samples
    if isinstance(samples, Series):
        values = samples.values[metric]
        keep = values == values
        seconds = np.full(len(samples), np.nan) if samples.seconds is None else samples.seconds
        marks = np.zeros(len(samples), np.bool_) if samples.since_boot is None else samples.since_boot
        clocks = [samples.clock] if samples.clock else []
        return values[keep], seconds[keep], samples.lines[keep], marks[keep], clocks
    rows = [sample for sample in samples if metric in sample.values]
    times = [row.time for row in rows]
    several = list(dict.fromkeys(time.clock for time in times if time))
    return (
        np.array([row.values[metric] for row in rows], np.float64),
        np.array([time.seconds if time and len(several) == 1 else np.nan for time in times], np.float64),
        np.array([row.cite.line or 0 for row in rows], np.int64),
        np.array([row.since_boot for row in rows], np.bool_),
        several,
    )


def _resolution(table: Table, metric: str) -> float:
    if isinstance(table.samples, Series):
        return table.samples.resolution.get(metric, 0.0)
    return max((sample.resolution.get(metric, 0.0) for sample in table.samples), default=0.0)


def _times(seconds: Floats, clock: Clock | None) -> list[str | float | None]:
    known = seconds == seconds
    if clock is None or not known.any():
        return [None] * len(seconds)
    if clock not in WALL:
        return [second if good else None for second, good in zip(seconds.tolist(), known.tolist(), strict=True)]
    stamps = np.round(np.where(known, seconds, 0.0) * 1000).astype("datetime64[ms]")
    whole = bool((stamps == stamps.astype("datetime64[s]")).all())
    zone = "Z" if clock is Clock.UTC else ""
    texts = np.datetime_as_string(stamps, unit="s" if whole else "ms").tolist()
    return [f"{text}{zone}" if good else None for text, good in zip(texts, known.tolist(), strict=True)]
