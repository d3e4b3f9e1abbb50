"""Whether huge pages do no harm on a host: each core mechanism is out (DESIGN 5, `nothing_found`).

Out is what a rule denies by a change over time or a stack, or what nothing asks for: the counter of its demand was
recorded for long enough and hardly moved (mechanisms.yaml), or was 0 since boot when all of it had been recorded. That
is no answer of a rule: no total since boot makes one say yes, and no 0 is told among what is ruled out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from thpdiag.derive.huge_page_size import USUAL, most_of_a_huge_page
from thpdiag.derive.rates import fastest, watched
from thpdiag.derive.series import Track
from thpdiag.derive.since_boot import Zero, covers, zeros
from thpdiag.derive.stretches import LONG
from thpdiag.engine.classes import DYNAMIC
from thpdiag.engine.judged import NO, UNKNOWN, Scene
from thpdiag.engine.load import Rule
from thpdiag.engine.toggle_metrics import OTHER_SETTING
from thpdiag.knowledge.mechanisms import Demand, mechanisms
from thpdiag.model import Case, ProblemKind, RuleOutcome

LONG_ENOUGH = 15.0  # seconds of counters that can show that nothing moves: a round of khugepaged, of 10 s, is in them
BRIEF = 60.0  # seconds: what comes in bursts may be missed by a look that is no longer
Outcomes = Mapping[str, RuleOutcome]  # by rule


def all_clear(outcomes: Outcomes, rules: Mapping[str, Rule], scenes: Sequence[Scene]) -> bool:
    """Of all states of a host; not where a part of the input could not be read."""
    if not scenes or any(scene.case.hidden - _shortened_lists(scene.case) for scene in scenes):
        return False
    times = max(most_of_a_huge_page(scene.case) for scene in scenes) / USUAL
    return all(_out(m.name, m.demand, outcomes, rules, scenes, times) for m in mechanisms().values() if m.demand)


def _shortened_lists(case: Case) -> set[str]:
    """Lists of processes of which nothing is lost but the ends of overlong command lines: no counter stands there."""
    readers: dict[str, set[str]] = {}
    for one in case.inputs:
        readers.setdefault(one.member, set()).add(one.reader)
    lost = [p for p in case.problems if p.hides_data]
    worse = {p.cite.member for p in lost if p.kind is not ProblemKind.LIMIT or not p.cite.line}
    return {p.cite.member for p in lost if readers.get(p.cite.member) == {"ps"}} - worse


def watched_for(scenes: Sequence[Scene]) -> float | None:
    """The seconds for which what asks for huge pages was watched, of the counter that was watched least.

    None if none of these counters is in the input more than once.
    """
    open_ones = [metric for metric in _demands() if not all(_never(metric, scene, scenes) for scene in scenes)]
    tracks = [[t for s in scenes for t in s.catalogue.tracks(metric)] for metric in open_ones]
    longest = [max(map(watched, of_metric), default=0.0) for of_metric in tracks]
    return min(filter(None, longest), default=None)


def never(scenes: Sequence[Scene]) -> tuple[tuple[str, ...], float]:
    """The counters that stand for what was not watched for long enough, as they are 0 since boot, and how long before
    they were read that was."""
    short = [m for m in _demands() if not all(_watched_long(scene, m) for scene in scenes)]
    known = {metric: [_never(metric, scene, scenes) for scene in scenes] for metric in short}
    still = {metric: [zero.up for zero in found if zero] for metric, found in known.items() if found and all(found)}
    return tuple(still), min((up for found in still.values() for up in found), default=0.0)


def _demands() -> list[str]:
    return sorted({m.demand.metric for m in mechanisms().values() if m.demand})


def decided(outcome: RuleOutcome) -> bool:
    """Whether a no is more than that something is missing: a change over time, a stack or another rule speaks."""
    return outcome.excluded or any(e.kind in DYNAMIC for e in outcome.against)


def _out(
    mechanism: str,
    demand: Demand,
    outcomes: Outcomes,
    rules: Mapping[str, Rule],
    scenes: Sequence[Scene],
    times: float,
) -> bool:
    """Whether a core mechanism is out. Where a huge page is larger than 2 MiB (512 MiB on arm64 with pages of 64 KiB),
    `times` as large, rates of the rules say nothing of it: few such pages are as much memory.
    """
    larger = demand.of_huge_pages and times > 1
    elsewhere = any(s.case.process for s in scenes) and _of_processes(mechanism, rules.values())
    if _is_no(mechanism, outcomes, rules) and not larger and not elsewhere:
        return True
    return _stands_still(demand.metric, demand.per_second / times if larger else demand.per_second, scenes)


def _of_processes(mechanism: str, rules: Iterable[Rule]) -> bool:
    """Whether it happens to single processes: where only one was looked at, another one may have it."""
    return any(rule.file.mechanism == mechanism and rule.file.for_each == "process" for rule in rules)


def _is_no(mechanism: str, outcomes: Outcomes, rules: Mapping[str, Rule]) -> bool:
    """A rule of the mechanism said no by a change over time or a stack, and none is halfway to a yes."""
    own = [
        o for i, o in outcomes.items() if rules[i].file.mechanism == mechanism and rules[i].file.role == "root_cause"
    ]
    return any(o.value is NO and decided(o) for o in own) and not any(map(_halfway, own))


def _halfway(outcome: RuleOutcome) -> bool:
    """Whether a rule lacks something, but two classes of evidence of the time speak for it.

    What speaks against it closes one way to a yes; that the rule is unknown says that another one is open. It counts
    as open no more where all that it lacks is a comparison of settings: that nobody made one is so on every host.
    """
    classes = {e.kind for e in outcome.evidence if e.kind in DYNAMIC}
    closed = decided(outcome) and set(outcome.missing) <= {OTHER_SETTING}
    return outcome.value is UNKNOWN and len(classes) > 1 and not closed


def _stands_still(metric: str, limit: float, scenes: Sequence[Scene]) -> bool:
    """Whether a counter was recorded for long enough and moved by no more than `limit` per second, in every state, and
    in every five minutes of it; or never moved since boot."""
    for scene in scenes:
        rates = [fastest(t, LONG) for t in _watched_long(scene, metric)]
        if (not rates and _never(metric, scene, scenes) is None) or max(rates, default=0.0) > limit:
            return False
    return True


def _watched_long(scene: Scene, metric: str) -> list[Track]:
    return [t for t in scene.catalogue.tracks(metric) if watched(t) >= LONG_ENOUGH]


def _never(metric: str, scene: Scene, scenes: Sequence[Scene]) -> Zero | None:
    """A reading of 0 since boot, in whichever state, that was made when all of this one had been recorded."""
    found = [z for s in scenes for z in zeros(s.catalogue.tracks(metric), s.case) if covers(z, scene.state, scene.case)]
    return max(found, key=lambda zero: zero.up, default=None)
