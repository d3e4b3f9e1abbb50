"""Series: frames from rows, rates with resets, stretches, bends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from thpdiag.diagnosis.timeline import MAX_BUCKETS, buckets
from thpdiag.host.catalogue import Catalogue, make_tables, make_track
from thpdiag.host.rates import growth, knee, largest_step, longest_run, rates, slope
from thpdiag.host.series import Track
from thpdiag.model import Citation, Clock, Moment, Sample

METRIC = "node_vmstat_compact_stall"
STORY = Path(__file__).parents[2] / "fixtures/stories/hadoop-centos62/bundle"


def made(values: list[float], *, step_seconds: float | None = 10.0, resolution: float = 0.0) -> Track:
    samples = [
        Sample(
            "system",
            {METRIC: value},
            Citation("vmstat.txt", i + 1),
            "vmstat",
            time=Moment(1000 + i * step_seconds, Clock.UTC) if step_seconds else None,
            resolution={METRIC: resolution} if resolution else {},
        )
        for i, value in enumerate(values)
    ]
    found = make_track(make_tables(samples)[0], METRIC)
    assert found is not None
    return found


def test_a_frame_is_wide_and_knows_its_columns() -> None:
    """Absent values are NaN, the index is seconds, units come from the vocabulary."""
    rows = [
        Sample("system", {METRIC: 1, "cpu_ratio.busy": 0.5}, Citation("m", 4), "x", time=Moment(7, Clock.UTC)),
        Sample("system", {METRIC: 2}, Citation("m", 9), "x", time=Moment(9, Clock.UTC)),
    ]
    frame = make_tables(rows)[0].frame
    assert list(frame.index) == [7, 9]
    assert list(frame["line"]) == [4, 9]
    assert frame["cpu_ratio.busy"].isna().tolist() == [False, True]
    assert frame.attrs["columns"]["cpu_ratio.busy"]["unit"] == "ratio"


def test_a_reset_is_a_gap() -> None:
    """A counter that falls gives no negative rate, and its growth leaves the fall out."""
    counter = made([100, 200, 5, 15])
    assert growth(counter) == 110
    found = rates(counter)
    assert found is not None
    assert found.values.tolist() == [10.0, 1.0]
    assert [s.cite.line for s in found.samples] == [2, 4]


def test_without_a_clock_there_is_growth_but_no_rate() -> None:
    """Unknown time is unknown, not one second."""
    assert growth(made([1, 5], step_seconds=None)) == 4
    assert rates(made([1, 5], step_seconds=None)) is None


def test_a_standing_clock_is_no_division_by_zero() -> None:
    """Two samples of one second give no rate."""
    assert rates(made([1, 5], step_seconds=0.0)) is None


def test_the_longest_stretch_counts_the_interval_it_ends() -> None:
    """Three samples ten seconds apart speak for thirty seconds."""
    run = longest_run(made([1, 50, 60, 70, 1, 80]).points, 40, float("inf"))
    assert [s.cite.line for s in run.points.samples] == [2, 3, 4]
    assert run.seconds == 30


def test_a_bend_is_found_where_it_is() -> None:
    """Fast growth, then slow: both rates and the place."""
    found = knee(made([i * 100.0 for i in range(6)] + [500 + i for i in range(1, 20)]).points)
    assert found is not None
    assert (found.before, found.at.cite.line) == (10.0, 6)
    assert found.after == pytest.approx(0.1)


def test_a_curve_that_ends_its_work_has_no_slow_phase() -> None:
    """Standing still at the end is cut off before the search."""
    found = knee(made([i * 100.0 for i in range(12)] + [1100.0] * 30).points)
    assert found is not None
    assert found.ratio > 0.9


def test_a_curve_that_rises_and_falls_has_no_slow_phase() -> None:
    """A program that takes and gives back memory is caught at any height; that is not one that gets it slowly."""
    found = knee(made([116, 98, 112, 82, 120, 100, 206, 211, 36, 280, 156, 52, 130]).points)
    assert found is not None
    assert (found.ratio, found.falls > 0.5) == (1.0, True)
    nearly = knee(made([i * 100.0 for i in range(6)] + [495, *(500 + i for i in range(1, 20))]).points)
    assert nearly is not None
    assert nearly.ratio < 0.1


def test_a_long_curve_is_thinned() -> None:
    """The search for a bend does not grow with the square of the recording."""
    values = [float(i) for i in range(20_000)] + [20_000 + i / 1000 for i in range(20_000)]
    found = knee(made(values, step_seconds=1.0).points)
    assert found is not None
    assert 19_000 < found.at.cite.line < 21_000  # type: ignore[operator]


def test_slope_and_step() -> None:
    """A straight line has its slope; a doubled level is a step of one."""
    assert slope(made([0, 10, 20, 30]).points) == pytest.approx(1.0)
    assert largest_step(made([10.0] * 6 + [20.0] * 6).points.values) == pytest.approx(1.0)


def test_a_step_is_relative_to_what_was_before() -> None:
    """Of two steps the larger one counts, a fall has its sign, and a mean of zero is no measure."""
    assert largest_step(made([20.0] * 6 + [10.0] * 6).points.values) == pytest.approx(-0.5)
    assert largest_step(made([0.0] * 6 + [10.0] * 6).points.values) == pytest.approx((10 - 10 / 7) / (10 / 7))
    assert (largest_step(made([0.0] * 12).points.values), largest_step(made([1.0] * 5).points.values)) == (0.0, None)


def test_a_value_that_is_no_number_is_no_value() -> None:
    """The rows that have a number keep theirs, and the numbers of their rows."""
    found = made([1.0, float("nan"), 3.0], step_seconds=None)
    assert (found.points.values.tolist(), found.points.index.tolist(), len(found)) == ([1.0, 3.0], [0.0, 2.0], 2)


def test_rules_over_series_load_no_pandas() -> None:
    """It costs more to load than most bundles to read."""
    code = (
        "import sys; from pathlib import Path; from thpdiag.pipeline import analyze\n"
        "from thpdiag.engine.load import rule_set\n"
        f"analyze([Path({str(STORY)!r})], rule_set())\n"
        "sys.exit('pandas' in sys.modules or 'numpy' not in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_source_with_more_samples_then_the_finer_one_comes_first() -> None:
    """A check gets the exact source before the rounded one."""
    coarse = [Sample("system", {METRIC: 1.0}, Citation("a", i), "a", resolution={METRIC: 1.0}) for i in range(5)]
    fine = [Sample("system", {METRIC: 1.0}, Citation("b", i), "b") for i in range(3)]
    single = [Sample("system", {METRIC: 1.0}, Citation("c", 1), "c")]
    order = [t.table.reader for t in Catalogue([*single, *coarse, *fine]).tracks(METRIC)]
    assert order == ["b", "a", "c"]


def test_a_long_series_is_shown_in_buckets() -> None:
    """At most 1,500 buckets, with the extremes kept."""
    values = [0.0] * 40_000
    values[12_345] = 99.0
    rows = buckets(made(values, step_seconds=1.0).points)
    assert len(rows) <= MAX_BUCKETS
    assert max(row[2] for row in rows) == 99.0
