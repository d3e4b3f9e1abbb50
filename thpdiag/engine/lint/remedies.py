"""What to do: known remedies that cure the mechanism, and how the cure is verified."""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.engine.lint.complaint import Complaint, Lint, RuleSet
from thpdiag.engine.load import Rule
from thpdiag.knowledge.complaints import suggestion
from thpdiag.knowledge.mechanisms import mechanisms
from thpdiag.knowledge.remedies import cures, remedies

_VAGUE = re.compile(
    r"\b(?:problems?|issues?|troubles?|it|everything|things?) (?:is|are|was|has|have|should be)? ?"
    r"(?:gone|solved|resolved|fixed|better|fine|improved|normal)\b|\bworks? again\b|\bas expected\b",
    re.IGNORECASE,
)


def _known(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    known = remedies()
    for i, word in enumerate(rule.file.remedies):
        if word not in known:
            yield Complaint(f"unknown remedy '{word}'{suggestion(word, known)}", ("remedies", i))


def _cures(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    known, mechanism = remedies(), rule.file.mechanism
    for i, word in enumerate(rule.file.remedies):
        if word in known and mechanism in mechanisms() and not cures(known[word], mechanism):
            others = [n for n, r in known.items() if r["cures"] != "any" and cures(r, mechanism)][:4]
            hint = f"; {', '.join(others)} would" if others else ""
            yield Complaint(f"'{word}' does not cure {mechanism} (remedies.yaml, cures){hint}", ("remedies", i))


def _given(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    if rule.file.role in ("root_cause", "alternative") and not rule.file.remedies:
        yield Complaint("a cause has a remedy, if only `not-thp` or `collect-more`", ("role",))


def _verified(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    if rule.file.role == "root_cause" and not rule.file.verify:
        yield Complaint("a root cause says how its cure is verified (verify:)", ("role",))
    elif rule.file.remedies and not rule.file.verify and rule.file.role != "context":
        yield Complaint("remedies without verify: say which number must change", ("remedies",))


def _measurable(rule: Rule, _: RuleSet) -> Iterator[Complaint]:
    if found := _VAGUE.search(rule.file.verify):
        message = f"'{found[0]}' cannot be measured; say which number changes, by how much, and where it is read"
        yield Complaint(message, ("verify",), found[0].split()[0])


LINTS = (
    Lint("unknown-remedy", "a remedy that remedies.yaml does not have", _known),
    Lint("remedy-does-not-cure", "a remedy that does not cure the mechanism", _cures),
    Lint("cause-without-remedy", "a cause without a remedy", _given),
    Lint("cure-without-verification", "a cure without a word on how it is verified", _verified),
    Lint("vague-verification", "a verification that nobody can measure", _measurable),
)
