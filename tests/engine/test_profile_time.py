"""A recording over time: shares by bucket, the picture, the worst second, and the first bad moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest

from thpdiag.engine.compiled_profile import ChainMatches, CompiledProfile
from thpdiag.engine.profile_views import COLUMNS, LEVELS, MAX_BUCKETS, ROWS, TimedProfile, find_step, timed_profile
from thpdiag.engine.stacks import Place
from thpdiag.model import Chains, Citation, Clock, Frame, Moment, Profile, Stacks, Task
from thpdiag.model import Rows as Columns
from thpdiag.model.profile import UNKNOWN

START = 1000.0  # seconds after boot
HIT, OTHER, IDLE = 0, 1, 2
Row = tuple[int, int, int]  # bin, chain, samples


def recording(rows: Iterable[Row], start: float = START) -> CompiledProfile:
    """A profile of single frames: `hit`, `other` and idling."""
    at, chain, samples = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    frames = (Frame("hit", kernel=True), Frame("other", kernel=True), Frame("default_idle", kernel=True))
    chains = Chains(np.arange(3, dtype=np.int32), np.arange(4, dtype=np.int64), np.ones(3, np.int64))
    nothing = np.zeros(len(at), np.int32)
    columns = Columns(
        chain.astype(np.int32), nothing, nothing, at.astype(np.int32), samples.astype(np.float64), samples
    )
    begin = Moment(start, Clock.BOOT)
    return CompiledProfile(
        Profile(
            "perf_script", "cycles", frames, chains, (Task("java", 1, 1),), columns, Stacks.FULL, Citation("p.txt"),
            has_time=True, start=begin,
        )
    )  # fmt: skip


def shares(of: Callable[[float], float], seconds: int = 60, per_bin: int = 20) -> list[Row]:
    """Rows in which `hit` has the share that `of` tells for each second, whole samples, 10 bins a second."""
    rows = []
    for at in range(0, seconds * 100, 10):
        hits = round(per_bin * of(at / 100))
        rows += [(at, HIT, hits), (at, OTHER, per_bin - hits)]
    return [row for row in rows if row[2]]


def signature(profile: CompiledProfile) -> ChainMatches:
    return profile.find(("=hit",), Place.SELF)


def over_time(profile: CompiledProfile) -> TimedProfile:
    found = timed_profile(profile)
    assert found is not None
    return found


def onset(rows: list[Row]) -> float | None:
    """Seconds from the start to the first bad moment."""
    found = over_time(recording(rows))
    step = found.first_step(found.share_series(found.rows_of(signature(found.profile))))
    return None if step is None else step.at.seconds - START


def test_a_step_up_is_found_where_it_is() -> None:
    """Twenty good seconds, then bad ones: the moment between them, on the recording's clock."""
    assert onset(shares(lambda t: 0.05 if t < 20 else 0.8)) == pytest.approx(20.0, abs=0.1)


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(lambda _: 0.0, id="never"),
        pytest.param(lambda _: 0.05, id="low all the time"),
        pytest.param(lambda _: 0.8, id="bad from the start"),
        pytest.param(lambda t: 0.8 if t >= 1 else 0.05, id="bad but for the first second"),
        pytest.param(lambda t: t / 60, id="gradual"),
        pytest.param(lambda t: 0.9 if 20 <= t < 21 else 0.05, id="one spike"),
        pytest.param(lambda t: 0.9 if 40 <= t < 46 else 0.0, id="a long spike"),
        pytest.param(lambda t: 0.9 if t >= 58.5 else 0.0, id="at the very end"),
        pytest.param(lambda t: 0.8 if t % 10 < 5 else 0.0, id="on and off"),
        pytest.param(lambda t: 0.3 if t < 20 else 0.6, id="bad before, worse later"),
        pytest.param(lambda t: 0.0 if t < 20 else 0.05, id="a small step"),
        pytest.param(lambda t: 0.8 if t < 20 else 0.05, id="a step down"),
    ],
)
def test_no_moment_where_there_is_no_step(of: Callable[[float], float]) -> None:
    """Bad from the start, never, slowly, for a moment, now and then: no moment is the first bad one."""
    assert onset(shares(of)) is None


def test_idle_before_is_not_good_before() -> None:
    """A host that did nothing before was not fast then: there is no good time to compare with."""
    idle = [(at, IDLE, 20) for at in range(0, 2000, 10)] + [(at, OTHER, 1) for at in range(0, 2000, 100)]
    assert onset([*idle, *(row for row in shares(lambda _: 0.8) if row[0] >= 2000)]) is None


def test_few_samples_make_no_step() -> None:
    """What so few samples show may be chance."""
    assert onset(shares(lambda t: 0.0 if t < 20 else 0.8, per_bin=1)) == pytest.approx(20.0, abs=1.0)
    thin = [row for row in shares(lambda t: 0.0 if t < 20 else 0.8, per_bin=1) if row[0] % 300 == 0]
    assert onset(thin) is None


def test_too_few_samples_are_unknown_and_not_zero() -> None:
    """A bucket in which next to nothing was sampled has no share."""
    rows = [row for row in shares(lambda _: 0.5) if not 2000 <= row[0] < 3000]
    found = over_time(recording([*rows, (2500, OTHER, 1)]))
    course = found.share_series(found.rows_of(signature(found.profile)))
    hole = [s for i, s in enumerate(course.shares) if 20.0 <= course.seconds(i) < 29.0]
    assert len(hole) > 5
    assert np.isnan(hole).all()
    assert np.nanmin(course.shares) == np.nanmax(course.shares) == 0.5


def test_shares_are_of_what_is_not_idle() -> None:
    """A CPU without work is in no denominator."""
    idle = [(at, IDLE, 1000) for at in range(0, 6000, 10)]
    found = over_time(recording([*shares(lambda _: 0.5), *idle]))
    assert set(found.share_series(found.rows_of(signature(found.profile))).shares) == {0.5}


def test_a_long_recording_has_no_more_buckets_than_the_document_may_hold() -> None:
    """Hours of samples end up in at most 1,500 buckets of whole 10 ms, and none is lost."""
    rows = [(at, HIT if at % 3 else OTHER, 40) for at in range(0, 4 * 3600 * 100, 97)]
    found = over_time(recording(rows))
    course = found.share_series(found.rows_of(signature(found.profile)))
    assert len(course) <= MAX_BUCKETS
    assert course.weight.sum() == found.profile.weight
    assert course.hit.sum() == sum(n for _, chain, n in rows if chain == HIT)


def test_a_texts_without_time_has_no_course() -> None:
    """Relative times and missing ones are no times."""
    profile = recording([(0, HIT, 10)]).profile
    assert timed_profile(CompiledProfile(replace(profile, has_time=False))) is None
    assert timed_profile(CompiledProfile(replace(profile, start=None))) is None
    assert timed_profile(recording([(UNKNOWN, HIT, 10)])) is None
    assert timed_profile(recording([(5, IDLE, 10)])) is None


def test_samples_without_a_time_are_left_out() -> None:
    """A sample whose time is damaged is in no bucket."""
    found = over_time(recording([*shares(lambda _: 0.5), (UNKNOWN, HIT, 100_000)]))
    assert set(found.share_series(found.rows_of(signature(found.profile))).shares) == {0.5}


def test_the_worst_second_is_a_whole_one_of_the_clock() -> None:
    """The second with most of the signature's weight, from the clock's own second on, and the share in it."""
    rows = [row for row in shares(lambda t: 0.8 if 30.5 <= t < 31.5 else 0.1) if row[2]]
    found = over_time(recording(rows, start=1000.5))
    worst = found.worst(found.rows_of(signature(found.profile)))
    assert worst is not None
    assert (worst.at, worst.seconds) == (Moment(1031.0, Clock.BOOT), 1)
    assert worst.share == pytest.approx(0.8)


def test_a_signature_that_is_nowhere_has_no_worst_second() -> None:
    """Nothing matched, nothing is named."""
    found = over_time(recording(shares(lambda _: 0.0)))
    assert found.worst(found.rows_of(signature(found.profile))) is None


def test_the_picture_shows_what_comes_back_within_each_second() -> None:
    """A burst in the same part of every second is one row; cells say how many samples they stand for at most."""
    rows = [(second * 100 + 50, HIT, 90) for second in range(10)] + [(second * 100, OTHER, 9) for second in range(10)]
    found = over_time(recording(rows))
    every = found.heat_map()
    assert (every.begin, every.seconds, every.level, every.cells.shape) == (1000, 1, 10, (10, ROWS))
    assert every.cells[:, 25].tolist() == [LEVELS] * 10
    assert every.cells[:, 0].tolist() == [1] * 10
    matched = found.heat_map(found.rows_of(signature(found.profile)), every.level)
    assert int(matched.cells.sum()) == 10 * LEVELS


def test_the_picture_of_a_long_recording_folds_seconds() -> None:
    """More than five minutes: several whole seconds in a column, and it says how many."""
    found = over_time(recording([(at, HIT, 1) for at in range(0, 1000 * 100, 10)]))
    picture = found.heat_map()
    assert picture.seconds == 4
    assert len(picture.cells) == 250 <= COLUMNS


def test_only_the_tasks_that_are_asked_for_count() -> None:
    """A signature of one command matches in no other."""
    found = over_time(recording(shares(lambda _: 0.5)))
    hidden = found.rows_of(signature(found.profile), np.zeros(1, np.bool_))
    assert not hidden.any()
    assert find_step(found.share_series(hidden)) is None
