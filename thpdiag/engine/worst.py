"""The rules on a state and on each stretch of it that may be the one that hurt.

A rule holds if it holds over all that was recorded, or in one stretch: then the finding names it. That it does not
hold over a day rules nothing out that a stretch of it leaves open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from thpdiag.derive.stretches import SHORT, Stretch
from thpdiag.engine.classes import DYNAMIC
from thpdiag.engine.judged import NO, OF_THE_STATE, UNKNOWN, YES, Scene
from thpdiag.engine.load import Rule, with_earlier
from thpdiag.engine.match import Forced, match
from thpdiag.engine.schema import ChangeCheck, ProcessCheck, SeriesCheck
from thpdiag.engine.timing import Timings
from thpdiag.engine.windows import inside, windows
from thpdiag.model import Moment, Problem, RuleOutcome

Part = tuple[Stretch, RuleOutcome]


def match_worst(
    rules: Sequence[Rule], scene: Scene, forced: Forced | None = None,
    *, bugs: list[Problem] | None = None, timings: Timings | None = None,
) -> dict[str, RuleOutcome]:  # fmt: skip
    """Outcomes of all rules in a state, those of its worst stretches among them."""
    whole = match(rules, scene, forced, bugs=bugs, timings=timings)
    stretches = windows(rules, scene)
    if not stretches:
        return whole
    moving = with_earlier(filter(_of_values, rules), rules)
    known = replace(scene, outcomes=whole)
    parts = [
        (stretch, match(moving, inside(known, stretch), forced, bugs=bugs, timings=timings)) for stretch in stretches
    ]
    if bugs:
        bugs[:] = dict.fromkeys(bugs)
    last = [(stretch, found) for stretch, found in parts if _last(stretch, scene)]
    return {
        rule.id: _joined(
            rule, whole[rule.id],
            [(s, found[rule.id]) for s, found in (last if rule.file.until else parts) if rule.id in found],
        )
        for rule in rules
    }  # fmt: skip


def _last(stretch: Stretch, scene: Scene) -> bool:
    """Whether it reaches the end of what was recorded."""
    end = scene.catalogue.end(stretch.clock)
    return end is None or stretch.last >= end - SHORT


def _of_values(rule: Rule) -> bool:
    """Whether it looks at values over time."""
    return any(isinstance(check, SeriesCheck | ChangeCheck | ProcessCheck) for check in rule.checks.values())


def _joined(rule: Rule, whole: RuleOutcome, parts: Sequence[Part]) -> RuleOutcome:
    if rule.file.role == OF_THE_STATE:
        return whole
    fired = [part for part in parts if part[1].value is YES and any(e.window for e in part[1].evidence)]
    surest = max(fired, key=lambda part: part[1].sureness, default=None)  # the worst of those that are as sure
    if surest and (whole.value is not YES or whole.sureness < surest[1].sureness):
        return _at(*surest)
    if whole.value is NO and not whole.excluded:
        return next((_at(*part) for part in parts if _contradicts(part[1], whole)), whole)
    return whole


def _contradicts(part: RuleOutcome, whole: RuleOutcome) -> bool:
    """Whether a stretch leaves the rule open and shows what the whole recording speaks against."""
    against = {e.check for e in whole.against if e.kind in DYNAMIC}
    return part.value is UNKNOWN and any(e.check in against for e in part.evidence)


def _at(stretch: Stretch, outcome: RuleOutcome) -> RuleOutcome:
    return replace(outcome, window=(Moment(stretch.first, stretch.clock), Moment(stretch.last, stretch.clock)))
