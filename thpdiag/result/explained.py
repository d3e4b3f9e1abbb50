"""Why a rule fires on a host or does not: the document of `thpdiag explain` (schema: explain.schema.json).

It says nothing of its own: outcome, confidence and role are those of the result document, what checks said is what the
engine kept of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from thpdiag import __version__
from thpdiag.diagnosis import Diagnosis
from thpdiag.engine.bounds import Bound, bounds
from thpdiag.engine.cases import word
from thpdiag.engine.expression import Expression
from thpdiag.engine.judged import Judged, Scene
from thpdiag.engine.load import Rule
from thpdiag.engine.schema import ChangeCheck, Check, FactCheck, SeriesCheck, listed
from thpdiag.engine.wording import raw
from thpdiag.model import Citation, Finding, Moment, RuleOutcome, State, Verdict3
from thpdiag.result.changes import change
from thpdiag.result.document import document
from thpdiag.result.moments import spoken
from thpdiag.result.requests import request
from thpdiag.result.rule_packs import digest
from thpdiag.result.states import state_words

SCHEMA = "thpdiag/explain/1"
OPS = {"and": "all of", "or": "any of", "not": "not"}
DAMAGED = "part of the input could not be read, so that a no is none"
OUTSIDE = "it fires only outside of the time that was asked for, or that time does not decide it"
OF_FINDING = ("confidence", "role", "severity", "classes_spoken", "classes_missing", "raise_confidence",
              "consequences", "demoted_by")  # fmt: skip
Quotes = Mapping[Citation, tuple[int, str]]  # the line that says it, which may stand below the one that is cited


def explained(
    rule: Rule, diagnoses: Sequence[Diagnosis], quotes: Quotes, options: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The document; without diagnoses it says what the rule means."""
    return {
        "schema": SCHEMA,
        "rule": _rule(rule),
        "hosts": [_host(rule, one, quotes) for one in diagnoses],
        "tool": {
            "version": __version__,
            "rules_digest": digest(diagnoses[0].rules) if diagnoses else None,
            "options": dict(options or {}),
        },
    }


def citations(rule: Rule, diagnoses: Sequence[Diagnosis]) -> Iterator[Citation]:
    """The lines that the explanation points at."""
    for diagnosis in diagnoses:
        for outcome in (diagnosis.outcomes[rule.id], *(o[rule.id] for _, o in diagnosis.by_state)):
            for name, answer in outcome.answers.items():
                if isinstance(answer, Judged) and answer.cite and answer.cite.line is not None:
                    yield named(answer.cite, raw_names(rule.checks[name]))
            told = (*outcome.against, *(e for o in outcome.excluders for e in o.evidence[:1]))
            yield from (named(e.cite, ()) for e in told if e.cite and e.cite.line is not None)


def named(cite: Citation, names: Sequence[str]) -> Citation:
    """A citation with the names that the kernel gives what it is cited for: a snapshot is cited by its first line."""
    return Citation(cite.member, cite.line, " ".join(names))


def raw_names(check: Check) -> tuple[str, ...]:
    """What /proc/vmstat, meminfo and status call what a check looks at."""
    match check:
        case SeriesCheck():
            return raw(check.series)
        case FactCheck():
            return raw(check.fact)
        case ChangeCheck():
            return raw(listed(check.change.of)[0])
        case _:
            return ()


def _rule(rule: Rule) -> dict[str, Any]:
    file = rule.file
    return {
        "id": rule.id, "title": file.title, "severity": file.severity, "role": file.role, "mechanism": file.mechanism,
        "means": " ".join(file.means.split()), "when": str(rule.when),
        "confidence": {level: str(expression) for level, expression in rule.confidence.items()},
        "params": [
            {"name": n, "value": str(p.default), "means": p.means, "set": n in rule.changed}
            for n, p in file.params.items()
        ],
        "excluded_by": list(file.excluded_by), "demoted_by": list(file.demoted_by), "explains": list(file.explains),
        "verify": " ".join(file.verify.split()),
        "false_positives": [" ".join(line.split()) for line in file.false_positives],
        "references": [" ".join(line.split()) for line in file.references],
    }  # fmt: skip


def _host(rule: Rule, diagnosis: Diagnosis, quotes: Quotes) -> dict[str, Any]:
    outcome = diagnosis.outcomes[rule.id]
    finding = next((f for f in diagnosis.findings if f.outcome.rule == rule.id), None)
    scene = next((s for s, _ in diagnosis.by_state if s.state.id == outcome.state), None)
    behind = dict.fromkeys((*rule.file.demoted_by, *(finding.demoted_by if finding else ())))  # mechanisms demote too
    return {
        "case": diagnosis.case.name,
        "outcome": word(outcome),
        "notes": list(_notes(rule, diagnosis, outcome, finding)),
        "state": _state(scene.state if scene else None),
        "entity": outcome.entity or None,
        "window": window(outcome.window),
        "tree": tree(rule.when, rule, outcome, quotes),
        "levels": [_level(name, rule, outcome, quotes) for name in rule.confidence],
        "excluders": [_other(o, quotes) for o in outcome.excluders],
        "demoters": [_other(diagnosis.outcomes[i], quotes) for i in behind if i in diagnosis.outcomes],
        "finding": _finding(finding, _told(rule, diagnosis)) if finding else None,
        "missing": [{"name": name, "ask_for": request(name)} for name in outcome.missing],
        "change": change(rule, outcome),
        "states": [_of_state(scene, outcomes[rule.id], rule) for scene, outcomes in diagnosis.by_state],
    }


def _told(rule: Rule, diagnosis: Diagnosis) -> dict[str, Any]:
    """What the result document says of the finding."""
    return next(f for f in document([diagnosis])["findings"] if f["rule"] == rule.id)


def _notes(rule: Rule, diagnosis: Diagnosis, outcome: RuleOutcome, finding: Finding | None) -> Iterator[str]:
    """What decided beside the condition itself."""
    here = _value(rule.when, outcome)
    if outcome.value is Verdict3.YES and finding is None:
        context = next((f for f in diagnosis.findings if f.role == "context"), None)
        because = f", as {context.outcome.rule} has it: {context.title}" if context else ""
        yield f"it fires and is left out of the findings{because}"
    if word(outcome) == "excluded":
        yield from (e.text for e in outcome.against if e.excludes)
    elif here is not None and here is not outcome.value:
        yield DAMAGED if "*" in diagnosis.case.hidden and here is Verdict3.NO else OUTSIDE
    if finding and finding.demoted_by:
        by = ", ".join(finding.demoted_by)
        yield f"it only contributes: {by} explain{'s' if len(finding.demoted_by) == 1 else ''} the trouble better"
    leader = diagnosis.leader
    if leader and finding and rule.id in leader.consequences:
        yield f"it follows from {leader.outcome.rule}, which leads the verdict"


def _value(expression: Expression, outcome: RuleOutcome) -> Verdict3 | None:
    """What the condition comes to by the answers alone; None if a mistake of ours left none."""
    if not outcome.answers:
        return None
    return expression.value(lambda name: _answer(outcome, name).value)


def _answer(outcome: RuleOutcome, name: str) -> Judged:
    answer = outcome.answers.get(name)
    return answer if isinstance(answer, Judged) else Judged(Verdict3.UNKNOWN, "it was not judged")


def tree(expression: Expression, rule: Rule, outcome: RuleOutcome, quotes: Quotes) -> dict[str, Any]:
    """The condition as it stands, each part with its answer."""
    if expression.op == "name":
        return _leaf(expression.name, rule, outcome, quotes)
    value = expression.value(lambda name: _answer(outcome, name).value).word
    op = OPS.get(expression.op, f"{expression.count} of")
    children = [tree(child, rule, outcome, quotes) for child in expression.children]
    return {"expr": str(expression), "op": op, "value": value, "children": children}


def _leaf(name: str, rule: Rule, outcome: RuleOutcome, quotes: Quotes) -> dict[str, Any]:
    answer = _answer(outcome, name)
    measured = answer.measured
    if isinstance(measured, float) and not math.isfinite(measured):
        measured = None
    return {
        "expr": name, "op": "check", "value": answer.value.word, "text": answer.text, "needed": answer.needed,
        "class": answer.kind, "measured": measured, "unit": answer.unit or None,
        **_source(answer.cite, quotes, raw_names(rule.checks[name])),
        "window": window(answer.window), "weak": answer.weak, "assumed": answer.assumed,
        "bounds": [_bound(b) for b in bounds(rule.checks[name], answer)],
        "missing": list(answer.missing), "children": [],
    }  # fmt: skip


def _bound(bound: Bound) -> dict[str, Any]:
    numbers = {"limit": bound.limit, "measured": bound.measured, "gap": bound.gap}
    finite = {name: float(f"{v:.9g}") if math.isfinite(v) else None for name, v in numbers.items()}
    return {"word": bound.word, **finite, "unit": bound.unit or None, "met": bound.met, "text": bound.margin()}


def _source(cite: Citation | None, quotes: Quotes, names: Sequence[str] = ()) -> dict[str, Any]:
    """Where it stands: the line that the result cites, and the one that names it, with its text."""
    if cite is None:
        return {"member": None, "line": None, "source_line": None, "source": None}
    line, source = quotes.get(named(cite, names), (None, None))
    return {"member": cite.member, "line": cite.line, "source_line": line, "source": source}


def window(span: tuple[Moment, Moment] | None) -> dict[str, Any] | None:
    """A stretch of time in numbers and words."""
    if span is None:
        return None
    first, last = span
    text = f"{spoken(first)} to {spoken(last)}" if first != last else spoken(first)
    return {"from": first.seconds, "to": last.seconds, "clock": first.clock.value, "text": text}


def _level(name: str, rule: Rule, outcome: RuleOutcome, quotes: Quotes) -> dict[str, Any]:
    """What the rule asks for a level, with the checks that do not stand in its condition."""
    expression, known = rule.confidence[name], set(rule.when.names())
    value = _value(expression, outcome)
    further = [n for n in dict.fromkeys(expression.names()) if n not in known]
    return {
        "level": name, "expr": str(expression), "value": value.word if value else "unknown",
        "checks": [_leaf(n, rule, outcome, quotes) for n in further],
    }  # fmt: skip


def _other(outcome: RuleOutcome, quotes: Quotes) -> dict[str, Any]:
    """Another rule that would silence or demote this one: what it came to, and its number."""
    told = outcome.evidence if outcome.value is Verdict3.YES else outcome.against
    first = next(iter(told), None)
    return {
        "rule": outcome.rule, "outcome": word(outcome), "confidence": outcome.confidence,
        "text": first.text if first else None, **_source(first.cite if first else None, quotes),
        "missing": list(outcome.missing),
    }  # fmt: skip


def _finding(finding: Finding, told: Mapping[str, Any]) -> dict[str, Any]:
    """How sure it is and why, as the result document has it, and what to ask for to be surer."""
    surer = [{"to": r.to, "classes": list(r.classes), "ask_for": _asked(r.missing)} for r in finding.outcome.raises]
    return {**{key: told[key] for key in OF_FINDING}, "surer": surer if told["confidence"] != "confirmed" else []}


def _asked(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(filter(None, map(request, names))))


def _state(state: State | None) -> dict[str, Any] | None:
    if state is None:
        return None
    settings = {k: str(v) for k, v in sorted(state.settings.items())}
    return {"id": state.id, "text": state_words(settings), "settings": settings}


def _of_state(scene: Scene, outcome: RuleOutcome, rule: Rule) -> dict[str, Any]:
    """One of several states, in short."""
    return {
        "state": _state(scene.state), "outcome": word(outcome), "confidence": outcome.confidence,
        "window": window(outcome.window), "entity": outcome.entity or None, "change": change(rule, outcome),
    }  # fmt: skip
