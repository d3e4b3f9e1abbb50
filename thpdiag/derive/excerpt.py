"""The recordings of a state as they were in one stretch of time.

A counter needs the reading before the stretch too: what it grew by is the difference. An average, such as a share of
CPU time, speaks for the interval that it ends. What has no times, or those of another clock, was perhaps recorded at
another time and is no part of it; single readings without a time (settings, sizes) stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thpdiag.derive.catalogue import Catalogue, Identity, by_entity, track
from thpdiag.derive.intervals import gaps
from thpdiag.derive.series import SURE, Table, Track, only
from thpdiag.derive.stretches import Stretch
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Clock, Entity, Sample, Series

AVERAGES = ("cpu_ratio.", "process_cpu_ratio", "block_util")  # gauges that are averages over an interval


class Excerpt(Catalogue):
    """A catalogue cut to a stretch; it is cut when asked for."""

    def __init__(self, whole: Catalogue, stretch: Stretch) -> None:
        super().__init__(())
        self._whole, self._stretch = whole, stretch
        self._cut: dict[tuple[int, bool], Table | None] = {}

    def metrics(self) -> list[str]:
        return self._whole.metrics()

    def entities(self, kind: str) -> Sequence[Entity]:
        return self._whole.entities(kind)

    def has_memory(self, entity: Entity) -> bool:
        return self._whole.has_memory(entity)

    def rows(self, metric: str) -> Iterator[Sample | Series]:
        """The rows inside of all tables in which a metric stands."""
        for table in self._whole.having(metric):
            kept = cut(table, self._stretch, before=False)
            if kept is not None:
                yield from [kept.samples] if isinstance(kept.samples, Series) else kept.samples

    def _made(self, metric: str) -> dict[Identity | None, list[Track]]:
        tables = self._whole.having(metric)
        return by_entity(metric, [found for table in tables if (found := self._track(table, metric))])

    def _track(self, whole: Table, metric: str) -> Track | None:
        key = (id(whole), is_average(metric))
        if key not in self._cut:
            self._cut[key] = cut(whole, self._stretch, before=not key[1])
        table = self._cut[key]
        return track(table, metric) if table is not None else None


def is_average(metric: str) -> bool:
    """Whether values of a metric speak for the time before them."""
    known = term(metric)
    return metric.endswith(":rate") or metric.startswith(AVERAGES) or (known is not None and known.kind == "rate")


def cut(table: Table, stretch: Stretch, *, before: bool) -> Table | None:
    """The rows inside, with the last one before them if asked for; None if there are none."""
    if table.clock is None:
        return table if len(table.samples) == 1 else None
    if table.clock is not stretch.clock or table.off > SURE * stretch.seconds:
        return None
    if table.clock is Clock.DAY and table.member != stretch.member:
        return None  # of which day a time of day is nobody knows
    seconds = Track("", table, table.samples).seconds
    if seconds is None:
        return None
    inside = (seconds > stretch.first) & (seconds <= stretch.last)
    if not inside.any():
        return None
    first = int(inside.argmax())
    if before and first and not gaps(seconds)[first - 1]:
        inside[first - 1] = True
    kept = only(table.samples, inside)
    return Table(table.member, table.reader, table.kind, table.entity, kept, table.boots)
