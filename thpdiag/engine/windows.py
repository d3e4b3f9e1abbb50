"""The stretches of time in which a rule may hold though it does not hold over the whole recording.

Candidates are where a figure that some rule asks about was beyond the rule's own bound, the time of each recording of
call stacks, and that of each shorter recording. All rules are judged in each of them, on what was recorded then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from thpdiag.derive import rates
from thpdiag.derive.boot_clock import Join, joins, joins_of
from thpdiag.derive.cpu_use import timed
from thpdiag.derive.excerpt import Excerpt
from thpdiag.derive.memory_shares import memory_shares
from thpdiag.derive.series import Track
from thpdiag.derive.stretches import SHORT, Stretch, beyond, least
from thpdiag.derive.totals import available
from thpdiag.derive.zones import zone_facts
from thpdiag.engine.judged import Scene
from thpdiag.engine.load import Rule
from thpdiag.engine.patterns import named
from thpdiag.engine.quantity import quantity
from thpdiag.engine.schema import ProcessCheck, SeriesCheck
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Clock, Event, Fact, Moment, Profile

WHOLE = 0.9  # of a recording: a stretch that is as long needs no look of its own
SAME = 0.8  # of two stretches' time that they share: one of them will do
WORST = 3  # stretches of one figure
MOST = 16  # of a state
FREE_BLOCKS = "node_buddyinfo_blocks_order9"
FEWEST = 5  # rows of a recording that has a window of its own
Bound = tuple[str, str, float, float]  # metric, level or rate, above, below


def windows(rules: Sequence[Rule], scene: Scene) -> list[Stretch]:
    """The candidates of a state, the worst first; none if its recordings are short or have no times."""
    found = [*_of_figures(rules, scene), *_of_processes(rules, scene)]
    found += [*_of_profiles(scene), *_of_recordings(scene)]
    return _distinct(found, MOST)


def _of_figures(rules: Iterable[Rule], scene: Scene) -> Iterator[Stretch]:
    """The worst stretches of each figure of the host: the very worst of all first."""
    bounds = dict.fromkeys(b for rule in rules for check in rule.checks.values() if (b := _bound(check)))
    ranked = [_ranked(_beyond(bound, scene)) for bound in bounds]
    for place in range(WORST):
        yield from (one[place] for one in ranked if place < len(one))


def _bound(check: object) -> Bound | None:
    if not isinstance(check, SeriesCheck) or check.as_ not in ("level", "rate") or check.above is None:
        return None
    known = term(check.series)
    if known is None or known.entity != "system":
        return None
    below = quantity(check.below) if check.below is not None else float("inf")
    return (check.series, check.as_, quantity(check.above), below)


def _beyond(bound: Bound, scene: Scene) -> Iterator[Stretch]:
    metric, as_, low, high = bound
    for track in scene.catalogue.tracks(metric):
        points = track.points if as_ == "level" or metric.endswith(":rate") else rates.rates(track)
        if points is not None and len(track) > 1 and track.timed:
            yield from _parts(track, beyond(points, low, high))


def _parts(track: Track, found: Iterable[Stretch]) -> Iterator[Stretch]:
    """Those that are not nearly all of the recording."""
    whole = track.duration or 0.0
    yield from (one for one in found if one.seconds < WHOLE * whole)


def _ranked(found: Iterable[Stretch]) -> list[Stretch]:
    """The worst first; what several recordings saw of one storm is one stretch."""
    return _distinct(sorted(found, key=lambda one: (-one.excess, one.first, one.last)), WORST)


def _distinct(found: Iterable[Stretch], most: int) -> list[Stretch]:
    """The first of them that share little time with one another."""
    kept: list[Stretch] = []
    for one in found:
        if len(kept) < most and all(one.like(other) < SAME for other in kept):
            kept.append(one)
    return kept


def _of_processes(rules: Iterable[Rule], scene: Scene) -> Iterator[Stretch]:
    """The worst stretches of a kernel thread's or program's use of the CPU."""
    wanted = {
        (check.process.comm, quantity(check.process.cpu_above))
        for rule in rules
        for check in rule.checks.values()
        if isinstance(check, ProcessCheck) and check.process.comm and check.process.cpu_above is not None
    }
    for comm, bound in sorted(wanted):
        own = timed(scene.catalogue.tracks, _named(comm))
        yield from _ranked(s for t, points in own for s in _parts(t, beyond(points, bound, float("inf"))))[:WORST]


def _named(comm: str) -> Callable[[Track], bool]:
    return lambda track: named(comm, dict(track.table.entity).get("comm", ""))


def _of_profiles(scene: Scene) -> Iterator[Stretch]:
    """The time of each recording of call stacks, with a minute around it for those who count more seldom."""
    known = joins(scene.case.facts)
    for profile in scene.state.profiles:
        for first, last in spans(profile, known):
            yield Stretch(first.seconds - SHORT, last.seconds + SHORT, first.clock, member=profile.cite.member)


def spans(profile: Profile, known: Sequence[Join]) -> Iterator[tuple[Moment, Moment]]:
    """First and last moment of a recording on its own clock, and on those that something joins to it."""
    if profile.start and profile.end:
        yield profile.start, profile.end
        for join in joins_of(profile, known)[:1]:
            yield join.wall(profile.start), join.wall(profile.end)


def _of_recordings(scene: Scene) -> Iterator[Stretch]:
    """The time of each recording that is much shorter than the longest one."""
    found: dict[tuple[float, float, Clock], Stretch] = {}
    for table in scene.catalogue.of_host():
        rows = Track("", table, table.samples)
        if table.clock and len(rows) >= FEWEST and (seconds := rows.duration) and seconds >= SHORT:
            first, last = rows.samples[0].time, rows.samples[-1].time
            if first and last:
                key = (first.seconds, last.seconds, table.clock)
                found.setdefault(key, Stretch(first.seconds - 1e-6, last.seconds, table.clock, member=table.member))
    longest = max((one.seconds for one in found.values()), default=0.0)
    yield from (one for one in found.values() if least(longest) <= one.seconds < WHOLE * longest)


@dataclass(frozen=True, slots=True)
class Seen:
    """Whether something was seen within a stretch: by its own clock, or by what joins that to the stretch's."""

    stretch: Stretch
    known: Sequence[Join]

    def profile(self, profile: Profile) -> bool:
        """Most of it."""
        for first, last in spans(profile, self.known):
            if first.clock is self.stretch.clock:
                shared = min(last.seconds, self.stretch.last) - max(first.seconds, self.stretch.first)
                return shared >= (last.seconds - first.seconds) / 2 and shared >= 0
        return False

    def event(self, event: Event) -> bool:
        """Or perhaps."""
        time = event.time
        if time is None or time.clock is not self.stretch.clock:
            return True
        return self.stretch.first <= time.seconds <= self.stretch.last


def inside(scene: Scene, stretch: Stretch) -> Scene:
    """What was recorded in a stretch. Settings and what else holds for the state stay."""
    seen, catalogue = Seen(stretch, joins(scene.case.facts)), Excerpt(scene.catalogue, stretch)
    rows = [*catalogue.rows("node_memory_MemTotal_bytes"), *catalogue.rows(FREE_BLOCKS)]
    state = replace(
        scene.state,
        profiles=tuple(p for p in scene.state.profiles if seen.profile(p)),
        events=tuple(e for e in scene.state.events if seen.event(e)),
        facts=(
            *(f for f in scene.state.facts if not _of_a_moment(f)),
            *available(rows),
            *memory_shares(rows),
            *zone_facts(rows),
        ),
    )
    case = replace(scene.case, events=tuple(e for e in scene.case.events if seen.event(e)))
    return Scene(case, state, catalogue, others=scene.others, whole=scene)


def _of_a_moment(fact: Fact) -> bool:
    """Whether it was computed from the last row of a recording: a stretch has a last row of its own."""
    return fact.time is not None and fact.name.startswith("memory.")
