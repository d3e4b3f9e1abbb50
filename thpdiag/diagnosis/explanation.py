"""Why a rule fires on a host or does not: the document of `thpdiag explain`, with the smallest change that would alter
it (which checks, by how much, or with which data).

All content comes from the result and from the check results that the engine kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from thpdiag import __version__
from thpdiag.diagnosis.diagnose import Diagnosis
from thpdiag.diagnosis.host_document import state_words
from thpdiag.diagnosis.missing_data import Requests, open_requests
from thpdiag.diagnosis.result_document import result
from thpdiag.diagnosis.times import stretch_text
from thpdiag.engine.check_result import Bound, CheckResult, check_bounds, deciding_bound
from thpdiag.engine.expression import Expression, smallest_change, smallest_silencing_change
from thpdiag.engine.load import Rule, digest
from thpdiag.engine.schema import ChangeCheck, Check, FactCheck, SeriesCheck, as_list
from thpdiag.engine.state_view import StateView, outcome_word
from thpdiag.engine.wording import kernel_names
from thpdiag.model import Citation, Finding, Moment, RuleOutcome, State, Verdict3
from thpdiag.model import explanation as model
from thpdiag.model.explanation import (
    SCHEMA,
    Change,
    ExplainedFinding,
    ExplainedHost,
    ExplainedRule,
    ExplainedWindow,
    Explanation,
    ExplanationTool,
    Level,
    MissingName,
    Node,
    OtherRule,
    Param,
    SettingsState,
    StateOutcome,
    Step,
    Surer,
)
from thpdiag.model.text import sentence

NO, UNKNOWN, YES = Verdict3.NO, Verdict3.UNKNOWN, Verdict3.YES
OPERATOR_WORDS = {"and": "all of", "or": "any of", "not": "not"}
DAMAGED_NOTE = "part of the input could not be read, so a no is uncertain"
OUTSIDE_NOTE = "it fires only outside the requested time range, or that range does not decide it"
Quotes = Mapping[Citation, tuple[int, str]]  # the line with the value, which may follow the cited one


def explain(
    rule: Rule, diagnoses: Sequence[Diagnosis], quotes: Quotes, options: Mapping[str, str] | None = None
) -> Explanation:
    """Return the document. Without diagnoses it explains the rule alone."""
    return Explanation.model_construct(
        schema_=SCHEMA,
        rule=_rule(rule),
        hosts=[_host(rule, diagnosis, quotes) for diagnosis in diagnoses],
        tool=ExplanationTool.model_construct(
            version=__version__, rules_digest=digest(diagnoses[0].rules) if diagnoses else None,
            options=dict(options or {}),
        ),
    )  # fmt: skip


def citations(rule: Rule, diagnoses: Sequence[Diagnosis]) -> Iterator[Citation]:
    """Yield the lines that the explanation cites."""
    for diagnosis in diagnoses:
        for outcome in (diagnosis.outcomes[rule.id], *(o[rule.id] for _, o in diagnosis.by_state)):
            for name, answer in outcome.answers.items():
                if isinstance(answer, CheckResult) and answer.cite and answer.cite.line is not None:
                    yield _with_names(answer.cite, raw_names(rule.checks[name]))
            others = (*outcome.against, *(e for o in outcome.excluders for e in o.evidence[:1]))
            yield from (_with_names(e.cite, ()) for e in others if e.cite and e.cite.line is not None)


def _with_names(cite: Citation, names: Sequence[str]) -> Citation:
    """Return a citation with the kernel's names of the cited value: a snapshot is cited by its first line."""
    return Citation(cite.member, cite.line, " ".join(names))


def raw_names(check: Check) -> tuple[str, ...]:
    """Return the names that /proc/vmstat, meminfo and status use for the value of a check."""
    match check:
        case SeriesCheck():
            return kernel_names(check.series)
        case FactCheck():
            return kernel_names(check.fact)
        case ChangeCheck():
            return kernel_names(as_list(check.change.of)[0])
        case _:
            return ()


def _rule(rule: Rule) -> ExplainedRule:
    file = rule.file
    return ExplainedRule.model_construct(
        id=rule.id, title=file.title, severity=file.severity, role=file.role, mechanism=file.mechanism,
        means=" ".join(file.means.split()), when=str(rule.when),
        confidence={level: str(expression) for level, expression in rule.confidence.items()},
        params=[
            Param.model_construct(name=n, value=str(p.default), means=p.means, set=n in rule.changed)
            for n, p in file.params.items()
        ],
        excluded_by=list(file.excluded_by), demoted_by=list(file.demoted_by), explains=list(file.explains),
        verify=" ".join(file.verify.split()),
        false_positives=[" ".join(line.split()) for line in file.false_positives],
        references=[" ".join(line.split()) for line in file.references],
    )  # fmt: skip


def _host(rule: Rule, diagnosis: Diagnosis, quotes: Quotes) -> ExplainedHost:
    outcome = diagnosis.outcomes[rule.id]
    finding = next((f for f in diagnosis.findings if f.outcome.rule == rule.id), None)
    view = next((v for v, _ in diagnosis.by_state if v.state.id == outcome.state), None)
    requests = open_requests(diagnosis)
    demoters = dict.fromkeys(
        (*rule.file.demoted_by, *(finding.demoted_by if finding else ()))
    )  # including those that mechanisms imply
    return ExplainedHost.model_construct(
        case=diagnosis.case.name, outcome=_outcome(outcome), notes=list(_notes(rule, diagnosis, outcome, finding)),
        state=_state(view.state if view else None), entity=outcome.entity or None, window=_window(outcome.window),
        tree=_tree(rule.when, rule, outcome, quotes),
        levels=[_level(name, rule, outcome, quotes) for name in rule.confidence],
        excluders=[_other_rule(o, quotes) for o in outcome.excluders],
        demoters=[_other_rule(diagnosis.outcomes[i], quotes) for i in demoters if i in diagnosis.outcomes],
        finding=_finding(finding, diagnosis) if finding else None,
        missing=[
            MissingName.model_construct(name=name, ask_for="".join(requests([name]))) for name in outcome.missing
        ],
        change=change(rule, outcome, requests),
        states=[_state_outcome(view, outcomes[rule.id], rule, requests) for view, outcomes in diagnosis.by_state],
    )  # fmt: skip


def _outcome(outcome: RuleOutcome) -> model.Outcome:
    return cast("model.Outcome", outcome_word(outcome))


def _notes(rule: Rule, diagnosis: Diagnosis, outcome: RuleOutcome, finding: Finding | None) -> Iterator[str]:
    """What decided in addition to the condition."""
    value = _value(rule.when, outcome) if outcome.answers else None  # empty if the rule raised an exception
    if outcome.value is YES and finding is None:
        context = next((f for f in diagnosis.findings if f.role == "context"), None)
        because = f", as {context.outcome.rule} has it: {context.title}" if context else ""
        yield f"it fires and is left out of the findings{because}"
    if outcome_word(outcome) == "excluded":
        yield from (e.text for e in outcome.against if e.excludes)
    elif value is not None and value is not outcome.value:
        yield DAMAGED_NOTE if "*" in diagnosis.case.hidden and value is NO else OUTSIDE_NOTE
    if finding and finding.demoted_by:
        demoters = ", ".join(finding.demoted_by)
        yield f"it only contributes: {demoters} explain{'s' if len(finding.demoted_by) == 1 else ''} the problem better"
    leader = diagnosis.leader
    if leader and finding and rule.id in leader.consequences:
        yield f"it follows from {leader.outcome.rule}, which leads the verdict"


def _answer(outcome: RuleOutcome, name: str) -> CheckResult:
    answer = outcome.answers.get(name)
    return answer if isinstance(answer, CheckResult) else CheckResult(None, UNKNOWN, "it was not judged")


def _value(expression: Expression, outcome: RuleOutcome) -> Verdict3:
    """The value of the condition according to the results alone."""
    return expression.value(lambda name: _answer(outcome, name).value)


def _word(value: Verdict3) -> Any:
    return value.word


def _tree(expression: Expression, rule: Rule, outcome: RuleOutcome, quotes: Quotes) -> Node:
    if expression.op == "name":
        return _leaf(expression.name, rule, outcome, quotes)
    return Node.model_construct(
        expr=str(expression), op=OPERATOR_WORDS.get(expression.op, f"{expression.count} of"),
        value=_word(_value(expression, outcome)),
        children=[_tree(child, rule, outcome, quotes) for child in expression.children],
    )  # fmt: skip


def _leaf(name: str, rule: Rule, outcome: RuleOutcome, quotes: Quotes) -> Node:
    answer, check = _answer(outcome, name), rule.checks[name]
    measured = answer.measured
    if isinstance(measured, float) and not math.isfinite(measured):
        measured = None
    return Node.model_construct(
        expr=name, op="check", value=_word(answer.value), text=answer.text, needed=answer.requirement,
        class_=answer.kind, measured=measured, unit=answer.unit or None,
        **_source(answer.cite, quotes, raw_names(check)),
        window=_window(answer.window), weak=answer.weak, assumed=answer.assumed,
        bounds=list(map(_explain_bound, check_bounds(check, answer))), missing=list(answer.missing), children=[],
    )  # fmt: skip


def _explain_bound(bound: Bound) -> model.Bound:
    limit, measured, gap = (
        float(f"{number:.9g}") if math.isfinite(number) else None for number in (bound.limit, bound.measured, bound.gap)
    )
    return model.Bound.model_construct(
        word=cast("Any", bound.word), limit=limit, measured=measured, gap=gap, unit=bound.unit or None,
        met=bound.is_met, text=bound.margin(),
    )  # fmt: skip


def _source(cite: Citation | None, quotes: Quotes, names: Sequence[str] = ()) -> dict[str, Any]:
    """The cited line, and the line with the value and its text."""
    if cite is None:
        return {"member": None, "line": None, "source_line": None, "source": None}
    line, source = quotes.get(_with_names(cite, names), (None, None))
    return {"member": cite.member, "line": cite.line, "source_line": line, "source": source}


def _window(span: tuple[Moment, Moment] | None) -> ExplainedWindow | None:
    if span is None:
        return None
    first, last = span
    return ExplainedWindow.model_construct(
        from_=first.seconds, to=last.seconds, clock=first.clock.value, text=stretch_text(span)
    )


def _level(name: str, rule: Rule, outcome: RuleOutcome, quotes: Quotes) -> Level:
    """The condition of a confidence level, with the checks that `when` does not have."""
    expression, when_names = rule.confidence[name], set(rule.when.names())
    level_names = [n for n in dict.fromkeys(expression.names()) if n not in when_names]
    return Level.model_construct(
        level=cast("Any", name), expr=str(expression),
        value=_word(_value(expression, outcome) if outcome.answers else UNKNOWN),
        checks=[_leaf(n, rule, outcome, quotes) for n in level_names],
    )  # fmt: skip


def _other_rule(outcome: RuleOutcome, quotes: Quotes) -> OtherRule:
    """The outcome and evidence of another rule that would exclude or demote this one."""
    first = next(iter(outcome.evidence if outcome.value is YES else outcome.against), None)
    return OtherRule.model_construct(
        rule=outcome.rule, outcome=_outcome(outcome), confidence=cast("Any", outcome.confidence),
        text=first.text if first else None, **_source(first.cite if first else None, quotes),
        missing=list(outcome.missing),
    )  # fmt: skip


def _finding(finding: Finding, diagnosis: Diagnosis) -> ExplainedFinding:
    """The confidence and role from the result, and the data that would raise the confidence."""
    requests = open_requests(diagnosis)
    document = next(f for f in result([diagnosis]).findings if f.rule == finding.outcome.rule)
    raises = finding.outcome.raises if document.confidence != "confirmed" else ()
    return ExplainedFinding.model_construct(
        confidence=document.confidence, role=document.role or "", severity=document.severity or "",
        classes_spoken=document.classes_spoken, classes_missing=document.classes_missing,
        raise_confidence=document.raise_confidence, consequences=document.consequences, demoted_by=document.demoted_by,
        surer=[
            Surer.model_construct(to=cast("Any", r.to), classes=list(r.classes), ask_for=requests(r.missing))
            for r in raises
        ],
    )  # fmt: skip


def _state(state: State | None) -> SettingsState | None:
    if state is None:
        return None
    settings = {k: str(v) for k, v in sorted(state.settings.items())}
    return SettingsState.model_construct(id=state.id, text=state_words(settings), settings=settings)


def _state_outcome(view: StateView, outcome: RuleOutcome, rule: Rule, requests: Requests) -> StateOutcome:
    return StateOutcome.model_construct(
        state=_state(view.state), outcome=_outcome(outcome), confidence=cast("Any", outcome.confidence),
        window=_window(outcome.window), entity=outcome.entity or None, change=change(rule, outcome, requests),
    )  # fmt: skip


def change(rule: Rule, outcome: RuleOutcome, requests: Requests) -> Change | None:
    """Return the smallest change of the outcome; None if there is none, or if the rule raised an exception."""
    answers = {name: a for name, a in outcome.answers.items() if isinstance(a, CheckResult)}
    if not answers:
        return None
    values = {name: answer.value for name, answer in answers.items()}
    distances = {n: b.part for n, a in answers.items() if (b := deciding_bound(rule.checks[n], a)) is not None}
    if outcome.value is YES:
        changes = smallest_silencing_change(rule.when, values, distances)
        steps = [_step(name, to, rule, answers, requests) for name, to in changes or ()]
        return Change.model_construct(to="silent", steps=steps) if steps else None
    is_met = rule.when.value(lambda name: values[name]) is YES
    changes = [] if is_met else smallest_change(rule.when, values, distances)
    steps = [_step(name, to, rule, answers, requests) for name, to in changes]
    steps += [
        Step.model_construct(
            check=None, to="no", needed="nothing else explains it", text=e.text, by=None, window=None, ask_for=[]
        )
        for e in outcome.against
        if e.excludes
    ]
    return Change.model_construct(to="fire", steps=steps) if steps else None


def _step(name: str, to: Verdict3, rule: Rule, answers: Mapping[str, CheckResult], requests: Requests) -> Step:
    answer, is_undecided = answers[name], answers[name].value is UNKNOWN
    bound = deciding_bound(rule.checks[name], answer)
    return Step.model_construct(
        check=name, to=_word(to),
        needed=answer.requirement if to is YES else sentence(f"no longer {answer.requirement}"),
        text=answer.text, by=bound.describe() if bound and not is_undecided else None,
        window=stretch_text(answer.window) if answer.window else None,
        ask_for=requests(answer.missing) if is_undecided else [],
    )  # fmt: skip
