"""Two sources that speak of the same thing and differ: one of them is wrong, and the report says so.

Several tools read the same /proc/stat; perf script, folded stacks and perf report may render one recording. Such
sources are one witness, not two. Where they disagree beyond rounding, that is a problem, not a choice. So is a figure
that two tools recorded at times which cannot both be right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from thpdiag.engine.quantity import format_quantity
from thpdiag.engine.state_view import StateView, compiled_profile
from thpdiag.host.clock.timezone import clock_difference
from thpdiag.host.series import MAX_CLOCK_ERROR, Track
from thpdiag.knowledge.symbols import families
from thpdiag.model import Problem, ProblemKind, Stacks
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


def source_disagreements(scene: StateView) -> Iterator[Problem]:
    """The contradictions of one state."""
    for metric in METRICS:
        tracks = [t for t in scene.catalogue.tracks(metric) if t.timed and len(t) >= LEAST_SAMPLES]
        for one, other in combinations(tracks, 2):
            yield from _of_series(metric, one, other)
    for metric in SAME_FIGURE:
        tracks = [t for t in scene.catalogue.tracks(metric) if t.timed][:MOST_SOURCES]
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
    cut = [t.between(start, end) for t in (one, other)]
    return cut if min(len(t) for t in cut) >= LEAST_SAMPLES else None


def _one_recording(first: CompiledProfile, second: CompiledProfile) -> bool:
    """Whether two profiles render one recording: another format, the same event, the same number of samples."""
    a, b = first.profile, second.profile
    totals = [p.total_samples or p.ledger.read for p in (a, b)]
    if a.reader == b.reader or a.event.split(":")[0] != b.event.split(":")[0] or min(totals) <= 0:
        return False
    return abs(totals[0] - totals[1]) <= SAME_TOTAL * max(totals)


def _of_profiles(first: CompiledProfile, second: CompiledProfile) -> Iterator[Problem]:
    for family in FAMILIES:
        shares = [p.share(family) for p in (first, second)]
        if abs(shares[0] - shares[1]) > FAR_SHARE + second.profile.ledger.unlisted / 100:
            here, there = (format_quantity(share, "ratio") for share in shares)
            values = f"{here} here, {there} in {path_name(second.profile.cite)}"
            text = f"two renderings of one recording differ in {families()[family].title}: {values}"
            yield Problem(first.profile.cite, text, ProblemKind.DISAGREEMENT, first.profile.reader)
