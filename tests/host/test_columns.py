"""A recording as columns says what the same recording as rows says."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest

from thpdiag.host.cases import cut_states
from thpdiag.host.catalogue import Catalogue
from thpdiag.host.derived import rates_of_counters, with_sums
from thpdiag.host.memory import memory_shares
from thpdiag.host.options import Window, records_in_window
from thpdiag.host.rates import growth, knee, longest_run, rates, slope
from thpdiag.host.series import Track, rows_having
from thpdiag.model import Citation, Clock, Event, Fact, Moment, Record, Series

STALLS = "node_vmstat_compact_stall"
SECONDS = np.arange(20, dtype=np.float64) * 2 + 1000
VALUES = {
    STALLS: np.array([5.0, 9, 9, 30, np.nan, 44, 2, 8, *range(10, 22)]),
    "node_vmstat_allocstall_normal": np.arange(20, dtype=np.float64),
    "node_vmstat_allocstall_dma32": np.arange(20, dtype=np.float64) * 3,
    "node_memory_MemTotal_bytes": np.full(20, 2.0**34),
    "node_memory_MemAvailable_bytes": np.linspace(2.0**33, 2.0**32, 20),
    **{f"node_cpu_seconds_total.{mode}": np.arange(20, dtype=np.float64) * n
       for n, mode in enumerate(("user", "nice", "system", "idle"), start=1)},
}  # fmt: skip
TEXT = b"".join(b"row %02d\n" % n for n in range(20))
STARTS = np.arange(20) * 7


def columns(clock: Clock | None = Clock.UTC) -> Series:
    return Series(
        "system", VALUES, "var/log/x", np.arange(20) + 3, "proc_vmstat",
        seconds=SECONDS if clock else None, clock=clock, resolution={STALLS: 1.0},
        since_boot=np.arange(20) == 0, text=TEXT, starts=STARTS, ends=STARTS + 6,
    )  # fmt: skip


def tracks(clock: Clock | None = Clock.UTC, metric: str = STALLS) -> tuple[Track, Track]:
    one = columns(clock)
    return Catalogue([one]).tracks(metric)[0], Catalogue(list(one)).tracks(metric)[0]


def test_a_row_is_a_sample() -> None:
    """Values that were not printed are not in it; its line is quoted."""
    row = columns()[4]
    assert STALLS not in row.values
    assert row.cite == Citation("var/log/x", 7, "row 04")
    assert row.time == Moment(1008.0, Clock.UTC)
    assert [r.since_boot for r in columns()][:2] == [True, False]
    with pytest.raises(IndexError):
        columns()[20]


@pytest.mark.parametrize("clock", [Clock.UTC, None])
def test_a_track_of_columns_is_that_of_rows(clock: Clock | None) -> None:
    """Values, places, times and everything computed from them are the same."""
    fast, slow = tracks(clock)

    assert len(fast) == len(slow) == 18
    assert list(fast.points.values) == list(slow.points.values)
    assert list(fast.points.index) == list(slow.points.index) or clock is None
    assert list(fast.samples) == list(slow.samples)
    assert (fast.last, fast.resolution, fast.duration, fast.cite(0)) == (
        slow.last, slow.resolution, slow.duration, slow.cite(0),
    )  # fmt: skip
    figures: list[Callable[[Track], object]] = [growth, lambda t: slope(t.points)]
    assert [f(fast) for f in figures] == [f(slow) for f in figures]


def test_rates_of_columns_are_those_of_rows() -> None:
    """A reset is a gap in both."""
    fast, slow = (rates(track) for track in tracks())

    assert fast is not None
    assert slow is not None
    assert list(fast.values) == list(slow.values)
    assert list(fast.samples) == list(slow.samples)
    assert len(fast) == 16


def test_a_bend_of_columns_is_that_of_rows() -> None:
    """The sample at the bend is the same."""
    fast, slow = (knee(track.points) for track in tracks(metric="node_memory_MemAvailable_bytes"))
    assert fast == slow


def test_a_part_in_time() -> None:
    """Cut to a window, both hold the same rows."""
    fast, slow = (track.within(1010.0, 1020.0) for track in tracks())
    assert list(fast.samples) == list(slow.samples)
    assert len(fast) == 6


def test_what_is_derived_from_columns() -> None:
    """Sums, CPU shares and memory facts come out as from rows."""
    one = columns()
    summed = with_sums(one)
    assert isinstance(summed, Series)
    assert list(summed) == [with_sums(row) for row in one]
    derived = [row for found in rates_of_counters([one]) for row in (found if isinstance(found, Series) else [found])]
    assert derived == list(rates_of_counters(list(one)))
    assert list(memory_shares([one])) == list(memory_shares(list(one)))
    assert list(rows_having([one], STALLS)) == [row for row in one if STALLS in row.values]


def test_a_window_cuts_columns() -> None:
    """Rows outside the time that was asked for take no part."""
    window = Window(Moment(1005.0, Clock.UTC), Moment(1011.0, Clock.UTC))
    (found,) = records_in_window([columns()], window, "")
    assert isinstance(found, Series)
    assert [row.time for row in found] == [Moment(s, Clock.UTC) for s in (1006.0, 1008.0, 1010.0)]
    assert records_in_window([columns()], Window(Moment(9e9, Clock.UTC)), "") == []


def test_rows_belong_to_the_state_they_were_recorded_in() -> None:
    """A change of a setting at a line cuts columns there."""
    name = "thp.enabled"
    change = Event(
        "setting_written", Citation("var/log/x", 10), fields={"setting": name, "value": "never", "how": "prompt"}
    )
    found = cut_states([Fact(name, "always", Citation("var/log/x", 1)), columns(), change])
    lines = [[row.cite.line for s in state.samples if isinstance(s, Series) for row in s] for state in found]
    assert lines == [list(range(3, 10)), list(range(10, 23))]


def test_a_recording_is_cut_where_another_file_tells_of_a_change() -> None:
    """Rows go to the state in whose time they are, as single rows do; what is in none stays by itself."""
    name, other = "thp.enabled", "terminal.txt"
    facts: list[Record] = [
        Fact(name, "always", Citation(other, 1), time=Moment(1000.0, Clock.UTC)),
        Event("note", Citation(other, 2), Moment(1000.0, Clock.UTC)),
        Event("note", Citation(other, 3), Moment(1012.0, Clock.UTC)),
        Event("setting_written", Citation(other, 4), Moment(1013.0, Clock.UTC),
              {"setting": name, "value": "never", "how": "prompt"}),
        Event("note", Citation(other, 5), Moment(1020.0, Clock.UTC)),
    ]  # fmt: skip
    fast, slow = (cut_states([*facts, *given]) for given in ([columns()], list(columns())))
    lines = [
        [[row.cite.line for s in state.samples for row in (s if isinstance(s, Series) else [s])] for state in found]
        for found in (fast, slow)
    ]
    assert lines[0] == lines[1]
    assert len([part for part in lines[0] if part]) == 3


@pytest.mark.parametrize("seed", range(20))
def test_the_longest_stretch_is_that_of_a_plain_search(seed: int) -> None:
    """First of the longest, no gap inside, whatever the values."""
    chance = random.Random(seed)
    times = list(accumulate(chance.choice([1.0, 1.0, 1.0, 2.0, 500.0 if seed % 2 else 1.0]) for _ in range(60)))
    values = [chance.random() for _ in times]
    given = Series(
        "system",
        {"cpu_ratio.busy": np.array(values)},
        "x",
        np.arange(60),
        "x",
        seconds=np.array(times),
        clock=Clock.UTC,
    )
    found = longest_run(Catalogue([given]).tracks("cpu_ratio.busy")[0].points, 0.4, float("inf"))
    assert (list(found.points.values), found.seconds is None) == (plain(times, values), not plain(times, values))


def plain(times: list[float], values: list[float]) -> list[float]:
    best: list[float] = []
    run: list[float] = []
    for at, (time, value) in enumerate(zip(times, values, strict=True)):
        if at and time - times[at - 1] > 60:
            run = []
        run = [*run, value] if value > 0.4 else []
        best = run if len(run) > len(best) else best
    return best


def test_metrics_that_stand_in_the_same_rows_share_them() -> None:
    """A long recording is not copied for each metric that a rule asks for."""
    one = columns()
    marks = np.arange(20) % 3 == 0  # averages since boot between the others: what is left is no single stretch
    table = Catalogue([replace(one, since_boot=marks)])
    first, second = (table.tracks(f"node_vmstat_allocstall_{zone}")[0].samples for zone in ("normal", "dma32"))
    assert first is second
    assert len(first) == 20 - int(marks.sum())
    assert len(table.tracks(STALLS)[0]) == len(first) - 1
