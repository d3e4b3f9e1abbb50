"""The cases beside a rule: of every kind, with look-alikes, and made of names that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from thpdiag.engine.lint.complaint import Cases, Complaint, Lint, RuleSet
from thpdiag.engine.load import Rule
from thpdiag.engine.schema import Check, EventCheck, FactCheck, listed
from thpdiag.knowledge.complaints import suggestion
from thpdiag.knowledge.vocabulary import event, names, term
from thpdiag.model import Verdict3
from thpdiag.model.event import OPERATOR_KINDS

KINDS = ("fires", "silent", "unknown")
FEWEST_LOOK_ALIKES = 2


def _outcomes(cases: Cases) -> list[str]:
    return [str(row.get("outcome", "")) for row in cases.rows]


def _present(rule: Rule, whole: RuleSet) -> Iterator[Complaint]:
    if rule.id not in whole.cases:
        name = rule.source.path.removesuffix(".yaml")
        yield Complaint(f"no cases; write {name}.cases.yaml (thpdiag rules new shows the form)", ("id",))


def _kinds(rule: Rule, whole: RuleSet) -> Iterator[Complaint]:
    cases = whole.cases.get(rule.id)
    if cases is not None and (missing := kinds_missing(rule, cases)):
        yield Complaint(f"no case with outcome {', '.join(missing)}; add one each", (), source=cases.source)


def kinds_missing(rule: Rule, cases: Cases | None) -> tuple[str, ...]:
    """The outcomes that no case of the rule has and one should."""
    outcomes = _outcomes(cases) if cases else []
    wanted = (*KINDS, "excluded") if rule.file.excluded_by else KINDS
    pointless = "silent" if "excluded" in outcomes or not _deniable(rule) else ""
    return tuple(kind for kind in wanted if kind not in outcomes and kind != pointless)


def _deniable(rule: Rule) -> bool:
    """Whether the condition can be no: that something is present, or was done, no input can deny."""
    answers = {name: Verdict3.UNKNOWN if _undeniable(check) else Verdict3.NO for name, check in rule.checks.items()}
    return rule.when.value(lambda name: answers[name]) is Verdict3.NO


def _undeniable(check: Check) -> bool:
    if isinstance(check, EventCheck):
        return set(listed(check.event)) <= OPERATOR_KINDS
    return isinstance(check, FactCheck) and check.present is True


def _look_alikes(rule: Rule, whole: RuleSet) -> Iterator[Complaint]:
    """Hosts that resemble the trouble and do not have it."""
    if (cases := whole.cases.get(rule.id)) is None or rule.file.role == "context":
        return
    count = sum(outcome in ("silent", "excluded") for outcome in _outcomes(cases))
    if 0 < count < FEWEST_LOOK_ALIKES:
        message = "only one case is silent; add a host that looks alike and has something else"
        yield Complaint(message, _last(cases, "silent"), source=cases.source)


def _last(cases: Cases, outcome: str) -> tuple[int, ...]:
    at = [i for i, row in enumerate(cases.rows) if row.get("outcome") == outcome]
    return (at[-1],) if at else ()


def _levels(rule: Rule, whole: RuleSet) -> Iterator[Complaint]:
    if (cases := whole.cases.get(rule.id)) is None:
        return
    stated = {str(row.get("confidence")) for row in cases.rows}
    for level in rule.confidence:
        if level not in stated:
            yield Complaint(
                f"no case says that the rule is {level}; add one with confidence: {level}", (), source=cases.source
            )


def _names(rule: Rule, whole: RuleSet) -> Iterator[Complaint]:
    if (cases := whole.cases.get(rule.id)) is None:
        return
    seen: set[str] = set()
    for i, row in enumerate(cases.rows):
        if (name := str(row.get("name", ""))) in seen:
            yield Complaint(f"two cases are called '{name}'; say what differs", (i, "name"), source=cases.source)
        seen.add(name)


def _vocabulary(rule: Rule, whole: RuleSet) -> Iterator[Complaint]:
    """A name with a typing mistake makes a host without that value: a silent case that proves nothing."""
    if (cases := whole.cases.get(rule.id)) is None:
        return
    for i, row in enumerate(cases.rows):
        yield from _wrong_names((i,), row, cases)
        states = row.get("states")
        for j, state in enumerate(states if isinstance(states, list) else ()):
            yield from _wrong_names((i, "states", j), state, cases)


def _wrong_names(at: tuple[str | int, ...], row: object, cases: Cases) -> Iterator[Complaint]:
    if not isinstance(row, Mapping):
        return
    for key in ("facts", "series"):
        asked = row.get(key)
        for written in asked if isinstance(asked, Mapping) else ():
            name = re.sub(r"\{.*", "", str(written))
            if term(name) is None:
                message = f"'{name}' is not in the vocabulary{suggestion(name, names())}"
                yield Complaint(message, (*at, key, written), source=cases.source)
    events = row.get("events")
    for j, one in enumerate(events if isinstance(events, list) else ()):
        kind = str(one.get("kind", "")) if isinstance(one, Mapping) else ""
        if event(kind) is None:
            message = f"unknown event '{kind}'{suggestion(kind, names())}"
            yield Complaint(message, (*at, "events", j), kind, source=cases.source)


def _touched(rule: Rule, whole: RuleSet) -> Iterator[Complaint]:
    """Host of a case that fires without anything on it."""
    if (cases := whole.cases.get(rule.id)) is None:
        return
    told = ("facts", "series", "stacks", "flat", "events", "processes", "states", "read")
    for i, row in enumerate(cases.rows):
        if row.get("outcome") in ("fires", "excluded") and not any(row.get(key) for key in told):
            yield Complaint("an empty host cannot fire; add facts, series or stacks", (i,), source=cases.source)


LINTS = (
    Lint("no-cases", "a rule without cases", _present),
    Lint("case-kinds", "no case that fires, is silent, is unknown, or is excluded", _kinds),
    Lint("few-look-alikes", "fewer than two silent cases", _look_alikes),
    Lint("level-without-case", "a confidence level that no case states", _levels),
    Lint("case-name-twice", "two cases of one name", _names),
    Lint("unknown-name-in-case", "a fact, metric or event in a case that nobody knows", _vocabulary),
    Lint("empty-case", "a case that fires on an empty host", _touched),
)
