"""From outcomes to one diagnosis: what leads (`thpdiag.ranking`), what is ruled out, what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from thpdiag.all_clear import all_clear, decided
from thpdiag.derive.message_age import is_old
from thpdiag.engine.classes import DYNAMIC
from thpdiag.engine.judged import NO, UNKNOWN, YES, Scene
from thpdiag.engine.load import Rule
from thpdiag.knowledge.mechanisms import mechanisms
from thpdiag.model import Case, Evidence, Finding, RuleOutcome, State
from thpdiag.ranking import LEADING, leads, ranked

VETO = "not-applicable"  # a context rule of this mechanism silences all findings about huge pages; others only inform
DECISIVE = ("thp.enabled", "thp.defrag")  # settings that decide whether the state of a finding still holds


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
    by_state: Sequence[StateOutcomes] = ()  # for `explain`


def diagnose(case: Case, rules: Sequence[Rule], by_state: Sequence[StateOutcomes]) -> Diagnosis:
    """The diagnosis of a host from the outcomes of all rules in all its states."""
    by_id = {rule.id: rule for rule in rules}
    surest = {rule.id: _surest(rule.id, by_state) for rule in rules}
    fired = {i: _finding(by_id[i], o, case) for i, o in surest.items() if o is not None}
    vetoed = any(f.role == "context" and f.mechanism == VETO for f in fired.values())
    if vetoed:
        fired = {i: f for i, f in fired.items() if not _about_thp(f)}
    findings = ranked(fired, by_id)
    leader = leads(findings)
    outcomes = {rule.id: surest[rule.id] or _doubted(_not_fired(rule.id, by_state, leader), case) for rule in rules}
    status = _status(leader, outcomes, by_id, [s for s, _ in by_state], vetoed=vetoed)
    ruled_out = tuple(_ruled_out(rules, outcomes, fired, leader))
    state = _state(case, leader) if leader else None
    return Diagnosis(case, status, leader, findings, ruled_out, outcomes, rules, state, by_state)


StateOutcomes = tuple[Scene, Mapping[str, RuleOutcome]]


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
    near = [(s, o[rule]) for s, o in by_state if leader is None or _like(s, leader, by_state)]
    denied = [o for _, o in near if o.value is NO and decided(o)]
    open_ = [o for s, o in near if o.value is UNKNOWN and (s.state.samples or s.state.profiles or s.state.events)]
    ordered = [*denied, *open_] if leader else [*open_, *denied]
    rest = [o for _, o in near if o.value is NO] + [o for _, o in near]
    return (ordered or rest or [by_state[0][1][rule]])[0]


def _doubted(outcome: RuleOutcome, case: Case) -> RuleOutcome:
    """Where an archive is damaged nobody knows what it held: only measured settings and facts still say no."""
    if outcome.value is not NO or outcome.firm or outcome.excluded or "*" not in case.hidden:
        return outcome
    return replace(outcome, value=UNKNOWN)


def _like(scene: Scene, leader: Finding, by_state: Sequence[StateOutcomes]) -> bool:
    own = _state_of(leader.outcome, scene.case)
    return scene.state.id == own.id or _since(scene.state, own) == "present"


def _finding(rule: Rule, outcome: RuleOutcome, case: Case) -> Finding:
    file, own, last = rule.file, _state_of(outcome, case), _latest(case)
    sure = outcome.confidence or "possible"
    past = own.order is not None and last is not None and _since(own, last) == "past"
    return Finding(outcome, file.severity, sure, file.role, file.title, file.mechanism, under=_deciding(own), past=past)


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
    return "nothing_found" if all_clear(outcomes, by_id, scenes) else "cannot_tell"


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
            told = [*_lasting(outcome), *speaking]
            yield RuledOut(rule, told[0].text, tuple(told[:3]))


def _lasting(outcome: RuleOutcome) -> Iterator[Evidence]:
    """What the host is, where that alone rules it out: a better reason than how busy it was at the time."""
    if outcome.firm and not outcome.excluded:
        yield from (e for e in outcome.against if e.kind == "state" and e.cite is not None)


def _state(case: Case, leader: Finding) -> str:
    """Whether the state in which the finding holds is the latest one."""
    spoken = [e.cite for e in leader.outcome.evidence if e.cite and e.kind in (*DYNAMIC, "log")]
    if _other_kernel(case, leader) or is_old(case, spoken):
        return "unknown"
    if len(case.states) == 1:
        return "present"
    own, last = _state_of(leader.outcome, case), _latest(case)
    if own.order is None or last is None:
        return "unknown"
    return "present" if own.id == last.id else _since(own, last)


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


def _since(own: State, last: State) -> str:
    """Whether the settings of one state are those of another: present, past, or unknown where one of them lacks one.

    A stretch before the first recorded setting counts as the present one where an assumed default equals it.
    """
    then, now = _deciding(own), _deciding(last)
    if any(now[name] != then[name] for name in then.keys() & now.keys()):
        return "past"
    return "present" if then.keys() == now.keys() else "unknown"


def _deciding(state: State) -> dict[str, str]:
    return {name: value for name, value in _effective(state).items() if name in DECISIVE}


def _effective(state: State) -> dict[str, str]:
    settings = dict(state.settings)
    for fact in state.facts:
        settings.setdefault(fact.name, str(fact.value))
    return settings
