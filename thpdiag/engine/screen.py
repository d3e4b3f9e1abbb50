"""Which of many entities a rule needs to be judged for: all of them are looked at in a few passes over arrays.

Of thousands of processes a finding names a handful, and one stands for all others. What decides which ones (verdict of
the condition, measured values) is computed here for all at once, without words and citations; what is chosen is then
judged one by one (`thpdiag.engine.checks`), which is what a report says. Where a check is not one of those that can be
computed so, or an entity's sources have to be weighed against each other, it is asked one by one here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, TypeVar, cast

from thpdiag.engine.check_result import DYNAMIC, NO, UNKNOWN, YES, CheckResult, CheckResults, check_class
from thpdiag.engine.checks import judge
from thpdiag.engine.checks.change import is_beside, tracks_side_by_side
from thpdiag.engine.checks.series import FINE, OF_THE_WHOLE, bounds
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
    """What a check says of each entity: `values` are those of `Verdict3`, `measured` is NaN where nothing was measured.

    `dynamic`: whether it speaks of a stretch of time. `open` marks entities that must be judged one by one.
    """

    values: Ints
    measured: Floats
    dynamic: Bools
    open: Bools


def entities_worth_judging(
    rule: Rule, bound: Collection[str], shared: CheckResults, view: StateView, every: Sequence[Entity | None]
) -> list[Entity]:
    """Those for which the rule fires, the first of the others in the order of reports, and one that is unknown.

    `bound` are the names of the checks that may differ between entities, `shared` are the answers of the others.
    """
    kind, entities = rule.file.for_each or "", cast("Sequence[Entity]", every)
    screens = {
        name: _screen(check, view, kind, entities) if name in bound else _same(shared[name], len(entities))
        for name, check in rule.checks.items()
    }
    keys, inverse = np.unique(np.stack([s.values for s in screens.values()]), axis=1, return_inverse=True)
    conditions = [
        rule.when.value({name: Verdict3(v) for name, v in zip(screens, key, strict=True)}.__getitem__).value
        for key in keys.T.tolist()
    ]
    values = np.array(conditions)[inverse.reshape(-1)]
    largest, moving = np.full(len(entities), -np.inf), np.zeros(len(entities), np.bool_)
    for name in rule.supporting:
        screen = screens[name]
        speaking = screen.values == YES_
        moving |= speaking & screen.dynamic
        largest = np.fmax(largest, np.where(speaking, screen.measured, -np.inf))
    fired = np.flatnonzero(values == YES_).tolist()
    places = np.where(values == UNKNOWN_, np.where(moving, 2, 0), 1)
    largest[largest == -np.inf] = 0.0
    rest = np.flatnonzero(values != YES_)
    chosen = [*fired, *np.flatnonzero(values == UNKNOWN_)[:1].tolist()]
    if len(rest):
        rest = rest[places[rest] == places[rest].max()]
        rest = rest[largest[rest] == largest[rest].max()]
        chosen.append(min(rest.tolist(), key=lambda place: format_entity(entities[place])))
    return [entities[place] for place in sorted(set(chosen))]


def _same(result: CheckResult, count: int) -> Screen:
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
        screen = _same(CheckResult(check, UNKNOWN, ""), len(entities))._replace(
            open=_may_answer(check, view, kind, entities)
        )
    for place in np.flatnonzero(screen.open).tolist():
        _put(screen, place, judge(check, view.bind(kind, entities[place])))
    return screen


def _may_answer(check: Check, view: StateView, kind: str, entities: Sequence[Entity]) -> Bools:
    """Which entities must be asked: those of which the metrics were not recorded would all say that."""
    match check:
        case SeriesCheck():
            own = _has(check.series, view, kind, entities)
            return own | _has(f"{check.series}:rate", view, kind, entities) if check.as_ == "rate" else own
        case ChangeCheck():
            return _have(check.metrics, view, kind, entities)
        case _:
            return np.ones(len(entities), np.bool_)


def _have(metrics: Sequence[str], view: StateView, kind: str, entities: Sequence[Entity]) -> Bools:
    found = np.ones(len(entities), np.bool_)
    for name in metrics:
        found = found & _has(name, view, kind, entities)
    return found


def _has(metric: str, view: StateView, kind: str, entities: Sequence[Entity]) -> Bools:
    """Of which entities a metric was recorded; all of them, if it is none of such entities."""
    if kind not in entities_of(metric):
        return np.ones(len(entities), np.bool_)
    keys = _cached(view, ("keys", id(entities)), lambda: list(map(entity_key, entities)))
    known = view.catalogue.keys(metric)
    return _cached(view, ("has", metric, id(entities)), lambda: np.array([key in known for key in keys]))


def _put(screen: Screen, place: int, result: CheckResult) -> None:
    screen.values[place] = result.value.value
    screen.measured[place] = result.measured if isinstance(result.measured, float) else np.nan
    screen.dynamic[place] = result.kind in DYNAMIC


def _screen_names(check: Check, view: StateView, kind: str, entities: Sequence[Entity]) -> Screen:
    """Processes of one name and command line get one answer."""
    screen, answers = _same(CheckResult(check, UNKNOWN, ""), len(entities)), {}
    for place, entity in enumerate(entities):
        who = dict(entity)
        lines = view.of_process("process.command", who.get("pid"))
        key = (who.get("comm"), *((fact.label("comm"), fact.value) for fact in lines))
        if key not in answers:
            answers[key] = judge(check, view.bind(kind, entity))
        _put(screen, place, answers[key])
    return screen


# Series: the figures of whole columns, and rates in a share of the samples


def _screen_series(check: SeriesCheck, view: StateView, entities: Sequence[Entity]) -> Screen | None:
    """The answer of the best source that has one; None if the check is none that is computed for many."""
    if not _is_computed(check) or (check.as_ == "rate" and view.catalogue.having(f"{check.series}:rate")):
        return None
    sources = _cached(view, (check.series, id(entities)), lambda: _by_source(check.series, view, entities))
    found: Screen | None = None
    for batches in sources:
        one = _screen_tracks(check, batches, len(entities))
        found = one if found is None else _first_decided(check, found, one)
    return found or _same(CheckResult(check, UNKNOWN, ""), len(entities))


def _by_source(metric: str, view: StateView, entities: Sequence[Entity]) -> list[list[Batch]]:
    """The tracks of the best source of each entity, then those of the second best of each, and so on."""
    tracks = [view.catalogue.tracks(metric, entity) for entity in entities]
    most = max(map(len, tracks), default=0)
    return [_batches(view, [own[rank] if rank < len(own) else None for own in tracks]) for rank in range(most)]


def _first_decided(check: SeriesCheck, best: Screen, other: Screen) -> Screen:
    later = best.values == UNKNOWN_
    open_ = best.open | np.zeros(len(later), np.bool_)
    if check.above is not None and check.as_ not in OF_THE_WHOLE:
        open_ |= (best.values == NO_) & (other.values == YES_)  # which the best source may not have seen
    return Screen(
        np.where(later, other.values, best.values), np.where(later, other.measured, best.measured), best.dynamic, open_
    )


COMPUTED = ("last", "mean", "delta", "spread", "knee")  # figures of whole columns


def _is_computed(check: SeriesCheck) -> bool:
    return check.as_ in COMPUTED or (check.as_ == "rate" and parse_duration(check.for_).share is not None)


def _screen_tracks(check: SeriesCheck, batches: Sequence[Batch], count: int) -> Screen:
    """What one track each says."""
    screen = _same(CheckResult(check, UNKNOWN, ""), count)
    screen.dynamic[:] = check_class(check) in DYNAMIC
    least = max(check.min_samples, 1 if check.as_ in ("mean", "last") else 2)
    for batch in batches:
        if check.as_ == "rate":
            values, figures = _shares(check, batch)
        elif batch.size < least:
            continue
        else:
            figures, errors = _figures(check.as_, batch)
            surely, perhaps = (rates.values_within(figures, *bounds(check), off) for off in (errors, -errors))
            values = np.where(surely, YES_, NO_)
            values[(surely != perhaps) | np.isnan(figures)] = UNKNOWN_
        screen.values[batch.places], screen.measured[batch.places] = values, figures
    return screen


def _figures(as_: str, batch: Batch) -> tuple[Floats, Floats]:
    """A figure of each track, and by how much rounding may have changed it."""
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
            return batch.knee(FINE)


def _shares(check: SeriesCheck, batch: Batch) -> tuple[Ints, Floats]:
    """Whether enough of the rates fit, and the one that is furthest beyond the bound."""
    figures, counted, errors = batch.rates()
    share, counts = parse_duration(check.for_).share or 0.0, counted.sum(axis=1)
    verdicts = []
    for sign in (0, 1, -1):
        fits = counted & rates.values_within(figures, *bounds(check), sign * errors)
        enough = fits.sum(axis=1)
        verdicts.append((enough >= share * counts) & (enough > 0))
        if not sign:
            within = counted & np.logical_or.accumulate(fits, 1) & np.logical_or.accumulate(fits[:, ::-1], 1)[:, ::-1]
    upward = 1.0 if check.above is not None else -1.0
    furthest = upward * np.where(within, upward * figures, -np.inf).max(axis=1, initial=-np.inf)
    values = np.where(verdicts[0], YES_, NO_)
    values[(verdicts[0] != verdicts[1]) | (verdicts[0] != verdicts[2])] = UNKNOWN_
    values[(counts < max(check.min_samples, 1))] = UNKNOWN_
    return values, np.where(np.isfinite(furthest), furthest, np.nan)


# Change: one sum of changes per another


def _screen_change(check: ChangeCheck, view: StateView, kind: str, entities: Sequence[Entity]) -> Screen | None:
    """None if the check asks what only single tracks tell."""
    change, names = check.change, tuple(check.metrics)
    if change.within is not None or (change.as_ == "climb" and change.above is not None):
        return None
    sides = _cached(view, (names, id(entities)), lambda: _side_by_side(names, view, kind, entities))
    count, own = len(entities), len(as_list(change.of))
    figure = Batch.change if change.as_ == "growth" else Batch.climb
    tops = _sum([figures_of(batches, count, figure) for batches in sides.batches[:own]], count)
    bottoms = _sum([figures_of(batches, count, Batch.change) for batches in sides.batches[own:]], count)
    off, other = (2 * _sum(sides.resolutions[part], count) for part in (slice(own), slice(own, None)))
    known = ~(np.isnan(tops) | np.isnan(bottoms))
    if change.over is not None:
        known &= sides.seconds >= parse_quantity(change.over)
    small = np.zeros(count, np.bool_)
    if change.at_least is not None:
        least = parse_quantity(change.at_least)
        small = known & (abs(tops) + off < least)
        known &= (abs(tops) - off >= least) | (off <= 0)
    if not change.per:
        ratios = [tops, tops - off, tops + off]
    else:
        known &= ~_is_too_little(check, bottoms)
        lows, highs = np.where(other > 0, np.maximum(bottoms - other, 0.0), bottoms), bottoms + other
        ratios = [_ratio(tops, bottoms)]
        ratios += [_ratio(top, bottom) for top in (tops - off, tops + off) for bottom in (lows, highs)]
    fits, *others = (_is_within(check, ratio) for ratio in ratios)
    for rounded in others:
        known &= rounded == fits
    values = np.where(known, np.where(fits, YES_, NO_), UNKNOWN_)
    values[small] = NO_
    measured = np.where(np.isfinite(ratios[0]), ratios[0], tops)
    open_ = sides.apart | ((values == UNKNOWN_) & sides.several)
    return Screen(values, measured, np.full(count, check_class(check) in DYNAMIC), open_)


def _sum(parts: Sequence[Floats], count: int) -> Floats:
    total = np.zeros(count)
    for part in parts:
        total = total + part
    return total


class Sides(NamedTuple):
    """The tracks of several metrics of each entity, by metric, and what is theirs together.

    `apart` marks entities whose tracks have to be cut to a common time first, `several` those of which other sources
    may tell what these cannot; `seconds` are those of the first metric (NaN without a clock).
    """

    batches: list[list[Batch]]
    resolutions: list[Floats]
    seconds: Floats
    apart: Bools
    several: Bools


def _side_by_side(names: Sequence[str], view: StateView, kind: str, entities: Sequence[Entity]) -> Sides:
    bound = [kind in entities_of(name) for name in names]
    rows: list[Sequence[Track | None]] = [[None] * len(names)] * len(entities)
    several = np.zeros(len(entities), np.bool_)
    for place in np.flatnonzero(_have(names, view, kind, entities)).tolist():
        entity = entities[place]
        own = [view.catalogue.tracks(n, entity if b else None) for n, b in zip(names, bound, strict=True)]
        choices = tracks_side_by_side(own) if all(own) else iter(())
        rows[place] = next(choices, rows[place])
        several[place] = max(map(len, own)) > 1 and next(choices, None) is not None
    columns = [list(column) for column in zip(*rows, strict=True)]
    batches = [_batches(view, column) for column in columns]
    return Sides(
        batches,
        [np.array([0.0 if track is None else track.resolution for track in column]) for column in columns],
        figures_of(batches[0], len(entities), _seconds),
        np.array([row[0] is not None and not is_beside([t for t in row if t]) for row in rows]),
        several,
    )


def _seconds(batch: Batch) -> Floats:
    return np.full(len(batch.values), np.nan) if batch.seconds is None else batch.seconds[:, -1] - batch.seconds[:, 0]


def _is_too_little(check: ChangeCheck, bottoms: Floats) -> Bools:
    if check.change.per_at_least is not None:
        return bottoms < parse_quantity(check.change.per_at_least)
    known = term(as_list(check.change.per)[0])
    return (bottoms <= 0) & (known is None or known.kind != "counter")


def _ratio(tops: Floats, bottoms: Floats) -> Floats:
    return np.divide(tops, bottoms, out=np.where(tops > 0, np.inf, 0.0), where=bottoms != 0)


def _is_within(check: ChangeCheck, figures: Floats) -> Bools:
    low, high = check.change.above, check.change.below
    fits = np.ones(len(figures), np.bool_) if low is None else figures > parse_quantity(low)
    return fits if high is None else fits & (figures < parse_quantity(high))


def _batches(view: StateView, tracks: Sequence[Track | None]) -> list[Batch]:
    """The same matrices for whoever asks for the same tracks."""
    return _cached(view, tuple(map(id, tracks)), lambda: make_batches(tracks))


Made = TypeVar("Made")


def _cached(view: StateView, key: object, make: Callable[[], Made]) -> Made:
    """What several rules ask of the same entities is computed once for each state or stretch."""
    if key not in view.catalogue.memo:
        view.catalogue.memo[key] = make()
    made: Made = view.catalogue.memo[key]
    return made
