"""The remedies of each finding: one advice per host.

What follows from the cause goes away with it; what the cause's own advice sets, no other finding sets otherwise.
"""

from __future__ import annotations

from typing import Any

from thpdiag.advice.host_view import host_view
from thpdiag.advice.remedies import advice
from thpdiag.diagnosis import Diagnosis
from thpdiag.engine.load import Rule
from thpdiag.knowledge.mechanisms import mechanisms
from thpdiag.knowledge.remedies import remedies
from thpdiag.model import Finding, State

TO_KNOW = ("collect-more", "toggle-test")  # steps that cure nothing and show what would


def state_of(finding: Finding, diagnosis: Diagnosis) -> State | None:
    """The state in which it was found."""
    return next((s for s in diagnosis.case.states if s.id == finding.outcome.state), None)


def remedies_of(finding: Finding, diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """What to do about a finding, given what is done about the leader."""
    leader = diagnosis.leader
    own = _advised(finding, diagnosis)
    if leader is None or finding.outcome.rule == leader.outcome.rule:
        return own
    if finding.outcome.rule in leader.consequences or _explained_away(finding, leader):
        return []
    above = {item["id"] for item in _advised(leader, diagnosis)}
    decided = {setting for name in above for setting in _sets(name)}
    return [item for item in own if item["id"] in above or not decided & _sets(item["id"])]


def _advised(finding: Finding, diagnosis: Diagnosis) -> list[dict[str, Any]]:
    rule = next(r for r in diagnosis.rules if r.id == finding.outcome.rule)
    return advice(_named(rule, finding), finding.mechanism, host_view(diagnosis.case, state_of(finding, diagnosis)))


def _named(rule: Rule, finding: Finding) -> list[str]:
    """The remedies of the rule; what is confirmed needs no more data."""
    return [r for r in rule.file.remedies if r not in TO_KNOW or finding.confidence != "confirmed"]


def _explained_away(finding: Finding, leader: Finding) -> bool:
    """Whether something else than huge pages explains what it saw; call stacks show a share of its own all the same."""
    known = mechanisms().get(leader.mechanism)
    other = known is not None and known.kind != "thp" and leader.outcome.rule in finding.demoted_by
    return other and "stack" not in finding.outcome.spoken


def _sets(name: str) -> set[str]:
    """The settings that a remedy may write."""
    row = remedies()[name]
    return {setting for one in (row, *row.get("variants", ())) for setting in one.get("sets", ())}
