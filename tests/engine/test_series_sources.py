"""Which source a check asks first, what it says of the others, and what is no growth: gaps, reboots, rounding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from thpdiag.engine.check_result import NO, UNKNOWN, YES, CheckResult
from thpdiag.engine.checks import judge
from thpdiag.engine.schema import SeriesCheck
from thpdiag.engine.state_view import StateView, state_views
from thpdiag.host.catalogue import Catalogue, make_tables, make_track
from thpdiag.host.rates import growth, longest_run, rates
from thpdiag.host.series import Track
from thpdiag.model import Case, Citation, Clock, Event, Moment, Sample, Series, State, Verdict3
from thpdiag.model.facts import ClockAnchor

STALLS = "node_vmstat_compact_stall"
SYS = "cpu_ratio.sys_total"
FREE = "node_memory_MemFree_bytes"


def rows(
    metric: str, values: Sequence[float], member: str = "a.txt", *, start: float = 1000.0, step: float = 10.0,
    times: Sequence[float] | None = None, resolution: float = 0.0, columns: bool = False,
) -> list[Sample | Series]:  # fmt: skip
    """Samples of the host, or one Series of them."""
    seconds = list(times) if times is not None else [start + step * at for at in range(len(values))]
    quantum = {metric: resolution} if resolution else {}
    if columns:
        lines, column = np.arange(1, len(values) + 1), np.array(values, np.float64)
        return [
            Series("system", {metric: column}, member, lines, "x", seconds=np.array(seconds), clock=Clock.UTC,
                   resolution=quantum)
        ]  # fmt: skip
    return [
        Sample("system", {metric: value}, Citation(member, at), "x", time=Moment(second, Clock.UTC), resolution=quantum)
        for at, (value, second) in enumerate(zip(values, seconds, strict=True), 1)
    ]


def scene(*samples: Sample | Series, boots: Sequence[Moment] = ()) -> StateView:
    state = State("all", {}, 0, samples=samples)
    return StateView(Case("x", (), (state,)), state, Catalogue(samples, boots))


def check(**given: object) -> SeriesCheck:
    return SeriesCheck.model_validate(given)


def judged(samples: Sequence[Sample | Series], **given: object) -> CheckResult:
    return judge(check(**given), scene(*samples))


def counter(values: Sequence[float], *, columns: bool, boots: Sequence[Moment] = (), **how: object) -> Track:
    (table,) = make_tables(rows(STALLS, values, columns=columns, **how), boots)  # type: ignore[arg-type]
    found = make_track(table, STALLS)
    assert found is not None
    return found


def test_the_source_that_covers_the_time_comes_before_a_finer_one() -> None:
    """Five exact minutes do not speak for a day; of two that cover it the finer one does."""
    day = rows(FREE, [4096.0 * i for i in range(144)], "day.txt", step=600, resolution=1024.0)
    finer = rows(FREE, [4096.0 * i for i in range(140)], "finer.txt", step=600)
    minutes = rows(FREE, [float(i) for i in range(300)], "minutes.txt", step=1)
    order = [t.table.member for t in Catalogue([*minutes, *day, *finer]).tracks(FREE)]
    assert order == ["finer.txt", "day.txt", "minutes.txt"]


def test_a_source_with_a_gap_covers_only_what_it_saw() -> None:
    """A recording that was off for most of the day is not the one of the day."""
    off = rows(FREE, list(range(100)), "off.txt", times=[*range(0, 500, 10), *range(80_000, 80_500, 10)])
    on = rows(FREE, list(range(100)), "on.txt", step=400, resolution=1.0)
    assert [t.table.member for t in Catalogue([*off, *on]).tracks(FREE)] == ["on.txt", "off.txt"]


def test_what_a_coarse_source_did_not_see_is_there_all_the_same() -> None:
    """Ten-minute averages hide a minute; the source that shows it is used, and the other one named."""
    averages = rows(SYS, [0.1] * 20, "sar.txt", step=600)
    seconds = rows(SYS, [0.1] * 60 + [0.9] * 60, "vmstat.txt", step=1)
    said = judged([*averages, *seconds], series=SYS, above="50 %", **{"for": "30 s"})
    assert said.value is YES
    assert said.cite is not None
    assert said.cite.member == "vmstat.txt"
    assert said.text.endswith("; not so in sar.txt")
    assert "(60 s; lines 61 to 120)" in said.text


def test_below_a_bound_the_source_that_covers_the_time_decides() -> None:
    """That a part was quiet says nothing of the day."""
    day = rows(SYS, [0.1, 0.9] * 40, "day.txt", step=600)
    quiet = rows(SYS, [0.1] * 60, "quiet.txt", step=1)
    said = judged([*quiet, *day], series=SYS, below="50 %", **{"as": "mean"})
    assert said.cite is not None
    assert said.cite.member == "day.txt"
    assert "also recorded in" in said.text or "not so in quiet.txt" in said.text


@pytest.mark.parametrize("columns", [False, True])
def test_a_gap_is_no_rate_over_hours(columns: bool) -> None:
    """What was counted while nothing was recorded is growth, but no rate; a late sample is no gap."""
    times = [0, 10, 20, 30, 45, 50, 7250, 7260, 7270]
    found = counter([0, 10, 20, 30, 45, 50, 72_050, 72_060, 72_070], columns=columns, times=times)
    per_second = rates(found)
    assert per_second is not None
    assert per_second.values.tolist() == [1.0] * 7
    assert per_second.index.tolist() == [10, 20, 30, 45, 50, 7260, 7270]
    assert growth(found) == 72_070


@pytest.mark.parametrize("columns", [False, True])
def test_a_stretch_ends_at_a_gap(columns: bool) -> None:
    """Busy before and busy after is not busy for the hours between."""
    times = [0, 10, 20, 30, 7230, 7240, 7250, 7260, 7270]
    (table,) = make_tables(rows(SYS, [0.9] * 9, times=times, columns=columns))
    found = make_track(table, SYS)
    assert found is not None
    run = longest_run(found.points, 0.5, 1.0)
    assert (len(run.points), run.seconds) == (5, 50)
    assert longest_run(found.points, 0.95, 1.0).seconds is None


@pytest.mark.parametrize("columns", [False, True])
def test_a_boot_between_samples_is_no_growth(columns: bool) -> None:
    """A counter that was reset may be higher than before all the same."""
    boot = Moment(1025.0, Clock.UTC)
    assert growth(counter([100, 110, 120, 500, 510], columns=columns, boots=[boot])) == 30
    assert growth(counter([100, 110, 120, 500, 510], columns=columns)) == 410
    assert growth(counter([100, 110, 120, 500, 510], columns=columns, boots=[Moment(1025.0, Clock.BOOT)])) == 410


def test_boots_come_from_restarts_and_from_what_tells_the_time_of_the_boot() -> None:
    """Lines of sar, headers of collectl, btime; as exactly as they are known."""
    restart = Event("restart", Citation("sar.txt", 5), Moment(1025.0, Clock.UTC))
    booted = ClockAnchor(Moment(1045.0, Clock.UTC), 1.0, "by btime", Citation("proc/stat", 1))
    samples = tuple(rows(STALLS, [100, 110, 120, 500, 510, 900, 910]))
    case = Case("x", (), (State("all", {}, 0, samples=samples, events=(restart,)),), anchors=(booted,))
    (told,) = state_views(case)
    assert growth(told.catalogue.tracks(STALLS)[0]) == 40


@pytest.mark.parametrize("columns", [False, True])
def test_a_counter_of_32_bits_begins_anew(columns: bool) -> None:
    """Near 2**32 and at the pace of before it is a wrap; a larger counter, another pace or a small one was reset."""
    near = 2.0**32 - 50
    assert growth(counter([near - 100, near, 50, 150], columns=columns)) == 300
    assert growth(counter([near - 100, near, 4000, 4100], columns=columns)) == 200
    assert growth(counter([1000, 1100, 50, 150], columns=columns)) == 200
    assert growth(counter([2.0**33, near, 50, 150], columns=columns)) == 100
    assert growth(counter([near - 100, near, 50, 2.0**33], columns=columns)) == 100  # back at once: 50 is damaged


@pytest.mark.parametrize("as_", ["delta", "slope", "step", "knee"])
def test_a_change_that_may_be_rounding_is_unknown(as_: str) -> None:
    """1G and 2G may be a byte apart; 1G and 9G are not."""
    gib = 2.0**30
    small = [gib * (1 + at / 10) for at in range(10)] + [gib * (2 + at / 100) for at in range(10)]
    large = [16 * value for value in small]
    bound = {"above": {"knee": "0.5", "step": "0.1", "slope": "1 MiB/s"}.get(as_, "1 MiB")}
    rounded = judged(rows(FREE, small, resolution=gib), series=FREE, **{"as": as_}, **bound)
    exact = judged(rows(FREE, small), series=FREE, **{"as": as_}, **bound)
    far = judged(rows(FREE, large, resolution=gib), series=FREE, **{"as": as_}, **bound)
    assert rounded.value is UNKNOWN
    assert exact.value in (YES, NO)
    assert far.value in (YES, NO)


@pytest.mark.parametrize("as_", ["level", "mean", "last"])
@pytest.mark.parametrize("bound", [{"above": "19.8 GiB"}, {"below": "20.2 GiB"}, {"above": "20.2 GiB"},
                                   {"below": "19.8 GiB"}])  # fmt: skip
def test_a_rounded_value_near_a_bound_is_unknown(as_: str, bound: dict[str, str]) -> None:
    """20G may be 19.5 or 20.5; far from the bound it says what it says, for how long it may."""
    gib, lasting = 2.0**30, {"for": "50 % of samples"} if as_ == "level" else {}
    for given in (bound, bound | lasting):
        near = judged(rows(FREE, [20 * gib] * 12, resolution=gib), series=FREE, **{"as": as_}, **given)
        exact = judged(rows(FREE, [20 * gib] * 12), series=FREE, **{"as": as_}, **given)
        single = judged(rows(FREE, [20 * gib], resolution=gib), series=FREE, **{"as": as_}, **given)
        far = judged(rows(FREE, [200 * gib] * 12, resolution=gib), series=FREE, **{"as": as_}, **given)
        assert (near.value, single.value) == (UNKNOWN, UNKNOWN)
        assert "rounding to 1.0 GiB" in near.text
        assert exact.value is (YES if "19" in bound.get("above", "") or "20" in bound.get("below", "") else NO)
        assert far.value is (YES if "above" in bound else NO)


def test_a_rate_of_rounded_readings_near_a_bound_is_unknown() -> None:
    """A counter printed in thousands, every ten seconds: its rate is right to two hundred per second."""
    values = [at * 10_000.0 for at in range(12)]
    for bound, wanted in (({"above": "900 /s"}, UNKNOWN), ({"above": "1100 /s"}, UNKNOWN), ({"above": "700 /s"}, YES),
                          ({"below": "700 /s"}, NO)):  # fmt: skip
        found = judged(rows(STALLS, values, resolution=1000.0), series=STALLS, **{"as": "rate"}, **bound)
        assert found.value is wanted


def test_a_small_change_of_rounded_values_is_far_from_a_large_bound() -> None:
    """1G that stays 1G has not grown by 20 GiB, whatever was rounded away."""
    found = judged(rows(FREE, [2.0**30] * 12, resolution=2.0**30), series=FREE, **{"as": "delta"}, above="20 GiB")
    assert found.value is NO


def test_a_share_of_samples_counts_all_of_them() -> None:
    """Half of the samples need not be in a row."""
    values = [0.9, 0.1] * 10
    assert judged(rows(SYS, values), series=SYS, above="50 %", **{"for": "50 % of samples"}).value is YES
    assert judged(rows(SYS, values), series=SYS, above="50 %", **{"for": "60 % of samples"}).value is NO
    assert judged(rows(SYS, [0.1] * 9), series=SYS, above="50 %", **{"for": "50 % of samples"}).value is NO


def test_sets_of_metrics_of_one_source_are_one_table() -> None:
    """A recorder that prints memory and CPU in turn is asked as one; each row keeps its line."""
    cpu, memory = rows(SYS, [0.1] * 5, columns=True)[0], rows(FREE, [5.0] * 5, columns=True)[0]
    (table,) = make_tables([cpu, memory])
    assert table.metrics == {SYS, FREE}
    assert isinstance(table.samples, Series)
    assert table.samples.lines.tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert len(make_track(table, SYS) or ()) == len(make_track(table, FREE) or ()) == 5


@pytest.mark.parametrize("columns", [False, True])
def test_one_time_above_a_whole_loop_is_of_no_round(columns: bool) -> None:
    """A date typed once says when the loop began: what grew over it counts, and no rate is made of a standing clock."""
    (table,) = make_tables(rows(STALLS, [100, 150, 300], times=[1000.0] * 3, columns=columns))
    found = make_track(table, STALLS)
    assert found is not None
    assert growth(found) == 200
    assert rates(found) is None
    assert [sample.time for sample in found.samples] == [None] * 3


def test_rows_that_stand_beside_each_other_at_one_time_keep_it() -> None:
    """A file of each kind copied at one moment is no loop."""
    both = [*rows(STALLS, [100]), *rows(FREE, [5])]
    (table,) = make_tables(both)
    assert [sample.time for sample in table.samples] == [Moment(1000.0, Clock.UTC)] * 2


@pytest.mark.parametrize(("values", "wanted"), [([9e6, 0.0], UNKNOWN), ([9e6, 0.0, 0.0], NO), ([9e6, 0.0, 50.0], YES)])
def test_growth_over_a_reset_is_not_zero(values: list[float], wanted: Verdict3) -> None:
    """Of a counter that began anew between its only two readings nobody knows what it counted."""
    assert judged(rows(STALLS, values), series=STALLS, **{"as": "delta"}, above="20").value is wanted
