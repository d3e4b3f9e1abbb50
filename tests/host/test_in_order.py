"""Rows that are not in the order of their times, or there twice: what they say of growth and rates stays the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from thpdiag.host.catalogue import make_tables, make_track
from thpdiag.host.rates import growth, rates
from thpdiag.host.series import Track
from thpdiag.model import Citation, Clock, Moment, Sample, Series

STALLS = "node_vmstat_compact_stall"
FREE = "node_memory_MemFree_bytes"
Rows = list[tuple[float, float]]  # seconds and value
COUNTED: Rows = [(1000.0 + 10 * at, 5.0 * at + 3 * (at % 4)) for at in range(40)]
LEVEL: Rows = [(1000.0 + 10 * at, float(at * 37 % 11)) for at in range(40)]


def tracked(rows: Rows, metric: str, *, columns: bool) -> Track:
    """A recording of these rows, in their order."""
    seconds, values = zip(*rows, strict=True)
    given: Sequence[Sample | Series] = [
        Sample("system", {metric: value}, Citation("a.txt", line), "x", time=Moment(second, Clock.LOCAL))
        for line, (second, value) in enumerate(rows, 1)
    ]
    if columns:
        lines = np.arange(1, len(rows) + 1)
        series = Series("system", {metric: np.array(values)}, "a.txt", lines, "x", seconds=np.array(seconds),
                        clock=Clock.LOCAL)  # fmt: skip
        given = [series]
    found = make_track(make_tables(given)[0], metric)
    assert found is not None
    return found


def shuffled(rows: Rows) -> Rows:
    """In any order."""
    return random.Random(1).sample(rows, len(rows))


def twice(rows: Rows) -> Rows:
    """A log and its rotated copy in one file."""
    return rows + rows


def overlapping(rows: Rows) -> Rows:
    """The second recording began before the first one ended."""
    return rows[:30] + rows[15:]


def wrong_way_round(rows: Rows) -> Rows:
    """The newer day first."""
    return rows[20:] + rows[:20]


def newest_first(rows: Rows) -> Rows:
    """As journals and databases may print."""
    return rows[::-1]


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("mixed", [shuffled, twice, overlapping, wrong_way_round, newest_first])
def test_growth_and_rates_do_not_depend_on_the_order(mixed: Callable[[Rows], Rows], columns: bool) -> None:
    """What a counter grew by is counted once, at its own times."""
    plain, other = tracked(COUNTED, STALLS, columns=columns), tracked(mixed(COUNTED), STALLS, columns=columns)
    assert growth(other) == growth(plain)
    assert other.duration == plain.duration
    one, two = rates(plain), rates(other)
    assert one is not None
    assert two is not None
    assert two.values.tolist() == one.values.tolist()
    assert [s.time for s in two.samples] == [s.time for s in one.samples]


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("mixed", [twice, overlapping, wrong_way_round, newest_first])
def test_levels_are_put_in_order_too(mixed: Callable[[Rows], Rows], columns: bool) -> None:
    """A gauge has each value once, and the last is that of the latest time."""
    found = tracked(mixed(LEVEL), FREE, columns=columns)
    assert found.column.tolist() == [value for _, value in LEVEL]
    assert found.last == LEVEL[-1][1]
    assert found.points.values.tolist() == [value for _, value in LEVEL]


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(("rows", "metric"), [(COUNTED, STALLS), (LEVEL, FREE)])
def test_a_clock_that_was_set_back_changes_no_order(rows: Rows, metric: str, columns: bool) -> None:
    """The hour that comes twice: rows at the same times, one after the other."""
    back = [(second - (205.0 if at >= 20 else 0.0), value) for at, (second, value) in enumerate(rows)]
    found = tracked(back, metric, columns=columns)
    assert found.column.tolist() == [value for _, value in rows]
