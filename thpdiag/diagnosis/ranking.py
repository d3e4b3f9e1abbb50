"""Rank the findings of a host: the root cause, demoted findings, consequences, and attached configuration and risks.

The order follows thp.md F.3:

- A finding that another rule lists in `explains` is a consequence. It is demoted as soon as the cause is likely, even
  if the consequence has the higher confidence: being easy to see does not make a result the cause.
- A rival that a rule names in `demoted_by`, or whose mechanism leads to the mechanism of the rule (mechanisms.yaml),
  demotes the finding only if its confidence is at least as high. If that rival has the role `context`, it contradicts
  the rule, and no finding leads because of it.
- Of two causes that both show in call stacks, the one with the larger share of all samples leads, unless one is a part
  of the other.
- Configuration and risk findings are attached to a cause that they favour. They are not consequences and never lead.
- A finding measured under one setting does not explain a finding measured under another. A likely problem under the
  current settings ranks before one that ended with a switch of settings, whatever the confidence of the latter.
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

LEADING_ROLES = ("root_cause", "alternative")
ATTACHED_ROLES = ("configuration", "risk")
LIKELY = CONFIDENCES.index("likely")
HIGH_SEVERITY = SEVERITIES.index("high")
MEDIUM_SEVERITY = SEVERITIES.index("medium")  # findings below rank after those above, whatever their confidence
CPU_PREFIX = "cpu_ratio."  # metrics that show how much CPU time is used, not what uses it
CAUSAL_CLASSES = frozenset(("stack", "toggle"))  # classes of evidence that show what uses the CPU time
MIN_LEAD_SHARE = 0.25  # of all samples: half of the kernel time on a host that spends half of its CPU time there
SETTING_MECHANISMS = ("setting-overridden", "fix-without-effect")  # they concern every mechanism of huge pages

THP = "thp"  # kind of the mechanisms of huge pages

Findings = Mapping[str, Finding]  # by rule
Rules = Mapping[str, Rule]


class SortKey(NamedTuple):
    """The rank of a finding. The first field that differs decides; the greater value ranks first."""

    is_likely: bool
    is_severe: bool
    is_current: bool  # False only for a past finding on a host that has a current severe one
    confidence: int
    severity: int
    is_root_cause: bool  # not an alternative
    share: float  # of all samples
    is_unexplained: bool  # no other finding explains it
    rule: str


def rank_findings(fired: Findings, rules: Rules) -> tuple[Finding, ...]:
    """Return the findings with their roles, best first. The first one leads if its role allows it."""
    raised = {i: _raise_confidence(f, rules[i], fired) for i, f in fired.items()}
    findings = _demote(raised, rules)
    keys = _sort_keys(findings, rules)
    order = sorted(findings, key=lambda i: keys[i], reverse=True)
    leader = next((i for i in order if findings[i].role in LEADING_ROLES), None)
    if leader is None:
        return tuple(findings[i] for i in order)
    consequences, attached = _consequences(leader, findings, rules)
    ranked = [replace(findings[leader], consequences=consequences, attached=attached)]
    for finding in (findings[i] for i in order if i != leader):
        is_folded = finding.outcome.rule in consequences and finding.role in LEADING_ROLES
        is_contributing = is_folded or finding.role == "root_cause"
        ranked.append(finding.with_role("contributing") if is_contributing else finding)
    return tuple(ranked)


def lead_finding(findings: Iterable[Finding]) -> Finding | None:
    """Return the finding that the verdict reports, or None if no ranked finding may lead."""
    first = next(iter(findings), None)
    return first if first is not None and first.role in LEADING_ROLES else None


def mechanism_kind(name: str) -> str:
    """Return the kind of a mechanism, or "" for one that is not in mechanisms.yaml."""
    return mechanism.kind if (mechanism := mechanisms().get(name)) else ""


def _sample_share(finding: Finding, rule: Rule) -> float:
    """The largest share of all samples that the evidence shows in call stacks, or 0 if it shows none. Only profile
    checks of all samples count: a check of one call chain measures its share of that chain."""
    names = {
        name
        for name, check in rule.checks.items()
        if isinstance(check, ProfileCheck) and check.profile.of == "all" and check.profile.at_least is not None
    }
    shares = (e.value for e in finding.outcome.evidence if isinstance(e.value, float) and e.check in names)
    return max(shares, default=0.0)


def _sort_keys(findings: Findings, rules: Rules) -> dict[str, SortKey]:
    explained = {i for other in findings for i in rules[other].file.explains}
    severities = {i: SEVERITIES.index(f.severity) for i, f in findings.items()}
    has_current_cause = any(
        f.role == "root_cause" and f.confidence_rank >= LIKELY and severities[i] >= HIGH_SEVERITY and not f.past
        for i, f in findings.items()
    )
    return {
        i: SortKey(
            is_likely=f.confidence_rank >= LIKELY, is_severe=severities[i] >= MEDIUM_SEVERITY,
            is_current=not (has_current_cause and f.past), confidence=f.confidence_rank, severity=severities[i],
            is_root_cause=f.role == "root_cause", share=_sample_share(f, rules[i]), is_unexplained=i not in explained,
            rule=i,
        )
        for i, f in findings.items()
    }  # fmt: skip


def _raise_confidence(finding: Finding, rule: Rule, fired: Findings) -> Finding:
    """Raise `possible` to `likely` if a rule in `raised_by` fired at the same time and is at least likely."""
    is_raised = finding.confidence == "possible" and any(
        i in fired and fired[i].confidence != "possible" and _may_coincide(fired[i], finding)
        for i in rule.file.raised_by
    )
    return replace(finding, confidence="likely") if is_raised else finding


def _demote(fired: Findings, rules: Rules) -> Findings:
    """Demote each cause that others explain. Of causes that explain one another in a cycle the best ranked remains."""
    direct = {i: tuple(sorted(_explanations(i, fired, rules))) for i in fired}
    keys, reachable = _sort_keys(fired, rules), {i: _all_demoters(i, direct) for i in fired}
    demoters = {i: tuple(d for d in by if i not in reachable[d] or keys[d] > keys[i]) for i, by in direct.items()}
    demoters |= {i: tuple(sorted({*by, *_weaker_causes(i, demoters, fired, rules)})) for i, by in demoters.items()}
    return {i: replace(f, role="contributing", demoted_by=demoters[i]) if demoters[i] else f for i, f in fired.items()}


def _weaker_causes(
    effect: str, demoters: Mapping[str, tuple[str, ...]], fired: Findings, rules: Rules
) -> Iterator[str]:
    """Yield the likely causes of a finding whose confidence is lower than its own. A cause does not count if a
    finding unrelated to the effect demotes it."""
    level = fired[effect].confidence_rank
    causes = [i for i in fired if _explains(i, effect, fired, rules) and LIKELY <= fired[i].confidence_rank < level]
    for cause in causes:
        ancestors = _all_demoters(cause, demoters)
        roots = {i for i in ancestors if not demoters[i]}
        if effect not in ancestors and all(i in causes or i in demoters[effect] for i in roots):
            yield cause


def _all_demoters(start: str, demoters: Mapping[str, tuple[str, ...]]) -> set[str]:
    """The findings that demote `start`, directly or through other findings."""
    reached: set[str] = set()
    todo = [start]
    while todo:
        new = set(demoters[todo.pop()]) - reached
        reached |= new
        todo += new
    return reached


def _explanations(effect: str, fired: Findings, rules: Rules) -> Iterator[str]:
    """Yield the findings that explain a finding and have at least its confidence."""
    finding = fired[effect]
    if finding.role not in LEADING_ROLES:
        return
    for i, other in fired.items():
        if i == effect or other.confidence_rank < finding.confidence_rank:
            continue
        is_rival = _is_rival(other, finding, rules) and _same_state(other, finding)
        if (is_rival and not _has_smaller_share(i, effect, fired, rules)) or _explains(i, effect, fired, rules):
            yield i


def _is_rival(other: Finding, finding: Finding, rules: Rules) -> bool:
    """Whether `other` is a better explanation of what `finding` reports. A context finding is one only if the rule
    names it: it then contradicts the rule. Relations that the rules state take precedence over those of their
    mechanisms."""
    if _uses_cpu_time(other, finding, rules):
        return True
    rule, other_rule = finding.outcome.rule, other.outcome.rule
    if other_rule in rules[rule].file.demoted_by:
        return other.role in LEADING_ROLES or other.role == "context"
    return other.role in LEADING_ROLES and _leads_to(other, finding) and rule not in rules[other_rule].file.demoted_by


def _uses_cpu_time(other: Finding, finding: Finding, rules: Rules) -> bool:
    """Whether call stacks show that an alternative uses the kernel time from which `finding` infers a cause. Applies
    only if `finding` rests on CPU metrics alone, without call stacks or a switched setting."""
    checks = rules[finding.outcome.rule].checks
    series = [c for e in finding.outcome.evidence if isinstance(c := checks.get(e.check), SeriesCheck)]
    inferred = any(c.series.startswith(CPU_PREFIX) for c in series) and not CAUSAL_CLASSES & set(
        finding.outcome.evidence_classes
    )
    if other.role != "alternative" or finding.role != "root_cause" or not inferred:
        return False
    return _sample_share(other, rules[other.outcome.rule]) >= MIN_LEAD_SHARE


def _explains(cause_rule: str, effect_rule: str, fired: Findings, rules: Rules) -> bool:
    """Whether the rule of one finding lists the other in `explains`, and both could lead. The cause must not have
    the smaller share of samples, unless it is a part of the effect (such as the locks or flushes of compaction),
    whose share is smaller by definition."""
    cause, effect = fired[cause_rule], fired[effect_rule]
    may_lead = cause.role in LEADING_ROLES and effect.role in LEADING_ROLES
    if not may_lead or effect_rule not in rules[cause_rule].file.explains or not _same_state(cause, effect):
        return False
    is_part = cause.mechanism == effect.mechanism or _leads_to(cause, effect)
    return is_part or not _has_smaller_share(cause_rule, effect_rule, fired, rules)


def is_implied(rule: Rule, key: str, other_rule: Rule) -> bool:
    """Whether `rule` has the relation `key` to `other_rule` even if its list `key` does not name it. The mechanisms
    imply `demoted_by`, and `explains` of rules that cannot lead. `explains` of the other rule implies `demoted_by`."""
    file, other = rule.file, other_rule.file
    if key == "demoted_by":
        may_lead = file.role in LEADING_ROLES and other.role in LEADING_ROLES
        return may_lead and (rule.id in other.explains or _leads_to(other, file))
    if key != "explains" or other.role in LEADING_ROLES:
        return False
    return _leads_to(file, other) or (other.role in ATTACHED_ROLES and _favours(other, file))


def _leads_to(cause: Finding | RuleFile, effect: Finding | RuleFile) -> bool:
    mechanism = mechanisms().get(cause.mechanism)
    return mechanism is not None and effect.mechanism in mechanism.leads_to


def _has_smaller_share(rule: str, other_rule: str, fired: Findings, rules: Rules) -> bool:
    """Whether both findings are causes that show in call stacks, and the first has the smaller share."""
    if not fired[rule].role == fired[other_rule].role == "root_cause":
        return False
    share = _sample_share(fired[rule], rules[rule])
    return 0 < share < _sample_share(fired[other_rule], rules[other_rule])


def _may_coincide(left: Finding, right: Finding) -> bool:
    """Whether two findings may hold at the same time. Recordings within minutes of each other count as one time."""
    span, other = _time_range(left), _time_range(right)
    if span is None or other is None or span[0].clock is not other[0].clock:
        return True
    return span[0].seconds <= other[1].seconds + LONG_SECONDS and other[0].seconds <= span[1].seconds + LONG_SECONDS


def _same_state(left: Finding, right: Finding) -> bool:
    """Whether two findings may hold at the same time under the same settings. A finding without measurements over
    time (such as fragmented memory) holds before a switch of settings and after."""
    are_measured = all(set(DYNAMIC) & set(f.outcome.evidence_classes) for f in (left, right))
    are_settings_equal = all(left.under[n] == right.under[n] for n in left.under.keys() & right.under.keys())
    return _may_coincide(left, right) and (are_settings_equal or not are_measured)


def _time_range(finding: Finding) -> tuple[Moment, Moment] | None:
    """The window of a finding, or else the span of its evidence if all of that is on one clock."""
    if finding.outcome.window:
        return finding.outcome.window
    dynamic = [e.window for e in finding.outcome.evidence if e.kind in DYNAMIC]
    spans = [window for window in dynamic if window]
    if not spans or len(spans) < len(dynamic) or len({first.clock for first, _ in spans}) > 1:
        return None
    return min(first for first, _ in spans), max(last for _, last in spans)


def _consequences(leader: str, findings: Findings, rules: Rules) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The rules that follow from the leader, directly or not, and the configuration and risks attached to it."""
    lead = findings[leader]
    concurrent = {i: f for i, f in findings.items() if i != leader and _may_coincide(lead, f)}
    direct = _effects(leader, concurrent, findings, rules)
    attached = [i for i, f in concurrent.items() if f.role in ATTACHED_ROLES and (i in direct or _favours(f, lead))]
    possible = [i for i, f in concurrent.items() if f.role not in (*ATTACHED_ROLES, "context") and _same_state(lead, f)]
    consequences, todo = set[str](), [leader]
    while todo:
        new = _effects(todo.pop(), possible, findings, rules) - consequences
        consequences |= new
        todo += new
    return tuple(sorted(consequences)), tuple(sorted(attached))


def _effects(cause: str, candidates: Iterable[str], findings: Findings, rules: Rules) -> set[str]:
    """The candidates that a finding explains directly."""
    explained = rules[cause].file.explains
    return {i for i in candidates if i in explained or _leads_to(findings[cause], findings[i])} - {cause}


def _favours(finding: Finding | RuleFile, leader: Finding | RuleFile) -> bool:
    """Whether a setting or a risk concerns the leader's mechanism, or every mechanism of huge pages."""
    is_general = finding.mechanism in SETTING_MECHANISMS and mechanism_kind(leader.mechanism) == THP
    return finding.mechanism == leader.mechanism or is_general
