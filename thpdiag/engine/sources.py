"""Two sources that speak of the same thing and differ: one of them is wrong, and the report says so.

Several tools read the same /proc/stat; perf script, folded stacks and perf report may render one recording. Such
sources are one witness, not two. Where they disagree beyond rounding, that is a problem, not a choice. So is a figure
that two tools recorded at times which cannot both be right.

What one rendering of a recording hides another one may tell (`recordings`). That takes more to believe than a problem
takes to be told: two recordings of thirty seconds have the same number of samples often enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING

from thpdiag.engine.quantity import format_quantity
from thpdiag.engine.state_view import StateView, compiled_profile
from thpdiag.host.clock.timezone import clock_difference
from thpdiag.host.series import MAX_CLOCK_ERROR, Track
from thpdiag.knowledge.symbols import families
from thpdiag.model import Problem, ProblemKind, Profile, Stacks
from thpdiag.model.text import path_name

if TYPE_CHECKING:
    from thpdiag.engine.compiled_profile import CompiledProfile

METRICS = ("cpu_ratio.sys_total", "cpu_ratio.user_total", "cpu_ratio.iowait", "cpu_ratio.softirq")
SAME_FIGURE = ("node_memory_MemFree_bytes",)  # moves all the time, and every tool prints it
MOST_SOURCES = 4  # that are compared with each other
FAR = 0.15  # of all CPU time, between the means of two tools over the same time; rounding and start-up rows stay below
LEAST_SAMPLES = 5
OVERLAP = 0.8  # of the shorter recording
FAMILIES = ("compaction", "thp_fault", "spin_lock", "zeroing", "reclaim")
FAR_SHARE = 0.05  # between two renderings of one recording
SAME_TOTAL = 0.02  # renderings of one recording have the same number of samples
SAME_SUM = 0.001  # of the periods: a rendering that cannot read a sample leaves it out
SAME_TIME = 1.0  # second, between first samples and between last ones
HEADER = ("hostname", "release", "captured_on", "cmdline")  # facts of a recording that all its renderings repeat
LIVE = "perf_top"
DOUBT = "symbols_doubt"  # fact of a profile: why the names of its kernel functions may be wrong
FEWEST_FUNCTIONS, MOST_FUNCTIONS = 5, 10  # that are compared
EXACT, ROUNDED = 0.0002, 0.00006  # between shares of a function: at all, and for each row of a text with two decimals


def source_disagreements(scene: StateView) -> Iterator[Problem]:
    """The contradictions of one state."""
    for metric in METRICS:
        tracks = [t for t in scene.catalogue.tracks(metric) if t.has_times and len(t) >= LEAST_SAMPLES]
        for one, other in combinations(tracks, 2):
            yield from _of_series(metric, one, other)
    for metric in SAME_FIGURE:
        tracks = [t for t in scene.catalogue.tracks(metric) if t.has_times][:MOST_SOURCES]
        for one, other in combinations(tracks, 2):
            yield from _of_clocks(metric, one, other)
    profiles = [compiled_profile(p) for p in scene.state.profiles if p.stacks is not Stacks.NONE]
    for first, second in combinations(profiles, 2):
        if _one_recording(first, second):
            yield from _of_profiles(first, second)


def _of_series(metric: str, one: Track, other: Track) -> Iterator[Problem]:
    common = _common(one, other)
    if common is None:
        return
    means = [float(t.column.mean()) for t in common]
    if abs(means[0] - means[1]) > FAR:
        here, there = (format_quantity(mean, "ratio") for mean in means)
        values = f"{here} here, {there} in {path_name(other.cite(0))}"
        text = f"{metric} of the same time differs between two sources: {values}"
        yield Problem(one.cite(0), text, ProblemKind.DISAGREEMENT, one.table.reader)


def _of_clocks(metric: str, one: Track, other: Track) -> Iterator[Problem]:
    """Two recordings of one figure whose curves fit only if one of them is moved."""
    if one.table.clock is not other.table.clock or one.table.reader == other.table.reader:
        return
    ahead = clock_difference(one.points, other.points)
    if ahead is not None and abs(ahead) > one.table.clock_error + other.table.clock_error:
        apart = format_quantity(abs(ahead), "seconds")
        text = f"{metric} here and in {path_name(other.cite(0))} is the same curve, if their clocks are {apart} apart"
        yield Problem(one.cite(0), text, ProblemKind.DISAGREEMENT, one.table.reader)


def _common(one: Track, other: Track) -> Sequence[Track] | None:
    """Both cut to the time they share, if that is most of the shorter one."""
    if one.table.clock is not other.table.clock or one.table.reader == other.table.reader:
        return None
    spans = [(float(t.seconds.min()), float(t.seconds.max())) for t in (one, other) if t.seconds is not None]
    start, end = max(first for first, _ in spans), min(last for _, last in spans)
    shorter = min(last - first for first, last in spans)
    off = one.table.clock_error + other.table.clock_error
    if end - start <= 0 or end - start < OVERLAP * shorter or off > MAX_CLOCK_ERROR * (end - start):
        return None
    cut = [t.within(start, end) for t in (one, other)]
    return cut if min(len(t) for t in cut) >= LEAST_SAMPLES else None


# Renderings of one recording


@lru_cache(8)  # of a large recording little may stay when its host is done
def recordings(profiles: tuple[Profile, ...]) -> Sequence[Sequence[Profile]]:
    """The profiles by the recording that they render, the one that tells most first."""
    groups: list[list[Profile]] = []
    for profile in profiles:
        own = (g for g in groups if any(_surely_one_recording(other, profile) for other in g))
        if (group := next(own, None)) is None:
            groups.append([profile])
        else:
            group.append(profile)
    return [sorted(group, key=_poverty) for group in groups]


def _poverty(profile: Profile) -> tuple[object, ...]:
    """How little a rendering tells: without names of the kernel's functions, or with those of another kernel, without
    callers, in percent, not all of it."""
    return (
        profile.facts.get("symbols", "").startswith("none"), DOUBT in profile.facts,
        list(Stacks).index(profile.stacks), profile.percent_only, profile.ledger.unlisted,
    )  # fmt: skip


def _one_recording(first: CompiledProfile, second: CompiledProfile) -> bool:
    """Whether two profiles render one recording as far as their titles tell: another format, the same event, the same
    time, the same number of samples."""
    a, b = first.profile, second.profile
    totals = [p.total_samples or p.ledger.read for p in (a, b)]
    if a.reader == b.reader or min(totals) <= 0 or not _may_be_one(a, b):
        return False
    return abs(totals[0] - totals[1]) <= SAME_TOTAL * max(totals)


@lru_cache(64)
def _surely_one_recording(a: Profile, b: Profile) -> bool:
    """Whether what one cannot tell the other one may: the titles say that it is one recording, and what ran does not
    say otherwise; or the title is missing and what ran says so."""
    if not _may_be_one(a, b) or (titles := _same_titles(a, b)) is False:
        return False
    functions = _same_functions(compiled_profile(a), compiled_profile(b))
    return functions is True or (functions is None and titles is True)


def _may_be_one(a: Profile, b: Profile) -> bool:
    """Whether neither the event, nor the host, nor the time speaks against it. perf top looks for itself."""
    events = {p.event.split(":")[0] for p in (a, b)} - {""}
    if len(events) > 1 or LIVE in (a.reader, b.reader):
        return False
    if any(a.facts[name] != b.facts[name] for name in HEADER if name in a.facts and name in b.facts):
        return False
    if not (a.start and a.end and b.start and b.end) or a.start.clock is not b.start.clock:
        return True
    return all(abs(x.seconds - y.seconds) <= SAME_TIME for x, y in ((a.start, b.start), (a.end, b.end)))


def _same_titles(a: Profile, b: Profile) -> bool | None:
    """Whether the number of samples, or the sum of their periods, is the same; None where one of them tells neither."""
    counts = [p.total_samples or p.ledger.read for p in (a, b)]
    sums = [_sum_of_periods(p) for p in (a, b)]
    known: list[bool] = []
    if min(counts) > 0:
        shown = max(_unit_of_count(p, count) for p, count in zip((a, b), counts, strict=True))
        known.append(abs(counts[0] - counts[1]) < shown)
    if sums[0] and sums[1]:
        known.append(abs(sums[0] - sums[1]) <= SAME_SUM * max(sums[0], sums[1]))
    return all(known) if known else None


def _unit_of_count(profile: Profile, count: int) -> int:
    """What perf report counts in: 12,345 samples are `12K`."""
    unit = 1
    while profile.percent_only and count >= 1000 * unit and count % (1000 * unit) == 0:
        unit *= 1000
    return unit


def _sum_of_periods(profile: Profile) -> float | None:
    if "event_count" in profile.facts:
        return float(profile.facts["event_count"])
    return None if profile.percent_only or _counts_alone(profile) else float(profile.rows.weight.sum())


def _counts_alone(profile: Profile) -> bool:
    """Whether samples are counted, not weighed."""
    return not profile.percent_only and bool((profile.rows.weight == profile.rows.samples).all())


def _same_functions(first: CompiledProfile, second: CompiledProfile) -> bool | None:
    """Whether the same functions ran for the same share of the time, those that ran most; a text that lists a part of
    the rows may show less of one. None where that cannot be compared: too few have names in both, or one counts samples
    and the other one tells shares of periods."""
    a, b = first.profile, second.profile
    counted = _counts_alone(a) or _counts_alone(b)
    if counted and (a.percent_only or b.percent_only):
        return None
    ones, others = first.running_functions(counted=counted), second.running_functions(counted=counted)
    common = sorted(ones.keys() & others.keys(), key=lambda name: -max(ones[name][0], others[name][0]))
    unlisted = [p.ledger.unlisted / 100 if p.percent_only else 0.0 for p in (a, b)]
    same = 0
    for name in common[:MOST_FUNCTIONS]:
        (here, rows), (there, others_rows) = ones[name], others[name]
        off = EXACT + ROUNDED * (rows + others_rows)
        if abs(here - there) <= off:
            same += 1
        elif here - there > unlisted[1] + off or there - here > unlisted[0] + off:
            return False
    return True if same >= FEWEST_FUNCTIONS else None


def _of_profiles(first: CompiledProfile, second: CompiledProfile) -> Iterator[Problem]:
    for family in FAMILIES:
        (low, high), (least, most) = first.share_bounds(family), second.share_bounds(family)
        if low - most > FAR_SHARE or least - high > FAR_SHARE:
            here, there = (format_quantity(p.share(family), "ratio") for p in (first, second))
            values = f"{here} here, {there} in {path_name(second.profile.cite)}"
            text = f"two renderings of one recording differ in {families()[family].title}: {values}"
            yield Problem(first.profile.cite, text, ProblemKind.DISAGREEMENT, first.profile.reader)
