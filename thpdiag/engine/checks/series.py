"""`series`: a metric over time, by level, rate, growth, slope, spread, step or bend."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import replace

from thpdiag.derive import rates, rounding
from thpdiag.derive.intervals import interval
from thpdiag.derive.rates import Run
from thpdiag.derive.series import Points, Track
from thpdiag.engine.classes import of_metric
from thpdiag.engine.judged import NO, UNKNOWN, YES, Judged, Scene, unknown
from thpdiag.engine.lasting import Lasting, lasting
from thpdiag.engine.quantity import bound, quantity, shown
from thpdiag.engine.schema import SeriesCheck
from thpdiag.engine.several_sources import hidden, named
from thpdiag.engine.wording import spelled
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Citation

OF_THE_WHOLE = ("mean", "last", "since_boot_rate")  # figures that one source says of all of the time
FINE = 3  # times the resolution: what an effect must exceed


def judge(check: SeriesCheck, scene: Scene) -> Judged:
    """Yes if one entity (the bound one, or any) shows it in its best source."""
    needed = _needed(check)
    kind = of_metric(check.series, check.as_)
    known = term(check.series)
    tracks = scene.tracks(check.series)
    if not tracks and check.as_ == "rate":
        tracks = scene.tracks(f"{check.series}:rate")
    if not tracks:
        means = known.means if known else check.series
        return unknown(check.series, f"not in the input: {means}", needed=needed, kind=kind)
    answers = [_on(check, track, scene, needed, kind) for track in tracks]
    if scene.bound_to(check.series) is None and known and known.entity != "system":
        return max(answers, key=lambda a: a.value.value)
    return _settled(check, tracks, answers)


def _settled(check: SeriesCheck, tracks: Sequence[Track], answers: Sequence[Judged]) -> Judged:
    """The answer of the best source that has one; the others are named.

    What another source shows is there too if the best one could not see it (`thpdiag.engine.several_sources`). What
    that one could see and did not, the other source has wrong.
    """
    told = [at for at, answer in enumerate(answers) if answer.value is not UNKNOWN]
    best = told[0] if told else 0
    if told and answers[best].value is NO and check.above is not None and check.as_ not in OF_THE_WHOLE:
        shown_there = (at for at in told if answers[at].value is YES)
        best = next((at for at in shown_there if hidden(check, answers[at], tracks[at], tracks[best])), best)
    used = answers[best]
    if used.value is UNKNOWN:
        return used
    others = [(t.table.member, a) for t, a in zip(tracks, answers, strict=True) if t is not tracks[best]]
    return replace(used, text=used.text + named(others, tracks[best].table.member, used.value))


def _on(check: SeriesCheck, track: Track, scene: Scene, needed: str, kind: str) -> Judged:
    if check.as_ in ("level", "rate"):
        return _unrounded(check, track, needed, kind)
    figure, text, weak = _figure(check, track, scene)
    if figure is None:
        return unknown(check.series, text, needed=needed, kind=kind)
    off = _off(check, track, figure, scene)
    if off and _fits(check, figure, off) is not _fits(check, figure, -off):
        return unknown(check.series, f"{_name(track)}: {text}{_rounds(track)}", needed=needed, kind=kind)
    value = YES if _fits(check, figure) else NO
    window = track.points.span if len(track) > 1 and check.as_ != "since_boot_rate" else None
    said = f"{_name(track)}: {text}"
    return Judged(value, said, needed, kind, track.cite(), figure, _unit(check), weak=weak, window=window)


def _off(check: SeriesCheck, track: Track, figure: float, scene: Scene) -> float:
    """By how much rounding may have changed the figure."""
    if check.as_ != "since_boot_rate":
        return rounding.of_figure(check.as_, track, figure)
    return track.resolution / float(next(scene.facts("uptime.seconds")).value) if track.resolution else 0.0


def _rounds(track: Track) -> str:
    known = term(track.metric)
    return f", which rounding to {shown(track.resolution, known.unit if known else '')} leaves open"


def _unrounded(check: SeriesCheck, track: Track, needed: str, kind: str) -> Judged:
    """Whether the values fit for long enough, whatever the source rounded away."""
    said = _lasting(check, track, needed, kind)
    if said.value is UNKNOWN or not track.resolution:
        return said
    if all(_lasting(check, track, needed, kind, sign).value is said.value for sign in (1, -1)):
        return said
    return unknown(check.series, said.text + _rounds(track), needed=needed, kind=kind)


def _lasting(check: SeriesCheck, track: Track, needed: str, kind: str, sign: int = 0) -> Judged:
    """Whether the values fit for long enough; surely (`sign` 1) or perhaps (-1), as far as they are rounded."""
    level = check.as_ == "level" or track.metric.endswith(":rate")
    if len(track) == 1 and level:
        return _single(check, track, needed, kind, sign)
    points = track.points if level else rates.rates(track)
    if points is None or len(points) < check.min_samples:
        what = "two samples with times" if check.as_ == "rate" else f"{check.min_samples} samples"
        return unknown(check.series, f"{_name(track)}: {what} are needed", needed=needed, kind=kind)
    off = (rounding.of_values if level else rounding.of_rates) if sign else None
    margin = sign * off(track, points) if off else 0.0
    unit = _unit(check)
    must = lasting(check.for_)
    if must.share is not None:
        return _often(check, track, points, must.share, needed, kind, margin)
    run = rates.longest_run(points, *_bounds(check), margin)
    long_enough = _long_enough(must, run, points)
    if long_enough is None:
        text = f"{_name(track)}: the source has no times, {check.for_} cannot be told"
        return unknown(check.series, text, needed=needed, kind=kind)
    if not long_enough and len(run.points) == len(points):
        text = f"{_name(track)}: it holds in all {len(points)} samples, but they are too few"
        return unknown(check.series, text, needed=needed, kind=kind)
    cite, value = _extreme(check, run.points if len(run.points) else points)
    text = f"{_name(track)}: {_run_text(run, points, unit) if long_enough else _short_text(check, run, points, unit)}"
    window = run.points.span if long_enough else None
    answer = YES if long_enough else NO
    held = (run.seconds or 0.0) if must.seconds is not None else float(len(run.points))
    return Judged(answer, text, needed, kind, cite, value, unit, window=window, reach=interval(points), held=held)


def _often(
    check: SeriesCheck, track: Track, points: Points, share: float, needed: str, kind: str, margin: rates.Margin
) -> Judged:
    """Whether enough of the values fit, in a row or not."""
    count, within = rates.fitting(points, *_bounds(check), margin)
    unit, answer = _unit(check), YES if count >= share * len(points) and count else NO
    cite, value = _extreme(check, within if count else points)
    told = bracketed([lines_of(points)])
    short = (
        f", less than {check.for_.replace('of samples', 'of them')}" if count and answer is NO and check.for_ else ""
    )
    text = f"{_name(track)}: {_bounded(check)} in {count} of {_samples(points)}{told}{short}; {_range(points, unit)}"
    window = within.span if answer is YES else None
    held = count / len(points) if len(points) else 0.0
    return Judged(answer, text, needed, kind, cite, value, unit, window=window, reach=interval(points), held=held)


def _single(check: SeriesCheck, track: Track, needed: str, kind: str, sign: int) -> Judged:
    """A single snapshot: it decides where one value is enough, and where it does not fit."""
    value, must, off = track.last, lasting(check.for_), sign * track.resolution
    text = f"{_name(track)}: {shown(value, _unit(check))} in one sample"
    enough = (must.share is not None or (must.samples or 0) == 1) and check.min_samples <= 1
    if check.min_samples > 1 or (_fits(check, value, off) and not enough):
        return unknown(check.series, f"{text}, which is too few", needed=needed, kind=kind)
    answer = YES if _fits(check, value, off) else NO
    return Judged(answer, text, needed, kind, track.cite(), value, _unit(check))


def _long_enough(must: Lasting, run: Run, points: Points) -> bool | None:
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


def _run_text(run: Run, points: Points, unit: str) -> str:
    told = [shown(run.seconds, "seconds") if run.seconds else "", lines_of(run.points)]
    return f"{_range(run.points, unit)} in {len(run.points)} of {len(points)} samples in a row{bracketed(told)}"


def lines_of(points: Points) -> str:
    """The lines that the samples stand in, if there are several."""
    first, last = (points.samples[at].cite.line if len(points) > 1 else None for at in (0, -1))
    return f"lines {first} to {last}" if first and last and first < last else ""


def bracketed(words: Sequence[str]) -> str:
    return f" ({'; '.join(filter(None, words))})" if any(words) else ""


def _short_text(check: SeriesCheck, run: Run, points: Points, unit: str) -> str:
    """All samples, and for how long at most the values were where they would have to stay."""
    told = f"{_range(points, unit)} in {_samples(points)}"
    if not len(run.points):
        return told
    longest = f"for {shown(run.seconds, 'seconds')}" if run.seconds else f"in {len(run.points)}"
    return f"{told}, {_bounded(check)} {longest} {'in a row ' if not run.seconds else ''}at most"


def _samples(points: Sized) -> str:
    return f"{len(points)} {'sample' if len(points) == 1 else 'samples'}"


def _bounded(check: SeriesCheck) -> str:
    return " and ".join(f"{w} {bound(b)}" for w, b in (("above", check.above), ("below", check.below)) if b is not None)


def _range(points: Points, unit: str) -> str:
    values = points.values
    low, high, mean = (shown(float(v), unit) for v in (values.min(), values.max(), values.mean()))
    return low if low == high else f"{low} to {high}, mean {mean}"


def _bounds(check: SeriesCheck) -> tuple[float, float]:
    low = quantity(check.above) if check.above is not None else float("-inf")
    high = quantity(check.below) if check.below is not None else float("inf")
    return low, high


def _fits(check: SeriesCheck, value: float, off: float = 0.0) -> bool:
    low, high = _bounds(check)
    return low < value - off and value + off < high


def _figure(check: SeriesCheck, track: Track, scene: Scene) -> tuple[float | None, str, bool]:
    """One number for the whole window, a sentence with it, and whether it is weak evidence."""
    unit = _unit(check)
    if check.as_ == "since_boot_rate":
        return _since_boot(track, scene)
    if len(track) < max(check.min_samples, 1 if check.as_ in ("mean", "last") else 2):
        return None, f"{_name(track)}: {_samples(track)}, which is too few", False
    if check.as_ == "knee":
        return _knee(track)
    figure = _simple(check.as_, track)
    if figure is None:
        return None, f"{_name(track)}: no times or too few samples for a {check.as_}", False
    shown_unit = {"spread": "ratio", "step": "ratio", "slope": f"{unit}/s"}.get(check.as_, unit)
    span = f" over {shown(track.duration, 'seconds')}" if track.duration else ""
    lines = bracketed([lines_of(track.points)])
    said = (
        f"{_words(check.as_, figure)} {shown(abs(figure) if check.as_ in ('delta', 'slope') else figure, shown_unit)}"
    )
    return figure, f"{said} in {_samples(track)}{span}{lines}", False


def _simple(as_: str, track: Track) -> float | None:
    """The figures of the whole column."""
    if as_ == "last" or len(track) == 1:
        return track.last
    values = track.points.values
    match as_:
        case "mean":
            return float(values.mean())
        case "delta":
            return _delta(track)
        case "slope":
            return rates.slope(track.points)
        case "spread":
            return float((values.max() - values.min()) / values.max()) if values.max() else 0.0
        case _:
            return rates.step(values)


def _beyond_rounding(track: Track) -> bool:
    """Whether the values are constant, or differ by more than they were rounded to: 1G and 2G may be 1 MiB apart."""
    spread = float(track.column.max() - track.column.min())
    return not spread or spread >= FINE * track.resolution


def _delta(track: Track) -> float | None:
    known = term(track.metric)
    return rates.growth(track) if known and known.kind == "counter" else rates.change(track)


def _knee(track: Track) -> tuple[float | None, str, bool]:
    found = rates.knee(track.points) if _beyond_rounding(track) else None
    if found is None:
        return None, f"{_name(track)}: too few timed samples to see a bend", False
    unit = f"{(t.unit if (t := term(track.metric)) else '')}/s"
    if found.falls > rates.FALL:
        return found.ratio, f"rises and falls, by {shown(found.before, unit)} in all: no bend", False
    text = f"grew by {shown(found.before, unit)}, from line {found.at.cite.line} on by {shown(found.after, unit)}"
    return found.ratio, text, False


def _since_boot(track: Track, scene: Scene) -> tuple[float | None, str, bool]:
    uptime = next(scene.facts("uptime.seconds"), None)
    if uptime is None or not float(uptime.value) > 0:
        return None, f"{_name(track)}: a total since boot, and the uptime is not in the input", True
    value = track.last
    rate = value / float(uptime.value)
    return (
        rate,
        f"{shown(value, '1')} since boot {shown(float(uptime.value), 'seconds')} ago, {shown(rate, '1/s')} on average",
        True,
    )


def _words(as_: str, figure: float) -> str:
    if as_ == "delta":
        return moved(figure)
    if as_ == "slope":
        return "falls by" if figure < 0 else "grows by"
    return {"mean": "mean", "last": "last value", "spread": "varies by", "step": "steps by"}[as_]


def moved(by: float, risen: str = "rose by") -> str:
    """How a figure moved, in words before the size of it."""
    return "fell by" if by < 0 else risen if by else "changed by"


def _unit(check: SeriesCheck) -> str:
    if check.as_ in ("spread", "knee", "step"):
        return "ratio"
    known = term(check.series)
    unit = known.unit if known else ""
    if check.as_ in ("since_boot_rate", "rate"):
        return f"{unit}/s" if unit not in ("", "1") else "1/s"
    return unit


def _name(track: Track) -> str:
    return spelled([track.metric], track.name)


def _needed(check: SeriesCheck) -> str:
    as_ = "" if check.as_ == "level" else f" {check.as_.replace('_', ' ')}"
    return f"{spelled([check.series])}{as_} {_bounded(check)}" + (f" for {check.for_}" if check.for_ else "")
