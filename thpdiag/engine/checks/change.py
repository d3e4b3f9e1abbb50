"""`change`: one delta per another over the same window, such as failures per stall or resident bytes per page fault."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from thpdiag.engine.check_result import NO, UNKNOWN, YES, CheckResult, unknown_result
from thpdiag.engine.checks.series import direction_words, in_brackets, lines_of, pace_words
from thpdiag.engine.quantity import format_quantity, parse_quantity
from thpdiag.engine.schema import Change, ChangeCheck, as_list
from thpdiag.engine.state_view import StateView
from thpdiag.engine.wording import metric_words
from thpdiag.host.rates import change as gauge_change
from thpdiag.host.rates import climb, climb_upper_bound, growth, max_rate
from thpdiag.host.series import MAX_CLOCK_ERROR, Track
from thpdiag.knowledge.vocabulary import term

NO_COMMON_TIME = "have no common time"


class Deltas(NamedTuple):
    """The tracks of `of` (tops) and of `per` (bottoms), cut to their common time, and the sums of their changes."""

    tops: Sequence[Track]
    bottoms: Sequence[Track]
    top: float
    bottom: float | None

    @property
    def seconds(self) -> float | None:
        return self.tops[0].duration

    def ratio(self, top: float, bottom: float | None) -> float:
        if bottom is None:
            return top
        return top / bottom if bottom else (float("inf") if top > 0 else 0.0)

    def rounded_ratios(self) -> list[float]:
        """The extreme ratios that rounding of the values allows."""
        top_error, bottom_error = _rounding_error(self.tops), _rounding_error(self.bottoms)
        bottoms = [self.bottom]
        if self.bottom is not None and bottom_error:
            bottoms = [max(self.bottom - bottom_error, 0.0), self.bottom + bottom_error]
        tops = {self.top - top_error, self.top + top_error}
        return [self.ratio(top, bottom) for top in tops for bottom in bottoms] if top_error or bottom_error else []


def judge(check: ChangeCheck, view: StateView) -> CheckResult:
    """Yes if the ratio of the deltas (or the delta alone) is within the bounds over the common time of the sources.
    If the best sources have no common time, too short a one, or cannot decide, other sources are tried."""
    names = check.metrics
    metric_tracks = [view.tracks(name) for name in names]
    if missing := [n for n, tracks in zip(names, metric_tracks, strict=True) if not tracks]:
        return unknown_result(check, missing, f"not in the input: {', '.join(missing)}")
    undecided: list[CheckResult] = []
    for tracks in track_combinations(metric_tracks):
        deltas = _deltas(check, tracks)
        result = _compare(check, deltas) if isinstance(deltas, Deltas) else deltas
        if result.value is not UNKNOWN:
            return result
        undecided.append(result)
    return undecided[0]


def _deltas(check: ChangeCheck, tracks: Sequence[Track]) -> Deltas | CheckResult:
    """The changes over the common time of the sources, or the unknown result that states why there is none."""
    change, names = check.change, check.metrics
    common = _common_time(tracks)
    if isinstance(common, str):
        text = f"the sources {common}, so their changes cannot be compared"
        return unknown_result(check, names, text)
    count = len(as_list(change.of))
    tops, bottoms = common[:count], common[count:]
    top = _max_change(change, tops, _sum_changes(tops, gauge_change if change.as_ == "growth" else climb))
    bottom = _sum_changes(bottoms, gauge_change) if bottoms else None
    if top is None or (bottoms and bottom is None):
        return unknown_result(check, names, "fewer than two samples of it")
    deltas = Deltas(tops, bottoms, top, bottom)
    if change.over is not None and (deltas.seconds is None or deltas.seconds < parse_quantity(change.over)):
        span = format_quantity(deltas.seconds, "seconds") if deltas.seconds else "an unknown time"
        return unknown_result(check, tops[0].metric, f"the samples span {span}, {change.over} are needed")
    return deltas


def _compare(check: ChangeCheck, deltas: Deltas) -> CheckResult:
    change, track, top, bottom = check.change, deltas.tops[0], deltas.top, deltas.bottom
    metric, unit = track.metric, _unit(track.metric)
    error, minimum = _rounding_error(deltas.tops), parse_quantity(change.at_least or 0)

    def growth_words() -> str:
        return _of_words(change, deltas)

    if change.at_least is not None and abs(top) + error < minimum:
        return CheckResult(check, NO, growth_words, track.cite(), top, unit, short_of="at_least")
    if change.at_least is not None and abs(top) - error < minimum and error:
        return unknown_result(check, metric, lambda: f"{growth_words()}, which may be rounding")
    if bottom is not None and _is_too_small(change, bottom):
        text = f"{format_quantity(bottom, '')} of the other is too little"
        return unknown_result(check, as_list(change.per), lambda: f"{growth_words()}; {text}")

    def comparison_words() -> str:
        return growth_words() + _per_words(change, bottom)

    figure = deltas.ratio(top, bottom)
    is_within = _is_within(change, figure)
    if any(_is_within(change, other) is not is_within for other in deltas.rounded_ratios()):
        return unknown_result(check, metric, lambda: f"{comparison_words()}, which may be rounding")
    if not is_within and _may_miss_extremes(change, deltas):
        unseen = "it may have fallen and risen by more between the samples"
        return unknown_result(check, metric, lambda: f"{comparison_words()}; {unseen}")
    measured, window = figure if figure != float("inf") else top, track.points.span
    return CheckResult(check, YES if is_within else NO, comparison_words, track.cite(), measured, unit, window=window)


def _of_words(change: Change, deltas: Deltas) -> str:
    tops, track = deltas.tops, deltas.tops[0]
    names = metric_words([t.metric for t in tops], track.name)
    amount = format_quantity(abs(deltas.top), _unit(track.metric))
    is_longer = _is_longer(change, tops)
    rising_verb = "rose by" if change.as_ == "growth" else "rose by up to"
    verb = "rose by up to" if is_longer else direction_words(deltas.top, rising_verb)
    time = f" over {len(track)} samples"
    if deltas.seconds:
        duration = format_quantity(deltas.seconds, "seconds")
        time = f" in {duration}"
        if is_longer and change.within is not None:
            time = f" in any {format_quantity(parse_quantity(change.within), 'seconds')} of {duration}"
    return f"{names} {verb} {amount}{time}{in_brackets([lines_of(track.points)])}{pace_words(tops)}"


def _per_words(change: Change, bottom: float | None) -> str:
    if bottom is None:
        return ""
    per = as_list(change.per)
    return f"; meanwhile, {metric_words(per)}: {format_quantity(bottom, _unit(per[0]))}"


def _is_longer(change: Change, tracks: Sequence[Track]) -> bool:
    length = parse_quantity(change.within) if change.within is not None else math.inf
    return all(t.duration is not None and t.duration > length for t in tracks)


def _max_change(change: Change, tracks: Sequence[Track], total_change: float | None) -> float | None:
    """The largest growth within any stretch of length `within`, or `whole` if the window is not longer. If the
    samples are further apart than `within`, the mean rate counts."""
    if total_change is None or change.within is None or not _is_longer(change, tracks):
        return total_change
    length = parse_quantity(change.within)
    return min(total_change, sum(max_rate(track, length) * length for track in tracks))


def _rounding_error(tracks: Sequence[Track]) -> float:
    """The error that rounding may cause in a sum of changes: two readings of each track."""
    return sum(2 * track.resolution for track in tracks)


def _may_miss_extremes(change: Change, deltas: Deltas) -> bool:
    """Whether unseen lows or highs between the samples, as bounded by the other metric, may make the rise large
    enough."""
    tops, bottoms, _, bottom = deltas
    if change.as_ != "climb" or change.above is None or bottom is None or len(tops) != 1 or len(bottoms) != 1:
        return False
    max_climb = climb_upper_bound(tops[0], bottoms[0])
    return max_climb is not None and _is_within(change, deltas.ratio(max_climb, bottom))


def _is_too_small(change: Change, bottom: float) -> bool:
    """Whether `per` changed too little for a ratio. A counter that stands still is allowed (growth without faults)."""
    if change.per_at_least is not None:
        return bottom < parse_quantity(change.per_at_least)
    known = term(as_list(change.per)[0])
    return bottom <= 0 and not (known and known.kind == "counter")


def _is_within(change: Change, figure: float) -> bool:
    if change.above is not None and not figure > parse_quantity(change.above):
        return False
    return change.below is None or figure < parse_quantity(change.below)


def track_combinations(metric_tracks: Sequence[Sequence[Track]]) -> Iterator[list[Track]]:
    """Yield combinations of one track per metric, the best first.

    First comes the best source that has all metrics, or else the best source of each; single samples come last. Then
    follow, for the same entities, other sources and tracks on one clock.
    """
    ranked = [sorted(tracks, key=lambda track: len(track) < 2) for tracks in metric_tracks]
    best = next(_same_table_tracks(ranked), [tracks[0] for tracks in ranked])
    yield best
    related = [[t for t in tracks if t.table.key == one.table.key] for tracks, one in zip(ranked, best, strict=True)]
    seen = {tuple(map(id, best))}
    best_of_entity = [tracks[0] for tracks in related]
    for combination in (*_same_table_tracks(related), best_of_entity, *_same_clock_tracks(related)):
        if (key := tuple(map(id, combination))) not in seen and all(len(track) > 1 for track in combination):
            seen.add(key)
            yield combination


def _same_table_tracks(metric_tracks: Sequence[Sequence[Track]]) -> Iterator[list[Track]]:
    for first in metric_tracks[0]:
        same = (next((t for t in tracks if t.table is first.table and len(t) > 1), None) for tracks in metric_tracks)
        combination = [t for t in same if t is not None]
        if len(combination) == len(metric_tracks):
            yield combination


def _same_clock_tracks(metric_tracks: Sequence[Sequence[Track]]) -> Iterator[list[Track]]:
    for first in metric_tracks[0]:
        same = (next((t for t in tracks if t.table.clock is first.table.clock), None) for tracks in metric_tracks[1:])
        combination = [first, *(t for t in same if t is not None)]
        if len(combination) == len(metric_tracks):
            yield combination


def have_same_rows(tracks: Sequence[Track]) -> bool:
    """Whether all tracks have the same rows: they are of one table, or of entities that were sampled together."""
    rows = {(track.table.member, track.table.clock, len(track)) for track in tracks}
    return len(rows) == 1 or all(track.table is tracks[0].table for track in tracks)


def _common_time(tracks: Sequence[Track]) -> list[Track] | str:
    """The tracks cut to the time that all cover, or the reason why they cannot be compared. Tracks of one table need
    no clock. Others need the same clock, with an error much smaller than their overlap."""
    if have_same_rows(tracks):
        return list(tracks)
    clocks = {t.table.clock for t in tracks}
    is_relative = any(clock and clock.is_of_one_member for clock in clocks)  # the day or the session is unknown
    undated = is_relative and len({t.table.member for t in tracks}) > 1
    if len(clocks) != 1 or None in clocks or undated:
        return NO_COMMON_TIME
    spans = [(t.samples[0].time, t.samples[-1].time) for t in tracks]
    start = max(first.seconds for first, _ in spans if first)
    end = min(last.seconds for _, last in spans if last)
    error = sum(sorted(t.table.clock_error for t in tracks)[-2:])
    if error > MAX_CLOCK_ERROR * (end - start) and end + error > start:
        return f"may overlap, but their clocks may be {format_quantity(error, 'seconds')} apart"
    slack = 0.02 * (end - start) + 1.0 + error  # the samples of one round are not taken at exactly the same time
    cut = [t.within(start - slack, end + slack) for t in tracks]
    return cut if all(len(t) > 1 for t in cut) else NO_COMMON_TIME


def _sum_changes(tracks: Sequence[Track], measure: Callable[[Track], float | None]) -> float | None:
    parts = []
    for track in tracks:
        known = term(track.metric)
        parts.append(growth(track) if known and known.kind == "counter" else measure(track))
    return None if any(p is None for p in parts) else sum(p for p in parts if p is not None)


def _unit(name: str) -> str:
    known = term(name)
    return known.unit if known else ""
