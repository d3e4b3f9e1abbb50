"""One clock of a host: what is put on UTC, how sure that is, and what stays as it was read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pytest

from thpdiag.host.catalogue import Catalogue
from thpdiag.host.clock.anchors import reboots
from thpdiag.host.clock.wall_clock import HostClock, unify_clocks
from thpdiag.host.rates import growth, rates
from thpdiag.model import Citation, Clock, Event, Fact, Moment, Problem, Record, Sample, Series

METRIC = "node_vmstat_compact_stall"
INDIA = Fact("host.zone", "Asia/Kolkata", Citation("etc/localtime"), (("how", "localtime"),))
BERLIN = Fact("host.zone", "Europe/Berlin", Citation("etc/localtime"), (("how", "localtime"),))
LORD_HOWE = Fact("host.zone", "Australia/Lord_Howe", Citation("etc/localtime"), (("how", "localtime"),))
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0


def at(text: str) -> float:
    """Seconds of a date and time, as if it were UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def rows(
    times: Sequence[float], clock: Clock = Clock.LOCAL, member: str = "vmstat.txt", every: int = 1, first: int = 1
) -> list[Sample]:
    """A counter that rises by one each row."""
    return [
        Sample("system", {METRIC: n}, Citation(member, first + n * every, f"row {n}"), "vmstat", time=Moment(t, clock))
        for n, t in enumerate(times)
    ]


def columns(samples: Sequence[Sample]) -> Series:
    """The same as a whole recording."""
    seconds = [row.time.seconds if row.time else np.nan for row in samples]
    lines = np.array([row.cite.line for row in samples], np.int64)
    values = {METRIC: np.arange(len(samples), dtype=float)}
    clock = samples[0].time.clock if samples[0].time else None
    return Series("system", values, samples[0].cite.member, lines, "vmstat", seconds=np.array(seconds), clock=clock)


def times(records: Sequence[Record]) -> list[Moment]:
    """Of all rows."""
    found = [row for r in records for row in (r if isinstance(r, Series) else (r,)) if isinstance(row, Sample)]
    return [row.time for row in found if row.time]


def both(samples: list[Sample], *facts: Record) -> tuple[list[Moment], HostClock]:
    """The times of rows, which must be the same for rows and for columns."""
    one, clock = unify_clocks([*facts, *samples])
    other, again = unify_clocks([*facts, columns(samples)])
    assert times(one) == times(other)
    assert [t.within for t in times(one)] == [t.within for t in times(other)]
    assert [(p.cite.line, p.text) for p in clock.problems] == [(p.cite.line, p.text) for p in again.problems]
    return times(one), clock


def stretch(start: str, count: int, step: float = MINUTE) -> list[float]:
    return [at(start) + n * step for n in range(count)]


def test_half_an_hour_is_half_an_hour() -> None:
    """17:30 in Kolkata is noon in UTC, to the second; what is cited stays as it was."""
    samples = rows(stretch("2026-11-20 17:30", 3))
    found, clock = both(samples, INDIA)
    assert [(m.seconds, m.clock, m.within) for m in found] == [
        (s, Clock.UTC, 0.0) for s in stretch("2026-11-20 12:00", 3)
    ]
    placed, _ = unify_clocks([INDIA, *samples])
    assert [r.cite for r in placed if isinstance(r, Sample)] == [s.cite for s in samples]
    assert [note.text for note in clock.notes] == [
        "times of the host's wall clock are given in UTC; its zone is Asia/Kolkata"
    ]


def test_without_a_zone_nothing_is_moved() -> None:
    """Neither rows nor messages, and nothing is said of it."""
    records: list[Record] = [
        *rows(stretch("2026-11-20 17:30", 3)),
        Event("oom", Citation("m", 1), Moment(5, Clock.BOOT)),
    ]
    placed, clock = unify_clocks(records)
    assert times(placed) == times(records)
    assert [r.time for r in placed if isinstance(r, Event)] == [Moment(5, Clock.BOOT)]
    assert clock == HostClock()


def test_messages_and_facts_are_moved_too() -> None:
    """What has one time only."""
    noon = Moment(at("2026-11-20 17:30"), Clock.LOCAL)
    event = Event("setting_written", Citation("t", 1), noon, {"setting": "thp.enabled"})
    fact = Fact("thp.enabled", "never", Citation("t", 2), time=noon)
    placed, _ = unify_clocks([INDIA, event, fact])
    assert [r.time for r in placed if isinstance(r, (Event, Fact)) and r.time] == [
        Moment(at("2026-11-20 12:00"), Clock.UTC)
    ] * 2


@pytest.mark.parametrize(
    ("zone", "first", "end", "back"),
    [
        (BERLIN, "2026-10-25 01:30", "2026-10-25 03:00", HOUR),
        (LORD_HOWE, "2026-04-05 01:00", "2026-04-05 02:00", HOUR / 2),
    ],
)
@pytest.mark.parametrize("step", [10.0, MINUTE, 600.0])
def test_the_hour_that_is_shown_twice_is_two_hours(zone: Fact, first: str, end: str, back: float, step: float) -> None:
    """A recording over the end of summer time goes on evenly; the clock was not set."""
    until = [t for t in stretch(first, 2000, step) if t < at(end)]
    after = [t for t in stretch(end, 2000, step) if t < at(end) + HOUR]
    found, clock = both(rows([*until, *[t - back for t in after]]), zone)
    seconds = [m.seconds for m in found]
    assert {b - a for a, b in pairwise(seconds)} == {step}
    assert {m.within for m in found} == {0.0}
    assert clock.problems == ()


@pytest.mark.parametrize(
    ("first", "count", "offset", "within"),
    [
        pytest.param("2026-10-25 01:50", 30, 2, 0.0, id="goes on from summer"),
        pytest.param("2026-10-25 02:40", 30, 1, 0.0, id="goes on into winter"),
        pytest.param("2026-10-25 02:10", 30, 2, HOUR, id="nobody knows"),
        pytest.param("2026-10-25 03:00", 30, 1, 0.0, id="after it"),
    ],
)
def test_a_part_of_that_hour_is_told_by_what_is_beside_it(first: str, count: int, offset: int, within: float) -> None:
    """Where nothing is, the times may be wrong by the hour."""
    found, _ = both(rows(stretch(first, count)), BERLIN)
    assert found[0] == Moment(at(first) - offset * HOUR, Clock.UTC)
    assert {m.within for m in found} == {within}


def test_the_hour_that_is_left_out_is_no_gap() -> None:
    """01:59 is followed by 03:00, a minute later."""
    found, _ = both(rows([*stretch("2026-03-29 01:50", 10), *stretch("2026-03-29 03:00", 10)]), BERLIN)
    seconds = [m.seconds for m in found]
    assert {b - a for a, b in pairwise(seconds)} == {MINUTE}


def test_a_time_that_the_clock_never_showed_is_unsure() -> None:
    """02:30 on the night summer time began: it was another clock."""
    found, _ = both(rows(stretch("2026-03-29 02:30", 5)), BERLIN)
    assert {m.within for m in found} == {HOUR}


def test_without_a_zone_an_hour_back_is_the_second_pass() -> None:
    """The clock goes on as it was at the start, and may be wrong by that hour."""
    found, clock = both(rows([*stretch("2026-10-25 02:00", 60), *stretch("2026-10-25 02:00", 60)]))
    assert [m.seconds for m in found] == stretch("2026-10-25 02:00", 120)
    assert {(m.clock, m.within) for m in found} == {(Clock.LOCAL, HOUR)}
    assert clock.problems == ()


@pytest.mark.parametrize("clock", [Clock.UTC, Clock.LOCAL])
def test_a_clock_that_was_set_back_is_told(clock: Clock) -> None:
    """A problem at the row, times that may be wrong by as much, and no rate of that interval."""
    seconds = [*stretch("2026-11-20 12:00", 5, 10.0), *stretch("2026-11-20 12:00", 5, 10.0)]
    found, host = both(rows(seconds, clock))
    assert [(p.cite.line, p.text) for p in host.problems] == [
        (6, "the clock was set back by 40 s before this row; times above it may be wrong by as much")
    ]
    assert {m.within for m in found} == {40.0}
    placed, _ = unify_clocks(rows(seconds, clock))
    (track,) = Catalogue(r for r in placed if isinstance(r, Sample)).tracks(METRIC)
    speed = rates(track)
    assert speed is not None
    assert speed.values.tolist() == [0.1] * 8
    assert growth(track) == 8


@pytest.mark.parametrize(
    ("seconds", "lines"),
    [
        pytest.param([0, 10, 20, 0, 10, 20], [1, 2, 3, 40, 41, 42], id="another recording further down"),
        pytest.param([0, 10, 20, 20, 30], [1, 2, 3, 4, 5], id="twice the same time"),
        pytest.param([0, 10, 9.5, 20, 30], [1, 2, 3, 4, 5], id="rows of one round"),
        pytest.param([50_000, 50_010, 5, 15, 25], [1, 2, 3, 4, 5], id="another day"),
    ],
)
def test_not_every_earlier_row_is_a_step(seconds: list[float], lines: list[int]) -> None:
    """Recordings below each other in one file begin when they like."""
    start = at("2026-11-20 03:00")
    samples = [
        Sample("system", {METRIC: n}, Citation("m", line), "vmstat", time=Moment(start + s, Clock.UTC))
        for n, (s, line) in enumerate(zip(seconds, lines, strict=True))
    ]
    assert both(samples)[1].problems == ()


def test_rows_without_a_time_stay_without() -> None:
    """NaN in columns; the others are moved."""
    series = columns(rows([*stretch("2026-11-20 17:30", 3)]))
    assert series.seconds is not None
    series.seconds[1] = np.nan
    placed, _ = unify_clocks([INDIA, series])
    (found,) = [r for r in placed if isinstance(r, Series)]
    assert [found.time(n) for n in range(3)] == [
        Moment(at("2026-11-20 12:00"), Clock.UTC), None, Moment(at("2026-11-20 12:02"), Clock.UTC),
    ]  # fmt: skip


def test_a_zone_that_is_not_sure_for_all_moves_nothing() -> None:
    """An offset of November says nothing of July; and what is on one clock must stay on one."""
    offset = Fact("host.utc_offset", 3600, Citation("c.raw", 4), time=Moment(at("2026-11-20 12:00"), Clock.UTC))
    near, far = rows(stretch("2026-11-20 13:00", 3)), rows(stretch("2026-07-20 13:00", 3), member="old.txt")
    assert {m.clock for m in times(unify_clocks([offset, *near])[0])} == {Clock.UTC}
    assert {m.clock for m in times(unify_clocks([offset, *near, *far])[0])} == {Clock.LOCAL}


@pytest.mark.parametrize(
    ("member", "first", "expected"),
    [
        pytest.param("collectl-20261120.txt", 9 * HOUR, "2026-11-20 09:00", id="day"),
        pytest.param("logs/top_2026-11-20_09-40-00.log", 9 * HOUR + 2400, "2026-11-20 09:40", id="time"),
        pytest.param("logs/top_2026-11-20_09-40.log", 9 * HOUR + 2370, "2026-11-20 09:39:30", id="a little earlier"),
        pytest.param("host-20261120-235950.txt", 15.0, "2026-11-21 00:00:15", id="begun before midnight"),
        pytest.param("sosreport-2026-11-20-abc/notes.txt", 9 * HOUR, None, id="a folder's name"),
        pytest.param("from-20261120-to-20261121.txt", 9 * HOUR, None, id="two dates"),
        pytest.param("20261320.txt", 9 * HOUR, None, id="no month"),
        pytest.param("build-202611201.txt", 9 * HOUR, None, id="a longer number"),
    ],
)
def test_the_name_of_a_file_tells_the_day(member: str, first: float, expected: str | None) -> None:
    """Of rows with a clock time and no date; over midnight they go on."""
    samples = rows([first, first + 16 * HOUR], Clock.DAY, member)
    found = times(unify_clocks(samples)[0])
    if expected is None:
        assert found == times(samples)
    else:
        assert found == [Moment(at(expected), Clock.LOCAL), Moment(at(expected) + 16 * HOUR, Clock.LOCAL)]


def test_recordings_of_several_days_in_one_file_have_no_date() -> None:
    """Nobody knows how many days lie between the first and the second."""
    samples = rows([80_000.0, 80_010.0, 100.0], Clock.DAY, "top-20261120.txt")
    assert {m.clock for m in times(unify_clocks(samples)[0])} == {Clock.DAY}


ROOT = "sosreport-web1-2026-11-20-abcdefg"
CAPTURED = Moment(at("2026-11-21 00:05"), Clock.LOCAL)
CAPTURE = Fact(
    "capture.time", CAPTURED.seconds, Citation(f"{ROOT}/sos_commands/date/date", 1), (("what", "date"),), CAPTURED
)


@pytest.mark.parametrize(
    ("member", "first", "expected"),
    [
        pytest.param("sos_commands/process/top_-b", 310.0, "2026-11-21 00:05:10", id="at the capture"),
        pytest.param("sos_commands/process/top_-b", 86_390.0, "2026-11-20 23:59:50", id="before midnight"),
        pytest.param("sos_commands/process/top_-b", 43_200.0, None, id="not of this capture"),
        pytest.param("sos_commands/sar/sar19", 310.0, None, id="a recording of other days"),
    ],
)
def test_the_capture_tells_the_day_of_its_outputs(member: str, first: float, expected: str | None) -> None:
    """Commands ran while it was made."""
    samples = rows([first], Clock.DAY, f"{ROOT}/{member}")
    (found,) = times(unify_clocks([CAPTURE, *samples])[0])
    assert found == (Moment(at(expected), Clock.LOCAL) if expected else Moment(first, Clock.DAY))


BOOT = at("2026-11-20 05:40:20")
BTIME = Sample("system", {"node_boot_time_seconds": BOOT}, Citation("proc/stat", 9), "proc_stat")


def test_times_since_boot_are_placed() -> None:
    """Messages and rows, as sure as the boot time and the drift since."""
    event = Event("oom", Citation("dmesg", 1), Moment(1000.0, Clock.BOOT))
    placed, clock = unify_clocks([BTIME, event, columns(rows([1000.0, 2000.0], Clock.BOOT))])
    (moved,) = [r.time for r in placed if isinstance(r, Event)]
    assert moved == Moment(BOOT + 1000, Clock.UTC)
    assert moved is not None
    assert moved.within == pytest.approx(1.1)
    assert times(placed)[-1] == Moment(BOOT + 2000, Clock.UTC)
    assert times(placed)[-1].within == pytest.approx(1.2)
    assert reboots(clock.anchors) == [Moment(BOOT, Clock.UTC)]


def test_an_uptime_of_a_day_without_date_is_placed_by_the_capture() -> None:
    """`uptime` in a capture, whose date and zone are known, tells of the boot in UTC."""
    up = Fact("uptime.seconds", 6 * HOUR, Citation(f"{ROOT}/sos_commands/host/uptime", 1), time=Moment(300, Clock.DAY))
    _, clock = unify_clocks([INDIA, CAPTURE, up])
    assert reboots(clock.anchors) == [Moment(at("2026-11-20 18:05") - 5.5 * HOUR, Clock.UTC)]


def test_two_boots_in_turn_are_two_boots() -> None:
    """A counter's loop that was read under both: no contradiction, and nobody knows of which a bare dmesg speaks."""
    loop = [
        Sample(
            "system", {"node_boot_time_seconds": boot}, Citation("loop", n + 1), "proc_stat", time=Moment(t, Clock.UTC)
        )
        for n, (boot, t) in enumerate([(BOOT, BOOT + 900), (BOOT, BOOT + 1800), (BOOT + 2000, BOOT + 2100)])
    ]
    event = Event("oom", Citation("dmesg", 1), Moment(50.0, Clock.BOOT))
    placed, clock = unify_clocks([*loop, event])
    assert clock.problems == ()
    assert reboots(clock.anchors) == [Moment(BOOT, Clock.UTC), Moment(BOOT + 2000, Clock.UTC)]
    assert [r.time for r in placed if isinstance(r, Event)] == [Moment(50.0, Clock.BOOT)]
    contradicting, host = unify_clocks([BTIME, *loop[2:]])
    assert [type(p) for p in host.problems] == [Problem]
    assert contradicting
