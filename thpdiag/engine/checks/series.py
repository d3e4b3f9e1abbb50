"""`series`: a metric over time, by level, rate, growth, slope, spread, step or knee.

Several sources of one metric may disagree. The best one decides (`thpdiag.host.catalogue`). A yes of another source
counts only for what the best one could not see: it was at another time, or it lasted less than two of the longer
intervals of the best source, which then shows an average. Sources of the same time that still differ contradict each
other: one of them is wrong, and the poorer one proves nothing.
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

WHOLE_WINDOW_FIGURES = ("mean", "last", "since_boot_rate")  # figures with one value per source
MIN_QUANTA = 3  # minimum spread of the values in units of their resolution, for a knee
MIN_COVERAGE = 0.5  # share of the time in question for which the best source must have rows
MIN_INTERVAL_RATIO = 1.5  # of sampling intervals: above it the longer one averages out short peaks
TIME_DEPENDENT_FIGURES = ("rate", "delta", "slope", "knee")  # figures that depend on the elapsed time
SAMPLE_FIGURES = ("level", "rate")  # figures with a value per sample
MAX_RATE = 1e300  # per second: stands for "no upper bound"
MAX_NAMED_SOURCES = 2  # other sources named in a text


def judge(check: SeriesCheck, view: StateView) -> CheckResult:
    """Yes if the best source of an entity (the bound one, or any) shows it."""
    known = term(check.series)
    tracks = view.tracks(check.series)
    if not tracks and check.as_ == "rate":
        tracks = view.tracks(f"{check.series}:rate")
    if not tracks:
        return unknown_result(check, check.series, f"not in the input: {metric_words([check.series])}")
    if known is None or known.entity == "system" or view.bound_to(check.series) is not None:
        return _judge_best_source(check, tracks, view)
    entities: dict[object, list[Track]] = {}
    for track in tracks:
        entities.setdefault(track.table.key, []).append(track)
    return any_answer(_judge_best_source(check, entity_tracks, view) for entity_tracks in entities.values())


def _judge_best_source(check: SeriesCheck, tracks: Sequence[Track], view: StateView) -> CheckResult:
    """Return the result of the best source that can decide; its text names the others."""
    results = [_judge_track(check, track, view) for track in tracks]
    decided = [i for i, result in enumerate(results) if result.value is not UNKNOWN]
    if not decided or len(results) == 1:
        return witness_answer(results)
    best = decided[0]
    if results[best].value is NO and check.above is not None and check.as_ not in WHOLE_WINDOW_FIGURES:
        confirming = (i for i in decided if results[i].value is YES)
        invisible = (i for i in confirming if _is_invisible_in(check, results[i], tracks[i], tracks[best]))
        best = next(invisible, best)
    used, member = results[best], tracks[best].table.member
    others = [(t.table.member, r.value) for t, r in zip(tracks, results, strict=True) if t is not tracks[best]]
    return used.with_remark(lambda: _other_sources(others, member, used.value), used.value)


def _is_invisible_in(check: SeriesCheck, result: CheckResult, other: Track, best: Track) -> bool:
    """Whether the best source could not see what another one shows."""
    if not _covers(best, other, result):
        return True
    if check.as_ not in SAMPLE_FIGURES or best.seconds is None or other.seconds is None:
        return False
    interval, duration = typical_interval(best.seconds), parse_duration(check.for_)
    if duration.seconds is not None:
        return 2 * interval > duration.seconds
    return duration.samples is not None and interval > MIN_INTERVAL_RATIO * typical_interval(other.seconds)


def _covers(best: Track, other: Track, result: CheckResult) -> bool:
    """Whether the best source, on a common clock, has rows for most of the time of another source's result."""
    seconds, clocks = best.seconds, {other.table.clock, best.table.clock}
    undated = other.table.member != best.table.member and any(clock and clock.is_of_one_member for clock in clocks)
    window = result.window or other.points.span
    if seconds is None or window is None or len(clocks) > 1 or undated:
        return False
    first, last = (moment.seconds for moment in window)
    first -= result.reach
    if other.table.clock_error + best.table.clock_error > MAX_CLOCK_ERROR * (last - first):
        return False
    interval = typical_interval(seconds)
    return int(((seconds > first) & (seconds <= last + interval)).sum()) * interval >= MIN_COVERAGE * (last - first)


def _other_sources(others: Iterable[tuple[str, Verdict3]], used: str, value: Verdict3) -> str:
    """Name the other sources: first those that agree or cannot decide, then those that disagree. A member with
    several recordings disagrees only if all of them do."""
    opposite = YES if value is NO else NO
    same = dict.fromkeys(member for member, other in others if other is not opposite)
    differ = dict.fromkeys(member for member, other in others if other is opposite and member not in same)
    text = ""
    for words, members in (("also recorded in", same), ("not so in", differ)):
        if names := [path_name(member) for member in members if member != used]:
            more = f" and {len(names) - MAX_NAMED_SOURCES} more" if len(names) > MAX_NAMED_SOURCES else ""
            text += f"; {words} {', '.join(names[:MAX_NAMED_SOURCES])}{more}"
    return text


def _judge_track(check: SeriesCheck, track: Track, view: StateView) -> CheckResult:
    """Return the result of one source; unknown if its rounding may change it."""
    if check.as_ not in SAMPLE_FIGURES:
        result = _judge_figure(check, track, view)
    else:
        result = _judge_values(check, track)
        is_inexact = result.value is not UNKNOWN and (track.resolution or track.table.pace)
        if is_inexact and any(_judge_values(check, track, sign).value is not result.value for sign in (1, -1)):
            words = result.words
            result = unknown_result(check, check.series, lambda: text_of(words) + _rounding_words(track), partial=True)
    is_timed = check.as_ in TIME_DEPENDENT_FIGURES and not track.metric.endswith(":rate")
    return result.with_remark(lambda: pace_words([track]), result.value) if is_timed and track.table.pace else result


def pace_words(tracks: Iterable[Track]) -> str:
    """Return the command from which the times of the rows are taken, if no times were printed."""
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


# Figures with a value per sample


def _judge_values(check: SeriesCheck, track: Track, sign: int = 0) -> CheckResult:
    """Whether the values stay within the bounds long enough. With `sign` 1 the rounding error of the values counts
    against them, with -1 in their favour."""
    level = check.as_ == "level" or track.metric.endswith(":rate")
    if len(track) == 1 and level:
        return _judge_single_sample(check, track, sign)
    points = track.points if level else rates.rates(track)
    if points is None or len(points) < check.min_samples:
        needed = "two samples with times" if check.as_ == "rate" else f"{check.min_samples} samples"
        return unknown_result(check, check.series, lambda: f"{_name(track)}: {needed} are needed")
    error = (rates.value_errors if level else rates.rate_errors)(track, points) if sign else 0.0
    margin, unit, duration = sign * error, _unit(check), parse_duration(check.for_)
    if duration.share is not None:
        return _judge_share(check, track, points, duration.share, margin)
    run = rates.longest_run(points, *bounds(check), margin)
    is_long_enough = _is_long_enough(duration, run)
    if is_long_enough is None:
        return unknown_result(
            check, check.series, lambda: f"{_name(track)}: the source has no times, {check.for_} is unknown",
            partial=True,
        )  # fmt: skip
    if not is_long_enough and len(run.points) == len(points):
        return unknown_result(
            check, check.series, lambda: f"{_name(track)}: it holds in all {len(points)} samples, but they are too few",
            partial=True,
        )  # fmt: skip
    words = partial(_run_words if is_long_enough else _short_run_words, check, track, run, points)
    cite, value = _extreme_value(check, run.points if len(run.points) else points)
    return CheckResult(
        check, YES if is_long_enough else NO, words, cite, value, unit,
        window=run.points.span if is_long_enough else None, reach=usual_interval(points),
        held=(run.seconds or 0.0) if duration.seconds is not None else float(len(run.points)),
    )  # fmt: skip


def _judge_share(check: SeriesCheck, track: Track, points: Points, share: float, margin: rates.Margin) -> CheckResult:
    """Whether a share of the values is within the bounds, consecutive or not."""
    count, within = rates.fitting_values(points, *bounds(check), margin)
    unit, answer = _unit(check), YES if count >= share * len(points) and count else NO
    cite, measured = _extreme_value(check, within if count else points)

    def words() -> str:
        few = count and answer is NO and check.for_
        short = f", less than {check.for_.replace('of samples', 'of them')}" if few and check.for_ else ""
        fitting = f"{bound_words(check)} in {count} of {_samples(points)}{in_brackets([lines_of(points)])}"
        return f"{_name(track)}: {fitting}{short}; {_range(points, unit)}"

    return CheckResult(
        check, answer, words, cite, measured, unit, window=within.span if answer is YES else None,
        reach=usual_interval(points), held=count / len(points) if len(points) else 0.0,
    )  # fmt: skip


def _judge_single_sample(check: SeriesCheck, track: Track, sign: int) -> CheckResult:
    """Judge a single sample: a yes needs `for` to accept one sample, a no does not."""
    value, duration, unit = track.last, parse_duration(check.for_), _unit(check)
    fits = _fits(check, value, sign * track.resolution)
    is_sufficient = (duration.share is not None or (duration.samples or 0) == 1) and check.min_samples <= 1

    def words() -> str:
        return f"{_name(track)}: {format_quantity(value, unit)} in one sample"

    if check.min_samples > 1 or (fits and not is_sufficient):
        return unknown_result(check, check.series, lambda: f"{words()}, which is too few", partial=fits)
    return CheckResult(check, YES if fits else NO, words, track.cite(), value, unit)


def _is_long_enough(duration: Duration, run: Run) -> bool | None:
    """Whether a run is as long as `for` requires; None if the source has no times."""
    if duration.samples is not None:
        return len(run.points) >= duration.samples
    if not len(run.points):
        return False
    return None if run.seconds is None else run.seconds >= (duration.seconds or 0)


def _extreme_value(check: SeriesCheck, points: Points) -> tuple[Citation, float]:
    values = points.values
    index = int(values.argmax() if check.above is not None else values.argmin())
    return points.samples[index].cite, float(values[index])


def _run_words(check: SeriesCheck, track: Track, run: Run, points: Points) -> str:
    details = [format_quantity(run.seconds, "seconds") if run.seconds else "", lines_of(run.points)]
    run_text = f"{len(run.points)} of {len(points)} samples in a row{in_brackets(details)}"
    return f"{_name(track)}: {_range(run.points, _unit(check))} in {run_text}"


def _short_run_words(check: SeriesCheck, track: Track, run: Run, points: Points) -> str:
    """The range of all samples, and the longest run within the bounds."""
    text = f"{_name(track)}: {_range(points, _unit(check))} in {_samples(points)}"
    if not len(run.points):
        return text
    longest = f"for {format_quantity(run.seconds, 'seconds')}" if run.seconds else f"in {len(run.points)} in a row"
    return f"{text}, {bound_words(check)} {longest} at most"


def lines_of(points: Points) -> str:
    """Return the line range of several samples, or ""."""
    first, last = (points.samples[i].cite.line if len(points) > 1 else None for i in (0, -1))
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
    """Return the limits `above` and `below` as numbers."""
    low = parse_quantity(check.above) if check.above is not None else float("-inf")
    high = parse_quantity(check.below) if check.below is not None else float("inf")
    return low, high


def _fits(check: SeriesCheck, value: float, error: float = 0.0) -> bool:
    low, high = bounds(check)
    return low < value - error and value + error < high


# Figures with one value per window


def _judge_figure(check: SeriesCheck, track: Track, view: StateView) -> CheckResult:
    """Whether the figure is within the bounds; unknown if rounding may change that."""
    if check.as_ == "since_boot_rate":
        return _judge_since_boot(check, track, view)
    if len(track) < max(check.min_samples, 1 if check.as_ in ("mean", "last") else 2):
        return unknown_result(check, check.series, lambda: f"{_name(track)}: {_samples(track)}, which is too few")
    if check.as_ == "knee":
        knee = rates.knee(track.points) if _is_beyond_rounding(track) else None
        if knee is None:
            return unknown_result(check, check.series, lambda: f"{_name(track)}: too few timed samples to see a bend")
        figure, words = knee.ratio, partial(_knee_words, track, knee)
    else:
        value = _whole_figure(check.as_, track)
        if value is None:
            text = f"no times or too few samples for a {check.as_}"
            return unknown_result(check, check.series, lambda: f"{_name(track)}: {text}")
        figure, words = value, partial(_figure_words, check, track, value)
    window = track.points.span if len(track) > 1 else None
    error = rates.figure_error(check.as_, track, figure)
    return _compare(check, track, figure, error, CheckResult(check, NO, words, track.cite(), figure, window=window))


def _compare(check: SeriesCheck, track: Track, figure: float, error: float, result: CheckResult) -> CheckResult:
    """Return the result with its verdict; unknown if the error of the figure may change the verdict."""
    if error and _fits(check, figure, error) is not _fits(check, figure, -error):
        return unknown_result(check, check.series, lambda: result.text + _rounding_words(track), partial=True)
    return replace(result, value=YES if _fits(check, figure) else NO, unit=_unit(check))


def _judge_since_boot(check: SeriesCheck, track: Track, view: StateView) -> CheckResult:
    """Judge a total divided by the uptime. The result is weak, because it does not describe the present."""
    low, high = _uptime_bounds(view, track.samples[-1])
    if not high > 0 or (low, high) == (0.0, inf):
        text = "a total since boot, and the uptime is not in the input"
        return unknown_result(check, "uptime.seconds", lambda: f"{_name(track)}: {text}")
    total = track.last
    seconds = low if high == inf else (low + high) / 2
    rate, max_rate = total / seconds, (total + track.resolution) / low if low else MAX_RATE
    min_rate = max(total - track.resolution, 0.0) / high

    def words() -> str:
        count, uptime = format_quantity(total, "1"), format_quantity(seconds, "seconds")
        if high == inf:
            return f"{_name(track)}: {count} in an uptime of at least {uptime}, {per_second('at most')}"
        average = per_second("about" if high > 1.1 * low else "")
        return f"{_name(track)}: {count} since boot {uptime} ago, {average} on average"

    def per_second(bound: str) -> str:
        return f"{bound} {format_quantity(rate, '1/s')}".lstrip()

    result = CheckResult(check, NO, words, track.cite(), rate, weak=True)
    if _fits(check, max_rate) is not _fits(check, min_rate):
        return unknown_result(check, check.series, words, partial=True)
    return replace(result, value=YES if _fits(check, rate) else NO, unit=_unit(check))


def _uptime_bounds(view: StateView, row: Sample) -> tuple[float, float]:
    """The minimum and maximum uptime when a row was read, from its own capture if that states an uptime."""
    for name in ("uptime.seconds", "uptime.at_least"):
        facts = list(view.facts(name))
        same = [fact for fact in facts if root_of(fact.cite.member) == root_of(row.cite.member)]
        for fact in (same or facts)[:1]:
            elapsed = row.time.minus(fact.time) if row.time and fact.time else None
            uptime = max(float(fact.value) + (elapsed or 0.0), 0.0)
            error = float(fact.label(ERROR_LABEL) or 0.0)
            return (max(uptime - error, 0.0), uptime + error) if name == "uptime.seconds" else (uptime, inf)
    return 0.0, inf


def _whole_figure(as_: str, track: Track) -> float | None:
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
    """Whether the values are constant or differ by more than rounding explains: 1G and 2G may be 1 MiB apart."""
    spread = float(track.column.max() - track.column.min())
    return not spread or spread >= MIN_QUANTA * track.resolution


def _knee_words(track: Track, knee: Knee) -> str:
    unit = f"{(known.unit if (known := term(track.metric)) else '')}/s"
    before, after = format_quantity(knee.before, unit), format_quantity(knee.after, unit)
    if knee.falls > rates.MAX_FALL:
        return f"{_name(track)}: rises and falls, by {before} in all: no bend"
    return f"{_name(track)}: grew by {before}, from line {knee.at.cite.line} on by {after}"


def _figure_words(check: SeriesCheck, track: Track, figure: float) -> str:
    verb = {
        "delta": direction_words(figure), "slope": "falls by" if figure < 0 else "grows by", "mean": "mean",
        "last": "last value", "spread": "varies by", "step": "steps by", "rise": "rises at once by at most",
    }[check.as_]  # fmt: skip
    unit = f"{_unit(check)}/s" if check.as_ == "slope" else _unit(check)
    amount = abs(figure) if check.as_ in ("delta", "slope") else figure
    span = f" over {format_quantity(track.duration, 'seconds')}" if track.duration else ""
    lines = in_brackets([lines_of(track.points)])
    return f"{_name(track)}: {verb} {format_quantity(amount, unit)} in {_samples(track)}{span}{lines}"


def direction_words(change: float, risen: str = "rose by") -> str:
    """Return the verb for a change: rose, fell or changed by."""
    return "fell by" if change < 0 else risen if change else "changed by"


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
