"""The smallest change that would have made a rule fire or be silent: which checks, by how much, or with which data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thpdiag.engine.bounds import deciding
from thpdiag.engine.judged import Judged
from thpdiag.engine.load import Rule
from thpdiag.engine.nearest import silencing, smallest_change
from thpdiag.model import RuleOutcome, Verdict3
from thpdiag.result.moments import spoken
from thpdiag.result.requests import request

NO, UNKNOWN, YES = Verdict3.NO, Verdict3.UNKNOWN, Verdict3.YES


def change(rule: Rule, outcome: RuleOutcome) -> dict[str, Any] | None:
    """`{to, steps}`; None where nothing would do it, or a mistake of ours left the rule without answers."""
    answers = {name: a for name, a in outcome.answers.items() if isinstance(a, Judged)}
    if not answers:
        return None
    values = {name: answer.value for name, answer in answers.items()}
    far = {n: b.part for n, a in answers.items() if (b := deciding(rule.checks[n], a)) is not None}
    met = rule.when.value(lambda name: values[name]) is YES
    if outcome.value is YES:
        wanted = silencing(rule.when, values, far)
        return {"to": "silent", "steps": [_step(n, to, rule, answers) for n, to in wanted]} if wanted else None
    steps = [] if met else [_step(n, to, rule, answers) for n, to in smallest_change(rule.when, values, far)]
    silencers = [e for e in outcome.against if e.excludes]
    steps += [
        {"check": None, "to": "no", "needed": "nothing else explains it", "text": e.text, "by": None, "window": None,
         "ask_for": []}
        for e in silencers
    ]  # fmt: skip
    return {"to": "fire", "steps": steps} if steps else None


def _step(name: str, to: Verdict3, rule: Rule, answers: Mapping[str, Judged]) -> dict[str, Any]:
    answer = answers[name]
    bound = deciding(rule.checks[name], answer)
    window = None
    if answer.window is not None:
        first, last = answer.window
        window = f"{spoken(first)} to {spoken(last)}" if first != last else spoken(first)
    open_ = answer.value is UNKNOWN
    return {
        "check": name, "to": to.word, "needed": answer.needed if to is YES else f"no longer {answer.needed}",
        "text": answer.text, "by": bound.told() if bound and not open_ else None, "window": window,
        "ask_for": list(dict.fromkeys(filter(None, map(request, answer.missing)))) if open_ else [],
    }  # fmt: skip
