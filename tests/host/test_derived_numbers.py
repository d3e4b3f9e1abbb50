"""Growth, rates, stretches, bends and free blocks of any numbers: resets, standing clocks, absurd values."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thpdiag.host.catalogue import make_tables, make_track
from thpdiag.host.memory import zone_facts
from thpdiag.host.rates import change, growth, knee, largest_step, longest_run, rates, slope
from thpdiag.host.series import Track
from thpdiag.model import Citation, Clock, Moment, Sample

METRIC = "node_vmstat_compact_stall"
STABLE = settings(derandomize=True, deadline=None, database=None, max_examples=80)
VALUES = st.one_of(st.integers(0, 2**63 - 1), st.floats(0, 1e18), st.integers(0, 5))
CURVES = st.lists(
    st.tuples(st.one_of(st.integers(0, 50), st.integers(0, 10**6).map(lambda n: n / 1000)), VALUES),
    min_size=1,
    max_size=30,
)


def series(points: list[tuple[float, float]], clock: Clock | None = Clock.UTC) -> Track:
    """A counter with these times and values."""
    samples = [
        Sample("system", {METRIC: v}, Citation("loop", n + 1), "proc_vmstat", time=Moment(t, clock) if clock else None)
        for n, (t, v) in enumerate(points)
    ]
    found = make_track(make_tables(samples)[0], METRIC)
    assert found
    return found


@STABLE
@given(CURVES)
def test_a_counter_never_falls(points: list[tuple[float, float]]) -> None:
    """Growth and rates of anything are not negative and finite: a fall is a reset, a standing clock no interval."""
    counter = series(points)
    total = growth(counter)
    assert total is None or 0 <= total < math.inf
    speed = rates(counter)
    assert speed is None or all(0 <= v < math.inf for v in speed.values)
    assert speed is None or len(speed.samples) == len(speed.values)


@STABLE
@given(CURVES)
def test_figures_of_any_curve_are_numbers_or_nothing(points: list[tuple[float, float]]) -> None:
    """Slope, step, bend and stretch do not fail and are never infinite."""
    counter = series(points)
    bend = knee(counter.points)
    figures = [
        change(counter),
        slope(counter.points),
        largest_step(counter.points.values),
        *((bend.before, bend.after) if bend else ()),
    ]
    assert all(f is None or math.isfinite(f) for f in figures)
    run = longest_run(counter.points, 1, 10)
    assert all(1 < v < 10 for v in run.points.values)
    assert run.seconds is None or math.isfinite(run.seconds)


@STABLE
@given(st.lists(st.integers(0, 1000), min_size=2, max_size=20), st.integers(2, 9))
def test_twice_the_deltas_are_twice_the_rates(deltas: list[int], factor: int) -> None:
    """A metamorphic rule: scaling a counter scales its rates, wherever it began."""

    def counter(scale: int, start: int) -> Track:
        return series([(10.0 * n, start + scale * sum(deltas[:n])) for n in range(len(deltas) + 1)])

    one, other = rates(counter(1, 5)), rates(counter(factor, 7_000_000))
    assert one is not None
    assert other is not None
    assert [factor * v for v in one.values] == pytest.approx(list(other.values))


@pytest.mark.parametrize(
    ("values", "total", "speeds"),
    [
        ([100, 110, 130], 30, [1, 2]), ([100, 110, 3, 13], 20, [1, 1]), ([100, 0, 0], 0, [0]), ([5], None, None),
        ([2**62, 2**62 + 1024], 1024, [102.4]),
        ([9, 8, 7], None, None), ([0, 0, 0], 0, [0, 0]),
    ],
)  # fmt: skip
def test_resets_are_gaps(values: list[int], total: int | None, speeds: list[float] | None) -> None:
    """By hand: every ten seconds, a fall gives no interval."""
    counter = series([(10.0 * n, v) for n, v in enumerate(values)])
    assert growth(counter) == total
    found = rates(counter)
    assert (None if found is None else [float(v) for v in found.values]) == speeds


def test_a_midnight_or_a_wrong_clock_is_no_interval() -> None:
    """A clock that goes back or stands still ends no interval; without a clock there is no rate at all."""
    assert [float(v) for v in rates(series([(10, 0), (5, 10), (15, 20)])).values] == [1]  # type: ignore[union-attr]
    assert rates(series([(10, 0), (10, 10)])) is None
    assert rates(series([(0, 0), (0, 10)], clock=None)) is None
    assert growth(series([(0, 0), (0, 10)], clock=None)) == 10


def blocks(**orders: float) -> Sample:
    values = {f"node_buddyinfo_blocks_order{order.removeprefix('o')}": count for order, count in orders.items()}
    return Sample("zone", values, Citation("proc/buddyinfo", 1), "buddyinfo", (("node", "0"), ("zone", "Normal")))


def figures(*samples: Sample) -> dict[str, float]:
    return {fact.name.removeprefix("memory."): float(fact.value) for fact in zone_facts(samples)}


def test_blocks_of_order_nine_and_ten_serve_huge_pages() -> None:
    """One block of order 10 is two of order 9; what lies in smaller blocks cannot be used."""
    assert figures(blocks(o0=512 * 60, o9=3, o10=1)) == {
        "order9_free_blocks": 5,
        "unusable_index": 30720 / 33280,
    }


def test_a_zone_with_little_free_memory_has_no_index() -> None:
    """A few free pages say nothing of fragmentation."""
    assert figures(blocks(o0=100, o9=0)) == {"order9_free_blocks": 0}


def test_a_table_that_ends_before_order_nine_says_nothing() -> None:
    """A cut row is not a zone without huge pages."""
    assert figures(blocks(o0=100_000, o1=5)) == {}
    assert figures() == {}


def test_the_last_reading_of_a_zone_counts() -> None:
    """Of several snapshots."""
    assert figures(blocks(o0=100_000, o9=50), blocks(o0=100_000, o9=0))["order9_free_blocks"] == 0


def of_node(node: str, free: float, size: float) -> Sample:
    values = {"node_memory_numa_MemFree_bytes": free * 2**30, "node_memory_numa_MemTotal_bytes": size * 2**30}
    return Sample("node", values, Citation("numactl", 1), "numactl", (("node", node),))


def of_zone(node: str, zone: str, **values: float) -> Sample:
    named = {f"node_{name}": value for name, value in values.items()}
    return Sample("zone", named, Citation("proc/zoneinfo", 1), "zoneinfo", (("node", node), ("zone", zone)))


def test_free_memory_of_nodes_is_told_where_there_are_several() -> None:
    """From rows of the nodes, else from sums of their zones; nodes without memory, and a single node, tell nothing."""
    two = (of_node("0", 0.5, 64), of_node("1", 32, 64), of_node("2", 0, 0))
    assert [(dict(fact.labels)["node"], fact.value) for fact in zone_facts(two)] == [("0", 0.5 / 64), ("1", 0.5)]
    assert list(zone_facts(two[:1])) == []
    pages = {"zoneinfo_nr_free_pages": 2.0**17, "zoneinfo_managed_pages": 2.0**18}
    zones = (of_zone("0", "DMA32", **pages), of_zone("0", "Normal", **pages), of_zone("1", "Normal", **pages))
    assert [fact.value for fact in zone_facts(zones)] == [0.5, 0.5]


def test_mixed_blocks_are_a_share_of_the_movable_ones() -> None:
    """Few blocks tell nothing, and no table of mixed blocks is not none of them."""
    counted = {"pagetypeinfo_blocks_Movable": 1000.0}
    assert figures(of_zone("0", "Normal", **counted, pagetypeinfo_mixed_blocks_Movable=700)) == {
        "mixed_blocks_ratio": 0.7
    }
    assert figures(of_zone("0", "Normal", **counted)) == {}
