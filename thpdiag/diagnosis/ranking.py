"""One root cause per host: which finding leads, which steps back behind it, what follows from it, what belongs to it.

The order of thp.md F.3: what a rule says it explains is a consequence, and steps back behind it as soon as the cause is
likely, even if the consequence is the surer of the two: that a result is plain to see makes it no cause. A rival that a
rule names (`demoted_by`; a context among these speaks against the rule, and then nobody may lead), and a cause whose
mechanism leads to that of the rule (mechanisms.yaml), must be at least as sure. Of two causes that both show in call
stacks the one with the larger share of all samples leads, unless one is a part of the other. Configuration and risks
belong to a cause that they favour; they are no consequence of it and never lead. What holds after a setting was
switched explains nothing of what was measured before it, and the other way round; and a likely trouble of now stands
before one that went with the switch, however sure that is: it is what hurts the host today.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from thpdiag.engine.check_result import DYNAMIC
from thpdiag.engine.load import Rule
from thpdiag.engine.schema import ProfileCheck, RuleFile, SeriesCheck
from thpdiag.host.series import LONG_SECONDS
from thpdiag.knowledge.mechanisms import mechanisms
from thpdiag.model import CONFIDENCES, SEVERITIES, Finding, Moment

LEADING = ("root_cause", "alternative")
BESIDE = ("configuration", "risk")
SURE = CONFIDENCES.index("likely")
SEVERE = SEVERITIES.index("high")
GRAVE = SEVERITIES.index("medium")  # what hurts less does not stand before what hurts, however sure it is
OF_ALL_CPUS = "cpu_ratio."  # figures that do not say what takes the time
PROOF = frozenset(("stack", "toggle"))  # classes of evidence that do
MUCH = 0.25  # share of all samples; where kernel time is half of the CPU time, the half of it
OF_ANY = ("setting-overridden", "fix-without-effect")  # mechanisms of settings: they belong to whatever huge pages do

THP = "thp"  # the kind of a mechanism of huge pages

Findings = Mapping[str, Finding]  # by rule
Rules = Mapping[str, Rule]


class Weight(NamedTuple):
    """What decides between two findings, the first difference counts; the greater one stands before."""

    likely: bool  # more than a hypothesis
    grave: bool  # what hurts
    now: bool  # of now, where something of now hurts
    confidence: int
    severity: int
    cause: bool  # of huge pages, not of something else
    share: float  # of all samples
    explains: bool  # what no other finding explains
    rule: str


def rank_findings(fired: Findings, rules: Rules) -> tuple[Finding, ...]:
    """The findings with their roles, the leader first if there is one; else those that weigh most."""
    raised = {i: _raise_confidence(f, rules[i], fired) for i, f in fired.items()}
    standing = _stepped_back(raised, rules)
    weight = _weights(standing, rules)
    order = sorted(standing, key=lambda i: weight[i], reverse=True)
    leader = next((i for i in order if standing[i].role in LEADING), None)
    if leader is None:
        return tuple(standing[i] for i in order)
    follows, belongs = _consequences(leader, standing, rules)
    first = replace(standing[leader], consequences=follows, attached=belongs)
    # A further cause contributes, and so does what follows from the leader.
    others = []
    for finding in (standing[i] for i in order if i != leader):
        folded = finding.outcome.rule in follows and finding.role in LEADING
        others.append(finding.with_role("contributing") if folded or finding.role == "root_cause" else finding)
    return (first, *others)


def leads(findings: Iterable[Finding]) -> Finding | None:
    """The finding of the verdict, of those that are ranked."""
    first = next(iter(findings), None)
    return first if first is not None and first.role in LEADING else None


def mechanism_kind(name: str) -> str:
    """The kind of a mechanism, empty for one that nobody knows."""
    return known.kind if (known := mechanisms().get(name)) else ""


def share(finding: Finding, rule: Rule) -> float | None:
    """The largest share of all samples that it showed in call stacks; the purity of a chain is no such share."""
    of_all = {
        name
        for name, check in rule.checks.items()
        if isinstance(check, ProfileCheck) and check.profile.of == "all" and check.profile.at_least is not None
    }
    found = [e.value for e in finding.outcome.evidence if isinstance(e.value, float) and e.check in of_all]
    return max(found, default=None)


def _weights(found: Findings, rules: Rules) -> dict[str, Weight]:
    explained = {i for other in found for i in rules[other].file.explains}
    severities = {i: SEVERITIES.index(f.severity) for i, f in found.items()}
    hurts_now = any(  # a likely and severe cause under the latest settings
        f.role == "root_cause" and f.sureness >= SURE and severities[i] >= SEVERE and not f.past
        for i, f in found.items()
    )
    return {
        i: Weight(
            likely=f.sureness >= SURE, grave=severities[i] >= GRAVE, now=not (hurts_now and f.past),
            confidence=f.sureness, severity=severities[i], cause=f.role == "root_cause",
            share=share(f, rules[i]) or 0.0, explains=i not in explained, rule=i,
        )
        for i, f in found.items()
    }  # fmt: skip


def _raise_confidence(finding: Finding, rule: Rule, fired: Findings) -> Finding:
    """One level up, to `likely` at most, if a rule that supports it fires and is itself likely."""
    support = [
        fired[i]
        for i in rule.file.raised_by
        if i in fired and fired[i].confidence != "possible" and may_meet(fired[i], finding)
    ]
    return replace(finding, confidence="likely") if support and finding.confidence == "possible" else finding


def _stepped_back(fired: Findings, rules: Rules) -> Findings:
    """Each cause behind those that explain it. Of causes that explain one another in a ring the weightiest stays."""
    behind = {i: tuple(sorted(_explaining(i, fired, rules))) for i in fired}
    weight, reached = _weights(fired, rules), {i: _all_behind(i, behind) for i in fired}
    kept = {i: tuple(d for d in by if i not in reached[d] or weight[d] > weight[i]) for i, by in behind.items()}
    kept |= {i: tuple(sorted({*by, *_less_sure_causes(i, kept, fired, rules)})) for i, by in kept.items()}
    return {i: replace(f, role="contributing", demoted_by=kept[i]) if kept[i] else f for i, f in fired.items()}


def _less_sure_causes(one: str, behind: Mapping[str, tuple[str, ...]], fired: Findings, rules: Rules) -> Iterator[str]:
    """Likely causes of a finding that is surer than they are, unless they themselves are explained by something that
    has no part in it: a cause that is out explains nothing.
    """
    causes = [i for i in fired if _causes(i, one, fired, rules) and SURE <= fired[i].sureness < fired[one].sureness]
    for cause in causes:
        above = _all_behind(cause, behind)
        first = {i for i in above if not behind[i]}
        if one not in above and all(i in causes or i in behind[one] for i in first):
            yield cause


def _all_behind(start: str, behind: Mapping[str, tuple[str, ...]]) -> set[str]:
    """All that a finding steps back behind, and what these step back behind."""
    found: set[str] = set()
    todo = [start]
    while todo:
        new = set(behind[todo.pop()]) - found
        found |= new
        todo += new
    return found


def _explaining(one: str, fired: Findings, rules: Rules) -> Iterator[str]:
    """What explains a finding and is at least as sure."""
    finding = fired[one]
    if finding.role not in LEADING:
        return
    for other, found in fired.items():
        if other == one or found.sureness < finding.sureness:
            continue
        weighs = (
            _rival(found, finding, rules) and _of_one_state(found, finding) and not _smaller(other, one, fired, rules)
        )
        if weighs or _causes(other, one, fired, rules):
            yield other


def _rival(other: Finding, finding: Finding, rules: Rules) -> bool:
    """Whether a finding would explain another one; a context may only where the rule names it: it speaks against it.

    What a rule says of itself goes before what is known of its mechanism in general.
    """
    if _takes_the_time(other, finding, rules):
        return True
    one, by = finding.outcome.rule, other.outcome.rule
    if by in rules[one].file.demoted_by:
        return other.role in LEADING or other.role == "context"
    return other.role in LEADING and _leads_to(other, finding) and one not in rules[by].file.demoted_by


def _takes_the_time(other: Finding, finding: Finding, rules: Rules) -> bool:
    """Whether call stacks show that something else takes the kernel time that a finding infers from CPU figures alone.

    A switch of a setting is more than such figures.
    """
    checks = rules[finding.outcome.rule].checks
    cpus = [c for e in finding.outcome.evidence if isinstance(c := checks.get(e.check), SeriesCheck)]
    inferred = any(c.series.startswith(OF_ALL_CPUS) for c in cpus) and not PROOF & set(finding.outcome.spoken)
    if other.role != "alternative" or finding.role != "root_cause" or not inferred:
        return False
    return (share(other, rules[other.outcome.rule]) or 0.0) >= MUCH


def _causes(other: str, one: str, fired: Findings, rules: Rules) -> bool:
    """Whether a finding says of itself that it explains the other, and both could lead.

    Where one is a part of the other (the locks or flushes of compaction) its share is the smaller one by nature.
    """
    cause, effect = fired[other], fired[one]
    lead = cause.role in LEADING and effect.role in LEADING
    if not lead or one not in rules[other].file.explains or not _of_one_state(cause, effect):
        return False
    part = cause.mechanism == effect.mechanism or _leads_to(cause, effect)
    return part or not _smaller(other, one, fired, rules)


def is_implied(one: Rule, key: str, other: Rule) -> bool:
    """Whether findings of two rules relate like that even if the first does not say so in its list `key`.

    The mechanisms say as much as `demoted_by` does, and as `explains` of what cannot lead. `explains` of the other
    rule says more than `demoted_by`.
    """
    cause, effect = one.file, other.file
    if key == "demoted_by":
        both = cause.role in LEADING and effect.role in LEADING
        return both and (one.id in effect.explains or _leads_to(effect, cause))
    if key != "explains" or effect.role in LEADING:
        return False
    return _leads_to(cause, effect) or (effect.role in BESIDE and _favours(effect, cause))


def _leads_to(cause: Finding | RuleFile, finding: Finding | RuleFile) -> bool:
    known = mechanisms().get(cause.mechanism)
    return known is not None and finding.mechanism in known.leads_to


def _smaller(other: str, one: str, fired: Findings, rules: Rules) -> bool:
    """Whether both are causes that show in call stacks, and the other has the smaller share."""
    if not fired[other].role == fired[one].role == "root_cause":
        return False
    theirs, ours = share(fired[other], rules[other]), share(fired[one], rules[one])
    return theirs is not None and ours is not None and theirs < ours


def may_meet(one: Finding, other: Finding) -> bool:
    """Whether two findings may be of one time: what hurt at noon explains nothing of the night.

    Recordings that follow one another within minutes are of one time.
    """
    here, there = _time_range(one), _time_range(other)
    if here is None or there is None or here[0].clock is not there[0].clock:
        return True
    return here[0].seconds <= there[1].seconds + LONG_SECONDS and there[0].seconds <= here[1].seconds + LONG_SECONDS


def _of_one_state(one: Finding, other: Finding) -> bool:
    """Whether two findings may be of one time, and no setting was switched between what was measured for them.

    What a host is, such as that its memory is fragmented, holds before a switch as after it.
    """
    measured = all(set(DYNAMIC) & set(f.outcome.spoken) for f in (one, other))
    alike = all(one.under[n] == other.under[n] for n in one.under.keys() & other.under.keys())
    return may_meet(one, other) and (alike or not measured)


def _time_range(finding: Finding) -> tuple[Moment, Moment] | None:
    """The stretch in which it holds; else from the first to the last of what its evidence speaks of, on one clock."""
    if finding.outcome.window:
        return finding.outcome.window
    dynamic = [e.window for e in finding.outcome.evidence if e.kind in DYNAMIC]
    spans = [window for window in dynamic if window]
    if not spans or len(spans) < len(dynamic) or len({first.clock for first, _ in spans}) > 1:
        return None
    return min(first for first, _ in spans), max(last for _, last in spans)


def _consequences(leader: str, standing: Findings, rules: Rules) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What follows from the leader, and which configuration and risks belong to it."""
    first = standing[leader]
    near = {i: f for i, f in standing.items() if i != leader and may_meet(first, f)}
    own = _following(leader, near, standing, rules)
    belongs = [i for i, f in near.items() if f.role in BESIDE and (i in own or _favours(f, first))]
    able = [i for i, f in near.items() if f.role not in (*BESIDE, "context") and _of_one_state(first, f)]
    follows, todo = set[str](), [leader]
    while todo:
        new = _following(todo.pop(), able, standing, rules) - follows
        follows |= new
        todo += new
    return tuple(sorted(follows)), tuple(sorted(belongs))


def _following(cause: str, able: Iterable[str], standing: Findings, rules: Rules) -> set[str]:
    """What a finding explains itself, of those named."""
    explained = rules[cause].file.explains
    return {i for i in able if i in explained or _leads_to(standing[cause], standing[i])} - {cause}


def _favours(finding: Finding | RuleFile, leader: Finding | RuleFile) -> bool:
    """Whether a setting or a risk is about the leader's mechanism, or about any that huge pages have."""
    about_any = finding.mechanism in OF_ANY and mechanism_kind(leader.mechanism) == THP
    return finding.mechanism == leader.mechanism or about_any
