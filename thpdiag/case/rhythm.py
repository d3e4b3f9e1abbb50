"""How often a member was recorded: the usual time from one row to the next, and the gaps in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from thpdiag.derive.intervals import FEWEST, LEAST, MANY
from thpdiag.model import Clock, Moment, Record, Sample, Series

Gap = tuple[Moment, Moment]


def rhythm(records: Iterable[Record]) -> tuple[float | None, tuple[Gap, ...]]:
    """Usual seconds between rows, and where far more passed; of the entity and clock with the most rows.

    None with fewer than two different times.
    """
    found: dict[tuple[object, ...], list[float]] = {}
    for record in records:
        if isinstance(record, Series) and record.seconds is not None and record.clock:
            known = record.seconds[record.seconds == record.seconds]
            found.setdefault((record.kind, record.entity, record.clock), []).extend(known.tolist())
        elif isinstance(record, Sample) and record.time:
            found.setdefault((record.kind, record.entity, record.time.clock), []).append(record.time.seconds)
    if not found:
        return None, ()
    key = max(found, key=lambda one: len(found[one]))
    return _rhythm(found[key], key[-1])


def _rhythm(seconds: Sequence[float], clock: object) -> tuple[float | None, tuple[Gap, ...]]:
    assert isinstance(clock, Clock)
    times = sorted(set(seconds))
    steps = sorted(after - before for before, after in pairwise(times))
    if not steps:
        return None, ()
    usual = steps[len(steps) // 2]
    if len(steps) < FEWEST:
        return usual, ()
    longest = max(MANY * usual, LEAST)
    apart = [(one, other) for one, other in pairwise(times) if other - one > longest]
    return usual, tuple((Moment(one, clock), Moment(other, clock)) for one, other in apart)
