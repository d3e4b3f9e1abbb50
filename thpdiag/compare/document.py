"""The document of a comparison: answer, changed settings, findings, figures. Same results, same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, cast

from thpdiag.compare.figures import SHARE, Change, Figure, change, numeric, state, states
from thpdiag.compare.findings import JudgedFinding, finding_key, judge
from thpdiag.compare.model import (
    SCHEMA,
    STATUSES,
    Answer,
    ComparedAction,
    ComparedEvidence,
    ComparedFact,
    ComparedFigure,
    ComparedFinding,
    ComparedHost,
    ComparedLoad,
    ComparedRecording,
    ComparedSeries,
    ComparedSetting,
    ComparedStack,
    ComparedTimeline,
    Comparison,
    EvidenceOfSides,
    HostOfOneSide,
    Outcomes,
    Remaining,
    Request,
    SettingValue,
    Side,
    Status,
    Timelines,
    Value,
)
from thpdiag.compare.pair import SWITCHES, Load, Pair, own_name, pair_hosts
from thpdiag.compare.text import describe_changes, describe_course, figure_name
from thpdiag.model.document import Document, present_keys
from thpdiag.model.result import Evidence, Finding, Profile, Result, Setting
from thpdiag.report import AnyResult
from thpdiag.report.messages import distinct_evidence, hosts, lead_finding, ordered_profiles, sentence
from thpdiag.report.presentation import rank
from thpdiag.report.quantity import duration

D = TypeVar("D", bound=Document)
PANELS = ("cpu", "huge_pages", "memory")
MAX_BUCKETS = 200  # per series: a panel is half a page wide
MAX_STACKS = 300
MAX_EVIDENCE = 3  # per finding and side
MAX_SWITCHED = 3  # changed settings in the answer
MAX_COMMANDS = 6
MIN_STACK_SHARE = 0.02  # of the samples: smaller shares of stacks on both sides are omitted
_OUTCOMES = {
    "fixed": "Fixed",
    "improved": "Improved",
    "unchanged": "Unchanged",
    "worse": "Regression",
    "new": "Regression",
    "cannot_tell": "Cannot determine whether it helped",
}
_BETTER_OUTCOMES = ("Fixed", "Improved")
_TWO_HOST_OUTCOMES = {
    "fixed": "found on {before} only",
    "improved": "found on {before}; less of it, or not checked, on {after}",
    "unchanged": "found on both",
    "worse": "more of it on {after}",
    "cannot_tell": "the difference is unknown",
}
_LOAD_PHRASES = {"same": "at a comparable load", "more": "with more work", "less": "with less work"}
_RERUN = "Record AFTER again, for as long and with the same script, while the host does the same work as in BEFORE."


def document(before: AnyResult, after: AnyResult) -> Comparison:
    """Return the comparison of two results. Hosts are in the order of BEFORE, the worst first."""
    sides = hosts(before), hosts(after)
    pairs, unpaired = pair_hosts(*sides)
    redacted = all(result.tool.redacted for side in sides for result in side)
    return Comparison.model_construct(
        schema_=SCHEMA,
        **present_keys(redacted=redacted or None),
        hosts=[_host(pair) for pair in pairs],
        alone=[
            HostOfOneSide.model_construct(
                side=side, name=own_name(host), sentence=sentence(host), status=host.verdict.status
            )
            for side, host in unpaired
        ],
    )


def failing(comparison: Comparison) -> Iterator[ComparedFinding]:
    """Yield findings that are new or worse."""
    for host in comparison.hosts:
        yield from (f for f in host.findings if f.status in ("new", "worse"))


def _host(pair: Pair) -> ComparedHost:
    judged = _judge_all(pair)
    changes = _changes(pair)
    known = {change.before.name for change in changes}
    only_before, only_after = (
        sorted(figure_name(name) for name in side.figures if name not in known and not name.startswith(SHARE))
        for side in pair.sides
    )
    load = pair.load
    return ComparedHost.model_construct(
        name=own_name(pair.before) or own_name(pair.after), same=pair.same, answer=_answer(pair, judged),
        before=_side(pair.before), after=_side(pair.after),
        load=ComparedLoad.model_construct(word=load.word, text=load.text, work=_round(load.work)),
        notes=[*_notes_of_hosts(pair), *_notes_of_order(pair), *_notes_of_states(pair), *_notes_of_analysis(pair)],
        facts=_facts(pair), settings=_settings(pair), findings=[_finding(j, pair) for j in judged],
        figures=list(map(_figure, changes)), only_before=only_before, only_after=only_after,
        timelines=Timelines.model_construct(before=_timeline(pair.before), after=_timeline(pair.after)),
        **present_keys(recording=_recording(pair)),
    )  # fmt: skip


# What was changed


def _settings(pair: Pair) -> list[ComparedSetting]:
    """Return the settings that differ, huge-page settings first; also a policy that only one side knows."""
    differing = {name for name, _, _ in pair.differing}
    before, after = (side.host.settings for side in pair.results)

    rows = []
    for name in sorted({*before, *after}, key=lambda name: (not name.startswith("thp."), name)):
        old, new = (_part(SettingValue, side[name]) if name in side else None for side in (before, after))
        switched = name in SWITCHES and (old and old.value) != (new and new.value)  # known or assumed
        if name in differing or switched:
            lasting = _after_next_boot(after.get(name))
            rows.append(ComparedSetting.model_construct(name=name, before=old, after=new, lasting=lasting))
    return rows


def _after_next_boot(setting: Setting | None) -> str:
    """Return what the next boot will do to the value; empty if that is unknown."""
    boot = setting.next_boot if setting else None
    if not setting or not boot or boot.value is None:
        return ""
    if boot.value == setting.value:
        return "also after the next boot" if not boot.assumed else ""
    why = "the default, as nothing in the input sets it" if boot.assumed else f"from {boot.from_}"
    return f"lost at the next boot: {boot.value} then ({why})"


def _facts(pair: Pair) -> list[ComparedFact]:
    """Return the properties of the host that differ, and the uptimes of both sides if known."""
    before, after = (result.host for result in pair.results)
    properties = {
        "kernel": (before.kernel, after.kernel),
        "operating system": (before.os, after.os),
        "platform": (before.platform, after.platform),
        "applications": (", ".join(before.apps), ", ".join(after.apps)),
    }
    differing = {name: values for name, values in properties.items() if not pair.are_alike(*(v or "" for v in values))}
    rows = [(name, old or None, new or None) for name, (old, new) in differing.items()]
    up_before, up_after = (None if h.uptime is None else duration(float(h.uptime)) for h in (before, after))
    if up_before != up_after:
        rows.append(("up for", up_before, up_after))
    return [ComparedFact.model_construct(name=name, before=old, after=new) for name, old, new in rows]


def _recording(pair: Pair) -> ComparedRecording | None:
    """Return the stacks of the first recordings of one event, preferring the root cause's in BEFORE."""
    befores, afters = (
        [p for p in ordered_profiles(host) if any(stack.count(";") > 1 for stack, _ in p.folded)]
        for host in (pair.before, pair.after)
    )
    pairs = ((old, new) for old in befores for new in afters if _event(old) == _event(new))
    old, new = next(pairs, (None, None))
    if old is None or new is None:
        return None
    first, second = dict(old.folded), dict(new.folded)
    rows = [(stack, first.get(stack, 0.0), second.get(stack, 0.0)) for stack in {**first, **second}]
    rows.sort(key=lambda row: (-max(row[1], row[2]), row[0]))
    return ComparedRecording.model_construct(
        before=old.member, after=new.member,
        stacks=[ComparedStack.model_construct(stack=s, before=b, after=a) for s, b, a in rows[:MAX_STACKS]],
    )  # fmt: skip


def _event(profile: Profile) -> str:
    """Return the event without modifiers: `cycles:P` of one perf is `cycles` of another."""
    return (profile.event or "").partition(":")[0]


def _timeline(host: Result) -> ComparedTimeline:
    """Return the part of the timeline that the page shows: series of the whole host and actions of operators."""
    return ComparedTimeline.model_construct(
        series=[
            _part(ComparedSeries, item, points=_fewer_points(item.points))
            for item in host.timeline.series
            if item.panel in PANELS and not item.entity
        ],
        actions=[_part(ComparedAction, item) for item in host.timeline.actions],
    )


def _fewer_points(points: Sequence[Sequence[float | None]]) -> list[list[float]]:
    rows = [[float(v) for v in row if numeric(v)] for row in points]
    buckets = [row for row in rows if len(row) == 4]
    if len(buckets) <= MAX_BUCKETS:
        return buckets
    size, fewer = -(-len(buckets) // MAX_BUCKETS), []
    for start in range(0, len(buckets), size):
        start_time, low, high, mean = zip(*buckets[start : start + size], strict=True)
        fewer.append([start_time[0], min(low), max(high), float(f"{sum(mean) / len(mean):.4g}")])
    return fewer


# Caveats, which every output shows first


def _notes_of_hosts(pair: Pair) -> Iterator[str]:
    before, after = own_name(pair.before), own_name(pair.after)
    redacted = [bool(result.tool.redacted) for result in pair.results]
    if pair.same == "different":
        yield (
            f"These are two hosts, {before} and {after}: the comparison shows how they differ, not whether a change "
            "on one of them worked."
        )
    if pair.half_redacted:
        yield (
            f"The names of {'BEFORE' if redacted[0] else 'AFTER'} are pseudonyms, those of the other side are not: "
            "both are treated as the same host, and programs cannot be matched. Compare the two originals, with "
            "--redact."
        )
    elif all(redacted) and not any(row.sha256 for result in pair.results for row in result.inputs):
        # Not redacted together for this comparison, which leaves the checksums.
        yield (
            "The names of both sides are pseudonyms. They mean the same host and the same programs only if one "
            "--redact-map was used for both."
        )
    elif pair.same == "unnamed":
        missing = [side for side, name in (("BEFORE", before), ("AFTER", after)) if not name]
        verb = "do" if len(missing) > 1 else "does"
        yield f"{' and '.join(missing)} {verb} not name the host; both are taken for the same host."


def _notes_of_order(pair: Pair) -> Iterator[str]:
    if pair.is_reversed:
        yield "AFTER was recorded before BEFORE, by the clocks in both; were the two swapped?"
    if pair.reboot_evidence:
        yield (
            f"The host was rebooted in between ({pair.reboot_evidence}): memory is defragmented and processes "
            "restarted, which alone ends many of these problems for days; totals since boot are not comparable."
        )


def _notes_of_states(pair: Pair) -> Iterator[str]:
    for side, result in (("BEFORE", pair.before), ("AFTER", pair.after)):
        known = states(result)
        if len(known) > 1:
            yield (
                f"{side} holds {len(known)} states of the settings ({'; '.join(known)}); its figures are those of "
                f"{state(result) or 'the last'}. Its findings may belong to another state; compare one file per state."
            )


def _notes_of_analysis(pair: Pair) -> Iterator[str]:
    """Yield notes if the two results were made differently."""
    files = [sorted((row.member, row.sha256 or "") for row in result.inputs) for result in pair.results]
    if files[0] and files[0] == files[1] and all(digest for _, digest in files[0]):
        yield "BEFORE and AFTER are the same files."
    digests = [result.tool.rules_digest for result in pair.results]
    if all(digests) and digests[0] != digests[1]:
        yield "The two results were made with different rules; analyse both with one version to be sure."
    if not pair.same_options:
        yield "The two results were made with different options (--since, --until, --process, --set)."


# The answer: whether it helped, what remains, and what to send if that is unknown


def _answer(pair: Pair, judged: Sequence[JudgedFinding]) -> Answer:
    """Return the answer about the root cause of BEFORE; without one, about the findings of AFTER."""
    lead, after_lead = lead_finding(pair.before), lead_finding(pair.after)
    main = next((j for j in judged if lead is not None and j.before is lead), None)
    status, text = _describe_finding(main, pair) if main else _without_cause(pair, judged)
    has_other_cause = bool(lead and after_lead and lead.rule != after_lead.rule)
    if has_other_cause and after_lead:
        text += f" The root cause is another one after: {_title(after_lead)}."
    answered = main or next((j for j in judged if after_lead is not None and j.after is after_lead), None)
    return Answer.model_construct(
        status=status, sentence=text, root_cause_differs=has_other_cause, ask=_request(main, judged, pair),
        remains=[
            _part(Remaining, j.finding, status=j.status)
            for j in judged
            if j.after is not None and j is not answered
        ],
    )  # fmt: skip


def _describe_finding(main: JudgedFinding, pair: Pair) -> tuple[Status, str]:
    title, reason = _title(main.finding), _capitalize(_describe_evidence(main, pair).rstrip("."))
    if pair.same == "different":
        names = {"before": own_name(pair.before) or "BEFORE", "after": own_name(pair.after) or "AFTER"}
        return main.status, f"Two hosts: {_TWO_HOST_OUTCOMES[main.status].format(**names)}: {title}. {reason}."
    reason = _describe_evidence(main, pair).rstrip(".")
    subject = "The problem was" if main.after is None else "The problem"
    return main.status, f"{_add_switch(pair, _OUTCOMES[main.status])}: {reason}. {subject}: {title}."


def _describe_evidence(main: JudgedFinding, pair: Pair) -> str:
    """Return the most reliable figure and the load, or the whole reason if the status is unknown."""
    moved = [c for c in main.changes if c.has_moved]
    if main.status not in ("fixed", "improved", "worse") or not moved:
        return main.reason
    if moved[0] is pair.cpu_time_change and pair.programs_time is not None:
        return f"{describe_changes([moved[0], pair.programs_time])}; the mechanism itself was not measured after"
    load = pair.load_of(main.finding)
    text = f"{describe_course(moved[0])} {_describe_load(load)}"
    return f"{text}, but {load.weak}" if load.weak and load.work is not None else text


def _describe_load(load: Load) -> str:
    if load.weak and load.by is not None and load.by.before.name.startswith("cpu_ratio"):
        return f"with {'as much' if load.word == 'same' else 'more'} CPU time for programs"
    if load.work is not None and load.word == "more":
        return f"at {load.work:.2g} times the work"
    return _LOAD_PHRASES.get(load.word, "")


def _add_switch(pair: Pair, outcome: str) -> str:
    """Return the outcome with the changed settings, which precede it but need not be its cause."""
    changes = [f"{name} from {old} to {new}" for name, old, new in pair.switched_settings[:MAX_SWITCHED]]
    if changes:
        more = len(pair.switched_settings) - len(changes)
        return f"{outcome} after the change of {' and '.join(changes)}{f' and {more} more settings' if more else ''}"
    is_unexplained = not pair.has_changed and outcome in _BETTER_OUTCOMES
    return f"{outcome}, although no known setting changed" if is_unexplained else outcome


def _without_cause(pair: Pair, judged: Sequence[JudgedFinding]) -> tuple[Status, str]:
    """Return status and answer if BEFORE has no root cause."""
    if pair.same_files and all(j.status == "unchanged" for j in judged):
        return "unchanged", "BEFORE and AFTER are the same files, so nothing changed."
    after = sentence(pair.after)
    lead = lead_finding(pair.after)
    judged_lead = next((j for j in judged if lead is not None and j.after is lead), None)
    if judged_lead is None and pair.before.verdict.status == "cannot_tell":
        return "cannot_tell", f"Cannot compare: BEFORE is inconclusive. AFTER: {after}"
    if judged_lead is not None and judged_lead.before is not None:
        return judged_lead.status, _describe_finding(judged_lead, pair)[1]
    if judged_lead is not None:
        return judged_lead.status, _describe_regression(judged_lead, pair)
    if pair.after.verdict.status == "cannot_tell":
        return "cannot_tell", f"BEFORE had no huge-page problem; AFTER does not decide it. {after}"
    if any(j.status in ("new", "worse") for j in judged):
        return "unchanged", "No huge-page problem was found before or after; but a lesser finding is new or worse."
    return "unchanged", "No huge-page problem was found before or after."


def _describe_regression(judged: JudgedFinding, pair: Pair) -> str:
    """Return the answer about a problem that AFTER has and BEFORE did not, or may not have had."""
    title, reason = _title(judged.finding), judged.reason.rstrip(".")
    if judged.status not in ("new", "worse"):
        head = "AFTER has a problem; whether BEFORE had it is unknown"
        return f"{head}: {title}. {_capitalize(reason)}."
    if pair.same == "different":
        return f"BEFORE had no such problem, AFTER has: {title}. {_capitalize(reason)}."
    risen = next((c for c in judged.changes if c.has_moved and c.after.value > c.before.value), None)
    evidence = f"{describe_course(risen)} {_describe_load(pair.load_of(judged.finding))}".rstrip() if risen else reason
    known = "BEFORE had no such problem" if judged.status == "new" else "The rule could not be decided before"
    return f"{_add_switch(pair, _OUTCOMES[judged.status])}: {evidence}. {known}: {title}."


def _request(main: JudgedFinding | None, judged: Sequence[JudgedFinding], pair: Pair) -> Request:
    """Return what would decide the root cause if it is undecided, else other undecided findings that are grave."""
    grave = [j for j in judged if j is main or rank(j.finding.severity) >= rank("medium")]
    undecided = [j for j in grave if j.status in ("cannot_tell", "improved")]
    undecided = [j for j in undecided if j is main] or undecided
    rules = {j.finding.rule for j in undecided}
    missing = [unknown for unknown in pair.after.unknown if unknown.rule in rules]
    commands = dict.fromkeys(command for unknown in missing for command in unknown.ask_for)
    text = _RERUN if any(j.needs_load for j in undecided) else ""
    if commands:
        text = f"{text} To be sure, AFTER lacks:".strip()
    return Request.model_construct(text=text, commands=list(commands)[:MAX_COMMANDS])


def _title(finding: Finding) -> str:
    return (finding.title or finding.rule).rstrip(".")


def _capitalize(text: str) -> str:
    """Return a sentence with a capital letter, unless it begins with the name of a counter."""
    first = text.split(" ", 1)[0]
    return text if "_" in first else text[:1].upper() + text[1:]


# Findings and figures


def _judge_all(pair: Pair) -> list[JudgedFinding]:
    """Return the judged findings of both sides: root causes first, then by severity; without role context."""
    old, new = (
        {finding_key(finding): finding for finding in reversed(item.findings) if finding.role != "context"}
        for item in pair.results
    )
    # The first finding of a key is used; keys are in the order of their last findings.
    judged = [judge(old.get(name), new.get(name), pair) for name in dict.fromkeys((*old, *new))]
    leaders = [item.verdict.rule for item in pair.results]

    def order(item: JudgedFinding) -> tuple[Any, ...]:
        finding = item.finding
        leads = [finding.rule != leader for leader in leaders]
        return *leads, -rank(finding.severity), STATUSES.index(item.status), *finding_key(finding)

    return sorted(judged, key=order)


def _side(host: Result) -> Side:
    verdict, lead = host.verdict, lead_finding(host)
    return _part(
        Side, verdict, case=host.case, sentence=sentence(host), title=lead.title if lead else None,
        version=host.tool.version, rules_digest=host.tool.rules_digest,
    )  # fmt: skip


def _finding(judged: JudgedFinding, pair: Pair) -> ComparedFinding:
    finding, rule = judged.finding, judged.finding.rule
    ruled_out: list[Evidence] = next((r.evidence for r in pair.after.ruled_out if r.rule == rule), [])
    before, after = pair.outcomes(rule)
    evidence = EvidenceOfSides.model_construct(
        before=_evidence(judged.before.evidence if judged.before else []),
        after=_evidence(judged.after.evidence if judged.after else ruled_out),
    )
    return _part(
        ComparedFinding, finding, status=judged.status, reason=judged.reason, evidence=evidence,
        outcomes=Outcomes.model_construct(before=before, after=after), numbers=list(map(_figure, judged.changes)),
    )  # fmt: skip


def _evidence(rows: Sequence[Evidence]) -> list[ComparedEvidence]:
    """Return measurements before settings, each figure once."""
    ordered = sorted(distinct_evidence(rows), key=lambda row: row.kind in ("policy", "state", "action", "log"))
    return [_part(ComparedEvidence, row) for row in ordered[:MAX_EVIDENCE]]


def _part(model: type[D], source: object, **more: Any) -> D:
    """Return a part of the document with the fields of its source, overridden by `more`."""
    shared = {name: getattr(source, name) for name in model.model_fields if name not in more}
    return cast("D", model.model_construct(**shared, **more))


def _changes(pair: Pair) -> list[Change]:
    """Return the changes of all figures that both sides have; those that moved first."""
    old, new = pair.sides
    shared = [
        change(before, after, pair.load.work)
        for name in sorted({*old.figures, *new.figures})
        if (before := old.get(name)) and (after := new.get(name))
        if not name.startswith(SHARE) or max(before.value, after.value) >= MIN_STACK_SHARE
    ]
    return sorted(shared, key=lambda c: (not c.has_moved, c.before.name))


def _figure(c: Change) -> ComparedFigure:
    """Return a figure of both sides with its change."""
    return ComparedFigure.model_construct(
        name=c.before.name, text=figure_name(c.before.name), unit=c.before.unit, before=_value(c.before),
        after=_value(c.after), difference=_round(c.difference), ratio=_round(c.ratio), change=c.direction,
        alone=c.unscaled, per_work=c.before.per_work,
    )  # fmt: skip


def _value(figure: Figure) -> Value:
    return Value.model_construct(
        value=_round(figure.value), samples=figure.samples, min=_round(figure.low), max=_round(figure.high),
        member=figure.member or None, line=figure.line,
    )  # fmt: skip


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
