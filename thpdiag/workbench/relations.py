"""Relations to other rules, one taken out at a time: what a case states of the diagnosis must not hold without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from thpdiag.diagnosis import StateOutcomes, diagnose
from thpdiag.engine.cases import prepared
from thpdiag.engine.load import Rule, with_earlier
from thpdiag.engine.scenes import scenes
from thpdiag.engine.schema import CaseFile
from thpdiag.engine.worst import match_worst
from thpdiag.model import Case
from thpdiag.ranking import implied

RELATIONS = ("demoted_by", "explains")  # those that only a diagnosis of both rules shows


def unheld(rule: Rule, rules: Sequence[Rule], cases: Iterable[CaseFile]) -> Iterator[str]:
    """The relations of a rule that no case would miss.

    What the mechanisms or the other rule say as well is none: every host would be diagnosed alike without it.
    """
    by_id, rows = {other.id: other for other in rules}, list(cases)
    for key in RELATIONS:
        for name in getattr(rule.file, key):
            stating = [case for case in rows if name in getattr(case, key)]
            other = by_id[name]
            if not implied(rule, key, other) and not any(_missed(rule, key, other, rules, case) for case in stating):
                yield f"without {key} {name}"


def _missed(rule: Rule, key: str, other: Rule, rules: Sequence[Rule], case: CaseFile) -> bool:
    """Whether the two findings of a case relate like that with the rule's word, and do not without it."""
    host = prepared(case)
    needed = with_earlier((rule, other), rules)
    found: list[StateOutcomes] = [(scene, match_worst(needed, scene)) for scene in scenes(host)]
    names = [name for name in getattr(rule.file, key) if name != other.id]
    less = replace(rule, file=rule.file.model_copy(update={key: names}))
    return _related(rule, key, other, host, found) and not _related(less, key, other, host, found)


def _related(rule: Rule, key: str, other: Rule, host: Case, found: Sequence[StateOutcomes]) -> bool:
    findings = diagnose(host, (rule, other), found).findings
    own = next((f for f in findings if f.outcome.rule == rule.id), None)
    if own is None:
        return False
    return other.id in (own.demoted_by if key == "demoted_by" else (*own.consequences, *own.attached))
