"""`series`: a metric over time, by level, rate, growth, slope, spread, step or bend.

Several sources of one metric may not say the same. The best one decides (`thpdiag.host.catalogue`). A yes of another
one counts only for what the best one could not see: it happened at another time, or was over before two of the longer
intervals of the best one had passed, which then shows an average of it. Sources that saw the same time and differ all
the same contradict each other: one of them is wrong, and the poorer one is no proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from dataclasses import replace
from functools import partial
from math import inf

from thpdiag.engine.check_result import (
    NO,
    UNKNOWN,
    YES,
    CheckResult,
    any_answer,
    text_of,
    unknown_result,
    witness_answer,
)
from thpdiag.engine.quantity import Duration, format_quantity, parse_duration, parse_quantity
from thpdiag.engine.schema import SeriesCheck
from thpdiag.engine.state_view import StateView
from thpdiag.engine.wording import bound_words, metric_words
from thpdiag.host import rates
from thpdiag.host.memory import ERROR_LABEL
from thpdiag.host.rates import Knee, Run
from thpdiag.host.series import MAX_CLOCK_ERROR, Points, Track, typical_interval, usual_interval
from thpdiag.knowledge.paths import root_of
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Citation, Sample, Verdict3
from thpdiag.model.text import path_name

OF_THE_WHOLE = ("mean", "last", "since_boot_rate")  # figures that one source says of all of the time
FINE = 3  # times the resolution: what an effect must exceed
SEEN = 0.5  # part of the time in question that the best source must have rows for
LONGER = 1.5  # times the interval of the other source: a longer one hides what that one shows
OF_TIME = ("rate", "delta", "slope", "knee")  # figures that depend on how much time passed
WITHOUT_END = ("level", "rate")  # values that are looked at one by one
MANY = 1e300  # per second: without an upper bound
MOST_NAMED = 2  # further sources


def judge(check: SeriesCheck, view: StateView) -> CheckResult:
    """Yes if one entity (the bound one, or any) shows it in its best source."""
    known = term(check.series)
    tracks = view.tracks(check.series)
    if not tracks and check.as_ == "rate":
        tracks = view.tracks(f"{check.series}:rate")
    if not tracks:
        return unknown_result(check, check.series, f"not in the input: {metric_words([check.series])}")
    if known is None or known.entity == "system" or view.bound_to(check.series) is not None:
        return _best_source(check, tracks, view)
    entities: dict[object, list[Track]] = {}
    for track in tracks:
        entities.setdefault(track.table.key, []).append(track)
    return any_answer(_best_source(check, own, view) for own in entities.values())


def _best_source(check: SeriesCheck, tracks: Sequence[Track], view: StateView) -> CheckResult:
    """The answer of the best source that has one; the others are named."""
    results = [_judge_track(check, track, view) for track in tracks]
    decided = [at for at, result in enumerate(results) if result.value is not UNKNOWN]
    if not decided or len(results) == 1:
        return witness_answer(results)
    best = decided[0]
    if results[best].value is NO and check.above is not None and check.as_ not in OF_THE_WHOLE:
        shown_there = (at for at in decided if results[at].value is YES)
        hidden = (at for at in shown_there if _is_hidden_from(check, results[at], tracks[at], tracks[best]))
        best = next(hidden, best)
    used, member = results[best], tracks[best].table.member
    others = [(t.table.member, r.value) for t, r in zip(tracks, results, strict=True) if t is not tracks[best]]
    return used.with_remark(lambda: _other_sources(others, member, used.value), used.value)


def _is_hidden_from(check: SeriesCheck, result: CheckResult, other: Track, best: Track) -> bool:
    """Whether the best source could not see what another one shows."""
    if not _covers(best, other, result):
        return True
    if check.as_ not in WITHOUT_END or best.seconds is None or other.seconds is None:
        return False
    looks, must = typical_interval(best.seconds), parse_duration(check.for_)
    if must.seconds is not None:
        return 2 * looks > must.seconds
    return must.samples is not None and looks > LONGER * typical_interval(other.seconds)


def _covers(best: Track, other: Track, result: CheckResult) -> bool:
    """Whether the best source has rows for most of the time that the other's result speaks of, on a common clock."""
    seconds, clocks = best.seconds, {other.table.clock, best.table.clock}
    undated = other.table.member != best.table.member and any(of and of.is_of_one_member for of in clocks)
    window = result.window or other.points.span
    if seconds is None or window is None or len(clocks) > 1 or undated:
        return False
    first, last = (moment.seconds for moment in window)
    first -= result.reach
    if other.table.clock_error + best.table.clock_error > MAX_CLOCK_ERROR * (last - first):
        return False
    interval = typical_interval(seconds)
    return int(((seconds > first) & (seconds <= last + interval)).sum()) * interval >= SEEN * (last - first)


def _other_sources(others: Iterable[tuple[str, Verdict3]], used: str, value: Verdict3) -> str:
    """The other sources by their names: those that say the same or nothing, and those that differ.

    A member that holds several recordings differs if none of them says the same.
    """
    opposite = YES if value is NO else NO
    same = dict.fromkeys(member for member, other in others if other is not opposite)
    differ = dict.fromkeys(member for member, other in others if other is opposite and member not in same)
    text = ""
    for words, members in (("also recorded in", same), ("not so in", differ)):
        if names := [path_name(member) for member in members if member != used]:
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            text += f"; {words} {', '.join(names[:MOST_NAMED])}{more}"
    return text


def _judge_track(check: SeriesCheck, track: Track, view: StateView) -> CheckResult:
    """What one source says, whatever it rounded away."""
    if check.as_ not in WITHOUT_END:
        result = _judge_figure(check, track, view)
    else:
        result = _judge_values(check, track)
        unsure = result.value is not UNKNOWN and (track.resolution or track.table.pace)
        if unsure and any(_judge_values(check, track, sign).value is not result.value for sign in (1, -1)):
            words = result.words
            result = unknown_result(check, check.series, lambda: text_of(words) + _rounding_words(track), partial=True)
    timed = check.as_ in OF_TIME and not track.metric.endswith(":rate")
    return result.with_remark(lambda: pace_words([track]), result.value) if timed and track.table.pace else result


def pace_words(tracks: Iterable[Track]) -> str:
    """What command the time of rows is taken from, if none was printed beside them."""
    paces = (track.table.pace for track in tracks if len(track) > 1)
    pace = next((pace for pace in paces if pace is not None), None)
    if pace is None:
        return ""
    return f"; time from `{pace.words}`, it may have been longer" if pace.loose else f"; time from `{pace.words}`"


def _rounding_words(track: Track) -> str:
    if not track.resolution:
        return ", unless more time passed than the command names"
    known = term(track.metric)
    return f", which rounding to {format_quantity(track.resolution, known.unit if known else '')} leaves open"


# Values one by one


def _judge_values(check: SeriesCheck, track: Track, sign: int = 0) -> CheckResult:
    """Whether the values fit for long enough; surely (`sign` 1) or perhaps (-1), as far as they are rounded."""
    level = check.as_ == "level" or track.metric.endswith(":rate")
    if len(track) == 1 and level:
        return _judge_single(check, track, sign)
    points = track.points if level else rates.rates(track)
    if points is None or len(points) < check.min_samples:
        what = "two samples with times" if check.as_ == "rate" else f"{check.min_samples} samples"
        return unknown_result(check, check.series, lambda: f"{_name(track)}: {what} are needed")
    error = (rates.value_errors if level else rates.rate_errors)(track, points) if sign else 0.0
    margin, unit, must = sign * error, _unit(check), parse_duration(check.for_)
    if must.share is not None:
        return _judge_share(check, track, points, must.share, margin)
    run = rates.longest_run(points, *bounds(check), margin)
    long_enough = _is_long_enough(must, run)
    if long_enough is None:
        return unknown_result(
            check, check.series, lambda: f"{_name(track)}: the source has no times, {check.for_} is unknown",
            partial=True,
        )  # fmt: skip
    if not long_enough and len(run.points) == len(points):
        return unknown_result(
            check, check.series, lambda: f"{_name(track)}: it holds in all {len(points)} samples, but they are too few",
            partial=True,
        )  # fmt: skip
    words = partial(_run_words if long_enough else _short_words, check, track, run, points)
    cite, value = _extreme(check, run.points if len(run.points) else points)
    return CheckResult(
        check, YES if long_enough else NO, words, cite, value, unit, window=run.points.span if long_enough else None,
        reach=usual_interval(points),
        held=(run.seconds or 0.0) if must.seconds is not None else float(len(run.points)),
    )  # fmt: skip


def _judge_share(check: SeriesCheck, track: Track, points: Points, share: float, margin: rates.Margin) -> CheckResult:
    """Whether enough of the values fit, in a row or not."""
    count, within = rates.fitting_values(points, *bounds(check), margin)
    unit, answer = _unit(check), YES if count >= share * len(points) and count else NO
    cite, value = _extreme(check, within if count else points)

    def words() -> str:
        few = count and answer is NO and check.for_
        short = f", less than {check.for_.replace('of samples', 'of them')}" if few and check.for_ else ""
        fitting = f"{bound_words(check)} in {count} of {_samples(points)}{in_brackets([lines_of(points)])}"
        return f"{_name(track)}: {fitting}{short}; {_range(points, unit)}"

    return CheckResult(
        check, answer, words, cite, value, unit, window=within.span if answer is YES else None,
        reach=usual_interval(points), held=count / len(points) if len(points) else 0.0,
    )  # fmt: skip


def _judge_single(check: SeriesCheck, track: Track, sign: int) -> CheckResult:
    """A single snapshot: it decides where one value is enough, and where it does not fit."""
    value, must, unit = track.last, parse_duration(check.for_), _unit(check)
    fits = _fits(check, value, sign * track.resolution)
    enough = (must.share is not None or (must.samples or 0) == 1) and check.min_samples <= 1

    def words() -> str:
        return f"{_name(track)}: {format_quantity(value, unit)} in one sample"

    if check.min_samples > 1 or (fits and not enough):
        return unknown_result(check, check.series, lambda: f"{words()}, which is too few", partial=fits)
    return CheckResult(check, YES if fits else NO, words, track.cite(), value, unit)


def _is_long_enough(must: Duration, run: Run) -> bool | None:
    """Whether a run lasts as long as it must; None if the source has no times."""
    if must.samples is not None:
        return len(run.points) >= must.samples
    if not len(run.points):
        return False
    return None if run.seconds is None else run.seconds >= (must.seconds or 0)


def _extreme(check: SeriesCheck, points: Points) -> tuple[Citation, float]:
    """The value that is furthest beyond the bound, and its line."""
    values = points.values
    at = int(values.argmax() if check.above is not None else values.argmin())
    return points.samples[at].cite, float(values[at])


def _run_words(check: SeriesCheck, track: Track, run: Run, points: Points) -> str:
    told = [format_quantity(run.seconds, "seconds") if run.seconds else "", lines_of(run.points)]
    part = f"{len(run.points)} of {len(points)} samples in a row{in_brackets(told)}"
    return f"{_name(track)}: {_range(run.points, _unit(check))} in {part}"


def _short_words(check: SeriesCheck, track: Track, run: Run, points: Points) -> str:
    """All samples, and for how long at most the values were where they would have to stay."""
    told = f"{_name(track)}: {_range(points, _unit(check))} in {_samples(points)}"
    if not len(run.points):
        return told
    longest = f"for {format_quantity(run.seconds, 'seconds')}" if run.seconds else f"in {len(run.points)} in a row"
    return f"{told}, {bound_words(check)} {longest} at most"


def lines_of(points: Points) -> str:
    """The lines that the samples stand in, if there are several."""
    first, last = (points.samples[at].cite.line if len(points) > 1 else None for at in (0, -1))
    return f"lines {first} to {last}" if first and last and first < last else ""


def in_brackets(words: Sequence[str]) -> str:
    return f" ({'; '.join(filter(None, words))})" if any(words) else ""


def _samples(points: Sized) -> str:
    return f"{len(points)} {'sample' if len(points) == 1 else 'samples'}"


def _range(points: Points, unit: str) -> str:
    values = points.values
    low, high, mean = (format_quantity(float(v), unit) for v in (values.min(), values.max(), values.mean()))
    return low if low == high else f"{low} to {high}, mean {mean}"


def bounds(check: SeriesCheck) -> tuple[float, float]:
    """Above and below which values fit."""
    low = parse_quantity(check.above) if check.above is not None else float("-inf")
    high = parse_quantity(check.below) if check.below is not None else float("inf")
    return low, high


def _fits(check: SeriesCheck, value: float, off: float = 0.0) -> bool:
    low, high = bounds(check)
    return low < value - off and value + off < high


# One figure of the whole window


def _judge_figure(check: SeriesCheck, track: Track, view: StateView) -> CheckResult:
    """Whether the figure fits, however much rounding may have changed it."""
    if check.as_ == "since_boot_rate":
        return _judge_since_boot(check, track, view)
    if len(track) < max(check.min_samples, 1 if check.as_ in ("mean", "last") else 2):
        return unknown_result(check, check.series, lambda: f"{_name(track)}: {_samples(track)}, which is too few")
    if check.as_ == "knee":
        bend = rates.knee(track.points) if _is_beyond_rounding(track) else None
        if bend is None:
            return unknown_result(check, check.series, lambda: f"{_name(track)}: too few timed samples to see a bend")
        figure, words = bend.ratio, partial(_knee_words, track, bend)
    else:
        found = _figure(check.as_, track)
        if found is None:
            return unknown_result(
                check, check.series, lambda: f"{_name(track)}: no times or too few samples for a {check.as_}"
            )
        figure, words = found, partial(_figure_words, check, track, found)
    window = track.points.span if len(track) > 1 else None
    error = rates.figure_error(check.as_, track, figure)
    return _compare(check, track, figure, error, CheckResult(check, NO, words, track.cite(), figure, window=window))


def _compare(check: SeriesCheck, track: Track, figure: float, error: float, found: CheckResult) -> CheckResult:
    """The result with its verdict; unknown where a figure that is wrong by the error would have another one."""
    if error and _fits(check, figure, error) is not _fits(check, figure, -error):
        return unknown_result(check, check.series, lambda: found.text + _rounding_words(track), partial=True)
    return replace(found, value=YES if _fits(check, figure) else NO, unit=_unit(check))


def _judge_since_boot(check: SeriesCheck, track: Track, view: StateView) -> CheckResult:
    """A total divided by the uptime: weak, for it says nothing of now."""
    low, high = _uptime_bounds(view, track.samples[-1])
    if not high > 0 or (low, high) == (0.0, inf):
        text = "a total since boot, and the uptime is not in the input"
        return unknown_result(check, "uptime.seconds", lambda: f"{_name(track)}: {text}")
    total = track.last
    seconds = low if high == inf else (low + high) / 2
    rate, most = total / seconds, (total + track.resolution) / low if low else MANY
    least = max(total - track.resolution, 0.0) / high

    def words() -> str:
        up = format_quantity(seconds, "seconds")
        if high == inf:
            return (
                f"{_name(track)}: {format_quantity(total, '1')} in an uptime of at least {up}, {per_second('at most')}"
            )
        since = f"{format_quantity(total, '1')} since boot {up} ago"
        return f"{_name(track)}: {since}, {per_second('about' if high > 1.1 * low else '')} on average"

    def per_second(bound: str) -> str:
        return f"{bound} {format_quantity(rate, '1/s')}".lstrip()

    found = CheckResult(check, NO, words, track.cite(), rate, weak=True)
    if _fits(check, most) is not _fits(check, least):
        return unknown_result(check, check.series, words, partial=True)
    return replace(found, value=YES if _fits(check, rate) else NO, unit=_unit(check))


def _uptime_bounds(view: StateView, of: Sample) -> tuple[float, float]:
    """How long the host had been up, at least and at most, when a row was read, as its own capture says if it does."""
    for name in ("uptime.seconds", "uptime.at_least"):
        facts = list(view.facts(name))
        same = [fact for fact in facts if root_of(fact.cite.member) == root_of(of.cite.member)]
        for fact in (same or facts)[:1]:
            later = of.time.minus(fact.time) if of.time and fact.time else None
            up = max(float(fact.value) + (later or 0.0), 0.0)
            within = float(fact.label(ERROR_LABEL) or 0.0)
            return (max(up - within, 0.0), up + within) if name == "uptime.seconds" else (up, inf)
    return 0.0, inf


def _figure(as_: str, track: Track) -> float | None:
    """The figures of the whole column, but for the bend."""
    if as_ == "last" or len(track) == 1:
        return track.last
    values = track.points.values
    match as_:
        case "mean":
            return float(values.mean())
        case "delta":
            known = term(track.metric)
            return rates.growth(track) if known and known.kind == "counter" else rates.change(track)
        case "slope":
            return rates.slope(track.points)
        case "spread":
            return float(rates.spreads(values))
        case "rise":
            return rates.largest_rise(values)
        case _:
            return rates.largest_step(values)


def _is_beyond_rounding(track: Track) -> bool:
    """Whether the values are constant, or differ by more than they were rounded to: 1G and 2G may be 1 MiB apart."""
    spread = float(track.column.max() - track.column.min())
    return not spread or spread >= FINE * track.resolution


def _knee_words(track: Track, bend: Knee) -> str:
    unit = f"{(known.unit if (known := term(track.metric)) else '')}/s"
    before, after = format_quantity(bend.before, unit), format_quantity(bend.after, unit)
    if bend.falls > rates.MAX_FALL:
        return f"{_name(track)}: rises and falls, by {before} in all: no bend"
    return f"{_name(track)}: grew by {before}, from line {bend.at.cite.line} on by {after}"


def _figure_words(check: SeriesCheck, track: Track, figure: float) -> str:
    match check.as_:
        case "delta":
            verb = direction_words(figure)
        case "slope":
            verb = "falls by" if figure < 0 else "grows by"
        case as_:
            verb = {
                "mean": "mean",
                "last": "last value",
                "spread": "varies by",
                "step": "steps by",
                "rise": "rises at once by at most",
            }[as_]
    unit = f"{_unit(check)}/s" if check.as_ == "slope" else _unit(check)
    amount = abs(figure) if check.as_ in ("delta", "slope") else figure
    span = f" over {format_quantity(track.duration, 'seconds')}" if track.duration else ""
    lines = in_brackets([lines_of(track.points)])
    return f"{_name(track)}: {verb} {format_quantity(amount, unit)} in {_samples(track)}{span}{lines}"


def direction_words(by: float, risen: str = "rose by") -> str:
    """How a figure moved, in words before the size of it."""
    return "fell by" if by < 0 else risen if by else "changed by"


def _unit(check: SeriesCheck) -> str:
    if check.as_ in ("spread", "knee", "step"):
        return "ratio"
    known = term(check.series)
    unit = known.unit if known else ""
    if check.as_ in ("since_boot_rate", "rate"):
        if unit == "seconds":
            return "ratio"  # seconds of work in each second
        return f"{unit}/s" if unit not in ("", "1") else "1/s"
    return unit


def _name(track: Track) -> str:
    return metric_words([track.metric], track.name)
