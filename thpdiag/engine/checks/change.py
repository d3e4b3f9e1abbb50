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

NO_COMMON = "have no common time"


class Deltas(NamedTuple):
    """The tracks of `of` and of `per`, cut to their common time, and the sums of their changes."""

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
        """The ratio, if what was rounded away made it smaller or larger."""
        off, other = _rounding_error(self.tops), _rounding_error(self.bottoms)
        bottoms = [self.bottom]
        if self.bottom is not None and other:
            bottoms = [max(self.bottom - other, 0.0), self.bottom + other]
        tops = {self.top - off, self.top + off}
        return [self.ratio(top, bottom) for top in tops for bottom in bottoms] if off or other else []


def judge(check: ChangeCheck, view: StateView) -> CheckResult:
    """Yes if the ratio of the deltas (or the delta alone) is within the bounds, over what both sources cover.

    Where the best sources have no common time, or too short a one, or leave it open, others are asked.
    """
    names = check.metrics
    of_metrics = [view.tracks(name) for name in names]
    if missing := [n for n, tracks in zip(names, of_metrics, strict=True) if not tracks]:
        return unknown_result(check, missing, f"not in the input: {', '.join(missing)}")
    refused: list[CheckResult] = []
    for tracks in tracks_side_by_side(of_metrics):
        deltas = _deltas(check, tracks)
        answer = _compare(check, deltas) if isinstance(deltas, Deltas) else deltas
        if answer.value is not UNKNOWN:
            return answer
        refused.append(answer)
    return refused[0]


def _deltas(check: ChangeCheck, tracks: Sequence[Track]) -> Deltas | CheckResult:
    """The changes over what all of the sources cover, or why that is none or too short."""
    change, names = check.change, check.metrics
    shared = _common(tracks)
    if isinstance(shared, str):
        text = f"the sources {shared}, so their changes cannot be compared"
        return unknown_result(check, names, text)
    count = len(as_list(change.of))
    tops, bottoms = shared[:count], shared[count:]
    top = _busiest(change, tops, _sum(tops, gauge_change if change.as_ == "growth" else climb))
    bottom = _sum(bottoms, gauge_change) if bottoms else None
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
    off, least = _rounding_error(deltas.tops), parse_quantity(change.at_least or 0)

    def growth_words() -> str:
        return _change_words(change, deltas)

    if change.at_least is not None and abs(top) + off < least:
        return CheckResult(check, NO, growth_words, track.cite(), top, unit, short_of="at_least")
    if change.at_least is not None and abs(top) - off < least and off:
        return unknown_result(check, metric, lambda: f"{growth_words()}, which may be rounding")
    if bottom is not None and _is_too_little(change, bottom):
        text = f"{format_quantity(bottom, '')} of the other is too little"
        return unknown_result(check, as_list(change.per), lambda: f"{growth_words()}; {text}")

    def comparison_words() -> str:
        return growth_words() + _other_words(change, bottom)

    figure = deltas.ratio(top, bottom)
    is_within = _is_within(change, figure)
    if any(_is_within(change, other) is not is_within for other in deltas.rounded_ratios()):
        return unknown_result(check, metric, lambda: f"{comparison_words()}, which may be rounding")
    if not is_within and _may_be_unseen(change, deltas):
        unseen = "it may have fallen and risen by more between the samples"
        return unknown_result(check, metric, lambda: f"{comparison_words()}; {unseen}")
    measured, window = figure if figure != float("inf") else top, track.points.span
    return CheckResult(check, YES if is_within else NO, comparison_words, track.cite(), measured, unit, window=window)


def _change_words(change: Change, deltas: Deltas) -> str:
    """By how much `of` changed, in what time, and where that stands."""
    tops, track = deltas.tops, deltas.tops[0]
    names = metric_words([t.metric for t in tops], track.name)
    amount = format_quantity(abs(deltas.top), _unit(track.metric))
    longer = _is_longer(change, tops)
    risen = "rose by" if change.as_ == "growth" else "rose by up to"
    verb = "rose by up to" if longer else direction_words(deltas.top, risen)
    time = f" over {len(track)} samples"
    if deltas.seconds:
        whole = format_quantity(deltas.seconds, "seconds")
        time = f" in {whole}"
        if longer and change.within is not None:
            time = f" in any {format_quantity(parse_quantity(change.within), 'seconds')} of {whole}"
    return f"{names} {verb} {amount}{time}{in_brackets([lines_of(track.points)])}{pace_words(tops)}"


def _other_words(change: Change, bottom: float | None) -> str:
    if bottom is None:
        return ""
    per = as_list(change.per)
    return f"; meanwhile, {metric_words(per)}: {format_quantity(bottom, _unit(per[0]))}"


def _is_longer(change: Change, tracks: Sequence[Track]) -> bool:
    """Whether the window is longer than the stretch that is asked about."""
    length = parse_quantity(change.within) if change.within is not None else math.inf
    return all(t.duration is not None and t.duration > length for t in tracks)


def _busiest(change: Change, tracks: Sequence[Track], whole: float | None) -> float | None:
    """The growth in the busiest stretch of a longer window: of samples further apart their mean; else `whole`."""
    if whole is None or change.within is None or not _is_longer(change, tracks):
        return whole
    length = parse_quantity(change.within)
    return min(whole, sum(max_rate(track, length) * length for track in tracks))


def _rounding_error(tracks: Sequence[Track]) -> float:
    """By how much rounding may have changed a sum of changes: two readings of each."""
    return sum(2 * track.resolution for track in tracks)


def _may_be_unseen(change: Change, deltas: Deltas) -> bool:
    """Whether a low or a high between samples, of which the other is the bound, would make too small a rise enough."""
    tops, bottoms, _, bottom = deltas
    if change.as_ != "climb" or change.above is None or bottom is None or len(tops) != 1 or len(bottoms) != 1:
        return False
    most = climb_upper_bound(tops[0], bottoms[0])
    return most is not None and _is_within(change, deltas.ratio(most, bottom))


def _is_too_little(change: Change, bottom: float) -> bool:
    """Whether the other changed too little to measure by; a counter at rest is a measure (growth without faults)."""
    if change.per_at_least is not None:
        return bottom < parse_quantity(change.per_at_least)
    known = term(as_list(change.per)[0])
    return bottom <= 0 and not (known and known.kind == "counter")


def _is_within(change: Change, figure: float) -> bool:
    if change.above is not None and not figure > parse_quantity(change.above):
        return False
    return change.below is None or figure < parse_quantity(change.below)


def tracks_side_by_side(of_metrics: Sequence[Sequence[Track]]) -> Iterator[list[Track]]:
    """A track of each metric, each of which has some: of the best source that has them all, else of the best for each,
    single samples last; then, of the same entities, of other sources and what is on one clock with them."""
    known = [sorted(tracks, key=lambda track: len(track) < 2) for tracks in of_metrics]
    best = next(_of_one_table(known), [tracks[0] for tracks in known])
    yield best
    own = [[t for t in tracks if t.table.key == one.table.key] for tracks, one in zip(known, best, strict=True)]
    seen = {tuple(map(id, best))}
    for choice in (*_of_one_table(own), [tracks[0] for tracks in own], *_on_one_clock(own)):
        if (key := tuple(map(id, choice))) not in seen and all(len(track) > 1 for track in choice):
            seen.add(key)
            yield choice


def _of_one_table(of_metrics: Sequence[Sequence[Track]]) -> Iterator[list[Track]]:
    for first in of_metrics[0]:
        same = (next((t for t in tracks if t.table is first.table and len(t) > 1), None) for tracks in of_metrics)
        found = [t for t in same if t is not None]
        if len(found) == len(of_metrics):
            yield found


def _on_one_clock(of_metrics: Sequence[Sequence[Track]]) -> Iterator[list[Track]]:
    for first in of_metrics[0]:
        same = [next((t for t in tracks if t.table.clock is first.table.clock), None) for tracks in of_metrics[1:]]
        found = [first, *(t for t in same if t is not None)]
        if len(found) == len(of_metrics):
            yield found


def is_beside(tracks: Sequence[Track]) -> bool:
    """Whether all have the same rows: they are of one table, or of entities that were looked at together."""
    rows = {(track.table.member, track.table.clock, len(track)) for track in tracks}
    return len(rows) == 1 or all(track.table is tracks[0].table for track in tracks)


def _common(tracks: Sequence[Track]) -> list[Track] | str:
    """The tracks cut to the time that all cover, or why they cannot be.

    Tracks of one table need no clock; others need the same one, and one that is known much better than for how long
    they overlap.
    """
    if is_beside(tracks):
        return list(tracks)
    clocks = {t.table.clock for t in tracks}
    of_one = any(clock and clock.is_of_one_member for clock in clocks)  # of which day, or session, nobody knows
    undated = of_one and len({t.table.member for t in tracks}) > 1
    if len(clocks) != 1 or None in clocks or undated:
        return NO_COMMON
    spans = [(t.samples[0].time, t.samples[-1].time) for t in tracks]
    start = max(first.seconds for first, _ in spans if first)
    end = min(last.seconds for _, last in spans if last)
    off = sum(sorted(t.table.clock_error for t in tracks)[-2:])
    if off > MAX_CLOCK_ERROR * (end - start) and end + off > start:
        return f"may overlap, but their clocks may be {format_quantity(off, 'seconds')} apart"
    slack = 0.02 * (end - start) + 1.0 + off  # samples of one round are taken one after the other
    cut = [t.within(start - slack, end + slack) for t in tracks]
    return cut if all(len(t) > 1 for t in cut) else NO_COMMON


def _sum(tracks: Sequence[Track], measure: Callable[[Track], float | None]) -> float | None:
    parts = []
    for track in tracks:
        known = term(track.metric)
        parts.append(growth(track) if known and known.kind == "counter" else measure(track))
    return None if any(p is None for p in parts) else sum(p for p in parts if p is not None)


def _unit(name: str) -> str:
    known = term(name)
    return known.unit if known else ""
