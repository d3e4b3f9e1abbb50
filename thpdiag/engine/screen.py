"""Select the entities for which a rule needs to be judged, in a few passes over arrays of all entities.

Of thousands of processes a finding names a handful, and one represents all others. The values that select them (the
verdict of the condition, the measured values) are computed here for all entities at once, without texts and citations.
The selected ones are then judged one by one (`thpdiag.engine.checks`), and only those results are reported. Checks that
cannot be computed this way, and entities with several sources to weigh, are judged one by one here too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeVar, cast

from thpdiag.engine.check_result import DYNAMIC, NO, UNKNOWN, YES, CheckResult, CheckResults, check_class
from thpdiag.engine.checks import judge
from thpdiag.engine.checks.change import have_same_rows, track_combinations
from thpdiag.engine.checks.series import MIN_QUANTA, WHOLE_WINDOW_FIGURES, bounds
from thpdiag.engine.load import Rule
from thpdiag.engine.quantity import parse_duration, parse_quantity
from thpdiag.engine.schema import ChangeCheck, Check, ProcessCheck, SeriesCheck, as_list
from thpdiag.engine.state_view import StateView
from thpdiag.host import rates
from thpdiag.host.rates import Batch, figures_of, make_batches
from thpdiag.host.series import Track, entity_key, format_entity
from thpdiag.knowledge.vocabulary import entities_of, term
from thpdiag.model import Entity, Verdict3
from thpdiag.model.numeric import Bools, Floats, Ints, np

NO_, UNKNOWN_, YES_ = NO.value, UNKNOWN.value, YES.value


class Screen(NamedTuple):
    """The values of a check for each entity, as in `Verdict3`; `measured` is NaN where there is no value.

    `dynamic`: whether the result covers a stretch of time. `open` marks entities that must be judged one by one.
    """

    values: Ints
    measured: Floats
    dynamic: Bools
    open: Bools


def entities_worth_judging(
    rule: Rule, bound: Collection[str], shared: CheckResults, view: StateView, candidates: Sequence[Entity | None]
) -> list[Entity]:
    """Return the entities for which the rule fires, the first of the others in report order, and one that is unknown.

    `bound` are the names of the checks that may differ between entities, `shared` the results of the others.
    """
    kind, entities = rule.file.for_each or "", cast("Sequence[Entity]", candidates)
    screens = {
        name: _screen(check, view, kind, entities) if name in bound else _uniform_screen(shared[name], len(entities))
        for name, check in rule.checks.items()
    }
    keys, inverse = np.unique(np.stack([s.values for s in screens.values()]), axis=1, return_inverse=True)
    conditions = [
        rule.when.value({name: Verdict3(v) for name, v in zip(screens, key, strict=True)}.__getitem__).value
        for key in keys.T.tolist()
    ]
    values = np.array(conditions)[inverse.reshape(-1)]
    largest, is_dynamic = np.full(len(entities), -np.inf), np.zeros(len(entities), np.bool_)
    for name in rule.supporting:
        screen = screens[name]
        is_yes = screen.values == YES_
        is_dynamic |= is_yes & screen.dynamic
        largest = np.fmax(largest, np.where(is_yes, screen.measured, -np.inf))
    fired = np.flatnonzero(values == YES_).tolist()
    priorities = np.where(values == UNKNOWN_, np.where(is_dynamic, 2, 0), 1)
    largest[largest == -np.inf] = 0.0
    rest = np.flatnonzero(values != YES_)
    selected = [*fired, *np.flatnonzero(values == UNKNOWN_)[:1].tolist()]
    if len(rest):
        rest = rest[priorities[rest] == priorities[rest].max()]
        rest = rest[largest[rest] == largest[rest].max()]
        selected.append(min(rest.tolist(), key=lambda place: format_entity(entities[place])))
    return [entities[place] for place in sorted(set(selected))]


def _uniform_screen(result: CheckResult, count: int) -> Screen:
    measured = result.measured if isinstance(result.measured, float) else np.nan
    return Screen(
        np.full(count, result.value.value), np.full(count, measured), np.full(count, result.kind in DYNAMIC),
        np.zeros(count, np.bool_),
    )  # fmt: skip


def _screen(check: Check, view: StateView, kind: str, entities: Sequence[Entity]) -> Screen:
    match check:
        case SeriesCheck():
            screen = _screen_series(check, view, entities)
        case ChangeCheck():
            screen = _screen_change(check, view, kind, entities)
        case ProcessCheck() if check.process.cpu_above is None:
            return _screen_names(check, view, kind, entities)
        case _:
            screen = None
    if screen is None:
        screen = _uniform_screen(CheckResult(check, UNKNOWN, ""), len(entities))._replace(
            open=_may_answer(check, view, kind, entities)
        )
    for place in np.flatnonzero(screen.open).tolist():
        _set_result(screen, place, judge(check, view.bind(kind, entities[place])))
    return screen


def _may_answer(check: Check, view: StateView, kind: str, entities: Sequence[Entity]) -> Bools:
    """Mark the entities whose metrics were recorded. All others have the same unknown result."""
    match check:
        case SeriesCheck():
            is_recorded = _has_metric(check.series, view, kind, entities)
            return (
                is_recorded | _has_metric(f"{check.series}:rate", view, kind, entities)
                if check.as_ == "rate"
                else is_recorded
            )
        case ChangeCheck():
            return _has_all_metrics(check.metrics, view, kind, entities)
        case _:
            return np.ones(len(entities), np.bool_)


def _has_all_metrics(metrics: Sequence[str], view: StateView, kind: str, entities: Sequence[Entity]) -> Bools:
    is_recorded = np.ones(len(entities), np.bool_)
    for name in metrics:
        is_recorded = is_recorded & _has_metric(name, view, kind, entities)
    return is_recorded


def _has_metric(metric: str, view: StateView, kind: str, entities: Sequence[Entity]) -> Bools:
    """Mark the entities of which a metric was recorded; all of them, if the metric does not belong to such entities."""
    if kind not in entities_of(metric):
        return np.ones(len(entities), np.bool_)
    keys = _cached(view, ("keys", id(entities)), lambda: list(map(entity_key, entities)))
    recorded = view.catalogue.keys(metric)
    return _cached(view, ("has", metric, id(entities)), lambda: np.array([key in recorded for key in keys]))


def _set_result(screen: Screen, place: int, result: CheckResult) -> None:
    screen.values[place] = result.value.value
    screen.measured[place] = result.measured if isinstance(result.measured, float) else np.nan
    screen.dynamic[place] = result.kind in DYNAMIC


def _screen_names(check: Check, view: StateView, kind: str, entities: Sequence[Entity]) -> Screen:
    """Judge processes with the same name and command lines once."""
    screen, results = _uniform_screen(CheckResult(check, UNKNOWN, ""), len(entities)), {}
    for place, entity in enumerate(entities):
        labels = dict(entity)
        lines = view.process_facts("process.command", labels.get("pid"))
        key = (labels.get("comm"), *((fact.label("comm"), fact.value) for fact in lines))
        if key not in results:
            results[key] = judge(check, view.bind(kind, entity))
        _set_result(screen, place, results[key])
    return screen


# Series: figures of whole columns, and rates in a share of the samples


def _screen_series(check: SeriesCheck, view: StateView, entities: Sequence[Entity]) -> Screen | None:
    """The result of the best source that can decide; None if the check cannot be computed for many entities at once."""
    if check.as_ == "rate":
        if parse_duration(check.for_).share is None or view.catalogue.having(f"{check.series}:rate"):
            return None
    elif check.as_ not in COMPUTED:
        return None
    sources = _cached(view, (check.series, id(entities)), lambda: _batches_by_source(check.series, view, entities))
    screen: Screen | None = None
    for batches in sources:
        other = _screen_tracks(check, batches, len(entities))
        screen = other if screen is None else _first_decided(check, screen, other)
    return screen or _uniform_screen(CheckResult(check, UNKNOWN, ""), len(entities))


def _batches_by_source(metric: str, view: StateView, entities: Sequence[Entity]) -> list[list[Batch]]:
    """The tracks of the best source of each entity, then those of the second best of each, and so on."""
    tracks = [view.catalogue.tracks(metric, entity) for entity in entities]
    count = max(map(len, tracks), default=0)
    return [_batches(view, [row[rank] if rank < len(row) else None for row in tracks]) for rank in range(count)]


def _first_decided(check: SeriesCheck, best: Screen, other: Screen) -> Screen:
    is_undecided = best.values == UNKNOWN_
    open_ = best.open | np.zeros(len(is_undecided), np.bool_)
    if check.above is not None and check.as_ not in WHOLE_WINDOW_FIGURES:
        open_ |= (best.values == NO_) & (other.values == YES_)  # the best source may have missed it
    return Screen(
        np.where(is_undecided, other.values, best.values),
        np.where(is_undecided, other.measured, best.measured),
        best.dynamic,
        open_,
    )


COMPUTED = ("last", "mean", "delta", "spread", "knee")  # figures computed for many columns at once


def _screen_tracks(check: SeriesCheck, batches: Sequence[Batch], count: int) -> Screen:
    """The results of one track per entity."""
    screen = _uniform_screen(CheckResult(check, UNKNOWN, ""), count)
    screen.dynamic[:] = check_class(check) in DYNAMIC
    min_samples = max(check.min_samples, 1 if check.as_ in ("mean", "last") else 2)
    for batch in batches:
        if check.as_ == "rate":
            values, figures = _shares(check, batch)
        elif batch.size < min_samples:
            continue
        else:
            figures, errors = _figures(check.as_, batch)
            certain, possible = (rates.values_within(figures, *bounds(check), margin) for margin in (errors, -errors))
            values = np.where(certain, YES_, NO_)
            values[(certain != possible) | np.isnan(figures)] = UNKNOWN_
        screen.values[batch.places], screen.measured[batch.places] = values, figures
    return screen


def _figures(as_: str, batch: Batch) -> tuple[Floats, Floats]:
    match as_:
        case "last":
            return batch.values[:, -1], batch.resolution
        case "mean":
            return batch.values.mean(axis=1), batch.resolution
        case "delta":
            return batch.change(), 2 * batch.resolution
        case "spread":
            return batch.spread()
        case _:
            return batch.knee(MIN_QUANTA)


def _shares(check: SeriesCheck, batch: Batch) -> tuple[Ints, Floats]:
    """Whether a share of the rates is within the bounds, and the rate furthest beyond the bound."""
    figures, counted, errors = batch.rates()
    share, counts = parse_duration(check.for_).share or 0.0, counted.sum(axis=1)
    verdicts = []
    for sign in (0, 1, -1):
        fits = counted & rates.values_within(figures, *bounds(check), sign * errors)
        fit_counts = fits.sum(axis=1)
        verdicts.append((fit_counts >= share * counts) & (fit_counts > 0))
        if not sign:
            within = counted & np.logical_or.accumulate(fits, 1) & np.logical_or.accumulate(fits[:, ::-1], 1)[:, ::-1]
    direction = 1.0 if check.above is not None else -1.0
    furthest = direction * np.where(within, direction * figures, -np.inf).max(axis=1, initial=-np.inf)
    values = np.where(verdicts[0], YES_, NO_)
    values[(verdicts[0] != verdicts[1]) | (verdicts[0] != verdicts[2])] = UNKNOWN_
    values[(counts < max(check.min_samples, 1))] = UNKNOWN_
    return values, np.where(np.isfinite(furthest), furthest, np.nan)


# Change: one sum of changes per another


def _screen_change(check: ChangeCheck, view: StateView, kind: str, entities: Sequence[Entity]) -> Screen | None:
    """None if the check needs single tracks: largest change in a shorter stretch, or a climb above a bound."""
    change, names = check.change, tuple(check.metrics)
    if change.within is not None or (change.as_ == "climb" and change.above is not None):
        return None
    track_sets = _cached(view, (names, id(entities)), lambda: _track_sets(names, view, kind, entities))
    count, top_count = len(entities), len(as_list(change.of))
    figure = Batch.change if change.as_ == "growth" else Batch.climb
    tops = _add_up([figures_of(batches, count, figure) for batches in track_sets.batches[:top_count]], count)
    bottoms = _add_up([figures_of(batches, count, Batch.change) for batches in track_sets.batches[top_count:]], count)
    top_error, bottom_error = (
        2 * _add_up(track_sets.resolutions[part], count) for part in (slice(top_count), slice(top_count, None))
    )
    known = ~(np.isnan(tops) | np.isnan(bottoms))
    if change.over is not None:
        known &= track_sets.seconds >= parse_quantity(change.over)
    small = np.zeros(count, np.bool_)
    if change.at_least is not None:
        minimum = parse_quantity(change.at_least)
        small = known & (abs(tops) + top_error < minimum)
        known &= (abs(tops) - top_error >= minimum) | (top_error <= 0)
    if not change.per:
        ratios = [tops, tops - top_error, tops + top_error]
    else:
        known &= ~_is_too_small(check, bottoms)
        lows = np.where(bottom_error > 0, np.maximum(bottoms - bottom_error, 0.0), bottoms)
        highs = bottoms + bottom_error
        ratios = [_ratios(tops, bottoms)]
        ratios += [_ratios(top, bottom) for top in (tops - top_error, tops + top_error) for bottom in (lows, highs)]
    fits, *others = (_is_within(check, ratio) for ratio in ratios)
    for rounded in others:
        known &= rounded == fits
    values = np.where(known, np.where(fits, YES_, NO_), UNKNOWN_)
    values[small] = NO_
    measured = np.where(np.isfinite(ratios[0]), ratios[0], tops)
    open_ = track_sets.apart | ((values == UNKNOWN_) & track_sets.several)
    return Screen(values, measured, np.full(count, check_class(check) in DYNAMIC), open_)


def _add_up(parts: Sequence[Floats], count: int) -> Floats:
    total = np.zeros(count)
    for part in parts:
        total = total + part
    return total


class TrackSets(NamedTuple):
    """One track per metric and entity, as batches by metric, with common properties.

    `apart` marks entities whose tracks must be cut to a common time first, `several` those with other sources that may
    decide instead; `seconds` is the duration of the first metric (NaN without a clock).
    """

    batches: list[list[Batch]]
    resolutions: list[Floats]
    seconds: Floats
    apart: Bools
    several: Bools


def _track_sets(names: Sequence[str], view: StateView, kind: str, entities: Sequence[Entity]) -> TrackSets:
    is_bound = [kind in entities_of(name) for name in names]
    rows: list[Sequence[Track | None]] = [[None] * len(names)] * len(entities)
    several = np.zeros(len(entities), np.bool_)
    for place in np.flatnonzero(_has_all_metrics(names, view, kind, entities)).tolist():
        entity = entities[place]
        tracks = [view.catalogue.tracks(n, entity if b else None) for n, b in zip(names, is_bound, strict=True)]
        combinations = track_combinations(tracks) if all(tracks) else iter(())
        rows[place] = next(combinations, rows[place])
        several[place] = max(map(len, tracks)) > 1 and next(combinations, None) is not None
    columns = [list(column) for column in zip(*rows, strict=True)]
    batches = [_batches(view, column) for column in columns]
    return TrackSets(
        batches,
        [np.array([0.0 if track is None else track.resolution for track in column]) for column in columns],
        figures_of(batches[0], len(entities), _seconds),
        np.array([row[0] is not None and not have_same_rows([t for t in row if t]) for row in rows]),
        several,
    )


def _seconds(batch: Batch) -> Floats:
    return np.full(len(batch.values), np.nan) if batch.seconds is None else batch.seconds[:, -1] - batch.seconds[:, 0]


def _is_too_small(check: ChangeCheck, bottoms: Floats) -> Bools:
    if check.change.per_at_least is not None:
        return bottoms < parse_quantity(check.change.per_at_least)
    known = term(as_list(check.change.per)[0])
    return (bottoms <= 0) & (known is None or known.kind != "counter")


def _ratios(tops: Floats, bottoms: Floats) -> Floats:
    return np.divide(tops, bottoms, out=np.where(tops > 0, np.inf, 0.0), where=bottoms != 0)


def _is_within(check: ChangeCheck, figures: Floats) -> Bools:
    low, high = check.change.above, check.change.below
    fits = np.ones(len(figures), np.bool_) if low is None else figures > parse_quantity(low)
    return fits if high is None else fits & (figures < parse_quantity(high))


def _batches(view: StateView, tracks: Sequence[Track | None]) -> list[Batch]:
    return _cached(view, tuple(map(id, tracks)), lambda: make_batches(tracks))


Cached = TypeVar("Cached")


def _cached(view: StateView, key: object, make: Callable[[], Cached]) -> Cached:
    """Return a value that several rules need, computed once per state or window."""
    if key not in view.catalogue.memo:
        view.catalogue.memo[key] = make()
    cached: Cached = view.catalogue.memo[key]
    return cached
