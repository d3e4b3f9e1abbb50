"""From outcomes to one diagnosis: what leads (`thpdiag.diagnosis.ranking`), what is ruled out, what is missing.

Huge pages do no harm on a host where each core mechanism is out (`all_clear`; DESIGN 5, `nothing_found`). Out is what a
rule denies by a change over time or a stack, or what nothing asks for: the counter of its demand was recorded for long
enough and hardly moved (mechanisms.yaml), or was 0 since boot when all of it had been recorded. That is no answer of a
rule: no total since boot makes one say yes, and no 0 is told among what is ruled out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from thpdiag.diagnosis.ranking import LEADING, THP, leads, mechanism_kind, rank_findings
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

LONG_ENOUGH = 15.0  # seconds of counters that can show that nothing moves: a round of khugepaged, of 10 s, is in them
BRIEF = 60.0  # seconds: what comes in bursts may be missed by a look that is no longer
OF_ALL_KERNELS = frozenset({"fault-compaction"})  # mechanisms that some rules know on certain kernels only
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
    longest = [max(map(observed_seconds, of_metric), default=0.0) for of_metric in tracks]
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


def is_decided(outcome: RuleOutcome) -> bool:
    """Whether a no is more than that something is missing: a change over time, a stack or another rule speaks."""
    return outcome.is_excluded or any(e.kind in DYNAMIC for e in outcome.against)


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
    # Rules that only compare settings say nothing of a host on which none was switched.
    idle = (
        {r.id for r in own if all(isinstance(c, ToggleCheck) for c in r.checks.values())} if len(views) == 1 else set()
    )
    told = [outcome for outcome in told if outcome.rule not in idle or set(outcome.missing) > {OTHER_SETTING}]
    denied = bool(told) and all(map(_cannot_fire, told)) and any(map(is_decided, told))
    if denied and not larger and not elsewhere:
        return True
    return _stands_still(demand.metric, demand.per_second / times if larger else demand.per_second, views)


def _cannot_fire(outcome: RuleOutcome) -> bool:
    """Whether a rule has nothing left that could make it fire.

    A comparison of settings that nobody made is missing on every host: where something else speaks against the rule, it
    does not keep it open.
    """
    return outcome.value is NO or (is_decided(outcome) and set(outcome.missing) <= {OTHER_SETTING})


def _stands_still(metric: str, limit: float, views: Sequence[StateView]) -> bool:
    """Whether a counter was recorded for long enough and moved by no more than `limit` per second, in every state, and
    in every five minutes of it; or never moved since boot."""
    for view in views:
        rates = [max_rate(t, LONG_SECONDS) for t in _watched_long(view, metric)]
        if (not rates and _zero_reading(metric, view, views) is None) or max(rates, default=0.0) > limit:
            return False
    return True


def _watched_long(view: StateView, metric: str) -> list[Track]:
    return [t for t in view.catalogue.tracks(metric) if observed_seconds(t) >= LONG_ENOUGH]


def _zero_reading(metric: str, view: StateView, views: Sequence[StateView]) -> ZeroReading | None:
    """A reading of 0 since boot, in whichever state, that was made when all of this one had been recorded."""
    found = [
        z
        for s in views
        for z in zero_readings(s.catalogue.tracks(metric), s.case)
        if covers_state(z, view.state, view.case)
    ]
    return max(found, key=lambda zero: zero.uptime, default=None)


VETO = "not-applicable"  # a context rule of this mechanism silences all findings about huge pages; others only inform
DECISIVE = ("thp.enabled", "thp.defrag")  # settings that decide whether the state of a finding still holds


class RuledOut(NamedTuple):
    """A rule that could have explained the symptom and does not."""

    rule: Rule
    because: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong with one host. `leader` is the finding of the verdict; `outcomes` hold one outcome per rule."""

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
        found: dict[str, list[Rule]] = {}
        for rule in self.rules:
            if rule.file.role in LEADING:
                found.setdefault(rule.file.mechanism, []).append(rule)
        return found


def diagnose(case: Case, rules: Sequence[Rule], by_state: Sequence[StateOutcomes]) -> Diagnosis:
    """The diagnosis of a host from the outcomes of all rules in all its states."""
    by_id = {rule.id: rule for rule in rules}
    surest = {rule.id: _surest(rule.id, by_state) for rule in rules}
    fired = {i: _finding(by_id[i], o, case) for i, o in surest.items() if o is not None}
    vetoed = any(f.role == "context" and f.mechanism == VETO for f in fired.values())
    if vetoed:
        fired = {i: f for i, f in fired.items() if mechanism_kind(f.mechanism) != THP}
    findings = rank_findings(fired, by_id)
    leader = leads(findings)
    outcomes = {rule.id: surest[rule.id] or _with_doubt(_not_fired(rule.id, by_state, leader), case) for rule in rules}
    if leader is not None:  # decided in this order (DESIGN 5)
        status = "found"
    elif vetoed:
        status = "not_applicable"
    else:
        status = "nothing_found" if all_clear(outcomes, by_id, [view for view, _ in by_state]) else "cannot_tell"
    ruled_out = tuple(_ruled_out(rules, outcomes, fired, leader))
    state = _state(case, leader) if leader else None
    return Diagnosis(case, status, leader, findings, ruled_out, outcomes, rules, state, by_state)


StateOutcomes = tuple[StateView, Mapping[str, RuleOutcome]]


def _surest(rule: str, by_state: Sequence[StateOutcomes]) -> RuleOutcome | None:
    """The outcome of the state in which the rule fires most surely, a later one before an earlier.

    None if it fires in none.
    """
    options = [
        (outcomes[rule].sureness, scene.state.order or 0, outcomes[rule])
        for scene, outcomes in by_state
        if outcomes[rule].value is YES
    ]
    return max(options, key=lambda option: option[:2])[2] if options else None


def _not_fired(rule: str, by_state: Sequence[StateOutcomes], leader: Finding | None) -> RuleOutcome:
    """What is said of a rule that fires nowhere.

    Where there is a leading finding, the states with its settings decide: that something was not there after the
    cure does not rule it out before. Without one, a single state that cannot tell leaves the rule unknown.
    """
    own = _state_of(leader.outcome, by_state[0][0].case) if leader else None
    near = [
        (view, outcomes[rule])
        for view, outcomes in by_state
        if own is None or view.state.id == own.id or _compare_settings(view.state, own) == "present"
    ]
    denied = [o for _, o in near if o.value is NO and is_decided(o)]
    open_ = [o for s, o in near if o.value is UNKNOWN and (s.state.samples or s.state.profiles or s.state.events)]
    ordered = [*denied, *open_] if leader else [*open_, *denied]
    rest = [o for _, o in near if o.value is NO] + [o for _, o in near]
    return (ordered or rest or [by_state[0][1][rule]])[0]


def _with_doubt(outcome: RuleOutcome, case: Case) -> RuleOutcome:
    """Where an archive is damaged nobody knows what it held: only measured settings and facts still say no."""
    if outcome.value is not NO or outcome.firm or outcome.is_excluded or "*" not in case.hidden:
        return outcome
    return replace(outcome, value=UNKNOWN)


def _finding(rule: Rule, outcome: RuleOutcome, case: Case) -> Finding:
    file, own, last = rule.file, _state_of(outcome, case), _latest(case)
    sure = outcome.confidence or "possible"
    past = own.order is not None and last is not None and _compare_settings(own, last) == "past"
    return Finding(outcome, file.severity, sure, file.role, file.title, file.mechanism, under=_deciding(own), past=past)


def _ruled_out(
    rules: Sequence[Rule], outcomes: Mapping[str, RuleOutcome], fired: Mapping[str, Finding], leader: Finding | None
) -> Iterator[RuledOut]:
    """Causes and alternatives that the input speaks against, with the number that does; none that the leader has a
    part in, or that follows from it.
    """
    own = mechanisms().get(leader.mechanism) if leader else None
    part = {leader.mechanism, *(own.leads_to if own else ())} if leader else set()
    undecided = {
        rule.file.mechanism
        for rule in rules
        if rule.file.role in LEADING
        and mechanism_kind(rule.file.mechanism) == THP
        and outcomes[rule.id].value is UNKNOWN
    }
    for rule in sorted(rules, key=lambda r: r.id):
        outcome = outcomes[rule.id]
        if rule.file.role not in LEADING or outcome.value is not NO or rule.id in fired:
            continue
        speaking = [
            e
            for e in outcome.against
            if e.excludes or (e.cite is not None and e.kind in DYNAMIC and not _is_of_form(rule, e))
        ]
        if speaking and rule.file.mechanism not in part:
            # What the host is, where that alone rules it out: a better reason than how busy it was at the time.
            lasting = outcome.against if outcome.firm and not outcome.is_excluded else ()
            told = [*(e for e in lasting if e.kind == "state" and e.cite is not None), *speaking]
            if rule.file.mechanism not in undecided or not _denies_one_way(rule, told[0]):
                yield RuledOut(rule, told[0].text, tuple(told[:3]))


def _denies_one_way(rule: Rule, evidence: Evidence) -> bool:
    """Whether it denies the rule and not its mechanism: a short uptime, another kernel, or more kernel time."""
    check = rule.checks.get(evidence.check)
    if isinstance(check, FactCheck):
        return check.fact == "uptime.seconds" or (check.fact == "kernel.era" and rule.file.mechanism in OF_ALL_KERNELS)
    return evidence.kind == "cpu" and isinstance(check, SeriesCheck) and check.below is not None


def _is_of_form(rule: Rule, evidence: Evidence) -> bool:
    """Whether it only says that a recording shows callers, which denies no cause."""
    check = rule.checks.get(evidence.check)
    return isinstance(check, ProfileCheck) and check.profile.flat


def _state(case: Case, leader: Finding) -> str:
    """Whether the state in which the finding holds is the latest one."""
    spoken = [e.cite for e in leader.outcome.evidence if e.cite and e.kind in (*DYNAMIC, "log")]
    written = all(e.kind == "testimony" for e in leader.outcome.evidence)  # of when it speaks nobody knows
    if written or _other_kernel(case, leader) or are_old_messages(case, spoken):
        return "unknown"
    if len(case.states) == 1:
        return "present"
    own, last = _state_of(leader.outcome, case), _latest(case)
    if own.order is None or last is None:
        return "unknown"
    return "present" if own.id == last.id else _compare_settings(own, last)


def _state_of(outcome: RuleOutcome, case: Case) -> State:
    return next(s for s in case.states if s.id == outcome.state)


def _latest(case: Case) -> State | None:
    """The last of the states whose order is known."""
    return max((s for s in case.states if s.order is not None), key=lambda s: s.order or 0, default=None)


def _other_kernel(case: Case, leader: Finding) -> bool:
    """Whether it was measured under one kernel, and other parts of the input show the host with another."""
    members = {e.cite.member for e in leader.outcome.evidence if e.cite and e.kind in DYNAMIC}
    named = [f for f in case.facts if f.name == "kernel.release" and not f.provenance]
    here = {f.value for f in named if f.cite.member in members}
    return bool(here) and not here.issuperset(f.value for f in named)


def _compare_settings(own: State, last: State) -> str:
    """Whether the settings of one state are those of another: present, past, or unknown where one of them lacks one.

    A stretch before the first recorded setting counts as the present one where an assumed default equals it.
    """
    then, now = _deciding(own), _deciding(last)
    if any(now[name] != then[name] for name in then.keys() & now.keys()):
        return "past"
    return "present" if then.keys() == now.keys() else "unknown"


def _deciding(state: State) -> dict[str, str]:
    """The values in force of the settings that decide; where none was measured the first that is told."""
    values = dict(state.settings)
    for fact in state.facts:
        values.setdefault(fact.name, str(fact.value))
    return {name: value for name, value in values.items() if name in DECISIVE}
