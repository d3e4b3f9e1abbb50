"""One kind of check per file; `judge` sends a check to its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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
    return JUDGES[type(check)](check, scene).doubted(scene.case.hidden, scene.case.tainted)


Judge = Callable[[Any, Scene], Judged]
JUDGES: Mapping[type[Any], Judge] = {
    FactCheck: fact.judge,
    SeriesCheck: series.judge,
    ChangeCheck: lambda check, scene: change.judge(check.change, scene),
    ProfileCheck: lambda check, scene: profile.judge(check.profile, scene),
    EventCheck: event.judge,
    ProcessCheck: lambda check, scene: process.judge(check.process, scene),
    ToggleCheck: lambda check, scene: toggle.judge(check.toggle, scene),
    RuleCheck: rule.judge,
}
