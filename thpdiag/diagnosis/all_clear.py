"""Whether huge pages do no harm on a host: each core mechanism is out (DESIGN 5, `nothing_found`).

Out is what a rule denies by a change over time or a stack, or what nothing asks for: the counter of its demand was
recorded for long enough and hardly moved (mechanisms.yaml), or was 0 since boot when all of it had been recorded. That
is no answer of a rule: no total since boot makes one say yes, and no 0 is told among what is ruled out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thpdiag.engine.check_result import DYNAMIC, NO, UNKNOWN
from thpdiag.engine.load import Rule
from thpdiag.engine.schema import OTHER_SETTING
from thpdiag.engine.state_view import StateView
from thpdiag.host.memory import DEFAULT_HUGE_PAGE_BYTES, max_huge_page_size
from thpdiag.host.rates import max_rate, watched_seconds
from thpdiag.host.recency import ZeroReading, covers_state, zero_readings
from thpdiag.host.series import LONG_SECONDS, Track
from thpdiag.knowledge.mechanisms import Demand, mechanisms
from thpdiag.model import Case, ProblemKind, RuleOutcome

LONG_ENOUGH = 15.0  # seconds of counters that can show that nothing moves: a round of khugepaged, of 10 s, is in them
BRIEF = 60.0  # seconds: what comes in bursts may be missed by a look that is no longer
Outcomes = Mapping[str, RuleOutcome]  # by rule


def all_clear(outcomes: Outcomes, rules: Mapping[str, Rule], views: Sequence[StateView]) -> bool:
    """Of all states of a host; not where a part of the input could not be read."""
    if not views or any(view.case.hidden - _shortened_lists(view.case) for view in views):
        return False
    times = max(max_huge_page_size(view.case) for view in views) / DEFAULT_HUGE_PAGE_BYTES
    return all(_is_out(m.name, m.demand, outcomes, rules, views, times) for m in mechanisms().values() if m.demand)


def _shortened_lists(case: Case) -> set[str]:
    """Lists of processes of which nothing is lost but the ends of overlong command lines: no counter stands there."""
    readers: dict[str, set[str]] = {}
    for one in case.inputs:
        readers.setdefault(one.member, set()).add(one.reader)
    lost = [p for p in case.problems if p.hides_data]
    worse = {p.cite.member for p in lost if p.kind is not ProblemKind.LIMIT or not p.cite.line}
    return {p.cite.member for p in lost if readers.get(p.cite.member) == {"ps"}} - worse


def watched_seconds_of_demand(views: Sequence[StateView]) -> float | None:
    """The seconds for which what asks for huge pages was watched, of the counter that was watched least.

    None if none of these counters is in the input more than once.
    """
    unanswered = [metric for metric in _demands() if not all(_zero_reading(metric, view, views) for view in views)]
    tracks = [[t for s in views for t in s.catalogue.tracks(metric)] for metric in unanswered]
    longest = [max(map(watched_seconds, of_metric), default=0.0) for of_metric in tracks]
    return min(filter(None, longest), default=None)


def zero_counters(views: Sequence[StateView]) -> tuple[tuple[str, ...], float]:
    """The counters that stand for what was not watched for long enough, as they are 0 since boot, and how long before
    they were read that was."""
    short = [m for m in _demands() if not all(_watched_long(view, m) for view in views)]
    known = {metric: [_zero_reading(metric, view, views) for view in views] for metric in short}
    still = {metric: [zero.uptime for zero in found if zero] for metric, found in known.items() if found and all(found)}
    return tuple(still), min((up for found in still.values() for up in found), default=0.0)


def _demands() -> list[str]:
    return sorted({m.demand.metric for m in mechanisms().values() if m.demand})


def decided(outcome: RuleOutcome) -> bool:
    """Whether a no is more than that something is missing: a change over time, a stack or another rule speaks."""
    return outcome.excluded or any(e.kind in DYNAMIC for e in outcome.against)


def _is_out(
    mechanism: str,
    demand: Demand,
    outcomes: Outcomes,
    rules: Mapping[str, Rule],
    views: Sequence[StateView],
    times: float,
) -> bool:
    """Whether a core mechanism is out. Where a huge page is larger than 2 MiB (512 MiB on arm64 with pages of 64 KiB),
    `times` as large, rates of the rules say nothing of it: few such pages are as much memory.
    """
    larger, own = demand.of_huge_pages and times > 1, [r for r in rules.values() if r.file.mechanism == mechanism]
    # Where only one process was looked at, another one may have what happens to single processes.
    elsewhere = any(s.case.process for s in views) and any(rule.file.for_each == "process" for rule in own)
    told = [outcomes[rule.id] for rule in own if rule.file.role == "root_cause" and rule.id in outcomes]
    denied = any(o.value is NO and decided(o) for o in told) and not any(map(_halfway, told))
    if denied and not larger and not elsewhere:
        return True
    return _stands_still(demand.metric, demand.per_second / times if larger else demand.per_second, views)


def _halfway(outcome: RuleOutcome) -> bool:
    """Whether a rule lacks something, but two classes of evidence of the time speak for it.

    What speaks against it closes one way to a yes; that the rule is unknown says that another one is open. It counts
    as open no more where all that it lacks is a comparison of settings: that nobody made one is so on every host.
    """
    classes = {e.kind for e in outcome.evidence if e.kind in DYNAMIC}
    closed = decided(outcome) and set(outcome.missing) <= {OTHER_SETTING}
    return outcome.value is UNKNOWN and len(classes) > 1 and not closed


def _stands_still(metric: str, limit: float, views: Sequence[StateView]) -> bool:
    """Whether a counter was recorded for long enough and moved by no more than `limit` per second, in every state, and
    in every five minutes of it; or never moved since boot."""
    for view in views:
        rates = [max_rate(t, LONG_SECONDS) for t in _watched_long(view, metric)]
        if (not rates and _zero_reading(metric, view, views) is None) or max(rates, default=0.0) > limit:
            return False
    return True


def _watched_long(view: StateView, metric: str) -> list[Track]:
    return [t for t in view.catalogue.tracks(metric) if watched_seconds(t) >= LONG_ENOUGH]


def _zero_reading(metric: str, view: StateView, views: Sequence[StateView]) -> ZeroReading | None:
    """A reading of 0 since boot, in whichever state, that was made when all of this one had been recorded."""
    found = [
        z
        for s in views
        for z in zero_readings(s.catalogue.tracks(metric), s.case)
        if covers_state(z, view.state, view.case)
    ]
    return max(found, key=lambda zero: zero.uptime, default=None)
