"""The result: what all reports are made from. Same input, same result: no clock, no timing, no random order, no path of
the analyst's machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, cast

from thpdiag import __version__
from thpdiag.diagnosis import diagnose
from thpdiag.diagnosis.diagnose import BRIEF, LONG_ENOUGH, Diagnosis, watched_seconds_of_demand, zero_counters
from thpdiag.diagnosis.excerpts import Quotes, excerpt, excerpt_requests, place
from thpdiag.diagnosis.host_document import host, settings, state_words
from thpdiag.diagnosis.input_rows import input_rows, problem_rows
from thpdiag.diagnosis.kernel_messages import unexplained_messages, waits_for_others
from thpdiag.diagnosis.known_issues import known_issues, requests
from thpdiag.diagnosis.missing_data import customer_request, missing_reasons, open_requests, sureness
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
WORST = "the worst window found"
PART = "a part of what was recorded"
_HEADLINE_ORDER = {"stack": 0, "cpu": 1, "effect": 1, "counter": 2, "toggle": 3}


def document(
    diagnoses: Sequence[Diagnosis], options: Mapping[str, str] | None = None, quotes: Quotes | None = None
) -> dict[str, Any]:
    """The result as JSON has it."""
    return plain_document(result(diagnoses, options, quotes))


def result(
    diagnoses: Sequence[Diagnosis], options: Mapping[str, str] | None = None, quotes: Quotes | None = None,
    *, every_input: bool = False,
) -> Result:  # fmt: skip
    """One result per input; with several hosts the keys at the top are those of the worst, all are under `cases`.

    `quotes` are the lines that evidence cites, as far as they could be read again. `every_input`: a row for each
    member, however many there are.
    """
    cases = [_host_result(one, options or {}, quotes or {}, every_input=every_input) for one in diagnoses]
    cases.sort(key=_badness, reverse=True)
    return cases[0] if len(cases) == 1 else cases[0].model_copy(update={"cases": cases})


def cited_lines(diagnoses: Sequence[Diagnosis]) -> Iterator[ExcerptRequest]:
    """The lines that results of the diagnoses cite."""
    yield from excerpt_requests(diagnoses)
    for diagnosis in diagnoses:
        yield from requests(diagnosis)
        for setting in settings(diagnosis, {}).values():
            boot = [setting.next_boot] if setting.next_boot else []
            places = (setting, *setting.said, *boot, *setting.contradictions, *setting.other_states)
            yield from (ExcerptRequest(one.member, one.line) for one in places if one.member and one.line)


def _firmly_out(diagnosis: Diagnosis) -> Iterator[diagnose.RuledOut]:
    """What is ruled out, but for what messages of a kind speak against of which some may be about anything."""
    vague = waits_for_others(diagnosis)
    for out in diagnosis.ruled_out:
        check = out.rule.checks.get(out.evidence[0].check)
        if not (isinstance(check, EventCheck) and vague.intersection(as_list(check.event))):
            yield out


def _badness(one: Result) -> tuple[int, int, int, int, str]:
    verdict = one.verdict
    severity = SEVERITIES.index(verdict.severity) if verdict.severity else -1
    worst = max((SEVERITIES.index(finding.severity) for finding in one.findings), default=-1)
    confidence = CONFIDENCES.index(verdict.confidence) if verdict.confidence else -1
    return STATUS_ORDER.index(verdict.status), confidence, severity, worst, one.case or ""


def _host_result(diagnosis: Diagnosis, options: Mapping[str, str], quotes: Quotes, *, every_input: bool) -> Result:
    case, seen, issues = diagnosis.case, signatures(diagnosis), known_issues(diagnosis, quotes)
    views = [view for view, _ in diagnosis.by_state[: len(case.states)]]  # those outside of the window come behind them
    out = sorted(_firmly_out(diagnosis), key=lambda o: (o.rule.file.role != "alternative", o.rule.id))
    packs = [  # what a result was judged by besides our rules; folders by their own name
        document_model.Pack.model_construct(
            name=pack.name if pack.version else PurePath(pack.name).name, version=pack.version or None,
            rules=len(own), digest=digest(own),
        )
        for pack, own in by_pack(diagnosis.rules).items()
        if not pack.own
    ]  # fmt: skip
    return Result.model_construct(
        schema_=SCHEMA,
        case=case.name,
        verdict=_verdict(diagnosis),
        findings=[_finding(finding, diagnosis, seen, quotes) for finding in diagnosis.findings],
        ruled_out=[
            RuledOut.model_construct(
                rule=one.rule.id, title=one.rule.file.title, because=one.because,
                evidence=[_evidence(evidence, one.rule, quotes) for evidence in one.evidence],
            )
            for one in out
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
        timeline=timeline(diagnosis, views, seen),
        profiles=profile_documents(diagnosis, seen),
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

BESIDE = ("configuration", "contributing", "risk")  # the roles that are worth the sentence where nobody leads


def _verdict(diagnosis: Diagnosis) -> Verdict:
    leader, status = diagnosis.leader, cast("Any", diagnosis.status)
    if leader is None:
        return Verdict.model_construct(status=status, sentence=sentence(_sentence_without_leader(diagnosis)))
    answer = _headline(diagnosis, leader) or f"{leader.title}."
    answer += _strongest_figure(leader)
    if not leader.outcome.in_range:
        answer = f"Outside the requested time range: {answer}"
    answer += _before_the_switch(diagnosis, leader)
    return Verdict.model_construct(
        status=status, rule=leader.outcome.rule, mechanism=mechanisms()[leader.mechanism].name,
        severity=cast("Any", leader.severity), confidence=cast("Any", leader.confidence),
        state=cast("Any", diagnosis.state), sentence=sentence(answer),
        **present_keys(window=_window(leader, diagnosis.case)),
    )  # fmt: skip


def _strongest_figure(finding: Finding) -> str:
    """The evidence that tells most, as a sentence."""
    able = [e for e in finding.outcome.evidence if e.kind in _HEADLINE_ORDER]
    if not able:
        return ""
    side_by_side = finding.role == "context"  # kinds of work; a cause has its own share first

    def rank(e: Evidence) -> tuple[int, float]:
        larger = side_by_side and isinstance(e.value, float) and e.unit == "ratio"
        return _HEADLINE_ORDER[e.kind], -float(e.value or 0) if larger else 0.0

    brief = min(able, key=rank).brief
    # A name has its own spelling, and so has a counter of the kernel.
    spelled = any(brief.startswith(name.value) for name in names_in(brief)) or re.match(r"[a-z]+[_.]\w+", brief)
    return f" {brief if spelled else brief[:1].upper() + brief[1:]}."


def _headline(diagnosis: Diagnosis, leader: Finding) -> str:
    """The rule's own sentence about an entity and the pace of its change, where both are known."""
    rule = next(rule for rule in diagnosis.rules if rule.id == leader.outcome.rule)
    changes = {name for name, check in rule.checks.items() if isinstance(check, ChangeCheck) and not check.change.per}
    found = (e for e in leader.outcome.evidence if e.check in changes and e.window and not isinstance(e.value, str))
    change = next(found, None)
    if rule.file.headline is None or change is None or change.window is None or change.value is None:
        return ""
    seconds = change.window[1].minus(change.window[0])
    if not seconds or not leader.outcome.entity:
        return ""
    pace = format_quantity(float(change.value) / seconds, f"{change.unit}/s")
    kind = rule.file.for_each if rule.file.for_each == "process" else ""
    who = f"{kind} {entity_name(leader.outcome.entity.removeprefix(f'{kind} '))}".strip()
    return f"{rule.file.headline.format(entity=who, pace=pace)}."


def _before_the_switch(diagnosis: Diagnosis, leader: Finding) -> str:
    """A cause as sure as this one of the time before a switch, where this one hurts under the new value."""
    causes = {rule.id for rule in diagnosis.rules if rule.file.role == "root_cause" and not leader.past}
    gone = (f for f in diagnosis.findings if f.past and f.outcome.rule in causes and not f.demoted_by)
    first = next((f for f in gone if f.sureness >= max(1, leader.sureness)), None)
    if first is None:
        return ""
    switched = [(n, old, leader.under[n]) for n, old in first.under.items() if leader.under.get(n, old) != old]
    told = " and ".join(f"{name} was switched from {quoted(old)} to {quoted(new)}" for name, old, new in switched)
    return f" Before {told}: {first.title} ({first.confidence})." if told else ""


def _window(finding: Finding, case: Case, part: str = WORST) -> Window | None:
    windows = [w for w in (finding.outcome.window, *(e.window for e in finding.outcome.evidence)) if w]
    if not windows:
        return None
    first, last = windows[0]
    own = f"{clock_text(first)} to {clock_text(last)}"
    recording = next((p for s in case.states for p in s.profiles if (p.start, p.end) == windows[0]), None)
    day = stretch_of_day(first, last, recording, case.anchors) if recording else ""
    text = f"seen from {day}; in the recording {own}" if day else f"seen from {own}"
    text += f", {part}" if finding.outcome.window else ""
    return Window.model_construct(from_=first.seconds, to=last.seconds, clock=first.clock.value, text=text)


def _sentence_without_leader(diagnosis: Diagnosis) -> str:
    views = [view for view, _ in diagnosis.by_state]
    if diagnosis.status == "not_applicable":
        context = next((f for f in diagnosis.findings if f.role == "context"), None)
        why = f": {context.title[:1].lower()}{context.title[1:]}" if context else ""
        return f"Transparent huge pages are not used on this host{why}."
    if diagnosis.status == "nothing_found":
        brief = _brief_watch(watched_seconds_of_demand(views)) + _zero_since_boot(*zero_counters(views))
        if still_open := [finding for finding in diagnosis.findings if _stays_open(finding)]:
            clear = f"None of the main huge-page problems was found in the measurements.{brief}"
            unanswered = next((f.title for f in still_open if not f.demoted_by), None)
            return f"{clear} Still open: {unanswered}." if unanswered else clear
        return f"No huge-page problem: all known huge-page problems were checked; none was found.{brief}"
    if not any(row.reader for row in diagnosis.case.inputs):
        return "No diagnosis: none of the files was recognized."
    symptom = _symptom(diagnosis)
    beside = [f for f in diagnosis.findings if f.role in BESIDE and not f.demoted_by]
    # A risk alone is worth the sentence too, behind what is wrong or takes part.
    if seen := next((f.title for f in sorted(beside, key=lambda f: f.role == "risk")), None):
        return f"{symptom}{seen}. There is not enough data to show whether this affects the host."
    brief = _brief_watch(watched_seconds_of_demand(views), LONG_ENOUGH)
    return f"{symptom or 'Inconclusive. '}See what to send.{brief}"


def _symptom(diagnosis: Diagnosis) -> str:
    """What an expert would say first of an input that does not decide it: what the kernel complains of, where the CPU
    time goes, or that some is left."""
    message = next(unexplained_messages(diagnosis), None)
    trouble = ""
    if message:  # cut as a Text, which keeps the names of the customer's in it
        complaint = message.text[message.text.index(": ") + 2 :]
        trouble = f"The kernel reports a problem that the input does not explain: {complaint}. "
    contexts = [f for f in diagnosis.findings if f.role == "context" and not f.past]
    able = [(f, text) for f in contexts if (text := diagnosis.rule_by_id[f.outcome.rule].file.headline)]
    if not able:
        return trouble
    # of two that are as grave, what more kinds of evidence show says more
    gravest, text = max(able, key=lambda one: (SEVERITIES.index(one[0].severity), len(one[0].outcome.spoken)))
    return f"{trouble}{text}.{_strongest_figure(gravest)} "


def _brief_watch(seconds: float | None, least: float = BRIEF) -> str:
    """What to think of counters that were watched for a moment only."""
    if seconds is None or seconds >= least:
        return ""
    watched = f" The counters were watched for {seconds:.0f} s"
    return (
        f"{watched}, which is too short." if least == LONG_ENOUGH else f"{watched} only; bursts may have been missed."
    )


def _zero_since_boot(metrics: Sequence[str], up: float) -> str:
    """What to think of counters that were read once, and are 0."""
    if not metrics:
        return ""
    names = [m.removeprefix("node_").removeprefix("vmstat_").removesuffix("_total") for m in metrics]
    since = f"{up / 3600:.0f} h" if up < 2 * 86400 else f"{up / 86400:.0f} days"
    return f" Not watched over time, but 0 in the {since} since boot: {', '.join(names)}."


def _stays_open(finding: Finding) -> bool:
    """Whether it speaks of huge pages, and the counters that allow the all-clear do not answer it.

    Such as a control group that was killed with its memory in huge pages: that can be over when the counters begin.
    """
    grave = SEVERITIES.index(finding.severity) >= SEVERITIES.index("medium")
    return finding.role == "contributing" and grave and mechanism_kind(finding.mechanism) == THP


# Findings and rules


def _finding(
    finding: Finding, diagnosis: Diagnosis, seen: Sequence[Signature], quotes: Quotes
) -> document_model.Finding:
    outcome, case = finding.outcome, diagnosis.case
    own = [(check, s) for s in reversed(seen) for rule, check in s.spoken_by if rule == outcome.rule]
    onsets = {check: onset for check, s in own if (onset := onset_moment(s, case.anchors))}
    rule = diagnosis.rule_by_id[outcome.rule]
    state = host_state(finding, diagnosis)
    return document_model.Finding.model_construct(
        rule=outcome.rule, fingerprint=fingerprint(outcome.rule, case.host or case.name, outcome.entity),
        mechanism=finding.mechanism, title=finding.title, severity=cast("Any", finding.severity),
        confidence=cast("Any", finding.confidence), role=cast("Any", finding.role),
        state=state_words(state.settings) if state else None,
        **present_keys(entity=outcome.entity, window=_window(finding, case, PART) if outcome.window else None),
        means=rule.file.means.strip(),
        evidence=[_evidence(e, rule, quotes, onsets.get(e.check)) for e in outcome.evidence],
        against=[_evidence(e, rule, quotes) for e in outcome.against],
        **sureness(finding, diagnosis),
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
    found, reasons, requests = [], missing_reasons(diagnosis.case), open_requests(diagnosis)
    for rule in sorted(diagnosis.rules, key=lambda r: r.id):
        outcome = diagnosis.outcomes[rule.id]
        if outcome.value is Verdict3.UNKNOWN:
            commands = requests(outcome.missing)
            found.append(
                UnknownRule.model_construct(
                    rule=rule.id, missing=list(outcome.missing), ask_for=commands,
                    **present_keys(because=reasons(outcome.missing)),
                )
            )  # fmt: skip
    return found


def _tree(expression: Expression, outcome: RuleOutcome) -> ConditionTree:
    """The condition with the answers in it, for people."""
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
