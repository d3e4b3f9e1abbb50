"""From outcomes to one diagnosis: what leads (`thpdiag.ranking`), what is ruled out, what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from thpdiag.derive.huge_page_size import USUAL, most_of_a_huge_page
from thpdiag.derive.message_age import is_old
from thpdiag.derive.rates import fastest
from thpdiag.derive.stretches import LONG
from thpdiag.engine.classes import DYNAMIC
from thpdiag.engine.judged import NO, UNKNOWN, YES, Scene
from thpdiag.engine.load import Rule
from thpdiag.knowledge.mechanisms import Demand, mechanisms
from thpdiag.model import CONFIDENCES, Case, Evidence, Finding, RuleOutcome, State
from thpdiag.ranking import LEADING, leads, ranked

VETO = "not-applicable"  # a context rule of this mechanism silences all findings about huge pages; others only inform
DECISIVE = ("thp.enabled", "thp.defrag")  # settings that decide whether the state of a finding still holds
LONG_ENOUGH = 30.0  # seconds of counters that can show that nothing moves


@dataclass(frozen=True, slots=True)
class RuledOut:
    """A rule that could have explained the symptom and does not."""

    rule: Rule
    because: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
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
    judged: Sequence[Judgement] = ()  # what every state was judged by, for `explain`


def diagnose(case: Case, rules: Sequence[Rule], judged: Sequence[Judgement]) -> Diagnosis:
    """The diagnosis of a host from the outcomes of all rules in all its states."""
    by_id = {rule.id: rule for rule in rules}
    surest = {rule.id: _surest(rule.id, judged) for rule in rules}
    fired = {i: _finding(by_id[i], o) for i, o in surest.items() if o is not None}
    vetoed = any(f.role == "context" and f.mechanism == VETO for f in fired.values())
    if vetoed:
        fired = {i: f for i, f in fired.items() if not _about_thp(f)}
    findings = ranked(fired, by_id)
    leader = leads(findings)
    outcomes = {rule.id: surest[rule.id] or _doubted(_not_fired(rule.id, judged, leader), case) for rule in rules}
    status = _status(leader, outcomes, by_id, [s for s, _ in judged], vetoed=vetoed)
    ruled_out = tuple(_ruled_out(rules, outcomes, fired, leader))
    state = _state(case, leader) if leader else None
    return Diagnosis(case, status, leader, findings, ruled_out, outcomes, rules, state, judged)


Judgement = tuple[Scene, Mapping[str, RuleOutcome]]


def _surest(rule: str, judged: Sequence[Judgement]) -> RuleOutcome | None:
    """The outcome of the state in which the rule fires most surely, a later one before an earlier.

    None if it fires in none.
    """
    options = [
        (CONFIDENCES.index(outcomes[rule].confidence or "possible"), scene.state.order or 0, outcomes[rule])
        for scene, outcomes in judged
        if outcomes[rule].value is YES
    ]
    return max(options, key=lambda option: option[:2])[2] if options else None


def _not_fired(rule: str, judged: Sequence[Judgement], leader: Finding | None) -> RuleOutcome:
    """What is said of a rule that fires nowhere.

    Where there is a leading finding, the states with its settings decide: that something was not there after the
    cure does not rule it out before. Without one, a single state that cannot tell leaves the rule unknown.
    """
    near = [(s, o[rule]) for s, o in judged if leader is None or _like(s, leader, judged)]
    decided = [o for _, o in near if o.value is NO and _decided(o)]
    open_ = [o for s, o in near if o.value is UNKNOWN and (s.state.samples or s.state.profiles or s.state.events)]
    ordered = [*decided, *open_] if leader else [*open_, *decided]
    rest = [o for _, o in near if o.value is NO] + [o for _, o in near]
    return (ordered or rest or [judged[0][1][rule]])[0]


def _doubted(outcome: RuleOutcome, case: Case) -> RuleOutcome:
    """Where an archive is damaged nobody knows what it held: only measured settings and facts still say no."""
    if outcome.value is not NO or outcome.firm or outcome.excluded or "*" not in case.hidden:
        return outcome
    return replace(outcome, value=UNKNOWN)


def _like(scene: Scene, leader: Finding, judged: Sequence[Judgement]) -> bool:
    own = next(s.state for s, _ in judged if s.state.id == leader.outcome.state)
    return scene.state.id == own.id or _same_settings(scene.state, own)


def _decided(outcome: RuleOutcome) -> bool:
    return outcome.excluded or any(e.kind in DYNAMIC for e in outcome.against)


def _finding(rule: Rule, outcome: RuleOutcome) -> Finding:
    file = rule.file
    return Finding(outcome, file.severity, outcome.confidence or "possible", file.role, file.title, file.mechanism)


def _about_thp(finding: Finding) -> bool:
    known = mechanisms().get(finding.mechanism)
    return known is not None and known.kind == "thp"


def _status(
    leader: Finding | None,
    outcomes: Mapping[str, RuleOutcome],
    by_id: Mapping[str, Rule],
    scenes: Sequence[Scene],
    *,
    vetoed: bool,
) -> str:
    """found, not_applicable, nothing_found or cannot_tell, decided in this order (DESIGN 5)."""
    if leader is not None:
        return "found"
    if vetoed:
        return "not_applicable"
    core = [(m.name, m.demand) for m in mechanisms().values() if m.demand]
    times = max((most_of_a_huge_page(s.case) for s in scenes), default=USUAL) / USUAL
    quiet = all(_quiet(name, demand, outcomes, by_id, scenes, times) for name, demand in core)
    if scenes and quiet and not any(s.case.hidden for s in scenes):
        return "nothing_found"
    return "cannot_tell"


def _quiet(
    mechanism: str,
    demand: Demand,
    outcomes: Mapping[str, RuleOutcome],
    by_id: Mapping[str, Rule],
    scenes: Sequence[Scene],
    times: float,
) -> bool:
    """Whether a core mechanism is out. Where a huge page is larger than 2 MiB (512 MiB on arm64 with pages of 64 KiB),
    `times` as large, rates of the rules say nothing of it: few such pages are as much memory.
    """
    larger = demand.of_huge_pages and times > 1
    elsewhere = any(s.case.process for s in scenes) and _of_processes(mechanism, by_id.values())
    if _is_no(mechanism, outcomes, by_id) and not larger and not elsewhere:
        return True
    return _stands_still(demand.metric, demand.per_second / times if larger else demand.per_second, scenes)


def _of_processes(mechanism: str, rules: Iterable[Rule]) -> bool:
    """Whether it happens to single processes: where only one was looked at, another one may have it."""
    return any(rule.file.mechanism == mechanism and rule.file.for_each == "process" for rule in rules)


def _is_no(mechanism: str, outcomes: Mapping[str, RuleOutcome], by_id: Mapping[str, Rule]) -> bool:
    """A rule of the mechanism said no by a change over time or a stack, and none is halfway to a yes."""
    own = [
        o for i, o in outcomes.items() if by_id[i].file.mechanism == mechanism and by_id[i].file.role == "root_cause"
    ]
    return any(o.value is NO and _decided(o) for o in own) and not any(map(_halfway, own))


def _halfway(outcome: RuleOutcome) -> bool:
    """Whether a rule lacks something, but two kinds of evidence of the time speak for it and none against."""
    kinds = {e.kind for e in outcome.evidence if e.kind in DYNAMIC}
    return outcome.value is UNKNOWN and len(kinds) > 1 and not _decided(outcome)


def _stands_still(metric: str, limit: float, scenes: Sequence[Scene]) -> bool:
    """Whether a counter was recorded for long enough and moved by no more than `limit` per second, in every state, and
    in every five minutes of it."""
    for scene in scenes:
        tracks = [t for t in scene.catalogue.tracks(metric) if (t.duration or 0) >= LONG_ENOUGH]
        rates = [fastest(t, LONG) for t in tracks]
        if not rates or max(rates) > limit:
            return False
    return True


def _ruled_out(
    rules: Sequence[Rule], outcomes: Mapping[str, RuleOutcome], fired: Mapping[str, Finding], leader: Finding | None
) -> Iterator[RuledOut]:
    """Causes and alternatives that the input speaks against, with the number that does."""
    for rule in sorted(rules, key=lambda r: r.id):
        outcome = outcomes[rule.id]
        if rule.file.role not in LEADING or outcome.value is not NO or rule.id in fired:
            continue
        same = leader is not None and rule.file.mechanism == leader.mechanism
        speaking = [e for e in outcome.against if e.excludes or (e.cite is not None and e.kind in DYNAMIC)]
        if speaking and not same:
            yield RuledOut(rule, speaking[0].text, tuple(speaking[:3]))


def _state(case: Case, leader: Finding) -> str:
    """Whether the state in which the finding holds is the latest one."""
    spoken = [e.cite for e in leader.outcome.evidence if e.cite and e.kind in (*DYNAMIC, "log")]
    if _other_kernel(case, leader) or is_old(case, spoken):
        return "unknown"
    if len(case.states) == 1:
        return "present"
    orders = {s.id: s.order for s in case.states}
    if orders.get(leader.outcome.state) is None:
        return "unknown"
    last = max((s for s in case.states if s.order is not None), key=lambda s: s.order or 0)
    own = next(s for s in case.states if s.id == leader.outcome.state)
    return "present" if own.id == last.id or _same_settings(own, last) else "past"


def _other_kernel(case: Case, leader: Finding) -> bool:
    """Whether it was measured under one kernel, and other parts of the input show the host with another."""
    members = {e.cite.member for e in leader.outcome.evidence if e.cite and e.kind in DYNAMIC}
    named = [f for f in case.facts if f.name == "kernel.release" and not f.provenance]
    here = {f.value for f in named if f.cite.member in members}
    return bool(here) and not here.issuperset(f.value for f in named)


def _same_settings(own: State, last: State) -> bool:
    """A stretch before the first recorded setting counts as the present one where an assumed default equals it."""
    mine = _effective(own)
    return all(mine.get(name) == value for name, value in _effective(last).items() if name in DECISIVE)


def _effective(state: State) -> dict[str, str]:
    settings = dict(state.settings)
    for fact in state.facts:
        settings.setdefault(fact.name, str(fact.value))
    return settings
