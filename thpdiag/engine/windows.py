"""The stretches of time in which a rule may hold though it does not hold over the whole recording.

Candidates are where a figure that some rule asks about was beyond the rule's own bound, the time of each recording of
call stacks, and that of each shorter recording. All rules are judged in each of them, on what was recorded then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Any, Final, NamedTuple, cast

from thpdiag.engine.check_result import UNKNOWN, YES, CheckResults
from thpdiag.engine.checks.process import matches_name
from thpdiag.engine.load import Rule
from thpdiag.engine.quantity import parse_quantity
from thpdiag.engine.schema import ChangeCheck, ProcessCheck, SeriesCheck
from thpdiag.engine.state_view import StateView
from thpdiag.host import rates
from thpdiag.host.catalogue import StretchCatalogue
from thpdiag.host.clock.anchors import anchors_of_profile
from thpdiag.host.cpu_use import cpu_use_over_time
from thpdiag.host.memory import memory_shares, zone_facts
from thpdiag.host.series import SHORT_SECONDS, Points, Stretch, Track, min_stretch_seconds, stretches_beyond
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Clock, Event, Fact, Moment, Profile
from thpdiag.model.facts import ClockAnchor
from thpdiag.model.numeric import Floats, Ints, np

WHOLE = 0.9  # of a recording: a stretch that is as long needs no look of its own
SAME = 0.8  # of two stretches' time that they share: one of them will do
WORST = 3  # stretches of one figure
MOST = 16  # of a state
FREE_BLOCKS = "node_buddyinfo_blocks_order9"
UNKNOWN_THEN: Final = 1  # of `Expression.values`
YES_THEN: Final = 2
FEWEST = 5  # rows of a recording that has a window of its own
Bound = tuple[str, str, float, float]  # metric, level or rate, above, below


def candidate_windows(rules: Sequence[Rule], view: StateView) -> list[Stretch]:
    """The candidates of a state, the worst first; none if its recordings are short or have no times."""
    able = [
        rule for rule in rules if rule.file.role != "context"
    ]  # what surrounds a cause has no worst time of its own
    found = [*_of_figures(able, view), *_of_processes(able, view), *_of_conditions(able, view)]
    found += [*_of_profiles(view), *_of_recordings(view)]
    return _distinct(found, MOST)


def _of_figures(rules: Iterable[Rule], view: StateView) -> Iterator[Stretch]:
    """The worst stretches of each figure of the host: the very worst of all first."""
    bounds = dict.fromkeys(b for rule in rules for check in rule.checks.values() if (b := _bound_of_check(check)))
    ranked = [_worst_stretches(_stretches_of_bound(bound, view)) for bound in bounds]
    for place in range(WORST):
        yield from (one[place] for one in ranked if place < len(one))


def _bound_of_check(check: object) -> Bound | None:
    if not isinstance(check, SeriesCheck) or check.as_ not in ("level", "rate") or check.above is None:
        return None
    known = term(check.series)
    if known is None or known.entity != "system":
        return None
    below = parse_quantity(check.below) if check.below is not None else inf
    return (check.series, check.as_, parse_quantity(check.above), below)


def _stretches_of_bound(bound: Bound, view: StateView) -> Iterator[Stretch]:
    metric, as_, low, high = bound
    for track in view.catalogue.tracks(metric):
        points = track.points if as_ == "level" or metric.endswith(":rate") else rates.rates(track)
        if points is not None and len(track) > 1 and track.has_times:
            yield from _shorter_stretches(track, stretches_beyond(points, low, high))


def _shorter_stretches(track: Track, found: Iterable[Stretch]) -> Iterator[Stretch]:
    """Those that are not nearly all of the recording."""
    whole = track.duration or 0.0
    yield from (one for one in found if one.seconds < WHOLE * whole)


def _worst_stretches(found: Iterable[Stretch]) -> list[Stretch]:
    """The worst first; what several recordings saw of one storm is one stretch."""
    return _distinct(sorted(found, key=lambda one: (-one.excess, one.first, one.last)), WORST)


def _distinct(found: Iterable[Stretch], most: int) -> list[Stretch]:
    """The first of them that share little time with one another."""
    kept: list[Stretch] = []
    for one in found:
        if len(kept) < most and all(one.overlap(other) < SAME for other in kept):
            kept.append(one)
    return kept


def _of_processes(rules: Iterable[Rule], view: StateView) -> Iterator[Stretch]:
    """The worst stretches of a kernel thread's or program's use of the CPU."""
    wanted = {
        (check.process.comm, parse_quantity(check.process.cpu_above))
        for rule in rules
        for check in rule.checks.values()
        if isinstance(check, ProcessCheck) and check.process.comm and check.process.cpu_above is not None
    }
    for comm, bound in sorted(wanted):
        own = cpu_use_over_time(view.catalogue, _name_filter(comm))
        yield from _worst_stretches(
            s for t, points in own for s in _shorter_stretches(t, stretches_beyond(points, bound, inf))
        )[:WORST]


def _name_filter(comm: str) -> Callable[[Track], bool]:
    return lambda track: matches_name(comm, dict(track.table.entity).get("comm", ""))


def _of_conditions(rules: Iterable[Rule], view: StateView) -> Iterator[Stretch]:
    """The longest stretches in which conditions hold that are about several figures, or about one beside another.

    What a condition asks beside figures has the answer of the whole recording. Where it holds at no moment, since that
    is unknown, the stretches are those in which it is not refuted. What is shorter than a minute is a burst: its worst
    figures tell enough.
    """
    longest = max(
        (Track("", table, table.samples).duration or 0.0 for table in view.catalogue.host_tables()), default=0.0
    )
    for rule in rules if longest * WHOLE > SHORT_SECONDS else ():
        figures = {name: figure for name, check in rule.checks.items() if (figure := _figure_of_check(check, view))}
        if len(figures) < 2 and not any(isinstance(rule.checks[name], ChangeCheck) for name in figures):
            continue
        track, grid = max(figures.values(), key=lambda figure: len(figure[1]))
        held = {
            name: _at_moments(points, grid.index)
            for name, (other, points) in figures.items()
            if other.table.clock is track.table.clock
        }
        whole = _values_of_the_whole(rule, view)
        values = {name: held.get(name, np.full(len(grid), whole[name])) for name in rule.checks}
        for condition in dict.fromkeys((rule.when, *rule.confidence.values())):
            names = held.keys() & {*rule.when.names(), *condition.names()}
            if len(names) > 1 or any(isinstance(rule.checks[name], ChangeCheck) for name in names):
                both = np.minimum(*(one.values(values.__getitem__) for one in (rule.when, condition)))
                holds = both == max(both.max(), UNKNOWN_THEN)
                if not holds.all():
                    found = stretches_beyond(replace(grid, values=holds.astype(float)), 0.5, inf)
                    long = (one for one in found if one.seconds >= SHORT_SECONDS)
                    yield from _worst_stretches(_shorter_stretches(track, long))


def _values_of_the_whole(rule: Rule, view: StateView) -> dict[str, int]:
    """What each check says of all that was recorded."""
    outcome = view.outcomes.get(rule.id)
    answers = cast("CheckResults", outcome.answers if outcome else {})
    decided = {name: YES_THEN * (a.value is YES) for name, a in answers.items() if a.value is not UNKNOWN}
    return {name: decided.get(name, UNKNOWN_THEN) for name in rule.checks}


def _figure_of_check(check: object, view: StateView) -> tuple[Track, Points] | None:
    """When a check about a figure of the host holds, 1 or 0 at each moment of its best source."""
    if isinstance(check, ChangeCheck) and isinstance(check.change.of, str) and isinstance(check.change.per, str):
        low, high = parse_quantity(check.change.above or 0), parse_quantity(check.change.below or inf)
        return _ratio_over_time(check.change.of, check.change.per, low, high, view)
    if not isinstance(check, SeriesCheck) or check.as_ not in ("level", "rate", "mean") or check.above is check.below:
        return None
    known, low, high = term(check.series), parse_quantity(check.above or 0), parse_quantity(check.below or inf)
    if known is None or known.entity != "system":
        return None
    for track in view.catalogue.tracks(check.series):
        points = rates.rates(track) if check.as_ == "rate" and not check.series.endswith(":rate") else track.points
        if points is not None and len(track) > 1 and track.has_times:
            return track, replace(points, values=((points.values > low) & (points.values < high)).astype(float))
    return None


def _ratio_over_time(of: str, per: str, low: float, high: float, view: StateView) -> tuple[Track, Points] | None:
    """The same of a counter that grows beside another one of the same source."""
    others = {id(track.table): track for track in view.catalogue.tracks(per)}
    for track in view.catalogue.tracks(of):
        other = others.get(id(track.table))
        top, bottom = rates.rates(track), rates.rates(other) if other is not None else None
        if top is not None and bottom is not None and np.array_equal(top.index, bottom.index):
            share = top.values / np.maximum(bottom.values, 1e-12)
            holds = (share > low) & (share < high)
            return track, replace(top, values=holds.astype(float))
    return None


def _at_moments(points: Points, seconds: Floats) -> Ints:
    """Of each moment the value that speaks of the time before it; unknown behind the last one."""
    known = np.append(YES_THEN * points.values, UNKNOWN_THEN).astype(np.int64)
    return known[:-1] if points.index is seconds else known[np.searchsorted(points.index, seconds)]


def _of_profiles(view: StateView) -> Iterator[Stretch]:
    """The time of each recording of call stacks, with a minute around it for those who count more seldom."""
    known = view.case.anchors
    for profile in view.state.profiles:
        for first, last in spans(profile, known):
            yield Stretch(
                first.seconds - SHORT_SECONDS, last.seconds + SHORT_SECONDS, first.clock, member=profile.cite.member
            )


def spans(profile: Profile, known: Sequence[ClockAnchor]) -> Iterator[tuple[Moment, Moment]]:
    """First and last moment of a recording on its own clock, and on those that something joins to it."""
    if profile.start and profile.end:
        yield profile.start, profile.end
        for join in anchors_of_profile(profile, known)[:1]:
            yield join.wall_time(profile.start), join.wall_time(profile.end)


def _of_recordings(view: StateView) -> Iterator[Stretch]:
    """The time of each recording that is much shorter than the longest one."""
    found: dict[tuple[float, float, Clock], Stretch] = {}
    for table in view.catalogue.host_tables():
        rows = Track("", table, table.samples)
        if table.clock and len(rows) >= FEWEST and (seconds := rows.duration) and seconds >= SHORT_SECONDS:
            first, last = rows.samples[0].time, rows.samples[-1].time
            if first and last:
                key = (first.seconds, last.seconds, table.clock)
                found.setdefault(key, Stretch(first.seconds - 1e-6, last.seconds, table.clock, member=table.member))
    longest = max((one.seconds for one in found.values()), default=0.0)
    worth = (one for one in found.values() if min_stretch_seconds(longest) <= one.seconds < WHOLE * longest)
    yield from (one._replace(recorded_seconds=longest) for one in worth)


class WindowFilter(NamedTuple):
    """Whether something was seen within a stretch: by its own clock, or by what joins that to the stretch's."""

    stretch: Stretch
    known: Sequence[ClockAnchor]

    def profile(self, profile: Profile) -> bool:
        """Most of it."""
        for first, last in spans(profile, self.known):
            if first.clock is self.stretch.clock:
                shared = min(last.seconds, self.stretch.last) - max(first.seconds, self.stretch.first)
                return shared >= (last.seconds - first.seconds) / 2 and shared >= 0
        return False

    def event(self, event: Event) -> bool:
        """Or perhaps."""
        time = event.time
        if time is None or time.clock is not self.stretch.clock:
            return True
        return self.stretch.first <= time.seconds <= self.stretch.last


def view_of_window(view: StateView, stretch: Stretch) -> StateView:
    """What was recorded in a stretch. Settings and what else holds for the state stay."""
    if view.memo is not None and stretch in view.memo:
        known: StateView = view.memo[stretch]
        return replace(known, whole=view)
    seen, catalogue = WindowFilter(stretch, view.case.anchors), StretchCatalogue(view.catalogue, stretch)
    rows = [*catalogue.rows("node_memory_MemTotal_bytes"), *catalogue.rows(FREE_BLOCKS)]
    state = replace(
        view.state,
        profiles=tuple(p for p in view.state.profiles if seen.profile(p)),
        events=tuple(e for e in view.state.events if seen.event(e)),
        facts=(
            *(f for f in view.state.facts if not _of_a_moment(f)),
            *memory_shares(rows),
            *zone_facts(rows),
        ),
    )
    case = replace(view.case, events=tuple(e for e in view.case.events if seen.event(e)))
    memo: dict[object, Any] | None = None if view.memo is None else {}
    window = StateView(case, state, catalogue, others=view.others, whole=view, memo=memo)
    if view.memo is not None:
        view.memo[stretch] = window
    return window


def _of_a_moment(fact: Fact) -> bool:
    """Whether it was computed from the last row of a recording: a stretch has a last row of its own."""
    return fact.time is not None and fact.name.startswith("memory.")
