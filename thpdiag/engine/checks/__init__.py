"""One kind of check per file; `judge` sends a check to its own."""

from __future__ import annotations

from thpdiag.engine.checks import change, event, fact, process, profile, rule, series, toggle
from thpdiag.engine.judged import Judged, Scene
from thpdiag.engine.schema import (
    ChangeCheck,
    Check,
    EventCheck,
    FactCheck,
    ProcessCheck,
    ProfileCheck,
    RuleCheck,
    SeriesCheck,
    ToggleCheck,
)


def judge(check: Check, scene: Scene) -> Judged:
    """What the check says of the scene, doubted where input was lost."""
    return _judge(check, scene).doubted(scene.case.hidden)


def _judge(check: Check, scene: Scene) -> Judged:
    match check:
        case FactCheck():
            return fact.judge(check, scene)
        case SeriesCheck():
            return series.judge(check, scene)
        case ChangeCheck():
            return change.judge(check.change, scene)
        case ProfileCheck():
            return profile.judge(check.profile, scene)
        case EventCheck():
            return event.judge(check, scene)
        case ProcessCheck():
            return process.judge(check.process, scene)
        case ToggleCheck():
            return toggle.judge(check.toggle, scene)
        case RuleCheck():
            return rule.judge(check, scene)
