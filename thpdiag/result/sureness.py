"""How sure a finding is: which classes of evidence speak, which are missing, what would make it surer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from thpdiag.diagnosis import Diagnosis
from thpdiag.engine.classes import DYNAMIC, of_check
from thpdiag.engine.load import Rule
from thpdiag.model import CONFIDENCES, Finding
from thpdiag.result.requests import request

RAISING = DYNAMIC | {"toggle"}  # classes that can make a finding surer


def sureness(finding: Finding, diagnosis: Diagnosis) -> dict[str, Any]:
    """The keys of a finding that say how sure it is."""
    return {
        "classes_spoken": list(finding.outcome.spoken),
        "classes_missing": classes_missing(finding, diagnosis),
        "raises": list(_raises(finding)),
    }


def classes_missing(finding: Finding, diagnosis: Diagnosis) -> list[str]:
    """What the rules about the mechanism ask for and the input holds nothing of."""
    return sorted(_asked_for(finding, diagnosis) - set(finding.outcome.spoken) - _heard(finding, diagnosis))


def _of_mechanism(finding: Finding, diagnosis: Diagnosis) -> Iterator[Rule]:
    """The rules that find the same mechanism, this one among them."""
    for rule in diagnosis.rules:
        same = rule.file.mechanism == finding.mechanism and rule.file.role in ("root_cause", "alternative")
        if rule.id == finding.outcome.rule or same:
            yield rule


def _asked_for(finding: Finding, diagnosis: Diagnosis) -> set[str]:
    rules = _of_mechanism(finding, diagnosis)
    return {of_check(check) for rule in rules for check in rule.checks.values()} & RAISING


def _heard(finding: Finding, diagnosis: Diagnosis) -> set[str]:
    """What the input holds something of in the same state, whatever that says."""
    outcomes = [finding.outcome, *(diagnosis.outcomes[rule.id] for rule in _of_mechanism(finding, diagnosis))]
    return {one for outcome in outcomes if outcome.state == finding.outcome.state for one in outcome.heard}


def _raises(finding: Finding) -> Iterator[dict[str, Any]]:
    """What it would become, with evidence of which classes, and what to ask for; a supported finding may be there."""
    for step in finding.outcome.raises:
        if CONFIDENCES.index(step.to) > CONFIDENCES.index(finding.confidence):
            commands = dict.fromkeys(filter(None, map(request, step.missing)))
            yield {"to": step.to, "classes": list(step.classes), "ask_for": list(commands)}
