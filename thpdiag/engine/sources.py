"""Sources of one host that contradict each other, and the profiles that render one recording.

Several tools read the same /proc/stat; perf script, folded stacks and perf report may render one recording. Such
sources count as one witness. A difference beyond rounding between them is reported as a problem, as is a metric that
two tools recorded at times that cannot both be right.

One rendering of a recording may contain what another lacks (`recordings`). Treating two profiles as one recording needs
stronger evidence than reporting a problem does: two recordings of thirty seconds often have the same number of samples.
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
CLOCK_METRICS = ("node_memory_MemFree_bytes",)  # changes all the time, and every tool prints it
MAX_SOURCES = 4  # sources of one metric that are compared pairwise
# Share of all CPU time, between the means of two tools over the same time. Rounding and start-up rows stay below.
MAX_CPU_DIFFERENCE = 0.15
MIN_SAMPLES = 5  # of each source in the common time
MIN_OVERLAP = 0.8  # common time as a share of the shorter recording
FAMILIES = ("compaction", "thp_fault", "spin_lock", "zeroing", "reclaim")
MAX_SHARE_DIFFERENCE = 0.05  # between the shares of a symbol family in two renderings of one recording
MAX_COUNT_DIFFERENCE = 0.02  # relative, between the sample counts of two renderings of one recording
MAX_PERIOD_DIFFERENCE = 0.001  # relative, between sums of periods: a rendering omits samples that it cannot read
MAX_TIME_SHIFT_SECONDS = 1.0  # between the first samples and between the last samples
RECORDING_FACTS = ("hostname", "release", "captured_on", "cmdline")  # facts that all renderings of a recording repeat
PERF_TOP = "perf_top"  # reader of a live view, which has samples of its own and renders no recording
SYMBOL_DOUBT_FACT = "symbols_doubt"  # fact of a profile: why the names of its kernel functions may be wrong
MIN_FUNCTIONS, MAX_FUNCTIONS = 5, 10  # functions with equal shares that prove one recording; functions compared
# Between the shares of one function in two renderings, plus the rounding of each row of a text with two decimals.
MAX_FUNCTION_DIFFERENCE, ROUNDING_PER_ROW = 0.0002, 0.00006


def source_disagreements(view: StateView) -> Iterator[Problem]:
    """Yield the contradictions between the sources of one state."""
    for metric in METRICS:
        tracks = [t for t in view.catalogue.tracks(metric) if t.has_times and len(t) >= MIN_SAMPLES]
        for left, right in combinations(tracks, 2):
            yield from _compare_series(metric, left, right)
    for metric in CLOCK_METRICS:
        tracks = [t for t in view.catalogue.tracks(metric) if t.has_times][:MAX_SOURCES]
        for left, right in combinations(tracks, 2):
            yield from _compare_clocks(metric, left, right)
    profiles = [compiled_profile(p) for p in view.state.profiles if p.stacks is not Stacks.NONE]
    for first, second in combinations(profiles, 2):
        if _similar_recording(first, second):
            yield from _compare_profiles(first, second)


def _compare_series(metric: str, left: Track, right: Track) -> Iterator[Problem]:
    common = _common_time(left, right)
    if common is None:
        return
    means = [float(t.column.mean()) for t in common]
    if abs(means[0] - means[1]) > MAX_CPU_DIFFERENCE:
        shown, other_shown = (format_quantity(mean, "ratio") for mean in means)
        values = f"{shown} here, {other_shown} in {path_name(right.cite(0))}"
        text = f"{metric} of the same time differs between two sources: {values}"
        yield Problem(left.cite(0), text, ProblemKind.DISAGREEMENT, left.table.reader)


def _compare_clocks(metric: str, left: Track, right: Track) -> Iterator[Problem]:
    """Compare two recordings of one metric whose curves match only if one of them is shifted in time."""
    if left.table.clock is not right.table.clock or left.table.reader == right.table.reader:
        return
    offset = clock_difference(left.points, right.points)
    if offset is not None and abs(offset) > left.table.clock_error + right.table.clock_error:
        shown = format_quantity(abs(offset), "seconds")
        text = f"{metric} here and in {path_name(right.cite(0))} is the same curve, if their clocks are {shown} apart"
        yield Problem(left.cite(0), text, ProblemKind.DISAGREEMENT, left.table.reader)


def _common_time(left: Track, right: Track) -> Sequence[Track] | None:
    """Return both tracks cut to their common time, or None if that is less than MIN_OVERLAP of the shorter track."""
    if left.table.clock is not right.table.clock or left.table.reader == right.table.reader:
        return None
    spans = [(float(t.seconds.min()), float(t.seconds.max())) for t in (left, right) if t.seconds is not None]
    start, end = max(first for first, _ in spans), min(last for _, last in spans)
    shorter = min(last - first for first, last in spans)
    error = left.table.clock_error + right.table.clock_error
    if end - start <= 0 or end - start < MIN_OVERLAP * shorter or error > MAX_CLOCK_ERROR * (end - start):
        return None
    cut = [t.within(start, end) for t in (left, right)]
    return cut if min(len(t) for t in cut) >= MIN_SAMPLES else None


# Renderings of one recording


@lru_cache(8)  # few entries: a large recording must not stay in memory after its host is done
def recordings(profiles: tuple[Profile, ...]) -> Sequence[Sequence[Profile]]:
    """Group profiles by the recording that they render; the most detailed rendering of each group is first."""
    groups: list[list[Profile]] = []
    for profile in profiles:
        matching = (g for g in groups if any(_same_recording(other, profile) for other in g))
        if (group := next(matching, None)) is None:
            groups.append([profile])
        else:
            group.append(profile)
    return [sorted(group, key=_missing_detail) for group in groups]


def _missing_detail(profile: Profile) -> tuple[object, ...]:
    """Sort key of a rendering, the most detailed first. It compares, in this order: no kernel function names,
    doubtful ones (of another kernel), missing callers, percentages instead of counts, rows that are not listed."""
    return (
        profile.facts.get("symbols", "").startswith("none"), SYMBOL_DOUBT_FACT in profile.facts,
        list(Stacks).index(profile.stacks), profile.percent_only, profile.ledger.unlisted,
    )  # fmt: skip


def _similar_recording(first: CompiledProfile, second: CompiledProfile) -> bool:
    """Whether two profiles of different formats have the same event, time and approximate number of samples."""
    a, b = first.profile, second.profile
    totals = [p.total_samples or p.ledger.read for p in (a, b)]
    if a.reader == b.reader or min(totals) <= 0 or not _has_equal_origin(a, b):
        return False
    return abs(totals[0] - totals[1]) <= MAX_COUNT_DIFFERENCE * max(totals)


@lru_cache(64)
def _same_recording(a: Profile, b: Profile) -> bool:
    """Whether two profiles surely render one recording, so that one may answer what the other cannot. Either the
    totals are equal and the functions do not contradict that, or there are no totals and the functions match."""
    if not _has_equal_origin(a, b) or (totals := _equal_totals(a, b)) is False:
        return False
    functions = _equal_functions(compiled_profile(a), compiled_profile(b))
    return functions is True or (functions is None and totals is True)


def _has_equal_origin(a: Profile, b: Profile) -> bool:
    """Whether event, host and time of two profiles do not contradict each other."""
    events = {p.event.split(":")[0] for p in (a, b)} - {""}
    if len(events) > 1 or PERF_TOP in (a.reader, b.reader):
        return False
    if any(a.facts[name] != b.facts[name] for name in RECORDING_FACTS if name in a.facts and name in b.facts):
        return False
    if not (a.start and a.end and b.start and b.end) or a.start.clock is not b.start.clock:
        return True
    return all(abs(x.seconds - y.seconds) <= MAX_TIME_SHIFT_SECONDS for x, y in ((a.start, b.start), (a.end, b.end)))


def _equal_totals(a: Profile, b: Profile) -> bool | None:
    """Whether the numbers of samples and the sums of periods are equal; None if no total is known of both profiles."""
    counts = [p.total_samples or p.ledger.read for p in (a, b)]
    sums = [_sum_of_periods(p) for p in (a, b)]
    known: list[bool] = []
    if min(counts) > 0:
        unit = max(_count_unit(p, count) for p, count in zip((a, b), counts, strict=True))
        known.append(abs(counts[0] - counts[1]) < unit)
    if sums[0] and sums[1]:
        known.append(abs(sums[0] - sums[1]) <= MAX_PERIOD_DIFFERENCE * max(sums[0], sums[1]))
    return all(known) if known else None


def _count_unit(profile: Profile, count: int) -> int:
    """The unit in which perf report prints a sample count: 12,345 samples are `12K`."""
    unit = 1
    while profile.percent_only and count >= 1000 * unit and count % (1000 * unit) == 0:
        unit *= 1000
    return unit


def _sum_of_periods(profile: Profile) -> float | None:
    if "event_count" in profile.facts:
        return float(profile.facts["event_count"])
    return None if profile.percent_only or _is_unweighted(profile) else float(profile.rows.weight.sum())


def _is_unweighted(profile: Profile) -> bool:
    """Whether the rows count samples, without periods."""
    return not profile.percent_only and bool((profile.rows.weight == profile.rows.samples).all())


def _equal_functions(first: CompiledProfile, second: CompiledProfile) -> bool | None:
    """Whether the functions that ran most have the same share of the time in both profiles. A text that lists only a
    part of its rows may show a smaller share of a function. The result is None if the profiles cannot be compared:
    too few functions have names in both, or one counts samples and the other prints shares of periods."""
    a, b = first.profile, second.profile
    counted = _is_unweighted(a) or _is_unweighted(b)
    if counted and (a.percent_only or b.percent_only):
        return None
    shares, other_shares = first.running_functions(counted=counted), second.running_functions(counted=counted)
    common = sorted(shares.keys() & other_shares.keys(), key=lambda name: -max(shares[name][0], other_shares[name][0]))
    unlisted = [p.ledger.unlisted / 100 if p.percent_only else 0.0 for p in (a, b)]
    matches = 0
    for name in common[:MAX_FUNCTIONS]:
        (share, rows), (other_share, other_rows) = shares[name], other_shares[name]
        error = MAX_FUNCTION_DIFFERENCE + ROUNDING_PER_ROW * (rows + other_rows)
        if abs(share - other_share) <= error:
            matches += 1
        elif share - other_share > unlisted[1] + error or other_share - share > unlisted[0] + error:
            return False
    return True if matches >= MIN_FUNCTIONS else None


def _compare_profiles(first: CompiledProfile, second: CompiledProfile) -> Iterator[Problem]:
    for family in FAMILIES:
        (low, high), (other_low, other_high) = first.share_bounds(family), second.share_bounds(family)
        if low - other_high > MAX_SHARE_DIFFERENCE or other_low - high > MAX_SHARE_DIFFERENCE:
            shown, other_shown = (format_quantity(p.share(family), "ratio") for p in (first, second))
            values = f"{shown} here, {other_shown} in {path_name(second.profile.cite)}"
            text = f"two renderings of one recording differ in {families()[family].title}: {values}"
            yield Problem(first.profile.cite, text, ProblemKind.DISAGREEMENT, first.profile.reader)
