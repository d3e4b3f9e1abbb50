"""The result document, from which all reports are made.

It is a function of the input: it has no current time, run time, random order, or path of the analyst's machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, cast

from thpdiag import __version__
from thpdiag.diagnosis import diagnose
from thpdiag.diagnosis.diagnose import (
    MIN_WATCHED_SECONDS,
    SHORT_WATCH_SECONDS,
    Diagnosis,
    watched_seconds_of_demand,
    zero_counters,
)
from thpdiag.diagnosis.excerpts import Quotes, excerpt, excerpt_requests, place
from thpdiag.diagnosis.host_document import host, settings, state_words
from thpdiag.diagnosis.input_rows import input_rows, problem_rows
from thpdiag.diagnosis.kernel_messages import inconclusive_message_kinds, unexplained_messages
from thpdiag.diagnosis.known_issues import known_issues, requests
from thpdiag.diagnosis.missing_data import confidence_keys, customer_request, missing_reasons, open_requests
from thpdiag.diagnosis.profiles import Signature, onset_moment, profile_documents, signatures
from thpdiag.diagnosis.ranking import THP, mechanism_kind
from thpdiag.diagnosis.remedies import host_state, remedies_of
from thpdiag.diagnosis.timeline import timeline
from thpdiag.diagnosis.times import clock_text, stretch_of_day
from thpdiag.engine.check_result import CheckResult
from thpdiag.engine.expression import Expression
from thpdiag.engine.load import Rule, by_pack, digest
from thpdiag.engine.quantity import format_quantity
from thpdiag.engine.schema import ChangeCheck, EventCheck, as_list
from thpdiag.engine.state_view import outcome_word
from thpdiag.knowledge.known_issues import catalogue_words
from thpdiag.knowledge.mechanisms import mechanisms
from thpdiag.model import Case, Evidence, Finding, RuleOutcome, Verdict3
from thpdiag.model import result as document_model
from thpdiag.model.document import plain_document, present_keys
from thpdiag.model.facts import ExcerptRequest
from thpdiag.model.finding import CONFIDENCES, SEVERITIES, fingerprint
from thpdiag.model.result import (
    SCHEMA,
    ConditionTree,
    Moment,
    Note,
    Result,
    RuledOut,
    RuleResult,
    Tool,
    UnknownRule,
    Verdict,
    Window,
)
from thpdiag.model.text import entity_name, names_in, quoted, sentence

STATUS_ORDER = ("cannot_tell", "not_applicable", "nothing_found", "found")
WORST_WINDOW_TEXT = "the worst window found"
PART_TEXT = "a part of what was recorded"
_HEADLINE_ORDER = {"stack": 0, "cpu": 1, "effect": 1, "counter": 2, "toggle": 3}


def document(
    diagnoses: Sequence[Diagnosis], options: Mapping[str, str] | None = None, quotes: Quotes | None = None
) -> dict[str, Any]:
    """Return the result as JSON data."""
    return plain_document(result(diagnoses, options, quotes))


def result(
    diagnoses: Sequence[Diagnosis], options: Mapping[str, str] | None = None, quotes: Quotes | None = None,
    *, every_input: bool = False,
) -> Result:  # fmt: skip
    """Return one result per input. With several hosts the top-level keys are those of the worst, and all are in
    `cases`.

    `quotes` are the cited lines, as far as they could be read again. `every_input`: list each member, however many
    there are.
    """
    cases = [_host_result(d, options or {}, quotes or {}, every_input=every_input) for d in diagnoses]
    cases.sort(key=_sort_key, reverse=True)
    return cases[0] if len(cases) == 1 else cases[0].model_copy(update={"cases": cases})


def cited_lines(diagnoses: Sequence[Diagnosis]) -> Iterator[ExcerptRequest]:
    """Yield the lines that the results cite."""
    yield from excerpt_requests(diagnoses)
    for diagnosis in diagnoses:
        yield from requests(diagnosis)
        for setting in settings(diagnosis, {}).values():
            boot = [setting.next_boot] if setting.next_boot else []
            places = (setting, *setting.said, *boot, *setting.contradictions, *setting.other_states)
            yield from (ExcerptRequest(item.member, item.line) for item in places if item.member and item.line)


def _certainly_ruled_out(diagnosis: Diagnosis) -> Iterator[diagnose.RuledOut]:
    """What is ruled out, except by the absence of kernel messages if there are inconclusive ones of the same kind."""
    inconclusive = inconclusive_message_kinds(diagnosis)
    for item in diagnosis.ruled_out:
        check = item.rule.checks.get(item.evidence[0].check)
        if not (isinstance(check, EventCheck) and inconclusive.intersection(as_list(check.event))):
            yield item


def _sort_key(host_result: Result) -> tuple[int, int, int, int, str]:
    verdict = host_result.verdict
    severity = SEVERITIES.index(verdict.severity) if verdict.severity else -1
    max_severity = max((SEVERITIES.index(finding.severity) for finding in host_result.findings), default=-1)
    confidence = CONFIDENCES.index(verdict.confidence) if verdict.confidence else -1
    return STATUS_ORDER.index(verdict.status), confidence, severity, max_severity, host_result.case or ""


def _host_result(diagnosis: Diagnosis, options: Mapping[str, str], quotes: Quotes, *, every_input: bool) -> Result:
    case, stack_signatures, issues = diagnosis.case, signatures(diagnosis), known_issues(diagnosis, quotes)
    views = [view for view, _ in diagnosis.by_state[: len(case.states)]]  # views outside the requested window follow
    ruled_out = sorted(_certainly_ruled_out(diagnosis), key=lambda o: (o.rule.file.role != "alternative", o.rule.id))
    packs = [  # packs other than thpdiag's own; folders by their last component
        document_model.Pack.model_construct(
            name=pack.name if pack.version else PurePath(pack.name).name, version=pack.version or None,
            rules=len(rules), digest=digest(rules),
        )
        for pack, rules in by_pack(diagnosis.rules).items()
        if not pack.own
    ]  # fmt: skip
    return Result.model_construct(
        schema_=SCHEMA,
        case=case.name,
        verdict=_verdict(diagnosis),
        findings=[_finding(finding, diagnosis, stack_signatures, quotes) for finding in diagnosis.findings],
        ruled_out=[
            RuledOut.model_construct(
                rule=item.rule.id, title=item.rule.file.title, because=item.because,
                evidence=[_evidence(evidence, item.rule, quotes) for evidence in item.evidence],
            )
            for item in ruled_out
        ],
        unknown=_unknown_rules(diagnosis),
        rules=[
            RuleResult.model_construct(
                id=rule.id, outcome=cast("Any", outcome_word(outcome)), title=rule.file.title, role=rule.file.role,
                mechanism=rule.file.mechanism, tree=_tree(rule.when, outcome),
            )
            for rule in sorted(diagnosis.rules, key=lambda r: r.id)
            for outcome in [diagnosis.outcomes[rule.id]]
        ],
        **present_keys(known_issues=issues),
        host=host(diagnosis, views, quotes),
        timeline=timeline(diagnosis, views, stack_signatures),
        profiles=profile_documents(diagnosis, stack_signatures),
        inputs=input_rows(case.inputs, every=every_input),
        problems=problem_rows(case.problems),
        notes=[
            Note.model_construct(text=note.text, **place(note.cite))
            for note in (*case.notes, *unexplained_messages(diagnosis))
        ],
        ask=customer_request(diagnosis),
        tool=Tool.model_construct(
            version=__version__, rules_digest=digest(diagnosis.rules), packs=packs, names_listed=True,
            options=dict(options), **present_keys(known_issues=catalogue_words() if issues else None),
        ),
    )  # fmt: skip


# Verdict

SECONDARY_ROLES = ("configuration", "contributing", "risk")  # named in the verdict if no finding leads


def _verdict(diagnosis: Diagnosis) -> Verdict:
    leader, status = diagnosis.leader, cast("Any", diagnosis.status)
    if leader is None:
        return Verdict.model_construct(status=status, sentence=sentence(_sentence_without_leader(diagnosis)))
    answer = _headline(diagnosis, leader) or f"{leader.title}."
    answer += _strongest_figure(leader)
    if not leader.outcome.in_range:
        answer = f"Outside the requested time range: {answer}"
    answer += _cause_before_switch(diagnosis, leader)
    return Verdict.model_construct(
        status=status, rule=leader.outcome.rule, mechanism=mechanisms()[leader.mechanism].name,
        severity=cast("Any", leader.severity), confidence=cast("Any", leader.confidence),
        state=cast("Any", diagnosis.state), sentence=sentence(answer),
        **present_keys(window=_window(leader, diagnosis.case)),
    )  # fmt: skip


def _strongest_figure(finding: Finding) -> str:
    candidates = [e for e in finding.outcome.evidence if e.kind in _HEADLINE_ORDER]
    if not candidates:
        return ""
    is_context = finding.role == "context"  # several kinds of work; a cause has its own share first

    def rank(e: Evidence) -> tuple[int, float]:
        larger = is_context and isinstance(e.value, float) and e.unit == "ratio"
        return _HEADLINE_ORDER[e.kind], -float(e.value or 0) if larger else 0.0

    brief = min(candidates, key=rank).brief
    # Names and kernel counters keep their spelling.
    has_fixed_case = any(brief.startswith(name.value) for name in names_in(brief)) or re.match(r"[a-z]+[_.]\w+", brief)
    return f" {brief if has_fixed_case else brief[:1].upper() + brief[1:]}."


def _headline(diagnosis: Diagnosis, leader: Finding) -> str:
    """The headline of the rule with an entity and the pace of its change, if both are known."""
    rule = next(rule for rule in diagnosis.rules if rule.id == leader.outcome.rule)
    changes = {name for name, check in rule.checks.items() if isinstance(check, ChangeCheck) and not check.change.per}
    figures = (e for e in leader.outcome.evidence if e.check in changes and e.window and not isinstance(e.value, str))
    change = next(figures, None)
    if rule.file.headline is None or change is None or change.window is None or change.value is None:
        return ""
    seconds = change.window[1].minus(change.window[0])
    if not seconds or not leader.outcome.entity:
        return ""
    pace = format_quantity(float(change.value) / seconds, f"{change.unit}/s")
    kind = rule.file.for_each if rule.file.for_each == "process" else ""
    subject = f"{kind} {entity_name(leader.outcome.entity.removeprefix(f'{kind} '))}".strip()
    return f"{rule.file.headline.format(entity=subject, pace=pace)}."


def _cause_before_switch(diagnosis: Diagnosis, leader: Finding) -> str:
    """A cause of the time before a switch of settings, if it has at least the confidence of the current one."""
    causes = {rule.id for rule in diagnosis.rules if rule.file.role == "root_cause" and not leader.past}
    past_findings = (f for f in diagnosis.findings if f.past and f.outcome.rule in causes and not f.demoted_by)
    first = next((f for f in past_findings if f.confidence_rank >= max(1, leader.confidence_rank)), None)
    if first is None:
        return ""
    switched = [(n, old, leader.under[n]) for n, old in first.under.items() if leader.under.get(n, old) != old]
    switches = " and ".join(f"{name} was switched from {quoted(old)} to {quoted(new)}" for name, old, new in switched)
    return f" Before {switches}: {first.title} ({first.confidence})." if switches else ""


def _window(finding: Finding, case: Case, part: str = WORST_WINDOW_TEXT) -> Window | None:
    windows = [w for w in (finding.outcome.window, *(e.window for e in finding.outcome.evidence)) if w]
    if not windows:
        return None
    first, last = windows[0]
    own_times = f"{clock_text(first)} to {clock_text(last)}"
    recording = next((p for s in case.states for p in s.profiles if (p.start, p.end) == windows[0]), None)
    wall_times = stretch_of_day(first, last, recording, case.anchors) if recording else ""
    text = f"seen from {wall_times}; in the recording {own_times}" if wall_times else f"seen from {own_times}"
    text += f", {part}" if finding.outcome.window else ""
    return Window.model_construct(from_=first.seconds, to=last.seconds, clock=first.clock.value, text=text)


def _sentence_without_leader(diagnosis: Diagnosis) -> str:
    views = [view for view, _ in diagnosis.by_state]
    if diagnosis.status == "not_applicable":
        context = next((f for f in diagnosis.findings if f.role == "context"), None)
        why = f": {context.title[:1].lower()}{context.title[1:]}" if context else ""
        return f"Transparent huge pages are not used on this host{why}."
    if diagnosis.status == "nothing_found":
        brief = _short_watch_text(watched_seconds_of_demand(views)) + _zero_counter_text(*zero_counters(views))
        if open_findings := [finding for finding in diagnosis.findings if _is_open(finding)]:
            clear = f"None of the main huge-page problems was found in the measurements.{brief}"
            unanswered = next((f.title for f in open_findings if not f.demoted_by), None)
            return f"{clear} Still open: {unanswered}." if unanswered else clear
        return f"No huge-page problem: all known huge-page problems were checked; none was found.{brief}"
    if not any(row.reader for row in diagnosis.case.inputs):
        return "No diagnosis: none of the files was recognized."
    symptom = _symptom_text(diagnosis)
    secondary = [f for f in diagnosis.findings if f.role in SECONDARY_ROLES and not f.demoted_by]
    # A risk alone is named too, but configuration and contributing findings come first.
    if title := next((f.title for f in sorted(secondary, key=lambda f: f.role == "risk")), None):
        return f"{symptom}{title}. There is not enough data to show whether this affects the host."
    brief = _short_watch_text(watched_seconds_of_demand(views), MIN_WATCHED_SECONDS)
    return f"{symptom or 'Inconclusive. '}See what to send.{brief}"


def _symptom_text(diagnosis: Diagnosis) -> str:
    """The first observation on an undecided input: what the kernel reports, or what uses the CPU time."""
    message = next(unexplained_messages(diagnosis), None)
    report = ""
    if message:  # slicing a Text keeps the marks of the customer's names in it
        complaint = message.text[message.text.index(": ") + 2 :]
        report = f"The kernel reports a problem that the input does not explain: {complaint}. "
    contexts = [f for f in diagnosis.findings if f.role == "context" and not f.past]
    candidates = [(f, text) for f in contexts if (text := diagnosis.rule_by_id[f.outcome.rule].file.headline)]
    if not candidates:
        return report
    # of equal severity the one with more kinds of evidence
    finding, text = max(
        candidates, key=lambda pair: (SEVERITIES.index(pair[0].severity), len(pair[0].outcome.evidence_classes))
    )
    return f"{report}{text}.{_strongest_figure(finding)} "


def _short_watch_text(seconds: float | None, least: float = SHORT_WATCH_SECONDS) -> str:
    """A remark on counters that were recorded for less than `least` seconds."""
    if seconds is None or seconds >= least:
        return ""
    watched = f" The counters were watched for {seconds:.0f} s"
    return (
        f"{watched}, which is too short."
        if least == MIN_WATCHED_SECONDS
        else f"{watched} only; bursts may have been missed."
    )


def _zero_counter_text(metrics: Sequence[str], uptime: float) -> str:
    """A remark on counters that were read once and are 0."""
    if not metrics:
        return ""
    names = [m.removeprefix("node_").removeprefix("vmstat_").removesuffix("_total") for m in metrics]
    since = f"{uptime / 3600:.0f} h" if uptime < 2 * 86400 else f"{uptime / 86400:.0f} days"
    return f" Not watched over time, but 0 in the {since} since boot: {', '.join(names)}."


def _is_open(finding: Finding) -> bool:
    """Whether a finding is about huge pages, and the counters that allow the all-clear do not rule it out. For
    example, a control group was killed with its memory in huge pages before the counters were recorded."""
    is_severe = SEVERITIES.index(finding.severity) >= SEVERITIES.index("medium")
    return finding.role == "contributing" and is_severe and mechanism_kind(finding.mechanism) == THP


# Findings and rules


def _finding(
    finding: Finding, diagnosis: Diagnosis, stack_signatures: Sequence[Signature], quotes: Quotes
) -> document_model.Finding:
    outcome, case = finding.outcome, diagnosis.case
    related = [(check, s) for s in reversed(stack_signatures) for rule, check in s.checks if rule == outcome.rule]
    onsets = {check: onset for check, s in related if (onset := onset_moment(s, case.anchors))}
    rule = diagnosis.rule_by_id[outcome.rule]
    state = host_state(finding, diagnosis)
    return document_model.Finding.model_construct(
        rule=outcome.rule, fingerprint=fingerprint(outcome.rule, case.host or case.name, outcome.entity),
        mechanism=finding.mechanism, title=finding.title, severity=cast("Any", finding.severity),
        confidence=cast("Any", finding.confidence), role=cast("Any", finding.role),
        state=state_words(state.settings) if state else None,
        **present_keys(entity=outcome.entity, window=_window(finding, case, PART_TEXT) if outcome.window else None),
        means=rule.file.means.strip(),
        evidence=[_evidence(e, rule, quotes, onsets.get(e.check)) for e in outcome.evidence],
        against=[_evidence(e, rule, quotes) for e in outcome.against],
        **confidence_keys(finding, diagnosis),
        raise_confidence=list(outcome.raise_confidence), consequences=list(finding.consequences),
        demoted_by=list(finding.demoted_by), attached=list(finding.attached),
        remedies=remedies_of(finding, diagnosis),
    )  # fmt: skip


def _evidence(evidence: Evidence, rule: Rule, quotes: Quotes, onset: Moment | None = None) -> document_model.Evidence:
    value = evidence.value
    if isinstance(value, float):
        value = float(f"{value:.9g}") if math.isfinite(value) else None
    return document_model.Evidence.model_construct(
        check=evidence.check, text=evidence.text, kind=cast("Any", evidence.kind), **place(evidence.cite),
        **present_keys(value=value, unit=evidence.unit, onset=onset), **excerpt(evidence, rule, quotes),
    )  # fmt: skip


def _unknown_rules(diagnosis: Diagnosis) -> list[UnknownRule]:
    documents, reasons, requests = [], missing_reasons(diagnosis.case), open_requests(diagnosis)
    for rule in sorted(diagnosis.rules, key=lambda r: r.id):
        outcome = diagnosis.outcomes[rule.id]
        if outcome.value is Verdict3.UNKNOWN:
            commands = requests(outcome.missing)
            documents.append(
                UnknownRule.model_construct(
                    rule=rule.id, missing=list(outcome.missing), ask_for=commands,
                    **present_keys(because=reasons(outcome.missing)),
                )
            )  # fmt: skip
    return documents


def _tree(expression: Expression, outcome: RuleOutcome) -> ConditionTree:
    if outcome.mistake:
        return _node("rule", outcome.value, outcome.mistake)
    if expression.op == "name":
        answer = cast("CheckResult", outcome.answers[expression.name])
        return _node(expression.name, answer.value, answer.text, answer.requirement)
    value = expression.value(lambda name: cast("CheckResult", outcome.answers[name]).value)
    return _node(str(expression), value, children=[_tree(child, outcome) for child in expression.children])


def _node(
    expr: str, value: Verdict3, text: str = "", needed: str = "", children: Sequence[ConditionTree] = ()
) -> ConditionTree:
    return ConditionTree.model_construct(
        expr=expr, value=cast("Any", value.word), text=text, needed=needed, children=list(children)
    )


# What was read
