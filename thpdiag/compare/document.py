"""The comparison of two results: answer, what was changed, findings, figures. Same results, same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, cast

from thpdiag.compare.figures import SHARE, Change, Figure, change, numeric, state, states
from thpdiag.compare.findings import Judged, finding_key, judge
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
MAX_BUCKETS = 200  # of a series: half a page is narrow
MAX_STACKS = 300
MAX_EVIDENCE = 3
MAX_SWITCHED = 3
MAX_COMMANDS = 6
_FELT = 0.02  # of the samples: a smaller share of stacks on both sides is not listed
_HEADS = {
    "fixed": "Fixed",
    "improved": "Improved",
    "unchanged": "Unchanged",
    "worse": "Regression",
    "new": "Regression",
    "cannot_tell": "Cannot determine whether it helped",
}
_BETTER = ("Fixed", "Improved")
_APART = {
    "fixed": "found on {before} only",
    "improved": "found on {before}; less of it, or not checked, on {after}",
    "unchanged": "found on both",
    "worse": "more of it on {after}",
    "cannot_tell": "the difference is unknown",
}
_AT_LOAD = {"same": "at a comparable load", "more": "with more work", "less": "with less work"}
_AGAIN = "Record AFTER again, for as long and with the same script, while the host does the same work as in BEFORE."


def document(before: AnyResult, after: AnyResult) -> Comparison:
    """The comparison of two results. Hosts in the order of BEFORE, the worst first."""
    sides = hosts(before), hosts(after)
    pairs, alone = pair_hosts(*sides)
    redacted = all(one.tool.redacted for side in sides for one in side)
    return Comparison.model_construct(
        schema_=SCHEMA,
        **present_keys(redacted=redacted or None),
        hosts=[_host(pair) for pair in pairs],
        alone=[
            HostOfOneSide.model_construct(
                side=side, name=own_name(host), sentence=sentence(host), status=host.verdict.status
            )
            for side, host in alone
        ],
    )


def failing(comparison: Comparison) -> Iterator[ComparedFinding]:
    """Findings that are new or worse."""
    for host in comparison.hosts:
        yield from (one for one in host.findings if one.status in ("new", "worse"))


def _host(pair: Pair) -> ComparedHost:
    judged = _judge_all(pair)
    changes = _changes(pair)
    known = {one.before.name for one in changes}
    only_before, only_after = (
        sorted(figure_name(name) for name in one.figures if name not in known and not name.startswith(SHARE))
        for one in pair.sides
    )
    load = pair.load
    return ComparedHost.model_construct(
        name=own_name(pair.before) or own_name(pair.after), same=pair.same, answer=_answer(pair, judged),
        before=_side(pair.before), after=_side(pair.after),
        load=ComparedLoad.model_construct(word=load.word, text=load.text, work=_round(load.work)),
        notes=[*_notes_of_hosts(pair), *_notes_of_order(pair), *_notes_of_states(pair), *_notes_of_making(pair)],
        facts=_facts(pair), settings=_settings(pair), findings=[_finding(one, pair) for one in judged],
        figures=list(map(_figure, changes)), only_before=only_before, only_after=only_after,
        timelines=Timelines.model_construct(before=_timeline(pair.before), after=_timeline(pair.after)),
        **present_keys(recording=_recording(pair)),
    )  # fmt: skip


# What was changed


def _settings(pair: Pair) -> list[ComparedSetting]:
    """Settings that differ, those of huge pages first; also what only one side knows of the two policies."""
    differing = {name for name, _, _ in pair.differing}
    before, after = (one.host.settings for one in pair.results)

    rows = []
    for name in sorted({*before, *after}, key=lambda name: (not name.startswith("thp."), name)):
        old, new = (_part(SettingValue, one[name]) if name in one else None for one in (before, after))
        switched = name in SWITCHES and (old and old.value) != (new and new.value)  # be they known or assumed
        if name in differing or switched:
            lasting = _after_next_boot(after.get(name))
            rows.append(ComparedSetting.model_construct(name=name, before=old, after=new, lasting=lasting))
    return rows


def _after_next_boot(setting: Setting | None) -> str:
    """What the next boot will make of the value; empty if nothing tells."""
    boot = setting.next_boot if setting else None
    if not setting or not boot or boot.value is None:
        return ""
    if boot.value == setting.value:
        return "also after the next boot" if not boot.assumed else ""
    why = "the default, as nothing in the input sets it" if boot.assumed else f"from {boot.from_}"
    return f"lost at the next boot: {boot.value} then ({why})"


def _facts(pair: Pair) -> list[ComparedFact]:
    """What the host is, where it differs; the uptimes on both sides if known."""
    before, after = (one.host for one in pair.results)
    told = {
        "kernel": (before.kernel, after.kernel),
        "operating system": (before.os, after.os),
        "platform": (before.platform, after.platform),
        "applications": (", ".join(before.apps), ", ".join(after.apps)),
    }
    rows = [
        (name, old or None, new or None) for name, (old, new) in told.items() if not pair.alike(old or "", new or "")
    ]
    up_before, up_after = (None if one.uptime is None else duration(float(one.uptime)) for one in (before, after))
    if up_before != up_after:
        rows.append(("up for", up_before, up_after))
    return [ComparedFact.model_construct(name=name, before=old, after=new) for name, old, new in rows]


def _recording(pair: Pair) -> ComparedRecording | None:
    """The stacks of the first recordings of one event, that of BEFORE's root cause before others."""
    befores, afters = (
        [one for one in ordered_profiles(host) if any(stack.count(";") > 1 for stack, _ in one.folded)]
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
    """Without its modifiers: `cycles:P` of one perf is `cycles` of another."""
    return (profile.event or "").partition(":")[0]


def _timeline(host: Result) -> ComparedTimeline:
    """The part that two panels beside one another show: series of the whole host, what operators did."""
    return ComparedTimeline.model_construct(
        series=[
            _part(ComparedSeries, one, points=_fewer_points(one.points))
            for one in host.timeline.series
            if one.panel in PANELS and not one.entity
        ],
        actions=[_part(ComparedAction, one) for one in host.timeline.actions],
    )


def _fewer_points(points: Sequence[Sequence[float | None]]) -> list[list[float]]:
    rows = [[float(v) for v in row if numeric(v)] for row in points]
    whole = [row for row in rows if len(row) == 4]
    if len(whole) <= MAX_BUCKETS:
        return whole
    size, fewer = -(-len(whole) // MAX_BUCKETS), []
    for start in range(0, len(whole), size):
        at, low, high, mean = zip(*whole[start : start + size], strict=True)
        fewer.append([at[0], min(low), max(high), float(f"{sum(mean) / len(mean):.4g}")])
    return fewer


# What a reader must know before he believes it; said first and loudly


def _notes_of_hosts(pair: Pair) -> Iterator[str]:
    before, after = own_name(pair.before), own_name(pair.after)
    redacted = [bool(one.tool.redacted) for one in pair.results]
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
    elif all(redacted) and not any(row.sha256 for one in pair.results for row in one.inputs):
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
    for side, one in (("BEFORE", pair.before), ("AFTER", pair.after)):
        known = states(one)
        if len(known) > 1:
            yield (
                f"{side} holds {len(known)} states of the settings ({'; '.join(known)}); its figures are those of "
                f"{state(one) or 'the last'}. Its findings may belong to another state; compare one file per state."
            )


def _notes_of_making(pair: Pair) -> Iterator[str]:
    """Whether both were made alike."""
    files = [sorted((row.member, row.sha256 or "") for row in one.inputs) for one in pair.results]
    if files[0] and files[0] == files[1] and all(digest for _, digest in files[0]):
        yield "BEFORE and AFTER are the same files."
    digests = [one.tool.rules_digest for one in pair.results]
    if all(digests) and digests[0] != digests[1]:
        yield "The two results were made with different rules; analyse both with one version to be sure."
    if not pair.same_options:
        yield "The two results were made with different options (--since, --until, --process, --set)."


# Did it help, in one sentence; what remains, and what to send if it cannot be told


def _answer(pair: Pair, judged: Sequence[Judged]) -> Answer:
    """About the root cause of BEFORE; without one, about what AFTER has."""
    lead, now = lead_finding(pair.before), lead_finding(pair.after)
    main = next((one for one in judged if lead is not None and one.before is lead), None)
    status, text = _about(main, pair) if main else _without_cause(pair, judged)
    differs = bool(lead and now and lead.rule != now.rule)
    if differs and now:
        text += f" The root cause is another one after: {_title(now)}."
    told = main or next((one for one in judged if now is not None and one.after is now), None)
    return Answer.model_construct(
        status=status, sentence=text, root_cause_differs=differs, ask=_request(main, judged, pair),
        remains=[
            _part(Remaining, one.finding, status=one.status)
            for one in judged
            if one.after is not None and one is not told
        ],
    )  # fmt: skip


def _about(main: Judged, pair: Pair) -> tuple[Status, str]:
    title, reason = _title(main.finding), _capital(_proof(main, pair).rstrip("."))
    if pair.same == "different":
        names = {"before": own_name(pair.before) or "BEFORE", "after": own_name(pair.after) or "AFTER"}
        return main.status, f"Two hosts: {_APART[main.status].format(**names)}: {title}. {reason}."
    reason = _proof(main, pair).rstrip(".")
    was = "The problem was" if main.after is None else "The problem"
    return main.status, f"{_with_switch(pair, _HEADS[main.status])}: {reason}. {was}: {title}."


def _proof(main: Judged, pair: Pair) -> str:
    """The surest figure and the load, short; the whole reason where it cannot be told."""
    moved = [one for one in main.changes if one.has_moved]
    if main.status not in ("fixed", "improved", "worse") or not moved:
        return main.reason
    if moved[0] is pair.cpu_time_change and pair.programs_time is not None:
        return f"{describe_changes([moved[0], pair.programs_time])}; the mechanism itself was not measured after"
    load = pair.load_of(main.finding)
    short = f"{describe_course(moved[0])} {_at_load(load)}"
    return f"{short}, but {load.weak}" if load.weak and load.work is not None else short


def _at_load(load: Load) -> str:
    if load.weak and load.by is not None and load.by.before.name.startswith("cpu_ratio"):
        return f"with {'as much' if load.word == 'same' else 'more'} CPU time for programs"
    if load.work is not None and load.word == "more":
        return f"at {load.work:.2g} times the work"
    return _AT_LOAD.get(load.word, "")


def _with_switch(pair: Pair, outcome: str) -> str:
    """The outcome after what was switched: after it, not more; a cause takes more than one look."""
    changes = [f"{name} from {old} to {new}" for name, old, new in pair.switched_settings[:MAX_SWITCHED]]
    if changes:
        more = len(pair.switched_settings) - len(changes)
        return f"{outcome} after the change of {' and '.join(changes)}{f' and {more} more settings' if more else ''}"
    odd = not pair.has_changed and outcome in _BETTER
    return f"{outcome}, although no known setting changed" if odd else outcome


def _without_cause(pair: Pair, judged: Sequence[Judged]) -> tuple[Status, str]:
    """BEFORE has no root cause to be mended."""
    if pair.same_files and all(one.status == "unchanged" for one in judged):
        return "unchanged", "BEFORE and AFTER are the same files, so nothing changed."
    after = sentence(pair.after)
    now = lead_finding(pair.after)
    own = next((one for one in judged if now is not None and one.after is now), None)
    if own is None and pair.before.verdict.status == "cannot_tell":
        return "cannot_tell", f"Cannot compare: BEFORE is inconclusive. AFTER: {after}"
    if own is not None and own.before is not None:
        return own.status, _about(own, pair)[1]
    if own is not None:
        return own.status, _regression(own, pair)
    if pair.after.verdict.status == "cannot_tell":
        return "cannot_tell", f"BEFORE had no huge-page problem; AFTER does not decide it. {after}"
    if any(one.status in ("new", "worse") for one in judged):
        return "unchanged", "No huge-page problem was found before or after; but a lesser finding is new or worse."
    return "unchanged", "No huge-page problem was found before or after."


def _regression(own: Judged, pair: Pair) -> str:
    """What AFTER has and BEFORE is not known to have had: what rose from what to what."""
    title, reason = _title(own.finding), own.reason.rstrip(".")
    if own.status not in ("new", "worse"):
        head = "AFTER has a problem; whether BEFORE had it is unknown"
        return f"{head}: {title}. {_capital(reason)}."
    if pair.same == "different":
        return f"BEFORE had no such problem, AFTER has: {title}. {_capital(reason)}."
    rose = next((one for one in own.changes if one.has_moved and one.after.value > one.before.value), None)
    proof = f"{describe_course(rose)} {_at_load(pair.load_of(own.finding))}".rstrip() if rose else reason
    known = "BEFORE had no such problem" if own.status == "new" else "The rule could not be decided before"
    return f"{_with_switch(pair, _HEADS[own.status])}: {proof}. {known}: {title}."


def _request(main: Judged | None, judged: Sequence[Judged], pair: Pair) -> Request:
    """What would decide the root cause if that is open, else what else is grave and open."""
    grave = [one for one in judged if one is main or rank(one.finding.severity) >= rank("medium")]
    undecided = [one for one in grave if one.status in ("cannot_tell", "improved")]
    undecided = [one for one in undecided if one is main] or undecided
    rules = {one.finding.rule for one in undecided}
    lacking = [unknown for unknown in pair.after.unknown if unknown.rule in rules]
    commands = dict.fromkeys(command for unknown in lacking for command in unknown.ask_for)
    text = _AGAIN if any(one.needs_load for one in undecided) else ""
    if commands:
        text = f"{text} To be sure, AFTER lacks:".strip()
    return Request.model_construct(text=text, commands=list(commands)[:MAX_COMMANDS])


def _title(finding: Finding) -> str:
    return (finding.title or finding.rule).rstrip(".")


def _capital(text: str) -> str:
    """A sentence's begin; a counter keeps its own spelling."""
    first = text.split(" ", 1)[0]
    return text if "_" in first else text[:1].upper() + text[1:]


# Findings and figures


def _judge_all(pair: Pair) -> list[Judged]:
    """Findings of both sides: those that lead first, then the worst; remarks on the context are none."""
    old, new = (
        {finding_key(finding): finding for finding in reversed(one.findings) if finding.role != "context"}
        for one in pair.results
    )
    # Of several of one key the first counts; the keys stand in the order of the last ones.
    judged = [judge(old.get(name), new.get(name), pair) for name in dict.fromkeys((*old, *new))]
    leaders = [one.verdict.rule for one in pair.results]

    def order(one: Judged) -> tuple[Any, ...]:
        finding = one.finding
        leads = [finding.rule != leader for leader in leaders]
        return *leads, -rank(finding.severity), STATUSES.index(one.status), *finding_key(finding)

    return sorted(judged, key=order)


def _side(host: Result) -> Side:
    verdict, lead = host.verdict, lead_finding(host)
    return _part(
        Side, verdict, case=host.case, sentence=sentence(host), title=lead.title if lead else None,
        version=host.tool.version, rules_digest=host.tool.rules_digest,
    )  # fmt: skip


def _finding(judged: Judged, pair: Pair) -> ComparedFinding:
    finding, rule = judged.finding, judged.finding.rule
    out: list[Evidence] = next((one.evidence for one in pair.after.ruled_out if one.rule == rule), [])
    before, after = pair.outcomes(rule)
    evidence = EvidenceOfSides.model_construct(
        before=_evidence(judged.before.evidence if judged.before else []),
        after=_evidence(judged.after.evidence if judged.after else out),
    )
    return _part(
        ComparedFinding, finding, status=judged.status, reason=judged.reason, evidence=evidence,
        outcomes=Outcomes.model_construct(before=before, after=after), numbers=list(map(_figure, judged.changes)),
    )  # fmt: skip


def _evidence(rows: Sequence[Evidence]) -> list[ComparedEvidence]:
    """Measurements before settings, each figure once."""
    ordered = sorted(distinct_evidence(rows), key=lambda row: row.kind in ("policy", "state", "action", "log"))
    return [_part(ComparedEvidence, row) for row in ordered[:MAX_EVIDENCE]]


def _part(model: type[D], source: object, **more: Any) -> D:
    """A part of the document, whose other fields are those of what it is made of."""
    same = {name: getattr(source, name) for name in model.model_fields if name not in more}
    return cast("D", model.model_construct(**same, **more))


def _changes(pair: Pair) -> list[Change]:
    """All figures that both sides have, those first that moved."""
    old, new = pair.sides
    shared = [
        change(before, after, pair.load.work)
        for name in sorted({*old.figures, *new.figures})
        if (before := old.get(name)) and (after := new.get(name))
        if not name.startswith(SHARE) or max(before.value, after.value) >= _FELT
    ]
    return sorted(shared, key=lambda one: (not one.has_moved, one.before.name))


def _figure(one: Change) -> ComparedFigure:
    """A figure on both sides, with the effect."""
    return ComparedFigure.model_construct(
        name=one.before.name, text=figure_name(one.before.name), unit=one.before.unit, before=_value(one.before),
        after=_value(one.after), difference=_round(one.difference), ratio=_round(one.ratio), change=one.direction,
        alone=one.alone, per_work=one.before.per_work,
    )  # fmt: skip


def _value(figure: Figure) -> Value:
    return Value.model_construct(
        value=_round(figure.value), samples=figure.samples, min=_round(figure.low), max=_round(figure.high),
        member=figure.member or None, line=figure.line,
    )  # fmt: skip


def _round(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
