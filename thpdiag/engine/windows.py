"""Candidate windows: stretches of time in which a rule may fire though it does not over the whole recording.

Candidates are the stretches in which a metric exceeds the bound of a rule, the time of each recording of call stacks,
and the time of each shorter recording. All rules are judged in each of them, on the data of that stretch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
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
from thpdiag.model import Clock, Event, Moment, Profile
from thpdiag.model.facts import ClockAnchor
from thpdiag.model.numeric import Floats, Ints, np

MAX_SHARE = 0.9  # of a recording: a longer stretch is practically the whole recording
MAX_OVERLAP = 0.8  # share of common time above which two stretches count as one
MAX_STRETCHES_PER_METRIC = 3
MAX_WINDOWS = 16  # of a state
FREE_BLOCKS = "node_buddyinfo_blocks_order9"
UNKNOWN_CODE: Final = 1  # codes of verdicts in `Expression.values`
YES_CODE: Final = 2
MIN_ROWS = 5  # of a recording that gets a window of its own
Bound = tuple[str, str, float, float]  # metric, level or rate, above, below


def candidate_windows(rules: Sequence[Rule], view: StateView) -> list[Stretch]:
    """Return the candidate windows of a state, worst first. Recordings that are short or have no times yield none."""
    rules = [rule for rule in rules if rule.file.role != "context"]  # context rules describe the whole recording
    stretches = [*_metric_stretches(rules, view), *_process_stretches(rules, view), *_condition_stretches(rules, view)]
    stretches += [*_profile_stretches(view), *_recording_stretches(view)]
    return _distinct(stretches, MAX_WINDOWS)


def _metric_stretches(rules: Iterable[Rule], view: StateView) -> Iterator[Stretch]:
    """The worst stretches of each host metric: first the worst of each, then the second worst, and so on."""
    bounds = dict.fromkeys(b for rule in rules for check in rule.checks.values() if (b := _bound_of_check(check)))
    ranked = [_worst_stretches(_stretches_of_bound(bound, view)) for bound in bounds]
    for rank in range(MAX_STRETCHES_PER_METRIC):
        yield from (stretches[rank] for stretches in ranked if rank < len(stretches))


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


def _shorter_stretches(track: Track, stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    """Yield the stretches that are shorter than MAX_SHARE of the recording."""
    duration = track.duration or 0.0
    yield from (s for s in stretches if s.seconds < MAX_SHARE * duration)


def _worst_stretches(stretches: Iterable[Stretch]) -> list[Stretch]:
    """The worst stretches, worst first. Stretches of several recordings of the same incident count once."""
    return _distinct(sorted(stretches, key=lambda s: (-s.excess, s.first, s.last)), MAX_STRETCHES_PER_METRIC)


def _distinct(stretches: Iterable[Stretch], limit: int) -> list[Stretch]:
    """The first `limit` stretches, without those that largely overlap an earlier one."""
    kept: list[Stretch] = []
    for stretch in stretches:
        if len(kept) < limit and all(stretch.overlap(other) < MAX_OVERLAP for other in kept):
            kept.append(stretch)
    return kept


def _process_stretches(rules: Iterable[Rule], view: StateView) -> Iterator[Stretch]:
    """The worst stretches of CPU use by a kernel thread or program that a rule names."""
    patterns = {
        (check.process.comm, parse_quantity(check.process.cpu_above))
        for rule in rules
        for check in rule.checks.values()
        if isinstance(check, ProcessCheck) and check.process.comm and check.process.cpu_above is not None
    }
    for comm, bound in sorted(patterns):
        tracks = cpu_use_over_time(view.catalogue, partial(_has_name, comm))
        yield from _worst_stretches(
            s for t, points in tracks for s in _shorter_stretches(t, stretches_beyond(points, bound, inf))
        )[:MAX_STRETCHES_PER_METRIC]


def _has_name(comm: str, track: Track) -> bool:
    return matches_name(comm, dict(track.table.entity).get("comm", ""))


def _condition_stretches(rules: Iterable[Rule], view: StateView) -> Iterator[Stretch]:
    """The longest stretches in which a condition over several metrics, or over the ratio of two, holds.

    Checks of the condition that are not about metrics keep the result of the whole recording. If the condition holds at
    no moment because of unknown results, the stretches are those in which it is not refuted. Stretches under a minute
    are left to `_metric_stretches`.
    """
    longest = max(
        (Track("", table, table.samples).duration or 0.0 for table in view.catalogue.host_tables()), default=0.0
    )
    for rule in rules if longest * MAX_SHARE > SHORT_SECONDS else ():
        indicators = {name: f for name, check in rule.checks.items() if (f := _indicator_of_check(check, view))}
        if len(indicators) < 2 and not any(isinstance(rule.checks[name], ChangeCheck) for name in indicators):
            continue
        track, grid = max(indicators.values(), key=lambda f: len(f[1]))
        verdicts = {
            name: _resample(points, grid.index)
            for name, (other, points) in indicators.items()
            if other.table.clock is track.table.clock
        }
        whole_verdicts = _whole_verdicts(rule, view)
        values = {name: verdicts.get(name, np.full(len(grid), whole_verdicts[name])) for name in rule.checks}
        for condition in dict.fromkeys((rule.when, *rule.confidence.values())):
            names = verdicts.keys() & {*rule.when.names(), *condition.names()}
            if len(names) > 1 or any(isinstance(rule.checks[name], ChangeCheck) for name in names):
                both = np.minimum(*(part.values(values.__getitem__) for part in (rule.when, condition)))
                holds = both == max(both.max(), UNKNOWN_CODE)
                if not holds.all():
                    stretches = stretches_beyond(replace(grid, values=holds.astype(float)), 0.5, inf)
                    long = (stretch for stretch in stretches if stretch.seconds >= SHORT_SECONDS)
                    yield from _worst_stretches(_shorter_stretches(track, long))


def _whole_verdicts(rule: Rule, view: StateView) -> dict[str, int]:
    """The verdict code of each check of a rule over the whole recording."""
    outcome = view.outcomes.get(rule.id)
    answers = cast("CheckResults", outcome.answers if outcome else {})
    decided = {name: YES_CODE * (a.value is YES) for name, a in answers.items() if a.value is not UNKNOWN}
    return {name: decided.get(name, UNKNOWN_CODE) for name in rule.checks}


def _indicator_of_check(check: object, view: StateView) -> tuple[Track, Points] | None:
    """An indicator series of a check of a host metric: 1 where it holds, 0 elsewhere, at each sample of its best
    source."""
    if isinstance(check, ChangeCheck) and isinstance(check.change.of, str) and isinstance(check.change.per, str):
        low, high = parse_quantity(check.change.above or 0), parse_quantity(check.change.below or inf)
        return _ratio_indicator(check.change.of, check.change.per, low, high, view)
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


def _ratio_indicator(of: str, per: str, low: float, high: float, view: StateView) -> tuple[Track, Points] | None:
    """An indicator series of the ratio of two counters of one source."""
    others = {id(track.table): track for track in view.catalogue.tracks(per)}
    for track in view.catalogue.tracks(of):
        other = others.get(id(track.table))
        top, bottom = rates.rates(track), rates.rates(other) if other is not None else None
        if top is not None and bottom is not None and np.array_equal(top.index, bottom.index):
            share = top.values / np.maximum(bottom.values, 1e-12)
            holds = (share > low) & (share < high)
            return track, replace(top, values=holds.astype(float))
    return None


def _resample(points: Points, seconds: Floats) -> Ints:
    """The verdict code at each of the given times: that of the sample at or after it, unknown after the last sample."""
    known = np.append(YES_CODE * points.values, UNKNOWN_CODE).astype(np.int64)
    return known[:-1] if points.index is seconds else known[np.searchsorted(points.index, seconds)]


def _profile_stretches(view: StateView) -> Iterator[Stretch]:
    """The time of each recording of call stacks, widened by a minute for sources with longer intervals."""
    anchors = view.case.anchors
    for profile in view.state.profiles:
        for first, last in spans(profile, anchors):
            yield Stretch(
                first.seconds - SHORT_SECONDS, last.seconds + SHORT_SECONDS, first.clock, member=profile.cite.member
            )


def spans(profile: Profile, anchors: Sequence[ClockAnchor]) -> Iterator[tuple[Moment, Moment]]:
    """Yield the first and last moment of a recording, on its own clock and on the clock that an anchor maps it to."""
    if profile.start and profile.end:
        yield profile.start, profile.end
        for anchor in anchors_of_profile(profile, anchors)[:1]:
            yield anchor.wall_time(profile.start), anchor.wall_time(profile.end)


def _recording_stretches(view: StateView) -> Iterator[Stretch]:
    """The time of each recording that is much shorter than the longest one."""
    stretches: dict[tuple[float, float, Clock], Stretch] = {}
    for table in view.catalogue.host_tables():
        rows = Track("", table, table.samples)
        if table.clock and len(rows) >= MIN_ROWS and (seconds := rows.duration) and seconds >= SHORT_SECONDS:
            first, last = rows.samples[0].time, rows.samples[-1].time
            if first and last:
                key = (first.seconds, last.seconds, table.clock)
                stretches.setdefault(key, Stretch(first.seconds - 1e-6, last.seconds, table.clock, member=table.member))
    longest = max((s.seconds for s in stretches.values()), default=0.0)
    selected = (s for s in stretches.values() if min_stretch_seconds(longest) <= s.seconds < MAX_SHARE * longest)
    yield from (s._replace(recorded_seconds=longest) for s in selected)


class WindowFilter(NamedTuple):
    """Tests whether data lies in a window, by its own clock or by the clock that an anchor maps it to."""

    stretch: Stretch
    anchors: Sequence[ClockAnchor]

    def has_profile(self, profile: Profile) -> bool:
        """Whether at least half of the recording is in the window."""
        for first, last in spans(profile, self.anchors):
            if first.clock is self.stretch.clock:
                shared = min(last.seconds, self.stretch.last) - max(first.seconds, self.stretch.first)
                return shared >= (last.seconds - first.seconds) / 2 and shared >= 0
        return False

    def has_event(self, event: Event) -> bool:
        """Whether the event is in the window, or may be because its time is unknown or on another clock."""
        time = event.time
        if time is None or time.clock is not self.stretch.clock:
            return True
        return self.stretch.first <= time.seconds <= self.stretch.last


def view_of_window(view: StateView, stretch: Stretch) -> StateView:
    """Return the view of a window. Settings and other data without a time remain."""
    if view.memo is not None and stretch in view.memo:
        cached: StateView = view.memo[stretch]
        return replace(cached, whole=view)
    window, catalogue = WindowFilter(stretch, view.case.anchors), StretchCatalogue(view.catalogue, stretch)
    rows = [*catalogue.rows("node_memory_MemTotal_bytes"), *catalogue.rows(FREE_BLOCKS)]
    state = replace(
        view.state,
        profiles=tuple(p for p in view.state.profiles if window.has_profile(p)),
        events=tuple(e for e in view.state.events if window.has_event(e)),
        facts=(
            # A fact computed from the last row of the recording is computed again from that of the window.
            *(f for f in view.state.facts if f.time is None or not f.name.startswith("memory.")),
            *memory_shares(rows),
            *zone_facts(rows),
        ),
    )
    case = replace(view.case, events=tuple(e for e in view.case.events if window.has_event(e)))
    memo: dict[object, Any] | None = None if view.memo is None else {}
    window_view = StateView(case, state, catalogue, others=view.others, whole=view, memo=memo)
    if view.memo is not None:
        view.memo[stretch] = window_view
    return window_view
