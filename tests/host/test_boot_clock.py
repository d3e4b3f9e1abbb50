"""What joins the clock of the boot to the wall clock, how sure that is, and what it is used for."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from analyze_bytes import document
from thpdiag.host.clock.anchors import (
    anchors_of_profile,
    boot_times,
    file_time,
    recorded_anchor,
)
from thpdiag.host.options import parse_window, records_in_window
from thpdiag.model import (
    Citation,
    Clock,
    Event,
    Fact,
    Ledger,
    Moment,
    Problem,
    ProblemKind,
    Profile,
    Record,
    Sample,
    StackCounts,
    Stacks,
)
from thpdiag.model.facts import MAX_DRIFT
from thpdiag.parsers.perf._texts import header_fact

BOOT = 1_795_153_220.0  # 2026-11-20 05:40:20 UTC


def btime(seconds: float = BOOT, member: str = "proc/stat") -> Sample:
    return Sample("system", {"node_boot_time_seconds": seconds}, Citation(member, 9), "proc_stat")


def uptime(value: float, time: Moment | None, provenance: str = "") -> Fact:
    return Fact("uptime.seconds", value, Citation("proc/uptime", 1), time=time, provenance=provenance)


def message(member: str, seconds: float, clock: Clock, task: str = "java") -> Event:
    return Event("hung_task", Citation(member, 1), Moment(seconds, clock), {"comm": task}, ("schedule",))


def recording(facts: Mapping[str, str], first: float = 1000.0, seconds: int = 60) -> Profile:
    """One sample each second."""
    counts = StackCounts()
    cite = Citation("perf.txt", 1)
    for second in range(seconds):
        counts.add((), 1, 1, cite, bin=second * 100)
    columns = ((), counts.chains(), counts.tasks(), counts.rows())
    start = Moment(first, Clock.BOOT)
    return Profile(
        "perf_script", "cycles", *columns, Stacks.FULL, cite, Ledger(), has_time=True, start=start,
        end=start.plus(seconds), facts=facts,
    )  # fmt: skip


def zeros(*records: Record) -> list[tuple[float, Clock, float]]:
    """When the boot was: on which clock, how sure."""
    anchors, problems = boot_times(records)
    assert problems == []
    return [(join.zero.seconds, join.zero.clock, join.within) for join in anchors]


def test_nothing_is_known_without_a_source() -> None:
    """An uptime without a date, or one that a person tells, joins nothing."""
    told = uptime(86400, Moment(BOOT, Clock.UTC), "prose")
    assert zeros(uptime(500.0, None), told, message("dmesg", 12.5, Clock.BOOT)) == []


def test_the_boot_time_of_the_kernel_is_right_to_a_second() -> None:
    """However often it was read: once; it moves by a second now and then."""
    assert zeros(btime(), btime(BOOT + 1), btime(member="loops/stat")) == [(BOOT, Clock.UTC, 1.0)]


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        pytest.param(uptime(1000.25, Moment(BOOT + 1000.25, Clock.UTC)), (BOOT, Clock.UTC, 5.0), id="file"),
        pytest.param(uptime(1200, Moment(BOOT + 1200, Clock.LOCAL)), (BOOT, Clock.LOCAL, 60.0), id="command, dated"),
        pytest.param(uptime(1200, Moment(4200, Clock.DAY)), (3000.0, Clock.DAY, 60.0), id="command"),
    ],
)
def test_an_uptime_with_a_time_of_day_tells_of_the_boot(fact: Fact, expected: tuple[float, Clock, float]) -> None:
    """`uptime` counts minutes, the file hundredths; the date above it is a little older."""
    assert zeros(fact) == [expected]


def test_a_time_of_day_without_a_date_wraps_at_midnight() -> None:
    """A boot yesterday evening, by the clock of a day."""
    (join,) = boot_times([uptime(7200, Moment(3600, Clock.DAY))])[0]
    assert join.wall_time(Moment(7260, Clock.BOOT)) == Moment(3660, Clock.DAY)


def test_the_same_messages_on_both_clocks_join_them() -> None:
    """dmesg and dmesg -T: as sure as its seconds, and as their differences are alike."""
    pairs = [(100.25, "java"), (230.75, "mysqld"), (900.5, "java")]
    short = [message("dmesg", at, Clock.BOOT, task) for at, task in pairs]
    dated = [message("dmesg_-T", BOOT + int(at), Clock.LOCAL, task) for at, task in pairs]
    (found,) = zeros(*short, *dated)
    assert found[0] == pytest.approx(BOOT - 0.5)
    assert found[1] is Clock.LOCAL
    assert found[2] == pytest.approx(1.25)


def test_messages_of_which_one_log_has_more_join_nothing() -> None:
    """Nobody knows which of the two is the one in the shorter log."""
    short = [message("dmesg", at, Clock.BOOT) for at in (100.0, 220.0)]
    assert zeros(*short, message("dmesg_-T", BOOT + 220, Clock.LOCAL)) == []


def test_messages_that_lie_apart_differently_are_not_the_same() -> None:
    """Two boots with the same hang, hours apart."""
    short = [message("dmesg", at, Clock.BOOT) for at in (100.0, 220.0)]
    dated = [message("messages", BOOT + at, Clock.LOCAL) for at in (100.0, 7400.0)]
    assert zeros(*short, *dated) == []


def test_joins_that_contradict_each_other_are_not_used() -> None:
    """More than a minute between two: a problem, and neither is believed."""
    anchors, problems = boot_times([btime(), uptime(1000.25, Moment(BOOT + 1200, Clock.UTC))])
    assert anchors == []
    assert [p.kind for p in problems] == [ProblemKind.DISAGREEMENT]
    assert "200 s apart" in problems[0].text


def test_of_three_joins_the_odd_one_is_left_out() -> None:
    """Two that agree are believed against one."""
    logs = [message("dmesg", 100.0, Clock.BOOT), message("dmesg_-T", BOOT + 100, Clock.LOCAL)]
    anchors, problems = boot_times([btime(), *logs, uptime(1000.25, Moment(BOOT + 9000, Clock.UTC))])
    assert [(a.zero.seconds, a.zero.clock) for a in anchors] == [(BOOT, Clock.UTC), (BOOT, Clock.LOCAL)]
    assert len(problems) == 2


def test_a_time_zone_is_no_contradiction() -> None:
    """A local clock five and a half hours ahead agrees; one that is off by ten minutes does not."""
    ahead = Moment(BOOT + 1000.25 + 5.5 * 3600, Clock.LOCAL)
    assert len(zeros(btime(), uptime(1000.25, ahead))) == 2
    assert boot_times([btime(), uptime(1000.25, ahead.plus(450))])[1] != []


def test_a_join_is_less_sure_the_longer_the_host_runs() -> None:
    """The scheduler's clock drifts; a clock that is kept in step does not."""
    known = boot_times([btime()])[0]
    day = Moment(86400.0, Clock.BOOT)
    assert anchors_of_profile(recording({}), known)[0].uncertainty(day) == pytest.approx(1 + 86400 * MAX_DRIFT)
    assert anchors_of_profile(recording({"clock": "monotonic"}), known)[0].uncertainty(day) == 1.0


@pytest.mark.parametrize(
    "facts",
    [
        {"clock_data_wall_ns": "1795165122423266000", "clock_data_clock_ns": "11902308865626"},
        {"reference_time": "2026-11-20 08:58:42.423266 = 1795165122.423266 (TOD) = 11902.308865626 (monotonic)"},
    ],
    ids=["perf.data", "text"],
)
def test_a_recording_brings_its_own_join(facts: dict[str, str]) -> None:
    """With `perf record -k` both clocks were read at once: exact, and taken before all others."""
    (join,) = anchors_of_profile(recording(facts), boot_times([btime()])[0])
    assert join.wall_time(Moment(11902.308865626, Clock.BOOT)).seconds == pytest.approx(1795165122.423266, abs=1e-5)
    assert join.uncertainty(Moment(11902.0, Clock.BOOT)) < 0.01


def test_perfs_header_tells_the_reference_time() -> None:
    """The line of `perf script --header` reaches the recording's facts."""
    line = "# reference time: 2026-11-20 08:58:42.423266 = 1795165122.423266 (TOD) = 11902.308865626 (monotonic)"
    found = header_fact(line)
    assert found is not None
    assert recorded_anchor(recording(dict([found]))) is not None


def test_damaged_clock_data_is_none() -> None:
    """Whatever stands there instead of a time joins nothing."""
    assert recorded_anchor(recording({"reference_time": "2026-11-20 = (TOD) = 1"})) is None


def test_a_recording_of_another_boot_is_told() -> None:
    """Its own clock data and the host's boot time differ: a problem; its own data stand."""
    own = recording({"clock_data_wall_ns": "1795165122000000000", "clock_data_clock_ns": "500000000000"}, first=490.0)
    anchors, problems = boot_times([btime(), own])
    assert [p.kind for p in problems] == [ProblemKind.DISAGREEMENT]
    assert problems[0].cite == own.cite
    assert anchors_of_profile(own, anchors) == [recorded_anchor(own)]


def test_a_file_written_before_its_end_is_of_another_boot() -> None:
    """`captured on` is a hint, but a recording cannot end a day after its file was written."""
    old = recording({"captured_on": "Wed Nov 18 05:00:00 2026"})
    anchors, problems = boot_times([btime(), old])
    assert [p.kind for p in problems] == [ProblemKind.DISAGREEMENT]
    assert anchors_of_profile(old, anchors) == []
    copied = recording({"captured_on": "Fri Dec 25 12:00:00 2026"})
    assert boot_times([btime(), copied])[1] == []
    assert len(anchors_of_profile(copied, anchors)) == 1


def test_captured_on_is_read_as_perf_writes_it() -> None:
    """A time in an unknown zone; what is no time is None."""
    assert file_time(recording({"captured_on": "Fri Nov 20 05:40:20 2026"})) == Moment(BOOT, Clock.LOCAL)
    assert file_time(recording({"captured_on": "yesterday"})) is None
    assert file_time(recording({})) is None


def kept(since: str, until: str, *records: Record) -> int:
    """Samples of the recording that take part."""
    window = parse_window(since, until, None)
    found = records_in_window(records, window, "", boot_times(records)[0])
    return sum(len(r.rows) for r in found if isinstance(r, Profile))


def test_a_window_of_the_wall_clock_cuts_a_recording_since_boot() -> None:
    """Booted 05:40:20, recorded from 05:57:00 on for a minute: half of it, and what the join leaves open."""
    recorded = recording({"clock": "monotonic"})
    assert kept("2026-11-20 05:57:30", "2026-11-20 06:30:00", recorded, btime()) == 31
    assert kept("2026-11-20 03:00:00", "2026-11-20 04:00:00", recorded, btime()) == 0
    drifting = recording({})
    assert 31 <= kept("2026-11-20 05:57:30", "2026-11-20 06:30:00", drifting, btime()) <= 32


def test_without_a_join_a_recording_stays() -> None:
    """It cannot be placed, so nothing is taken away."""
    assert kept("2026-11-20 03:00:00", "2026-11-20 04:00:00", recording({})) == 60


def test_a_window_shorter_than_the_uncertainty_takes_nothing_away() -> None:
    """What may be inside stays."""
    recorded, rough = recording({}, seconds=10), uptime(1200, Moment(BOOT + 1200, Clock.UTC))
    assert kept("2026-11-20 05:57:04", "2026-11-20 05:57:05", recorded, rough) == 10


def test_kernel_messages_since_boot_are_placed_too() -> None:
    """A message of hours before the window takes no part."""
    early, late = message("dmesg", 12.0, Clock.BOOT), message("dmesg", 1010.0, Clock.BOOT)
    window = parse_window("2026-11-20 05:55", "2026-11-20 06:00", None)
    records: list[Record] = [early, late, btime()]
    found = records_in_window(records, window, "", boot_times(records)[0])
    assert [r for r in found if isinstance(r, Event)] == [late]
    assert not any(isinstance(r, Problem) for r in found)


SESSION = """[root@db1 ~]# date
Fri Nov 20 03:35:13 UTC 2026
[root@db1 ~]# grep btime /proc/stat
btime {boot}
[root@db1 ~]# grep compact_ /proc/vmstat
compact_stall 21275000
compact_fail 20000000
compact_success 1275000
"""


@pytest.mark.parametrize(
    ("more", "uptime"),
    [
        ("", 145713.0),
        ("[root@db1 ~]# cat /proc/uptime\n145999.25 300000.00\n", 145999.25),  # what is printed goes first
        (
            "[root@db1 ~]# date\nFri Nov 20 03:36:13 UTC 2026\n[root@db1 ~]# grep btime /proc/stat\nbtime 1790000000\n",
            None,
        ),
    ],
)
def test_the_uptime_follows_from_the_boot_and_a_date(more: str, uptime: float | None) -> None:
    """So that a total since boot has a rate; of two boots it is not known which one counts."""
    result = document((SESSION.format(boot=1795000000) + more).encode())
    assert result["host"].get("uptime") == uptime
    totals = [f for f in result["findings"] if f["rule"] == "THP-013"]
    assert [f["confidence"] for f in totals] == ([] if uptime is None else ["possible"])
