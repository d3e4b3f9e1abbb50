"""Run the cases beside the rules, each on its rule and on the rules that this one depends on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from thpdiag.diagnosis import StateOutcomes, diagnose
from thpdiag.engine.cases import prepared, word
from thpdiag.engine.judged import Scene
from thpdiag.engine.load import Rule, with_earlier
from thpdiag.engine.match import Forced, match
from thpdiag.engine.scenes import scenes
from thpdiag.engine.schema import CaseFile
from thpdiag.engine.windows import windows
from thpdiag.engine.worst import match_worst
from thpdiag.model import RuleOutcome

RANK = {"fires": 3, "excluded": 2, "unknown": 1, "silent": 0}
Answer = tuple[str, str | None]  # outcome and confidence of a rule on a case


@dataclass(frozen=True, slots=True)
class Tested:
    """A case of a rule: what was expected and what came out (`outcome[:confidence]`)."""

    rule: str
    case: str
    expected: str
    actual: str

    @property
    def passed(self) -> bool:
        return self.expected == self.actual


@dataclass(frozen=True)
class Trial:
    """A case made ready for a rule and many variants of it: what the rules say that it depends on is asked once."""

    case: CaseFile
    below: Sequence[Rule]
    ready: Sequence[tuple[Scene, Mapping[str, RuleOutcome]]]

    def said(self, rule: Rule, forced: Forced | None = None) -> Answer:
        """What the rule, or a variant of it, makes of the case; of several states the one where it says most."""
        found = [self._of(scene, known, rule, forced) for scene, known in self.ready]
        best = max(found, key=lambda o: (RANK[word(o)], o.confidence == "confirmed", o.confidence == "likely"))
        return word(best), best.confidence

    def _of(self, scene: Scene, known: Mapping[str, RuleOutcome], rule: Rule, forced: Forced | None) -> RuleOutcome:
        every = (*self.below, rule)
        if windows(every, scene):
            return match_worst(every, scene, forced)[rule.id]
        asked = Scene(scene.case, scene.state, scene.catalogue, known, scene.others)
        return match((rule,), asked, forced)[rule.id]

    def notices(self, plain: Answer, other: Answer) -> bool:
        """A changed confidence is noticed only by a case that states one."""
        return plain[0] != other[0] or (self.case.confidence is not None and plain[1] != other[1])


def trials(rule: Rule, rules: Sequence[Rule], cases: Iterable[CaseFile]) -> list[Trial]:
    """Cases ready for a rule; what it depends on is looked up once for all of them."""
    below = tuple(r for r in with_earlier([rule], rules) if r.id != rule.id)
    return [Trial(case, below, [(s, match(below, s)) for s in scenes(prepared(case))]) for case in cases]


def run(rule: Rule, rules: Sequence[Rule], ready: Trial) -> Tested:
    """One case on one rule, with the rules beside it that it depends on."""
    case = ready.case
    outcome, confidence = ready.said(rule)
    expected, actual = str(case.outcome), outcome
    if case.confidence is not None:
        expected, actual = f"{expected}:{case.confidence}", f"{actual}:{confidence}" if confidence else actual
    if case.demoted_by or case.explains:
        expected += _told(case.demoted_by, case.explains)
        actual += _told(*_among_others(rule, rules, case))
    return Tested(rule.id, case.name, expected, actual)


def _told(demoted_by: Iterable[str], explains: Iterable[str]) -> str:
    parts = [("demoted by", sorted(demoted_by)), ("explains", sorted(explains))]
    return "".join(f", {words} {' '.join(names)}" for words, names in parts if names)


def _among_others(rule: Rule, rules: Sequence[Rule], case: CaseFile) -> tuple[list[str], list[str]]:
    """What demotes the finding and what follows from it, of those that the case names, if all of them are judged."""
    wanted = {rule.id, *case.demoted_by, *case.explains}
    some = with_earlier((one for one in rules if one.id in wanted), rules)
    host = prepared(case)
    found: list[StateOutcomes] = [(scene, match_worst(some, scene)) for scene in scenes(host)]
    diagnosis = diagnose(host, some, found)
    own = next((f for f in diagnosis.findings if f.outcome.rule == rule.id), None)
    if own is None:
        return [], []
    under = (*own.consequences, *own.attached)
    return [i for i in own.demoted_by if i in case.demoted_by], [i for i in under if i in case.explains]
