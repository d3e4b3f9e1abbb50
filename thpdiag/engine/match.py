"""Evaluate rules on one state of one host: outcomes with evidence, what is missing, and how sure it is.

Confidence is capped by the kinds of evidence that speak (DESIGN 1): policy and state license a finding but are no
proof of their own; a total since boot or an assumed default gives `possible`; one kind of stack, counter change or
effect gives `likely`; two of them, or an on/off toggle, `confirmed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from thpdiag.derive.boot_clock import joins
from thpdiag.derive.series import spoken
from thpdiag.engine.at_once import at_once
from thpdiag.engine.checks import judge
from thpdiag.engine.expression import Expression
from thpdiag.engine.judged import DYNAMIC, NO, UNKNOWN, YES, Judged, Scene
from thpdiag.engine.load import Rule
from thpdiag.engine.timing import Timings
from thpdiag.model import CONFIDENCES, Citation, Evidence, Problem, ProblemKind, RuleOutcome, Verdict3

Answers = Mapping[str, Judged]
ONE_TIME = "all of it from one and the same time"
MOST_ENTITIES = 5  # a rule that fires for more processes names the worst of them


@dataclass(frozen=True, slots=True)
class Forced:
    """A check whose answer is given instead of judged: the mutation of `rules test`."""

    rule: str
    check: str
    value: Verdict3


def match(
    rules: Sequence[Rule], scene: Scene, forced: Forced | None = None,
    *, bugs: list[Problem] | None = None, timings: Timings | None = None,
) -> dict[str, RuleOutcome]:  # fmt: skip
    """Outcomes of all rules on the scene, which may know some; rules come in dependency order.

    One per rule: that of its worst entity.

    A rule that fails by a mistake of ours is unknown and leaves a problem in `bugs`; without such a list the mistake is
    raised (tests).
    """
    outcomes: dict[str, RuleOutcome] = dict(scene.outcomes)
    for rule in rules:
        current = replace(scene, outcomes=dict(outcomes))
        try:
            with timings.rule(rule.id) if timings else nullcontext():
                outcomes[rule.id] = _best([_outcome(rule, s, forced) for s in _scenes(rule, current)])
        except Exception as error:
            if bugs is None:
                raise
            text = f"a mistake of thpdiag: rule {rule.id} failed ({type(error).__name__}: {error})"
            bugs.append(Problem(Citation(rule.source.path), text, ProblemKind.BUG))
            outcomes[rule.id] = RuleOutcome(rule.id, UNKNOWN, scene.state.id, _failed(text))
    return outcomes


def _failed(text: str) -> dict[str, object]:
    return {"expr": "rule", "value": "unknown", "text": text, "needed": "", "children": []}


def _scenes(rule: Rule, scene: Scene) -> list[Scene]:
    if rule.file.for_each is None:
        return [scene]
    entities = scene.catalogue.entities(rule.file.for_each)
    return [scene.bound(rule.file.for_each, entity) for entity in entities] or [scene]


def _best(outcomes: Sequence[RuleOutcome]) -> RuleOutcome:
    """The outcome that says most: fired, then half proven, then decided, then without data; the surest, the largest."""
    ranked = sorted(outcomes, key=lambda o: (-_said(o), -_level(o.confidence), -_figure(o), o.entity))
    fired = [o for o in ranked if o.value is YES]
    if len(fired) > 1:
        names = ", ".join(o.entity for o in fired[1:MOST_ENTITIES])
        rest = f" and {len(fired) - MOST_ENTITIES} more" if len(fired) > MOST_ENTITIES else ""
        also = Evidence("entity", f"the same holds for {names}{rest}", None)
        return replace(fired[0], evidence=(*fired[0].evidence, also))
    return ranked[0]


def _said(outcome: RuleOutcome) -> int:
    """An entity of which hardly anything was recorded does not outweigh those that were looked at."""
    if outcome.value is YES:
        return 3
    if outcome.value is NO:
        return 1
    return 2 if any(e.kind in DYNAMIC for e in outcome.evidence) else 0


def _level(confidence: str | None) -> int:
    return CONFIDENCES.index(confidence) if confidence else -1


def _figure(outcome: RuleOutcome) -> float:
    return max((e.value for e in outcome.evidence if isinstance(e.value, float)), default=0.0)


def _outcome(rule: Rule, scene: Scene, forced: Forced | None) -> RuleOutcome:
    answers = {name: judge(check, scene) for name, check in rule.checks.items()}
    if forced is not None and forced.rule == rule.id:
        answers[forced.check] = replace(answers[forced.check], value=forced.value, assumed=False, weak=False)
    if rule.when.value(lambda name: answers[name].value) is not YES:
        return _of_answers(rule, scene, answers)
    found = [_of_answers(rule, scene, group) for group in at_once(answers, joins(scene.case.facts))]
    best = max(found, key=lambda o: (o.value.value, _level(o.confidence)))
    return best if best.value is not UNKNOWN else _hypothesis(_of_answers(rule, scene, answers))


def _hypothesis(outcome: RuleOutcome) -> RuleOutcome:
    """What holds only if things are put together that were there at different times."""
    if outcome.value is not YES:
        return outcome
    return replace(outcome, confidence="possible", raise_confidence=(ONE_TIME, *outcome.raise_confidence))


def _of_answers(rule: Rule, scene: Scene, answers: Answers) -> RuleOutcome:
    value = rule.when.value(lambda name: answers[name].value)
    excluders = list(_excluders(rule, scene))
    tree = _tree(rule.when, answers)
    missing = _missing(rule, answers)
    base = RuleOutcome(
        rule=rule.id, value=value, state=scene.state.id, tree=tree, missing=missing, entity=spoken(scene.entity or ()),
        evidence=tuple(a.evidence(n) for n, a in answers.items() if a.value is YES),
        against=_against(rule, answers), firm=rule.when.value(lambda name: _measured(answers[name])) is NO,
        answers=answers, excluders=tuple(excluders),
    )  # fmt: skip
    if value is not YES:
        return base
    if excluder := next((o for o in excluders if o.value is YES), None):
        return replace(base, value=NO, against=(_excluded(excluder), *base.against))
    confidence = _confidence(rule, answers, excluders)
    return replace(base, confidence=confidence, raise_confidence=_raisers(rule, answers, excluders, confidence))


def _excluders(rule: Rule, scene: Scene) -> Iterator[RuleOutcome]:
    """What would explain it otherwise. Where a stretch of time cannot tell, all that was recorded may."""
    for other in rule.file.excluded_by:
        here = scene.outcomes.get(other)
        above = scene.whole.outcomes.get(other) if scene.whole else None
        if here is not None:
            yield above if above is not None and here.value is UNKNOWN else here


def _measured(answer: Judged) -> Verdict3:
    """The answer as far as a further recording could not change it."""
    return answer.value if answer.kind in ("policy", "state") else UNKNOWN


def _against(rule: Rule, answers: Answers) -> tuple[Evidence, ...]:
    """Checks that would have supported the finding and said no; another way that did hold makes them no objection."""
    names = {n for e in (rule.when, *rule.confidence.values()) for n in _opposing(e, answers)}
    return tuple(a.evidence(n) for n, a in answers.items() if n in names)


def _opposing(expression: Expression, answers: Answers) -> Iterable[str]:
    """Names that stand without `not` and say no, in the parts of the condition that do not hold."""
    if expression.op == "name":
        if answers[expression.name].value is NO:
            yield expression.name
    elif expression.op != "not" and expression.value(lambda n: answers[n].value) is not YES:
        for child in expression.children:
            yield from _opposing(child, answers)


def _excluded(excluder: RuleOutcome) -> Evidence:
    first = next(iter(excluder.evidence), None)
    text = f"{excluder.rule} explains it" + (f": {first.text}" if first else "")
    return Evidence("excluded_by", text, first.cite if first else None)


def _confidence(rule: Rule, answers: Answers, excluders: Sequence[RuleOutcome]) -> str:
    level = 0
    for name in ("likely", "confirmed"):
        expression = rule.confidence.get(name)
        if expression is not None and expression.value(lambda n: answers[n].value) is YES:
            level = CONFIDENCES.index(name)
    cap = _cap(rule, answers)
    if any(o.value is UNKNOWN for o in excluders):
        cap = 0
    return CONFIDENCES[min(level, cap)]


def _cap(rule: Rule, answers: Answers) -> int:
    """What the kinds of evidence allow, as an index into CONFIDENCES."""
    solid = {n: a for n, a in answers.items() if a.value is YES and not a.weak and not a.assumed}
    if any(a.kind == "toggle" for a in solid.values()):
        return 2
    without = rule.when.value(lambda n: _solid(answers[n]))
    if without is not YES and any(a.assumed or a.weak for a in answers.values() if a.value is YES):
        return 0
    kinds = {a.kind for a in solid.values()} & DYNAMIC
    configuration = rule.file.role in ("configuration", "risk", "context")
    if configuration and not kinds:
        return 2 if solid else 0
    return min(len(kinds), 2)


def _solid(answer: Judged) -> Verdict3:
    return UNKNOWN if answer.value is YES and (answer.assumed or answer.weak) else answer.value


def _missing(rule: Rule, answers: Answers) -> tuple[str, ...]:
    names = [m for n in rule.when.names() for m in answers[n].missing if answers[n].value is UNKNOWN]
    return tuple(dict.fromkeys(names))


def _raisers(rule: Rule, answers: Answers, excluders: Sequence[RuleOutcome], confidence: str) -> tuple[str, ...]:
    """What would raise the confidence: open excluders, open checks of the higher levels, better recordings."""
    found = [
        f"decide {o.rule}: {', '.join(o.missing) or 'its input is missing'}" for o in excluders if o.value is UNKNOWN
    ]
    for level, expression in rule.confidence.items():
        if CONFIDENCES.index(level) > CONFIDENCES.index(confidence):
            found += [answers[n].needed for n in expression.names() if answers[n].value is UNKNOWN]
    if confidence != CONFIDENCES[-1]:
        found += [a.surer for a in answers.values() if a.value is YES and a.weak and a.surer]
    return tuple(dict.fromkeys(found))


def _tree(expression: Expression, answers: Answers) -> dict[str, object]:
    """The condition with the answers in it, for people."""
    value = expression.value(lambda n: answers[n].value).word
    if expression.op == "name":
        answer = answers[expression.name]
        return {"expr": expression.name, "value": value, "text": answer.text, "needed": answer.needed, "children": []}
    children = [_tree(child, answers) for child in expression.children]
    return {"expr": str(expression), "value": value, "text": "", "needed": "", "children": children}
