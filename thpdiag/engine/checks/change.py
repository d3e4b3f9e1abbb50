"""`change`: one delta per another over the same window, such as failures per stall or resident bytes per page fault."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from thpdiag.derive.rates import change as gauge_change
from thpdiag.derive.rates import climb, climb_at_most, fastest, growth
from thpdiag.derive.series import SURE, Track
from thpdiag.engine.checks.series import bracketed, lines_of, moved
from thpdiag.engine.classes import of_metric
from thpdiag.engine.judged import NO, YES, Judged, Scene, unknown
from thpdiag.engine.quantity import quantity, shown
from thpdiag.engine.schema import Change, listed
from thpdiag.engine.wording import spelled
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Clock

NO_COMMON = "have no common time"
MEASURES: dict[str, Callable[[Track], float | None]] = {"growth": gauge_change, "climb": climb}
RISEN = {"growth": "rose by", "climb": "rose by up to"}
NOUNS = {"growth": "change", "climb": "rise"}


def judge(check: Change, scene: Scene) -> Judged:
    """Yes if the ratio of the deltas (or the delta alone) is within the bounds, over what both sources cover."""
    of, per = listed(check.of), listed(check.per)
    needed, kind = _needed(check), _kind(of)
    names = (*of, *per)
    found = _tracks(names, scene)
    if missing := [n for n, t in zip(names, found, strict=True) if t is None]:
        return unknown(missing, f"not in the input: {', '.join(missing)}", needed=needed, kind=kind)
    shared = _common([t for t in found if t])
    if isinstance(shared, str):
        text = f"the sources {shared}, so their changes cannot be set against each other"
        return unknown((*of, *per), text, needed=needed, kind=kind)
    tops, bottoms = shared[: len(of)], shared[len(of) :]
    top, bottom = _busiest(check, tops, _sum(tops, MEASURES[check.as_])), _sum(bottoms) if per else None
    if top is None or (per and bottom is None):
        return unknown((*of, *per), "fewer than two samples of it", needed=needed, kind=kind)
    return _compare(check, (tops, bottoms), top, bottom, needed, kind)


def _stretches(check: Change, tracks: Sequence[Track]) -> bool:
    """Whether the window is longer than the stretch that is asked about."""
    length = quantity(check.within) if check.within is not None else math.inf
    return all(t.duration is not None and t.duration > length for t in tracks)


def _busiest(check: Change, tracks: Sequence[Track], whole: float | None) -> float | None:
    """The growth in the busiest stretch of a longer window: of samples further apart their mean; else `whole`."""
    if whole is None or check.within is None or not _stretches(check, tracks):
        return whole
    length = quantity(check.within)
    return min(whole, sum(fastest(track, length) * length for track in tracks))


def _moved(check: Change, tracks: Sequence[Track], top: float) -> str:
    return "rose by up to" if _stretches(check, tracks) else moved(top, RISEN[check.as_])


def _in_which_time(check: Change, tracks: Sequence[Track]) -> str:
    seconds = tracks[0].duration
    if not seconds:
        return f" over {len(tracks[0])} samples"
    whole = shown(seconds, "seconds")
    stretch = shown(quantity(check.within), "seconds") if check.within is not None else ""
    return f" in any {stretch} of {whole}" if _stretches(check, tracks) else f" in {whole}"


def _off(tracks: Sequence[Track]) -> float:
    """By how much rounding may have changed a sum of changes: two readings of each."""
    return sum(2 * track.resolution for track in tracks)


def _ratio(top: float, bottom: float | None) -> float:
    if bottom is None:
        return top
    return top / bottom if bottom else (float("inf") if top > 0 else 0.0)


def _perhaps(top: float, off: float, bottom: float | None, other: float) -> list[float]:
    """The ratio, if what was rounded away made it smaller or larger."""
    bottoms = [bottom] if bottom is None or not other else [max(bottom - other, 0.0), bottom + other]
    return [_ratio(t, b) for t in {top - off, top + off} for b in bottoms] if off or other else []


def _compare(
    check: Change, shared: tuple[Sequence[Track], Sequence[Track]], top: float, bottom: float | None,
    needed: str, kind: str,
) -> Judged:  # fmt: skip
    tops, bottoms = shared
    track, unit = tops[0], _unit(tops[0].metric)
    seconds = track.duration
    if check.over is not None and (seconds is None or seconds < quantity(check.over)):
        text = (
            f"the samples span {shown(seconds, 'seconds') if seconds else 'an unknown time'}, {check.over} are needed"
        )
        return unknown(track.metric, text, needed=needed, kind=kind)
    said = f"{spelled([t.metric for t in tops], track.name)} {_moved(check, tops, top)} {shown(abs(top), unit)}"
    said += _in_which_time(check, tops) + bracketed([lines_of(track.points)])
    off = _off(tops)
    if check.at_least is not None and abs(top) + off < quantity(check.at_least):
        return Judged(NO, said, needed, kind, track.cite(), top, unit, short_of="at_least")
    if check.at_least is not None and abs(top) - off < quantity(check.at_least) and off:
        return unknown(track.metric, f"{said}, which may be rounding", needed=needed, kind=kind)
    if bottom is not None and _too_little(check, bottom):
        return unknown(
            listed(check.per), f"{said}; {shown(bottom, '')} of the other is too little", needed=needed, kind=kind
        )
    figure = _ratio(top, bottom)
    value = _within(check, figure)
    if bottom is not None:
        said += f"; in this time {spelled(listed(check.per))}: {shown(bottom, _unit(listed(check.per)[0]))}"
    if any(_within(check, other) is not value for other in _perhaps(top, off, bottom, _off(bottoms))):
        return unknown(track.metric, f"{said}, which may be rounding", needed=needed, kind=kind)
    if not value and _perhaps_unseen(check, shared, bottom):
        text = f"{said}; it may have fallen and risen by more between the samples"
        return unknown(track.metric, text, needed=needed, kind=kind)
    shown_figure = figure if figure != float("inf") else top
    window = track.points.span
    return Judged(YES if value else NO, said, needed, kind, track.cite(), shown_figure, unit, window=window)


def _perhaps_unseen(check: Change, shared: tuple[Sequence[Track], Sequence[Track]], bottom: float | None) -> bool:
    """Whether a low or a high between samples, of which the other is the bound, would make too small a rise enough."""
    tops, bottoms = shared
    if check.as_ != "climb" or check.above is None or bottom is None or len(tops) != 1 or len(bottoms) != 1:
        return False
    most = climb_at_most(tops[0], bottoms[0])
    return most is not None and _within(check, _ratio(most, bottom))


def _too_little(check: Change, bottom: float) -> bool:
    """Whether the other changed too little to measure by; a counter at rest is a measure (growth without faults)."""
    if check.per_at_least is not None:
        return bottom < quantity(check.per_at_least)
    known = term(listed(check.per)[0])
    return bottom <= 0 and not (known and known.kind == "counter")


def _within(check: Change, figure: float) -> bool:
    if check.above is not None and not figure > quantity(check.above):
        return False
    return check.below is None or figure < quantity(check.below)


def _tracks(names: Sequence[str], scene: Scene) -> list[Track | None]:
    """A track of each: of the best source that has them all, else of the best for each."""
    known = [_longer_first(name, scene) for name in names]
    for first in known[0]:
        same = [next((t for t in tracks if t.table is first.table), None) for tracks in known]
        if all(t is not None and len(t) > 1 for t in same):
            return same
    return [next(iter(tracks), None) for tracks in known]


def _longer_first(name: str, scene: Scene) -> list[Track]:
    """The tracks of a metric, those of a single sample last."""
    return sorted(scene.tracks(name), key=lambda t: len(t) < 2)


def _common(tracks: Sequence[Track]) -> list[Track] | str:
    """The tracks cut to the time that all cover, or why they cannot be.

    Tracks of one table need no clock; others need the same one, and one that is known much better than for how long
    they overlap.
    """
    if len({id(t.table) for t in tracks}) == 1 or len({(t.table.member, t.table.clock, len(t)) for t in tracks}) == 1:
        return list(tracks)
    clocks = {t.table.clock for t in tracks}
    undated = Clock.DAY in clocks and len({t.table.member for t in tracks}) > 1  # of which day, nobody knows
    if len(clocks) != 1 or None in clocks or undated:
        return NO_COMMON
    spans = [(t.samples[0].time, t.samples[-1].time) for t in tracks]
    start = max(first.seconds for first, _ in spans if first)
    end = min(last.seconds for _, last in spans if last)
    off = sum(sorted(t.table.off for t in tracks)[-2:])
    if off > SURE * (end - start) and end + off > start:
        return f"may overlap, but their clocks may be {shown(off, 'seconds')} apart"
    slack = 0.02 * (end - start) + 1.0 + off  # samples of one round are taken one after the other
    cut = [t.within(start - slack, end + slack) for t in tracks]
    return cut if all(len(t) > 1 for t in cut) else NO_COMMON


def _sum(tracks: Sequence[Track], measure: Callable[[Track], float | None] = gauge_change) -> float | None:
    parts = []
    for track in tracks:
        known = term(track.metric)
        parts.append(growth(track) if known and known.kind == "counter" else measure(track))
    return None if any(p is None for p in parts) else sum(p for p in parts if p is not None)


def _kind(of: Sequence[str]) -> str:
    return of_metric(of[0], "delta")


def _unit(name: str) -> str:
    known = term(name)
    return known.unit if known else ""


def _bound(written: str | float) -> str:
    """A bound as the rule has it; a tiny ratio as one per many."""
    if isinstance(written, str) and not written.replace(".", "").replace("e-", "").isdigit():
        return written
    value = quantity(float(written))
    return f"1 per {1 / value:,.0f}" if 0 < value < 0.001 else f"{value:g}"


def _needed(check: Change) -> str:
    of, per = spelled(listed(check.of)), spelled(listed(check.per))
    bounds = [f"{w} {_bound(b)}" for w, b in (("above", check.above), ("below", check.below)) if b is not None]
    bounds += [f"change of at least {_bound(check.at_least)}"] if check.at_least is not None else []
    noun = NOUNS[check.as_] if check.within is None else f"{NOUNS[check.as_]} in any {check.within}"
    return f"{noun} of {of}{' per ' + per if per else ''}: {' and '.join(bounds)}"
