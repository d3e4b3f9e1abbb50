"""Evaluate rules on one state of one host: outcomes with evidence, what is missing, and what explains it otherwise.

How sure an outcome is: `thpdiag.engine.sureness`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from thpdiag.derive.boot_clock import joins
from thpdiag.derive.series import spoken
from thpdiag.engine.checks import judge
from thpdiag.engine.classes import DYNAMIC, LASTING
from thpdiag.engine.expression import Expression
from thpdiag.engine.judged import NO, OF_THE_STATE, UNKNOWN, YES, Answers, Judged, Scene
from thpdiag.engine.load import Rule
from thpdiag.engine.same_time import by_time
from thpdiag.engine.schema import RuleCheck
from thpdiag.engine.sureness import confidence, raises, supporting, words
from thpdiag.engine.timing import Timings
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import CONFIDENCES, EXCLUDED, Citation, Evidence, Problem, ProblemKind, RuleOutcome, Verdict3

ONE_TIME = "all of it from one and the same time"
NO_CPU = (("cpu", "none"),)  # figures of the whole host say nothing of any one CPU
NO_PROCESS = (("pid", "none"),)  # nor do those of kernel threads of the memory of programs
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
                outcomes[rule.id] = _best(rule, [_judged(rule, s, forced) for s in _scenes(rule, current)])
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
    if not entities and rule.file.for_each == "cpu":
        return [scene.bound("cpu", NO_CPU)]
    if entities and rule.file.for_each == "process" and _about_memory(rule):
        entities = [entity for entity in entities if scene.catalogue.has_memory(entity)] or [NO_PROCESS]
    return [scene.bound(rule.file.for_each, entity) for entity in entities] or [scene]


def _about_memory(rule: Rule) -> bool:
    """Whether it asks what memory a process has."""
    known = (term(name) for check in rule.checks.values() for name in check.metrics)
    return any(t is not None and t.entity == "process" and t.unit == "bytes" for t in known)


@dataclass(frozen=True, slots=True)
class _OfEntity:
    """What the checks of a rule said of one entity, from which its outcome is made."""

    scene: Scene
    answers: Answers
    value: Verdict3


def _judged(rule: Rule, scene: Scene, forced: Forced | None) -> _OfEntity:
    answers = {name: judge(check, scene) for name, check in rule.checks.items()}
    if forced is not None and forced.rule == rule.id:
        answers[forced.check] = replace(answers[forced.check], value=forced.value, assumed=False, weak=False)
    return _OfEntity(scene, answers, rule.when.value(lambda name: answers[name].value))


def _best(rule: Rule, judged: Sequence[_OfEntity]) -> RuleOutcome:
    """The outcome that says most: fired, then half proven, then decided, then without data; the surest, the largest.

    Of the many entities for which the rule does not hold only that of the first in this order is made.
    """
    counted = supporting(rule)
    rest = min((one for one in judged if one.value is not YES), key=lambda one: _place(one, counted), default=None)
    outcomes = [_outcome(rule, one) for one in judged if one.value is YES or one is rest]
    ranked = sorted(outcomes, key=_rank)
    fired = [o for o in ranked if o.value is YES]
    if len(fired) > 1:
        names = ", ".join(o.entity for o in fired[1:MOST_ENTITIES])
        more = f" and {len(fired) - MOST_ENTITIES} more" if len(fired) > MOST_ENTITIES else ""
        also = Evidence("entity", f"the same holds for {names}{more}", None)
        return replace(fired[0], evidence=(*fired[0].evidence, also))
    return ranked[0]


def _rank(outcome: RuleOutcome) -> tuple[int, int, float, str]:
    """The place of an outcome in this order."""
    said = _said(outcome.value, (e.kind for e in outcome.evidence))
    return -said, -outcome.sureness, -_largest(e.value for e in outcome.evidence), outcome.entity


def _place(one: _OfEntity, counted: frozenset[str]) -> tuple[int, float, str]:
    """The same of what does not hold, and so has no confidence, before its outcome is made."""
    speaking = [answer for name, answer in one.answers.items() if name in counted and answer.value is YES]
    said = _said(one.value, (answer.kind for answer in speaking))
    return -said, -_largest(answer.measured for answer in speaking), spoken(one.scene.entity or ())


def _said(value: Verdict3, kinds: Iterable[str]) -> int:
    """An entity of which hardly anything was recorded does not outweigh those that were looked at."""
    if value is YES:
        return 3
    if value is NO:
        return 1
    return 2 if any(kind in DYNAMIC for kind in kinds) else 0


def _largest(values: Iterable[object]) -> float:
    return max((value for value in values if isinstance(value, float)), default=0.0)


def _outcome(rule: Rule, judged: _OfEntity) -> RuleOutcome:
    scene, answers = judged.scene, judged.answers
    if judged.value is not YES:
        return _of_answers(rule, scene, answers)
    found = [_of_answers(rule, scene, group) for group in by_time(answers, joins(scene.case.facts))]
    best = max(found, key=lambda o: (o.value.value, o.sureness))
    return best if best.value is not UNKNOWN else _hypothesis(_of_answers(rule, scene, answers))


def _hypothesis(outcome: RuleOutcome) -> RuleOutcome:
    """What holds only if things are put together that were there at different times."""
    if outcome.value is not YES:
        return outcome
    return replace(outcome, confidence="possible", raise_confidence=(ONE_TIME, *outcome.raise_confidence), raises=())


def _of_answers(rule: Rule, scene: Scene, answers: Answers) -> RuleOutcome:
    value = rule.when.value(lambda name: answers[name].value)
    counted = supporting(rule)
    speaking = {n: a for n, a in answers.items() if n in counted and a.value is YES}
    base = RuleOutcome(
        rule=rule.id, value=value, state=scene.state.id, tree=_tree(rule.when, answers),
        missing=_missing(rule, answers), entity=spoken(scene.entity or ()),
        evidence=tuple(a.evidence(n) for n, a in speaking.items()),
        against=_against(rule, answers), firm=rule.when.value(lambda name: _measured(answers[name])) is NO,
        answers=answers, excluders=tuple(_excluders(rule, scene)), role=rule.file.role,
        spoken=tuple(sorted(_classes(rule, scene, speaking))),
        heard=tuple(sorted({a.kind for a in answers.values() if a.value is not UNKNOWN})),
    )  # fmt: skip
    return base if value is not YES else _weighed(base, rule, answers)


def _weighed(base: RuleOutcome, rule: Rule, answers: Answers) -> RuleOutcome:
    """How sure a finding is beside what would explain it otherwise.

    What is less sure than the finding does not silence it: as long as it may be true the finding is a hypothesis, too.
    """
    excluders = [o for o in base.excluders if o.value is not NO]
    undecided = [o for o in excluders if o.value is UNKNOWN]
    level = CONFIDENCES.index(confidence(rule, answers, undecided))
    silences = (o for o in excluders if o.value is YES and (o.role == OF_THE_STATE or o.sureness >= level))
    if excluder := next(silences, None):
        return replace(base, value=NO, against=(_excluded(excluder), *base.against))
    now = confidence(rule, answers, excluders)
    told = words(rule, answers, excluders, now)
    return replace(base, confidence=now, raise_confidence=told, raises=raises(rule, answers, excluders, now))


def _classes(rule: Rule, scene: Scene, speaking: Answers) -> set[str]:
    """The classes of evidence of a finding; of another rule that it rests on, those of that rule's."""
    found: set[str] = set()
    for name, answer in speaking.items():
        check = rule.checks[name]
        other = scene.outcomes.get(check.rule) if isinstance(check, RuleCheck) else None
        found.update(other.spoken if other and answer.value is YES and other.value is YES else (answer.kind,))
    return found


def _excluders(rule: Rule, scene: Scene) -> Iterator[RuleOutcome]:
    """What would explain it otherwise. Where a stretch of time cannot tell, all that was recorded may."""
    for other in rule.file.excluded_by:
        here = scene.outcomes.get(other)
        above = scene.whole.outcomes.get(other) if scene.whole else None
        if here is not None:
            yield above if above is not None and here.value is UNKNOWN else here


def _measured(answer: Judged) -> Verdict3:
    """The answer as far as a further recording could not change it."""
    return answer.value if answer.kind in LASTING else UNKNOWN


def _against(rule: Rule, answers: Answers) -> tuple[Evidence, ...]:
    """Checks that would have supported the finding and said no, then those under `not` that said yes.

    Another way that did hold makes the former no objection. A doubtful yes is none.
    """
    lacking = {
        *_opposing(rule.when, answers),
        *(n for e in rule.confidence.values() for n in _opposing(_near(e, answers), answers)),
    }
    contrary = {n for n, a in answers.items() if a.value is YES and not a.weak} - supporting(rule)
    return tuple(a.evidence(n) for names in (lacking, contrary - lacking) for n, a in answers.items() if n in names)


def _opposing(expression: Expression, answers: Answers) -> Iterable[str]:
    """Names that stand without `not` and say no, in the parts of the condition that do not hold."""
    if expression.op == "name":
        if answers[expression.name].value is NO:
            yield expression.name
    elif expression.op != "not" and expression.value(lambda n: answers[n].value) is not YES:
        for child in expression.children:
            yield from _opposing(child, answers)


def _near(expression: Expression, answers: Answers) -> Expression:
    """A level without those of its ways of which nothing was seen, where another one is there in part: what only
    they would take is no objection. (A disk that makes nobody wait says nothing against one that is written to.)
    """
    children = tuple(_near(child, answers) for child in expression.children)
    if expression.op == "or":
        children = tuple(c for c in children if _seen(c, answers)) or children
    return replace(expression, children=children)


def _seen(expression: Expression, answers: Answers) -> bool:
    return any(answers[name].value is YES for name, against in expression.signed() if not against)


def _excluded(excluder: RuleOutcome) -> Evidence:
    first = next(iter(excluder.evidence), None)
    text = f"{excluder.rule} explains it" + (f": {first.text}" if first else "")
    return Evidence(EXCLUDED, text, first.cite if first else None)


def _missing(rule: Rule, answers: Answers) -> tuple[str, ...]:
    names = [m for n in rule.when.names() for m in answers[n].missing if answers[n].value is UNKNOWN]
    return tuple(dict.fromkeys(names))


def _tree(expression: Expression, answers: Answers) -> dict[str, object]:
    """The condition with the answers in it, for people."""
    value = expression.value(lambda n: answers[n].value).word
    if expression.op == "name":
        answer = answers[expression.name]
        return {"expr": expression.name, "value": value, "text": answer.text, "needed": answer.needed, "children": []}
    children = [_tree(child, answers) for child in expression.children]
    return {"expr": str(expression), "value": value, "text": "", "needed": "", "children": children}
