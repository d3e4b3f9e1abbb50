"""The diagnosis of a host from rule outcomes: the lead finding (`thpdiag.diagnosis.ranking`), what is ruled out, the
status.

Huge pages do no harm on a host where each core mechanism is ruled out (`all_clear`; DESIGN 5, `nothing_found`). A
mechanism is ruled out if a rule denies it by a change over time or by a stack, or if there is no demand for it: the
counter of its demand (mechanisms.yaml) was recorded for long enough and hardly changed, or was 0 since boot at the end
of the recording. The latter is no result of a rule: totals since boot never confirm a rule, and no 0 is reported as
ruling one out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from thpdiag.diagnosis.ranking import LEADING_ROLES, THP, lead_finding, mechanism_kind, rank_findings
from thpdiag.engine.check_result import DYNAMIC, NO, UNKNOWN, YES
from thpdiag.engine.load import Rule
from thpdiag.engine.schema import OTHER_SETTING, FactCheck, ProfileCheck, SeriesCheck, ToggleCheck
from thpdiag.engine.state_view import StateView
from thpdiag.host.memory import DEFAULT_HUGE_PAGE_BYTES, max_huge_page_size
from thpdiag.host.rates import max_rate, observed_seconds
from thpdiag.host.recency import ZeroReading, are_old_messages, covers_state, zero_readings
from thpdiag.host.series import LONG_SECONDS, Track
from thpdiag.knowledge.mechanisms import Demand, mechanisms
from thpdiag.model import Case, Evidence, Finding, ProblemKind, RuleOutcome, State

MIN_WATCHED_SECONDS = 15.0  # of a counter, to show that it does not change: longer than khugepaged's period of 10 s
SHORT_WATCH_SECONDS = 60.0  # a shorter recording may miss bursts
UNIVERSAL_MECHANISMS = frozenset({"fault-compaction"})  # possible on all kernels, though some rules name certain ones
Outcomes = Mapping[str, RuleOutcome]  # by rule


def all_clear(outcomes: Outcomes, rules: Mapping[str, Rule], views: Sequence[StateView]) -> bool:
    """Whether no state of a host has a huge-page problem. False if a part of the input could not be read."""
    if not views or any(view.case.hidden - _shortened_process_lists(view.case) for view in views):
        return False
    size = max(max_huge_page_size(view.case) for view in views) / DEFAULT_HUGE_PAGE_BYTES
    return all(_is_ruled_out(m.name, m.demand, outcomes, rules, views, size) for m in mechanisms().values() if m.demand)


def _shortened_process_lists(case: Case) -> set[str]:
    """Members of `ps` that lost only the ends of overlong command lines. They hold no counters."""
    readers: dict[str, set[str]] = {}
    for item in case.inputs:
        readers.setdefault(item.member, set()).add(item.reader)
    problems = [p for p in case.problems if p.hides_data]
    damaged = {p.cite.member for p in problems if p.kind is not ProblemKind.LIMIT or not p.cite.line}
    return {p.cite.member for p in problems if readers.get(p.cite.member) == {"ps"}} - damaged


def watched_seconds_of_demand(views: Sequence[StateView]) -> float | None:
    """Return how long the demand for huge pages was recorded: the time of the demand counter with the shortest
    recording. None if none of these counters is in the input more than once."""
    unanswered = [m for m in _demand_metrics() if not all(_zero_reading(m, v, views) for v in views)]
    tracks = [[t for s in views for t in s.catalogue.tracks(m)] for m in unanswered]
    seconds = [max(map(observed_seconds, of_metric), default=0.0) for of_metric in tracks]
    return min(filter(None, seconds), default=None)


def zero_counters(views: Sequence[StateView]) -> tuple[tuple[str, ...], float]:
    """Return the demand counters that were not recorded for long enough but are 0 since boot, and the uptime at that
    time."""
    unwatched = [m for m in _demand_metrics() if not all(_watched_tracks(view, m) for view in views)]
    readings = {metric: [_zero_reading(metric, view, views) for view in views] for metric in unwatched}
    uptimes = {metric: [z.uptime for z in zeros if z] for metric, zeros in readings.items() if zeros and all(zeros)}
    return tuple(uptimes), min((seconds for values in uptimes.values() for seconds in values), default=0.0)


def _demand_metrics() -> list[str]:
    return sorted({m.demand.metric for m in mechanisms().values() if m.demand})


def is_decided(outcome: RuleOutcome) -> bool:
    """Whether a no rests on evidence (a change over time, a stack, or another rule) and not only on missing data."""
    return outcome.is_excluded or any(e.kind in DYNAMIC for e in outcome.against)


def _is_ruled_out(
    mechanism: str,
    demand: Demand,
    outcomes: Outcomes,
    rules: Mapping[str, Rule],
    views: Sequence[StateView],
    times: float,
) -> bool:
    """Whether a core mechanism is ruled out. `times` is the size of a huge page relative to 2 MiB (256 on arm64 with
    64 KiB pages). If it is larger, the rates of rules do not apply, because fewer pages are as much memory."""
    is_larger = demand.of_huge_pages and times > 1
    own_rules = [r for r in rules.values() if r.file.mechanism == mechanism]
    # If only one process was observed, another one may have a problem of single processes.
    may_be_elsewhere = any(s.case.process for s in views) and any(r.file.for_each == "process" for r in own_rules)
    relevant = [outcomes[r.id] for r in own_rules if r.file.role == "root_cause" and r.id in outcomes]
    if len(views) == 1:  # rules that only compare settings do not apply to a host on which none was switched
        idle = {r.id for r in own_rules if all(isinstance(c, ToggleCheck) for c in r.checks.values())}
        relevant = [o for o in relevant if o.rule not in idle or set(o.missing) > {OTHER_SETTING}]
    is_denied = bool(relevant) and all(map(_cannot_fire, relevant)) and any(map(is_decided, relevant))
    if is_denied and not is_larger and not may_be_elsewhere:
        return True
    limit = demand.per_second / times if is_larger else demand.per_second
    # Requests of smaller huge pages are not in the counters of /proc/vmstat.
    has_smaller_sizes = any(f.name == SMALLER_SIZES and f.value == "always" for v in views for f in v.state.facts)
    metrics = (demand.metric, "" if has_smaller_sizes else demand.requests)
    return any(_has_no_demand(metric, limit, views) for metric in metrics if metric)


def _cannot_fire(outcome: RuleOutcome) -> bool:
    """Whether no further data could make a rule fire. A comparison of settings that is missing, as on most hosts,
    does not keep a rule open that other evidence denies."""
    return outcome.value is NO or (is_decided(outcome) and set(outcome.missing) <= {OTHER_SETTING})


def _has_no_demand(metric: str, limit: float, views: Sequence[StateView]) -> bool:
    """Whether a counter was recorded for long enough and its rate was at most `limit` per second in every five
    minutes of every state, or was 0 since boot."""
    for view in views:
        rates = [max_rate(t, LONG_SECONDS) for t in _watched_tracks(view, metric)]
        if (not rates and _zero_reading(metric, view, views) is None) or max(rates, default=0.0) > limit:
            return False
    return True


def _watched_tracks(view: StateView, metric: str) -> list[Track]:
    return [t for t in view.catalogue.tracks(metric) if observed_seconds(t) >= MIN_WATCHED_SECONDS]


def _zero_reading(metric: str, view: StateView, views: Sequence[StateView]) -> ZeroReading | None:
    """A reading of 0 since boot in any state, made after the whole recording of this state."""
    readings = [
        z
        for s in views
        for z in zero_readings(s.catalogue.tracks(metric), s.case)
        if covers_state(z, view.state, view.case)
    ]
    return max(readings, key=lambda zero: zero.uptime, default=None)


VETO_MECHANISM = "not-applicable"  # a context rule of this mechanism suppresses all findings about huge pages
SMALLER_SIZES = "thp.smaller_sizes"
DECIDING_SETTINGS = ("thp.enabled", "thp.defrag")  # settings that decide whether a state is the current one


class RuledOut(NamedTuple):
    """A rule that could have explained the symptom and does not."""

    rule: Rule
    because: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of one host. `leader` is the lead finding; `outcomes` has one outcome per rule."""

    case: Case
    status: str
    leader: Finding | None
    findings: tuple[Finding, ...]
    ruled_out: tuple[RuledOut, ...]
    outcomes: Mapping[str, RuleOutcome]
    rules: Sequence[Rule]
    state: str | None  # present, past, unknown
    by_state: Sequence[StateOutcomes] = ()  # for `explain`

    @cached_property
    def rule_by_id(self) -> Mapping[str, Rule]:
        return {rule.id: rule for rule in self.rules}

    @cached_property
    def leading_rules(self) -> Mapping[str, Sequence[Rule]]:
        """The rules that can lead, by mechanism."""
        rules: dict[str, list[Rule]] = {}
        for rule in self.rules:
            if rule.file.role in LEADING_ROLES:
                rules.setdefault(rule.file.mechanism, []).append(rule)
        return rules


def diagnose(case: Case, rules: Sequence[Rule], by_state: Sequence[StateOutcomes]) -> Diagnosis:
    """Return the diagnosis of a host from the outcomes of all rules in all its states."""
    by_id = {r.id: r for r in rules}
    best = {r.id: _best_outcome(r.id, by_state) for r in rules}
    fired = {i: _finding(by_id[i], o, case) for i, o in best.items() if o is not None}
    is_vetoed = any(f.role == "context" and f.mechanism == VETO_MECHANISM for f in fired.values())
    if is_vetoed:
        fired = {i: f for i, f in fired.items() if mechanism_kind(f.mechanism) != THP}
    findings = rank_findings(fired, by_id)
    leader = lead_finding(findings)
    outcomes = {r.id: best[r.id] or _weaken_no(_silent_outcome(r.id, by_state, leader), case) for r in rules}
    if leader is not None:  # decided in this order (DESIGN 5)
        status = "found"
    elif is_vetoed:
        status = "not_applicable"
    else:
        status = "nothing_found" if all_clear(outcomes, by_id, [view for view, _ in by_state]) else "cannot_tell"
    ruled_out = tuple(_ruled_out(rules, outcomes, fired, leader))
    state = _time_of_finding(case, leader) if leader else None
    return Diagnosis(case, status, leader, findings, ruled_out, outcomes, rules, state, by_state)


StateOutcomes = tuple[StateView, Mapping[str, RuleOutcome]]


def _best_outcome(rule: str, by_state: Sequence[StateOutcomes]) -> RuleOutcome | None:
    """The outcome of the state in which the rule fires with the highest confidence, of equal ones the latest; None
    if none."""
    options = [
        (outcomes[rule].confidence_rank, view.state.order or 0, outcomes[rule])
        for view, outcomes in by_state
        if outcomes[rule].value is YES
    ]
    return max(options, key=lambda option: option[:2])[2] if options else None


def _silent_outcome(rule: str, by_state: Sequence[StateOutcomes], leader: Finding | None) -> RuleOutcome:
    """The outcome that is reported of a rule that does not fire. If there is a lead finding, only states with its
    settings count: a no after the cure does not rule out a problem before. Without one, a single undecided state
    leaves the rule unknown."""
    lead_state = _state_of(leader.outcome, by_state[0][0].case) if leader else None
    options = [
        (view, outcomes[rule])
        for view, outcomes in by_state
        if lead_state is None
        or view.state.id == lead_state.id
        or _compare_settings(view.state, lead_state) == "present"
    ]
    denied = [o for _, o in options if o.value is NO and is_decided(o)]
    unknown = [o for s, o in options if o.value is UNKNOWN and (s.state.samples or s.state.profiles or s.state.events)]
    ordered = [*denied, *unknown] if leader else [*unknown, *denied]
    rest = [o for _, o in options if o.value is NO] + [o for _, o in options]
    return (ordered or rest or [by_state[0][1][rule]])[0]


def _weaken_no(outcome: RuleOutcome, case: Case) -> RuleOutcome:
    """Turn a no to unknown if an archive is damaged, unless it rests on measured settings or facts."""
    if outcome.value is not NO or outcome.firm or outcome.is_excluded or "*" not in case.hidden:
        return outcome
    return replace(outcome, value=UNKNOWN)


def _finding(rule: Rule, outcome: RuleOutcome, case: Case) -> Finding:
    file, state, latest = rule.file, _state_of(outcome, case), _latest(case)
    confidence = outcome.confidence or "possible"
    past = state.order is not None and latest is not None and _compare_settings(state, latest) == "past"
    return Finding(
        outcome,
        file.severity,
        confidence,
        file.role,
        file.title,
        file.mechanism,
        under=_deciding_settings(state),
        past=past,
    )


def _ruled_out(
    rules: Sequence[Rule], outcomes: Mapping[str, RuleOutcome], fired: Mapping[str, Finding], leader: Finding | None
) -> Iterator[RuledOut]:
    """Causes and alternatives that the evidence contradicts, except those that the leader includes or leads to."""
    mechanism = mechanisms().get(leader.mechanism) if leader else None
    related = {leader.mechanism, *(mechanism.leads_to if mechanism else ())} if leader else set()
    undecided = {
        rule.file.mechanism
        for rule in rules
        if rule.file.role in LEADING_ROLES
        and mechanism_kind(rule.file.mechanism) == THP
        and outcomes[rule.id].value is UNKNOWN
    }
    for rule in sorted(rules, key=lambda r: r.id):
        outcome = outcomes[rule.id]
        if rule.file.role not in LEADING_ROLES or outcome.value is not NO or rule.id in fired:
            continue
        contradicting = [
            e
            for e in outcome.against
            if e.excludes or (e.cite is not None and e.kind in DYNAMIC and not _only_shows_callers(rule, e))
        ]
        if contradicting and rule.file.mechanism not in related:
            # A property of the host, if it rules the cause out, is a better reason than its load at the time.
            persistent = outcome.against if outcome.firm and not outcome.is_excluded else ()
            reasons = [*(e for e in persistent if e.kind == "state" and e.cite is not None), *contradicting]
            if rule.file.mechanism not in undecided or not _leaves_mechanism_open(rule, reasons[0]):
                yield RuledOut(rule, reasons[0].text, tuple(reasons[:3]))


def _leaves_mechanism_open(rule: Rule, evidence: Evidence) -> bool:
    """Whether the evidence denies this rule but not its mechanism: a short uptime, another kernel, or more kernel
    time."""
    check = rule.checks.get(evidence.check)
    if isinstance(check, FactCheck):
        return check.fact == "uptime.seconds" or (
            check.fact == "kernel.era" and rule.file.mechanism in UNIVERSAL_MECHANISMS
        )
    return evidence.kind == "cpu" and isinstance(check, SeriesCheck) and check.below is not None


def _only_shows_callers(rule: Rule, evidence: Evidence) -> bool:
    """Whether the evidence is that a recording has callers, which denies no cause."""
    check = rule.checks.get(evidence.check)
    return isinstance(check, ProfileCheck) and check.profile.flat


def _time_of_finding(case: Case, leader: Finding) -> str:
    """Whether the state of the finding is the latest one: present, past or unknown."""
    cites = [e.cite for e in leader.outcome.evidence if e.cite and e.kind in (*DYNAMIC, "log")]
    is_testimony = all(e.kind == "testimony" for e in leader.outcome.evidence)  # its time is unknown
    if is_testimony or _has_other_kernel(case, leader) or are_old_messages(case, cites):
        return "unknown"
    if len(case.states) == 1:
        return "present"
    state, latest = _state_of(leader.outcome, case), _latest(case)
    if state.order is None or latest is None:
        return "unknown"
    return "present" if state.id == latest.id else _compare_settings(state, latest)


def _state_of(outcome: RuleOutcome, case: Case) -> State:
    return next(s for s in case.states if s.id == outcome.state)


def _latest(case: Case) -> State | None:
    """The last of the states whose order is known."""
    return max((s for s in case.states if s.order is not None), key=lambda s: s.order or 0, default=None)


def _has_other_kernel(case: Case, leader: Finding) -> bool:
    """Whether the finding was measured under one kernel and other parts of the input show another."""
    members = {e.cite.member for e in leader.outcome.evidence if e.cite and e.kind in DYNAMIC}
    releases = [f for f in case.facts if f.name == "kernel.release" and not f.provenance]
    measured = {f.value for f in releases if f.cite.member in members}
    return bool(measured) and not measured.issuperset(f.value for f in releases)


def _compare_settings(state: State, latest: State) -> str:
    """Compare the settings of a state with a later one: present, past, or unknown if one lacks a setting. A state
    before the first recorded setting is present if the assumed default equals the later value."""
    settings, latest_settings = _deciding_settings(state), _deciding_settings(latest)
    if any(latest_settings[name] != settings[name] for name in settings.keys() & latest_settings.keys()):
        return "past"
    return "present" if settings.keys() == latest_settings.keys() else "unknown"


def _deciding_settings(state: State) -> dict[str, str]:
    """The values of the deciding settings in force; where none was measured, the first one stated."""
    values = dict(state.settings)
    for fact in state.facts:
        values.setdefault(fact.name, str(fact.value))
    return {name: value for name, value in values.items() if name in DECIDING_SETTINGS}
