"""`rule`: another rule's outcome in the same state."""

from __future__ import annotations

from thpdiag.engine.expression import negated
from thpdiag.engine.judged import OF_THE_STATE, UNKNOWN, YES, Judged, Scene
from thpdiag.engine.schema import RuleCheck


def judge(check: RuleCheck, scene: Scene) -> Judged:
    """Yes if the other rule fires (or is silent, if that is asked), as surely as that rule does."""
    other = scene.outcomes.get(check.rule)
    value = other.value if other else UNKNOWN
    answer = value if check.is_ == "fires" else negated(value)
    cite = next((e.cite for e in other.evidence if e.cite), None) if other else None
    verb = {YES: "was found", UNKNOWN: "cannot be decided"}.get(value, "was not found")
    missing = other.missing if other and answer is UNKNOWN else ()
    rests = other is not None and check.is_ == "fires" and other.role != OF_THE_STATE
    level = other.confidence or "" if other and rests else ""
    needed = f"{check.rule} {check.is_}"
    return Judged(answer, f"{check.rule} {verb}", needed, "state", cite, missing=missing, confidence=level)
