"""The `change` check: one delta per another over the time that both sources cover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from thpdiag.engine.checks import judge
from thpdiag.engine.schema import Change, ChangeCheck
from thpdiag.engine.state_view import StateView
from thpdiag.host.catalogue import Catalogue
from thpdiag.model import Case, Citation, Clock, Moment, Sample, State, Verdict3

COLLAPSED, RESIDENT, FAULTS = "node_vmstat_thp_collapse_alloc", "process_resident_memory_bytes", "process_faults_total"
STALLS = "node_vmstat_compact_stall"
NO, UNKNOWN, YES = Verdict3.NO, Verdict3.UNKNOWN, Verdict3.YES
MIB = 2.0**20


def rows(metric: str, values: list[float], start: float = 0.0, every: float = 10) -> list[Sample]:
    """Values of one source, by default every ten seconds."""
    process = metric.startswith("process")
    kind, entity = ("process", (("pid", "7"), ("comm", "java"))) if process else ("system", ())
    return [
        Sample(kind, {metric: v}, Citation(metric, n + 1), metric, entity, Moment(start + every * n, Clock.UTC))
        for n, v in enumerate(values)
    ]


def answer(change: Change, *samples: list[Sample]) -> Verdict3:
    state = State("s", {}, 0, samples=tuple(s for part in samples for s in part))
    return judge(ChangeCheck(change=change), StateView(Case("c", (), (state,)), state, Catalogue(state.samples))).value


def steadily(total: float, every: float, seconds: float) -> list[Sample]:
    """Stalls that come evenly."""
    count = round(seconds / every)
    return rows(STALLS, [total * n / count for n in range(count + 1)], every=every)


FEW = Change(of=STALLS, below=10, over="20 s", within="300 s")


@pytest.mark.parametrize(
    ("stalls", "wanted"),
    [
        (partial(steadily, 28, 600, 86_400), YES),  # 28 in a day
        (partial(steadily, 28, 1, 86_400), YES),
        (partial(steadily, 28, 10, 300), NO),
        (partial(steadily, 9, 10, 300), YES),
        (partial(rows, STALLS, [0.0] * 360 + [28.0] * 360), NO),  # all of them in one moment of two hours
        (partial(rows, STALLS, [0.0, 0.0]), UNKNOWN),
    ],
    ids=["a day", "a day by the second", "many at once", "few", "a burst", "too short"],
)
def test_few_in_a_day_are_not_few_in_a_minute(stalls: Callable[[], list[Sample]], wanted: Verdict3) -> None:
    """Of a long window its busiest five minutes count."""
    assert answer(FEW, stalls()) is wanted


def test_within_is_of_a_counter_that_is_held_against_a_most() -> None:
    """Of a ratio or of a least growth the busiest stretch says nothing."""
    for more in ({"above": 10}, {"below": 10, "per": RESIDENT}, {"below": 10, "as": "climb"}):
        with pytest.raises(ValueError, match="within"):
            Change.model_validate({"of": STALLS, "within": "300 s", **more})


IN_STEP = Change(of=COLLAPSED, per=RESIDENT, above=3.2e-7, at_least=4)
FAULTLESS = Change(of=RESIDENT, per=FAULTS, above="2.5 MiB", at_least="8 MiB")


@pytest.mark.parametrize(
    ("collapsed", "resident", "wanted"),
    [
        ([0, 8, 16], [0, 16 * MIB, 32 * MIB], YES),
        ([0, 1, 5], [0, 100 * MIB, 900 * MIB], NO),
        ([0, 1, 2], [0, 2 * MIB, 4 * MIB], NO),  # too few of them
        ([0, 8, 16], [5 * MIB, 5 * MIB, 5 * MIB], UNKNOWN),  # nothing grew that they could have filled
        ([0, 8, 16], [9 * MIB, 7 * MIB, 5 * MIB], UNKNOWN),
    ],
)
def test_a_counter_per_growth_of_a_gauge(collapsed: list[float], resident: list[float], wanted: Verdict3) -> None:
    """Where the gauge did not grow there is nothing to measure by."""
    assert answer(IN_STEP, rows(COLLAPSED, collapsed), rows(RESIDENT, resident)) is wanted


def test_growth_per_a_counter_at_rest_is_without_bound() -> None:
    """Memory that grew while no fault was counted: the plainest yes there is."""
    assert answer(FAULTLESS, rows(RESIDENT, [0, 32 * MIB, 64 * MIB]), rows(FAULTS, [5, 5, 5])) is YES


def test_sources_that_never_meet_cannot_be_compared() -> None:
    """One recorded in the morning, the other at noon."""
    resident, faults = rows(RESIDENT, [0, 32 * MIB, 64 * MIB]), rows(FAULTS, [5, 5, 5], start=9000)
    assert answer(FAULTLESS, resident, faults) is UNKNOWN


def test_only_the_common_time_counts() -> None:
    """Faults before the memory was watched are not its faults."""
    resident = rows(RESIDENT, [0, 32 * MIB, 64 * MIB], start=100)
    faults = rows(FAULTS, [0, 10_000, 90_000, *[90_000] * 12])
    assert answer(FAULTLESS, resident, faults) is YES


def test_what_is_missing_is_unknown() -> None:
    """No source, or a single sample, of either."""
    assert answer(FAULTLESS, rows(RESIDENT, [0, 32 * MIB])) is UNKNOWN
    assert answer(FAULTLESS, rows(RESIDENT, [32 * MIB]), rows(FAULTS, [5, 5])) is UNKNOWN


def test_what_one_recording_has_is_taken_from_it() -> None:
    """Two longer sources that have one metric each do not stand for the one that has both."""
    times = [Moment(10.0 * n, Clock.UTC) for n in range(9)]
    other = [
        Sample("system", {COLLAPSED: 100.0 * n}, Citation("other", n + 1), "other", (), time)
        for n, time in enumerate(times)
    ]
    both = [
        Sample("system", {COLLAPSED: float(n), STALLS: 10.0 * n}, Citation("both", n + 1), "both", (), time)
        for n, time in enumerate(times[:5])
    ]
    state = State("s", {}, 0, samples=(*other, *both))
    said = judge(
        ChangeCheck(change=Change(of=COLLAPSED, per=STALLS, above=0.5)),
        StateView(Case("c", (), (state,)), state, Catalogue(state.samples)),
    )
    assert said.value is NO
    assert said.cite is not None
    assert said.cite.member == "both"
    assert "(lines 1 to 5)" in said.text


def test_a_change_that_may_be_rounding_is_unknown() -> None:
    """Memory printed in GiB that went from 1 to 2 did not grow by a GiB without faults."""
    gib = 1024 * MIB
    coarse = [replace(row, resolution={RESIDENT: gib}) for row in rows(RESIDENT, [gib, gib, 2 * gib])]
    alone = Change(of=RESIDENT, above="1 MiB")
    assert answer(alone, coarse) is UNKNOWN
    assert answer(alone, rows(RESIDENT, [gib, gib, 2 * gib])) is YES


def test_what_came_and_went_within_the_window_is_a_climb() -> None:
    """A gauge that ends where it began has grown by nothing and may have risen by much; a fall is no climb."""
    job, falling = [5.0, 2000.0, 5000.0, 22.0], [9000.0, 4000.0, 22.0]
    steps = [0.0, 2000.0, 5000.0, 5010.0]
    climbing = Change.model_validate({"of": "node_vmstat_nr_anon_transparent_hugepages", "as": "climb", "above": 4000})
    growing = climbing.model_copy(update={"as_": "growth"})
    per = climbing.model_copy(update={"per": "node_vmstat_thp_fault_alloc", "above": 0.9})
    level = rows("node_vmstat_nr_anon_transparent_hugepages", job)
    assert answer(climbing, level) is YES
    assert answer(growing, level) is NO
    assert answer(climbing, rows("node_vmstat_nr_anon_transparent_hugepages", falling)) is NO
    assert answer(per, level, rows("node_vmstat_thp_fault_alloc", steps)) is YES


def test_a_low_between_two_samples_may_have_been_a_climb() -> None:
    """Where much was counted in one interval the gauge may have fallen and risen in it unseen."""
    kept = Change.model_validate(
        {
            "of": "node_vmstat_nr_anon_transparent_hugepages",
            "as": "climb",
            "per": "node_vmstat_thp_fault_alloc",
            "above": 0.34,
        }
    )
    full, gap = [3800.0, 4000.0, 2050.0, 4250.0, 5700.0], [3800.0, 4000.0, 4250.0, 5700.0]
    of_full, of_gap = [0.0, 200.0, 2340.0, 4540.0, 5980.0], [0.0, 200.0, 4540.0, 5980.0]
    level, faults = "node_vmstat_nr_anon_transparent_hugepages", "node_vmstat_thp_fault_alloc"
    assert answer(kept, rows(level, full), rows(faults, of_full)) is YES
    assert answer(kept, rows(level, gap), rows(faults, of_gap)) is UNKNOWN
    steady = [1000.0 * n for n in range(7)]
    assert answer(kept, rows(level, [40.0] * 7), rows(faults, steady)) is NO
    assert answer(kept, rows(level, [5000.0] * 3), rows(faults, steady[:3])) is UNKNOWN


def test_a_better_source_on_another_clock_takes_no_answer_away() -> None:
    """Faults every ten seconds beside the memory, and every second by a recorder that knows no time of day."""
    grown = Change(of=RESIDENT, per=FAULTS, above=1000)
    memory, faults = rows(RESIDENT, [MIB * n for n in range(9)]), rows(FAULTS, [100.0 * n for n in range(9)])
    finer = [
        replace(row, cite=row.cite._replace(member="finer.txt"), reader="finer", time=Moment(5.0 + n, Clock.BOOT))
        for n, row in enumerate(rows(FAULTS, [10.0 * n for n in range(90)]))
    ]
    assert answer(grown, memory, faults) is YES
    assert answer(grown, memory, finer) is UNKNOWN
    assert answer(grown, memory, faults, finer) is YES
