"""`rule`: another rule's outcome in the same state."""

from __future__ import annotations

from thpdiag.engine.expression import negated
from thpdiag.engine.judged import UNKNOWN, YES, Judged, Scene
from thpdiag.engine.schema import RuleCheck
from thpdiag.model import CONFIDENCES


def judge(check: RuleCheck, scene: Scene) -> Judged:
    """Yes if the other rule fires (or is silent, if that is asked); what rests on a hypothesis is one."""
    other = scene.outcomes.get(check.rule)
    value = other.value if other else UNKNOWN
    answer = value if check.is_ == "fires" else negated(value)
    cite = next((e.cite for e in other.evidence if e.cite), None) if other else None
    verb = {YES: "fires", UNKNOWN: "cannot be decided"}.get(value, "is silent")
    missing = other.missing if other and answer is UNKNOWN else ()
    weak = check.is_ == "fires" and other is not None and other.confidence == CONFIDENCES[0]
    return Judged(
        answer, f"{check.rule} {verb}", f"{check.rule} {check.is_}", "state", cite, missing=missing, weak=weak
    )
