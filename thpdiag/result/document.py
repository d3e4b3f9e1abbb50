"""The result document: one JSON-able mapping that all reports are made from (schema: result.schema.json).

Same input, same bytes: no clock, no timing, no random order, no path of the analyst's machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from thpdiag import __version__
from thpdiag.all_clear import BRIEF, LONG_ENOUGH, never, watched_for
from thpdiag.derive.boot_clock import joins
from thpdiag.diagnosis import Diagnosis, RuledOut
from thpdiag.engine.cases import word
from thpdiag.engine.judged import Scene
from thpdiag.engine.load import Rule
from thpdiag.engine.scenes import scenes
from thpdiag.knowledge.mechanisms import mechanisms
from thpdiag.model import Case, Citation, Evidence, Finding, InputRecord, Problem, RuleOutcome, Verdict3
from thpdiag.model.finding import CONFIDENCES, SEVERITIES
from thpdiag.result.absent import reasons
from thpdiag.result.asking import ask
from thpdiag.result.excerpts import Quotes, excerpt, settings_quoted
from thpdiag.result.fingerprint import fingerprint
from thpdiag.result.free_blocks import free_block_documents
from thpdiag.result.measures import measures
from thpdiag.result.moments import clock_text
from thpdiag.result.profiles import profile_documents
from thpdiag.result.recorded import stretch_of_day
from thpdiag.result.remedies import remedies_of, state_of
from thpdiag.result.requests import request
from thpdiag.result.rule_packs import digest, pack_documents
from thpdiag.result.signatures import Signature, onset_document, signatures
from thpdiag.result.states import state_words
from thpdiag.result.sureness import sureness
from thpdiag.result.timeline import timeline

SCHEMA = "thpdiag/result/1"
STATUS_ORDER = ("cannot_tell", "not_applicable", "nothing_found", "found")
MOST_GAPS = 50
WORST = "the worst window found"
PART = "a part of what was recorded"


def document(
    diagnoses: Sequence[Diagnosis], options: Mapping[str, str] | None = None, quotes: Quotes | None = None
) -> dict[str, Any]:
    """One document per input; with several hosts the keys at the top are those of the worst, all are under `cases`.

    `quotes` are the lines that evidence cites, as far as they could be read again.
    """
    documents = [_one(d, options or {}, quotes or {}) for d in diagnoses]
    documents.sort(key=_badness, reverse=True)
    if len(documents) == 1:
        return documents[0]
    return {**documents[0], "cases": documents}


def _badness(one: Mapping[str, Any]) -> tuple[int, int, int, str]:
    verdict = one["verdict"]
    severity = SEVERITIES.index(verdict["severity"]) if verdict.get("severity") else -1
    confidence = CONFIDENCES.index(verdict["confidence"]) if verdict.get("confidence") else -1
    return STATUS_ORDER.index(verdict["status"]), confidence, severity, one["case"]


def _one(diagnosis: Diagnosis, options: Mapping[str, str], quotes: Quotes) -> dict[str, Any]:
    case, seen, every = diagnosis.case, signatures(diagnosis), scenes(diagnosis.case)
    return {
        "schema": SCHEMA,
        "case": case.name,
        "verdict": _verdict(diagnosis),
        "findings": [_finding(f, diagnosis, _onsets(f, seen, diagnosis), quotes) for f in diagnosis.findings],
        "ruled_out": [_ruled_out(r, quotes) for r in sorted(diagnosis.ruled_out, key=_look_alikes_first)],
        "unknown": _unknown(diagnosis),
        "rules": [_rule(r, diagnosis.outcomes[r.id]) for r in sorted(diagnosis.rules, key=lambda r: r.id)],
        "host": _host(diagnosis, every, quotes),
        "timeline": timeline(diagnosis, every, seen),
        "profiles": profile_documents(diagnosis, seen),
        "inputs": [_input(i) for i in case.inputs],
        "problems": [_problem(p) for p in _folded(case.problems)],
        "notes": [{"text": n.text, **_place(n.cite)} for n in case.notes],
        "ask": ask(diagnosis),
        "tool": {
            "version": __version__,
            "rules_digest": digest(diagnosis.rules),
            "packs": pack_documents(diagnosis.rules),
            "options": dict(options),
        },
    }


def _verdict(diagnosis: Diagnosis) -> dict[str, Any]:
    leader, case = diagnosis.leader, diagnosis.case
    if leader is None:
        return {"status": diagnosis.status, "sentence": _nothing(diagnosis)}
    known = mechanisms()[leader.mechanism]
    strongest = _strongest(leader)
    sentence = f"{leader.title}."
    if strongest:
        told = strongest.text.split(", most in ")[0]  # the stack itself stands with the evidence
        named = re.match(r"\S{1,64} \(\d{1,9}\) ", told)  # a process has its own spelling
        named = named or re.match(r"[a-z]+_\w+", told)  # and so has a counter of the kernel
        sentence += f" {told if named else told[:1].upper() + told[1:]}."
    sentence += _before_the_switch(diagnosis, leader)
    verdict: dict[str, Any] = {
        "status": diagnosis.status, "rule": leader.outcome.rule, "mechanism": known.name, "severity": leader.severity,
        "confidence": leader.confidence, "state": diagnosis.state, "sentence": sentence,
    }  # fmt: skip
    if window := _window(leader, case):
        verdict["window"] = window
    return verdict


def _before_the_switch(diagnosis: Diagnosis, leader: Finding) -> str:
    """A cause as sure as this one of the time before a switch, where this one hurts under the new value."""
    causes = {rule.id for rule in diagnosis.rules if rule.file.role == "root_cause" and not leader.past}
    gone = (f for f in diagnosis.findings if f.past and f.outcome.rule in causes and not f.demoted_by)
    first = next((f for f in gone if f.sureness >= max(1, leader.sureness)), None)
    if first is None:
        return ""
    switched = [(n, old, leader.under[n]) for n, old in first.under.items() if leader.under.get(n, old) != old]
    told = " and ".join(f"{name} was switched from {old} to {new}" for name, old, new in switched)
    return f" Before {told}: {first.title} ({first.confidence})." if told else ""


def _strongest(finding: Finding) -> Evidence | None:
    """The line of evidence for the headline: a stack, then an effect, a counter, a toggle; the first of its kind."""
    order = {"stack": 0, "cpu": 1, "effect": 1, "counter": 2, "toggle": 3}
    found = [e for e in finding.outcome.evidence if e.kind in order]
    return min(found, key=lambda e: order[e.kind], default=None)


def _window(finding: Finding, case: Case, part: str = WORST) -> dict[str, Any] | None:
    windows = [w for w in (finding.outcome.window, *(e.window for e in finding.outcome.evidence)) if w]
    if not windows:
        return None
    first, last = windows[0]
    own = f"{clock_text(first.seconds, first.clock)} to {clock_text(last.seconds, last.clock)}"
    recording = next((p for s in case.states for p in s.profiles if (p.start, p.end) == windows[0]), None)
    day = stretch_of_day(first, last, recording, joins(case.facts)) if recording else ""
    text = f"seen from {day}; in the recording {own}" if day else f"seen from {own}"
    if finding.outcome.window:
        text += f", {part}"
    return {"from": first.seconds, "to": last.seconds, "clock": first.clock.value, "text": text}


def _nothing(diagnosis: Diagnosis) -> str:
    open_rules = [r for r in diagnosis.rules if diagnosis.outcomes[r.id].value is Verdict3.UNKNOWN]
    if diagnosis.status == "not_applicable":
        context = next((f for f in diagnosis.findings if f.role == "context"), None)
        why = f": {context.title[:1].lower()}{context.title[1:]}" if context else ""
        return f"Transparent huge pages play no part on this host{why}."
    if diagnosis.status == "nothing_found":
        scenes = [scene for scene, _ in diagnosis.by_state]
        brief = _brief(watched_for(scenes)) + _never(*never(scenes))
        if open_ones := [f for f in diagnosis.findings if _stays_open(f)]:
            clear = f"None of the main huge-page problems was at work in what was measured.{brief}"
            unanswered = next((f.title for f in open_ones if not f.demoted_by), None)
            return f"{clear} Still open: {unanswered}." if unanswered else clear
        return f"No huge-page problem: every mechanism that could hurt was measured and none is at work.{brief}"
    if not diagnosis.case.inputs or not any(i.reader for i in diagnosis.case.inputs):
        return "Nothing can be said: no file of the input was recognised."
    beside = [f for f in diagnosis.findings if f.role in ("configuration", "contributing") and not f.demoted_by]
    seen = next((f.title for f in beside), None)
    if seen:
        return f"{seen}. Whether that hurts this host cannot be told from the input."
    lacking = f"{len(open_rules)} of {len(diagnosis.rules)} rules lack data"
    told = _brief(watched_for([scene for scene, _ in diagnosis.by_state]), LONG_ENOUGH)
    return f"The input does not decide it: {lacking}; see what to ask for.{told}"


def _brief(seconds: float | None, least: float = BRIEF) -> str:
    """What to think of counters that were watched for a moment only."""
    if seconds is None or seconds >= least:
        return ""
    said = f" The counters were watched for {seconds:.0f} s"
    return f"{said}, which is too short." if least == LONG_ENOUGH else f"{said} only; bursts may have been missed."


def _never(metrics: Sequence[str], up: float) -> str:
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
    known = mechanisms().get(finding.mechanism)
    grave = SEVERITIES.index(finding.severity) >= SEVERITIES.index("medium")
    huge_pages = known is not None and known.kind == "thp"
    return finding.role == "contributing" and grave and huge_pages


def _onsets(finding: Finding, seen: Sequence[Signature], diagnosis: Diagnosis) -> dict[str, Any]:
    """By the name of a check since when what it found has been there."""
    known = joins(diagnosis.case.facts)
    own = [(check, s) for s in reversed(seen) for rule, check in s.spoken_by if rule == finding.outcome.rule]
    return {check: {"onset": onset} for check, s in own if (onset := onset_document(s, known))}


def _fingerprint(outcome: RuleOutcome, case: Case) -> str:
    return fingerprint(outcome.rule, case.host or case.name, outcome.entity)


def _finding(finding: Finding, diagnosis: Diagnosis, onsets: Mapping[str, Any], quotes: Quotes) -> dict[str, Any]:
    outcome = finding.outcome
    rule = next(r for r in diagnosis.rules if r.id == outcome.rule)
    state = state_of(finding, diagnosis)
    return {
        "rule": outcome.rule, "fingerprint": _fingerprint(outcome, diagnosis.case),
        "mechanism": finding.mechanism, "title": finding.title, "severity": finding.severity,
        "confidence": finding.confidence, "role": finding.role, "state": state_words(state.settings) if state else None,
        **({"entity": outcome.entity} if outcome.entity else {}),
        **({"window": _window(finding, diagnosis.case, PART)} if outcome.window else {}),
        "means": rule.file.means.strip(),
        "evidence": [_evidence(e, rule, quotes) | onsets.get(e.check, {}) for e in outcome.evidence],
        "against": [_evidence(e, rule, quotes) for e in outcome.against],
        **sureness(finding, diagnosis),
        "raise_confidence": list(outcome.raise_confidence),
        "consequences": list(finding.consequences),
        "demoted_by": list(finding.demoted_by),
        "attached": list(finding.attached),
        "remedies": remedies_of(finding, diagnosis),
    }  # fmt: skip


def _evidence(evidence: Evidence, rule: Rule, quotes: Quotes) -> dict[str, Any]:
    value = evidence.value
    if isinstance(value, float):
        value = None if math.isnan(value) or math.isinf(value) else float(f"{value:.9g}")
    return {
        "check": evidence.check, "text": evidence.text, "kind": evidence.kind, **_place(evidence.cite),
        **({"value": value} if value is not None else {}), **({"unit": evidence.unit} if evidence.unit else {}),
        **excerpt(evidence, rule, quotes),
    }  # fmt: skip


def _place(cite: Citation | None) -> dict[str, Any]:
    if cite is None:
        return {}
    return {"member": cite.member, **({"line": cite.line} if cite.line is not None else {})}


def _ruled_out(item: RuledOut, quotes: Quotes) -> dict[str, Any]:
    return {
        "rule": item.rule.id, "title": item.rule.file.title, "because": item.because,
        "evidence": [_evidence(e, item.rule, quotes) for e in item.evidence],
    }  # fmt: skip


def _look_alikes_first(item: RuledOut) -> tuple[bool, str]:
    return item.rule.file.role != "alternative", item.rule.id


def _unknown(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    found, absent = [], reasons(diagnosis.case)
    for rule in sorted(diagnosis.rules, key=lambda r: r.id):
        outcome = diagnosis.outcomes[rule.id]
        if outcome.value is Verdict3.UNKNOWN:
            missing = list(outcome.missing)
            commands = list(dict.fromkeys(filter(None, (request(name) for name in missing))))
            because = absent(missing)
            told = {"because": because} if because else {}
            found.append({"rule": rule.id, "missing": missing, "ask_for": commands, **told})
    return found


def _rule(rule: Rule, outcome: RuleOutcome) -> dict[str, Any]:
    file = rule.file
    return {
        "id": rule.id, "outcome": word(outcome), "title": file.title, "role": file.role, "mechanism": file.mechanism,
        "tree": outcome.tree,
    }  # fmt: skip


def _host(diagnosis: Diagnosis, every: Sequence[Scene], quotes: Quotes) -> dict[str, Any]:
    case = diagnosis.case
    found = {}
    for key, name in (("os", "os.name"), ("kernel", "kernel.release"), ("era", "kernel.era"), ("platform", "platform")):
        facts = [f for f in case.facts if f.name == name]
        best = next((f for f in facts if not f.provenance), facts[0] if facts else None)
        if best is not None:
            found[key] = str(best.value)
    uptime = next((f for f in case.facts if f.name == "uptime.seconds"), None)
    if uptime is not None:
        found["uptime"] = float(uptime.value)  # type: ignore[assignment]
    apps = list(dict.fromkeys(str(f.value) for f in case.facts if f.name == "app"))
    free = free_block_documents(every)
    return {
        "name": case.name, **found, "apps": apps, "settings": settings_quoted(diagnosis, quotes),
        "measures": measures(every), **({"free_blocks": free} if free else {}),
    }  # fmt: skip


def _input(item: InputRecord) -> dict[str, Any]:
    times = {
        key: clock_text(moment.seconds, moment.clock)
        for key, moment in (("first", item.first), ("last", item.last))
        if moment
    }
    unknown = {} if item.size is None else {"size": item.size, "first_line": item.first_line}
    period = {} if item.period is None else {"period": round(item.period, 3)}
    return {
        "member": item.member, "reader": item.reader or None, "records": item.records, **times, "sha256": item.sha256,
        "problems": item.problems, **unknown, **period, **({"gaps": _gaps(item)} if item.gaps else {}),
    }  # fmt: skip


def _gaps(item: InputRecord) -> list[dict[str, Any]]:
    """The longest of them, in time."""
    longest = sorted(item.gaps, key=lambda gap: gap[0].seconds - gap[1].seconds)[:MOST_GAPS]
    return [
        {
            "from": clock_text(first.seconds, first.clock),
            "to": clock_text(last.seconds, last.clock),
            "seconds": round(last.seconds - first.seconds, 3),
        }
        for first, last in sorted(longest)
    ]


def _folded(problems: Iterable[Problem]) -> list[Problem]:
    """Problems in a stable order; the same sentence about the same member once."""
    seen: dict[tuple[str, str, str], Problem] = {}
    for problem in problems:
        seen.setdefault((problem.cite.member, problem.kind.value, problem.text), problem)
    return list(seen.values())


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "kind": problem.kind.value, "text": problem.text, "count": problem.count,
        **({"reader": problem.reader} if problem.reader else {}), **_place(problem.cite),
        **({"hides": True} if problem.hides_data else {}),
    }  # fmt: skip
