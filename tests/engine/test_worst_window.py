"""Ten minutes of trouble in a day of rest: found, named, and put together only with what was there at the same time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from analyze_bytes import rules
from recorded_days import (
    DAY,
    FALLBACKS,
    FAULTS,
    SHARE,
    STALLS,
    START,
    SYS,
    case,
    confidences,
    counter,
    diagnosis,
    level,
    recording,
    stormy,
)
from thpdiag.diagnosis.diagnose import _has_no_demand
from thpdiag.diagnosis.result_document import PART_TEXT, document
from thpdiag.engine.check_result import UNKNOWN, YES
from thpdiag.engine.evaluate import evaluate
from thpdiag.engine.state_view import state_views
from thpdiag.engine.windows import candidate_windows
from thpdiag.host.catalogue import Catalogue, StretchCatalogue
from thpdiag.host.rates import max_rate
from thpdiag.host.series import Stretch, stretches_beyond
from thpdiag.model import Citation, Clock, Moment, Profile, Series, StackCounts, Task
from thpdiag.model.profile import Frame, Ledger, Stacks
from thpdiag.report import FORMATS
from thpdiag.report.presentation import Presentation

NIGHT, NOON = (180, 190), (720, 730)  # minutes


def at(minute: float) -> float:
    return START + 60 * minute


def test_ten_minutes_of_compaction_in_a_day_are_found() -> None:
    """The finding names the window and cites a line of it; the rule is not ruled out by the day."""
    found = diagnosis(case(stormy({NIGHT: 400.0}, {NIGHT: 0.75})))
    leader = found.leader
    assert leader is not None
    assert (leader.outcome.rule, leader.confidence) == ("THP-012", "likely")
    assert leader.outcome.window == (Moment(at(179), Clock.UTC), Moment(at(189), Clock.UTC))
    stalling = next(e for e in leader.outcome.evidence if e.check == "stalling")
    assert stalling.cite is not None
    assert NIGHT[0] < (stalling.cite.line or 0) <= NIGHT[1]
    assert "THP-041" in confidences(found)
    assert not {r.rule.id for r in found.ruled_out} & {"THP-012", "THP-041", "THP-042"}
    told = document([found])
    assert told["verdict"]["window"]["text"].endswith("the worst window found")
    assert {f["window"]["text"].split(", ")[1] for f in told["findings"] if "window" in f} == {PART_TEXT}
    assert "settings were the same at the end" in FORMATS["text"](told, Presentation(verbosity=1))


def test_a_day_of_rest_stays_silent() -> None:
    """Without a storm there is no window, and the rules are ruled out as before."""
    given = case(stormy({}, {}))
    assert candidate_windows(rules(), state_views(given)[0]) == []
    found = diagnosis(given)
    assert "THP-012" not in confidences(found)
    assert "THP-012" in {r.rule.id for r in found.ruled_out}


def test_a_blip_is_no_storm() -> None:
    """Two minutes of a day, or one sample, say nothing of what hurts the host."""
    assert "THP-012" not in confidences(diagnosis(case(stormy({(180, 182): 400.0}, {}))))


def test_conditions_at_different_times_are_not_put_together() -> None:
    """Kernel time at noon and huge page faults at night are no allocation churn."""
    apart = confidences(diagnosis(case(stormy({NIGHT: 400.0}, {NOON: 0.75}))))
    assert apart["THP-012"] == "likely"
    assert "THP-041" not in apart
    assert "THP-004" not in apart  # no program compacted at noon
    assert "THP-004" in confidences(diagnosis(case(stormy({NIGHT: 400.0}, {NIGHT: 0.75}))))


def profile(start: float) -> Profile:
    """Thirty seconds of page faults that compact memory."""
    names = ("compact_zone", "try_to_compact_pages", "do_huge_pmd_anonymous_page", "handle_mm_fault", "page_fault")
    counts, cite = StackCounts(), Citation("perf.txt", 7)
    counts.add(tuple(range(len(names))), 900.0, 900, cite, Task("work", 9))
    first, last = Moment(start, Clock.UTC), Moment(start + 30, Clock.UTC)
    return Profile(
        "perf_script", "cycles", tuple(Frame(n) for n in names), counts.chains(), counts.tasks(), counts.rows(),
        Stacks.FULL, cite, Ledger(read=900, kept=900), start=first, end=last, has_time=False,
    )  # fmt: skip


def test_a_recording_of_stacks_is_confirmed_by_counters_of_its_own_time() -> None:
    """Stalls twelve hours later confirm nothing, those of its own ten minutes do, though they are not the worst."""
    later, own = stormy({(900, 930): 400.0}, {}), stormy({NIGHT: 5.0, (900, 930): 400.0}, {})
    stacks = profile(at(185))
    assert confidences(diagnosis(case(later, [stacks])))["THP-010"] == "likely"
    found = diagnosis(case(own, [stacks]))
    assert confidences(found)["THP-010"] == "confirmed"
    rates = next(e for f in found.findings if f.outcome.rule == "THP-010" for e in f.outcome.evidence
                 if e.check == "stalling")  # fmt: skip
    assert rates.value == pytest.approx(5.0)


def test_what_needs_two_times_is_a_hypothesis() -> None:
    """Where one condition was seen only at night and the other only at noon, the rule is possible at most."""
    given = case(stormy({}, {NOON: 0.75}), [profile(at(185))])
    (scene,) = state_views(given)
    outcome = evaluate(rules(), scene)["THP-010"]
    assert (outcome.value, outcome.confidence) == (YES, "likely")
    assert {e.check for e in outcome.evidence} == {"compacting"}


def test_another_source_in_the_storm_decides() -> None:
    """A short recording of the storm counts beside the long one that sees the storm too seldom."""
    coarse = recording("day.txt", {STALLS: counter(0, {})[::240]}, reader="slow")
    coarse = replace(coarse, values={STALLS: np.full(6, 1e6)})
    fine = {STALLS: counter(400, {}, 20), FAULTS: counter(900, {}, 20), FALLBACKS: counter(0, {}, 20)}
    found = confidences(diagnosis(case([coarse, recording("storm.txt", fine, start=at(100))])))
    assert found["THP-012"] == "likely"


def test_a_rule_that_the_storm_leaves_open_is_not_ruled_out() -> None:
    """Stalls of a storm without the counters of huge page faults: open, though the day's share of samples is a no."""
    found = diagnosis(case([recording("counters.txt", {STALLS: counter(0, {NIGHT: 400.0})})]))
    outcome = found.outcomes["THP-012"]
    assert outcome.value is UNKNOWN
    assert outcome.window is not None
    assert "node_thp_faults_total" in outcome.missing


def test_disks_at_noon_do_not_excuse_the_night() -> None:
    """A negated condition is judged in the window: waiting for disks most of the day, but not in the storm."""
    found = diagnosis(case(stormy({NIGHT: 400.0}, {NIGHT: 0.75}, (0.6, {NIGHT: 0.0}))))
    assert confidences(found)["THP-041"] == "possible"
    found = diagnosis(case(stormy({NIGHT: 400.0}, {NIGHT: 0.75}, (0.0, {NIGHT: 0.6}))))
    assert "THP-041" not in confidences(found)


def test_two_figures_have_a_stretch_of_their_own() -> None:
    """Disks are waited for in an hour in which the kernel has little to do for eight minutes only: those are found.

    No figure alone is beyond its bound in just these minutes.
    """
    disks = {(700, 760): 0.4}
    kernel = {(660, 720): 0.5, (728, 800): 0.5}
    given = case(stormy({}, kernel, (0.0, disks)))
    found = {f.outcome.rule: f for f in diagnosis(given).findings}
    assert found["ALT-05"].confidence == "likely"
    assert found["ALT-05"].outcome.window == (Moment(at(719), Clock.UTC), Moment(at(727), Clock.UTC))
    without = case(stormy({}, {(660, 800): 0.5}, (0.0, disks)))
    assert confidences(diagnosis(without)).get("ALT-05", "possible") == "possible"


def test_one_counter_beside_another_has_a_stretch() -> None:
    """Ten minutes in which most faults fell back, of a day in which one of a hundred did."""
    shares = stormy({}, {})[1]

    def counted(fallbacks: np.ndarray) -> Series:
        return recording("counters.txt", {FALLBACKS: fallbacks, FAULTS: counter(200, {NIGHT: 40.0})})

    given = case([counted(counter(0, {NIGHT: 100.0})), shares])
    found = {f.outcome.rule: f.outcome for f in diagnosis(given).findings}
    assert found["THP-023"].window == (Moment(at(179), Clock.UTC), Moment(at(189), Clock.UTC))
    assert "THP-023" not in confidences(diagnosis(case([counted(counter(1, {NIGHT: 20.0})), shares])))


def test_a_finding_of_another_time_explains_nothing_away() -> None:
    """A swap storm at noon does not demote what happened at night; one in the same minutes does."""
    for when, demoted in ((NOON, False), (NIGHT, True)):
        rate = 5e7
        swapping = {"swap_out_bytes:rate": level(0.0, {when: rate}), "swap_in_bytes:rate": level(0.0, {when: rate})}
        found = diagnosis(case([*stormy({NIGHT: 400.0}, {NIGHT: 0.75}), recording("swap.txt", swapping)]))
        finding = next(f for f in found.findings if f.outcome.rule == "THP-041")
        assert ("ALT-03" in finding.demoted_by) is demoted


def test_counters_get_the_reading_before_a_stretch_and_averages_do_not() -> None:
    """Ten minutes are ten intervals of a counter and ten values of a share."""
    catalogue = Catalogue(stormy({NIGHT: 400.0}, {NIGHT: 0.75}))
    part = StretchCatalogue(catalogue, Stretch(at(179), at(189), Clock.UTC))
    (stalls,), (kernel,) = part.tracks(STALLS), part.tracks(SYS)
    assert (len(stalls), len(kernel)) == (11, 10)
    assert set(kernel.column) == {0.75}
    assert part.tracks(SHARE)[0].samples[0].cite.line == NIGHT[0] + 1


def test_what_cannot_be_placed_is_no_part_of_a_stretch() -> None:
    """Another clock, or none, may be another time; a single reading without a time stays."""
    stretch = Stretch(at(179), at(189), Clock.UTC)
    local = recording("a.txt", {SYS: level(0.9, {})}, clock=Clock.LOCAL)
    assert not StretchCatalogue(Catalogue([local]), stretch).tracks(SYS)
    day = recording("a.txt", {SYS: level(0.9, {})}, clock=Clock.DAY, start=0.0)
    night = Stretch(60.0, 660.0, Clock.DAY, member="b.txt")
    assert not StretchCatalogue(Catalogue([day]), night).tracks(SYS)
    assert StretchCatalogue(Catalogue([day]), Stretch(60.0, 660.0, Clock.DAY, member="a.txt")).tracks(SYS)


def test_bursts_with_pauses_are_one_stretch() -> None:
    """Every third minute of an hour is a stretch of an hour; a gap in the recording ends it."""
    bursts = {(600 + 3 * n, 601 + 3 * n): 9.0 for n in range(20)}
    (track,) = Catalogue([recording("a.txt", {SYS: level(0.0, bursts)})]).tracks(SYS)
    (found,) = {(s.first, s.last) for s in stretches_beyond(track.points, 5.0, 100.0)}
    assert found == (at(599), at(657))
    gone = np.r_[0:630, 690:DAY]
    (track,) = Catalogue([recording("a.txt", {SYS: level(0.0, bursts | {(690, 740): 9.0})}).only(gone)]).tracks(SYS)
    assert (at(599), at(627)) in {(s.first, s.last) for s in stretches_beyond(track.points, 5.0, 100.0)}


def test_ten_minutes_of_demand_in_a_day_are_no_standing_still() -> None:
    """A counter that moved at night did move, though the day's mean is next to nothing."""
    for calm, most in ((0.0, 0.0), (0.05, 0.05)):
        (track,) = Catalogue([recording("a.txt", {STALLS: counter(calm, {})})]).tracks(STALLS)
        assert max_rate(track, 300.0) == pytest.approx(most)
    (track,) = Catalogue([recording("a.txt", {STALLS: counter(0, {NIGHT: 1.5})})]).tracks(STALLS)
    assert max_rate(track, 300.0) == pytest.approx(1.5)
    assert max_rate(track, 1e9) == pytest.approx(900 / 86340)
    (scene,) = state_views(case([recording("a.txt", {STALLS: counter(0, {NIGHT: 1.5})})]))
    assert not _has_no_demand("node_vmstat_compact_stall", 0.1, [scene])
    (scene,) = state_views(case([recording("a.txt", {STALLS: counter(0.05, {})})]))
    assert _has_no_demand("node_vmstat_compact_stall", 0.1, [scene])


@pytest.mark.parametrize(("readings", "still"), [((9e6, 0.0), False), ((9e6, 0.0, 0.0), True), ((0.0, 0.0), True)])
def test_what_a_counter_did_before_it_was_reset_is_not_nothing(readings: tuple[float, ...], still: bool) -> None:
    """Of two readings with a reset between them nobody knows what happened."""
    (scene,) = state_views(case([recording("a.txt", {STALLS: np.array(readings)})]))
    assert _has_no_demand("node_vmstat_compact_stall", 0.1, [scene]) is still


@pytest.mark.parametrize(("minutes", "told"), [(NIGHT, False), ((DAY - 10, DAY), True)])
def test_what_must_go_on_is_only_looked_for_at_the_end(minutes: tuple[int, int], told: bool) -> None:
    """A program that grew in the stormy minutes of the night and came to rest has no leak; one that still grows may."""
    grown = np.cumsum(level(0.0, {minutes: 60 * 2.0**20}))
    columns = {"process_resident_memory_bytes": 1e8 + grown, "process_virtual_memory_bytes": 2e8 + grown,
               "process_faults_total": 1e3 + grown / 4096, "process_fault_bytes_total": 2e6 + grown * 512}  # fmt: skip
    process = replace(recording("pidstat.txt", columns), kind="process", entity=(("pid", "7"), ("comm", "java")))
    found = diagnosis(case([*stormy({minutes: 400.0}, {minutes: 0.75}), process]))
    assert "THP-012" in confidences(found)
    assert ("ALT-01" in confidences(found)) is told


@pytest.mark.parametrize(("values", "lengths"), [((0, 900, 700, 0), {4.0}), ((0, 900, 0, 0), set())])
def test_a_burst_in_a_short_recording_counts(values: tuple[float, ...], lengths: set[float]) -> None:
    """Somebody recorded twenty seconds because it hurt: two values in a row are a stretch, one is a blip."""
    column = np.array([0.0, 0.0, *values, 0.0, 0.0, 0.0, 0.0])
    seconds = np.array([START + 2.0 * n for n in range(len(column))])
    rows = Series(
        "system", {SYS: column}, "a.txt", np.arange(1, len(column) + 1), "test", seconds=seconds, clock=Clock.UTC
    )
    (track,) = Catalogue([rows]).tracks(SYS)
    assert {one.seconds for one in stretches_beyond(track.points, 2.0, 1e9)} == lengths
