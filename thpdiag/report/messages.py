"""Texts of reports: hosts, verdict, findings, evidence, remedies, settings and recordings of a result in words.

Every format takes its sentences from here, so that the text, the page, the ticket and the annotation of a CI job agree.
The caller makes words of the customer visible (`thpdiag.report.escaping`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, takewhile

from thpdiag.knowledge.mechanisms import mechanisms
from thpdiag.model.result import (
    Acceptance,
    Cited,
    ConfiguredSetting,
    Evidence,
    Finding,
    NextBoot,
    Problem,
    Profile,
    Raise,
    Remedy,
    Result,
    RuledOut,
    SampleLoss,
    Setting,
    StackSignature,
    Verification,
    Window,
    as_result,
)
from thpdiag.report.escaping import lines, prose, visible
from thpdiag.report.layout import WIDTH, columns, fold
from thpdiag.report.quantity import duration, moment, percent, quantity

SENTENCES = {
    "found": "A cause was found.",
    "not_applicable": "This host has no transparent huge pages that could hurt it.",
    "nothing_found": "Nothing found: the measurements rule out every known huge-page problem.",
    "cannot_tell": "Cannot tell: there is not enough data to decide whether huge pages hurt this host.",
}
NAMELESS = "unnamed host"
_UNKNOWN_NAME = "host"  # the name of a host in documents if the input does not contain one
REDACTED = "Redacted: names of hosts, users, programs, functions and paths of the customer's own are pseudonyms."
SAME_SETTINGS = "the settings were the same at the end of the input"
_STATE = {
    "present": "still happening when the recording ended",
    "past": "over at the end of the input",
    "unknown": "unknown whether it continues",
}


def hosts(document: Result | Mapping[str, object]) -> list[Result]:
    """Return the results of all hosts, first the one that the top of the document describes."""
    result = as_result(document)
    return sorted(result.cases or [result], key=lambda host: (host.case, host.verdict) != (result.case, result.verdict))


def host_title(*names: str | None) -> str:
    """Return the first of the names that is a real host name."""
    return next((name for name in names if name and name != _UNKNOWN_NAME), NAMELESS)


def name(result: Result) -> str:
    return host_title(result.host.name, result.case)


def bundle_name(result: Result) -> str:
    """Return the one folder that contains all members, else the name of the case."""
    folders = {member.partition("/")[0] if "/" in member else "" for member in (row.member for row in result.inputs)}
    folder = folders.pop() if len(folders) == 1 else ""
    return folder or host_title(result.case)


_DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def recording_span(result: Result) -> str:
    """Return the first and last date of the records; empty without dates."""
    ends = [str(end) for row in result.inputs for end in (row.first, row.last) if end and _DATE.match(str(end))]
    if not ends:
        return ""
    first, last = min(ends), max(ends)
    same_day = first[:10] == last[:10] and first != last
    return first if first == last else f"{first.removesuffix(' UTC')} to {last[11:] if same_day else last}"


def sentence(result: Result) -> str:
    return result.verdict.sentence or SENTENCES.get(result.verdict.status, "")


def state(result: Result) -> str:
    """Return whether the problem persists; about a window of a recording only the settings are known."""
    finding = lead_finding(result)
    if result.verdict.state == "present" and finding and finding.window:
        return SAME_SETTINGS
    return _STATE.get(result.verdict.state or "", "")


def window_text(window: Window | None) -> str:
    """Return the window's own text, else its two ends; empty without a window."""
    if window is None:
        return ""
    return window.text or f"{moment(window.from_, window.clock)} to {moment(window.to, window.clock)}"


def redaction_notice(result: Result) -> str:
    """Return the notice that names are pseudonyms; empty if they are not."""
    return REDACTED if result.tool.redacted else ""


def customer_request(result: Result) -> tuple[str, list[str]]:
    """Return the text and commands for the customer; without `ask` the commands of all undecided rules."""
    if result.ask.text or result.ask.commands:
        return result.ask.text or "", list(result.ask.commands)
    return "", list(dict.fromkeys(command for unknown in result.unknown for command in unknown.ask_for))


PROBLEM_KINDS = {"odd": "irregular", "limit": "cut by a limit", "unrecognised": "unrecognized", "bug": "bug in thpdiag"}


def problem_kind(problem: Problem) -> str:
    """Return the kind of a problem as a word for people."""
    return PROBLEM_KINDS.get(problem.kind or "odd", problem.kind or "")


def plural(count: int, noun: str) -> str:
    """Return `1 rule`, `2 rules`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


# Findings

# Classes of evidence by descending weight
CLASSES = {
    "toggle": "an on/off comparison",
    "stack": "call stacks",
    "counter": "kernel counters that moved",
    "cpu": "the split of CPU time",
    "effect": "measured growth or pace",
    "total": "totals since boot",
    "log": "the kernel log",
    "application": "the application's own logs",
    "testimony": "reports by people",
    "action": "what an operator did",
    "state": "the state of the host",
    "policy": "the settings",
}
_SHORT_CLASSES = {
    "toggle": "on/off switch",
    "stack": "call stacks",
    "counter": "kernel counters",
    "cpu": "CPU time",
    "effect": "growth or pace",
    "total": "totals since boot",
    "log": "kernel log",
    "application": "the application's own figures",
    "testimony": "a written statement",
    "action": "an operator's action",
    "state": "host state",
    "policy": "settings",
}
_MISSING_CLASSES = {**CLASSES, "counter": "kernel counters read twice or more", "effect": "growth or pace over time"}


def lead_finding(result: Result) -> Finding | None:
    """Return the finding that the verdict reports."""
    return next((finding for finding in result.findings if finding.rule == result.verdict.rule), None)


def finding_groups(result: Result) -> list[tuple[str, list[Finding]]]:
    """Return the findings other than the lead finding, by their relation to it; its consequences come last."""
    lead = lead_finding(result)
    groups: dict[str, list[Finding]] = {"Contributing": [], "Other findings": [], "Consequences": []}
    for finding in result.findings:
        if finding is lead:
            continue
        heading = "Other findings"
        if lead and finding.rule in lead.attached:
            heading = "Contributing"
        elif is_consequence(finding, lead):
            heading = "Consequences"
        groups[heading].append(finding)
    return [(heading, findings) for heading, findings in groups.items() if findings]


def charted_rules(result: Result) -> list[str]:
    """Return the rules whose charts come first: that of the lead finding, then other causes."""
    lead = lead_finding(result) or first_actionable_finding(result)
    others = [
        finding for finding in result.findings if finding.role not in ("context", "risk") and not finding.demoted_by
    ]
    return list(dict.fromkeys(finding.rule for finding in (*([lead] if lead else []), *others)))


def is_consequence(finding: Finding, lead: Finding | None) -> bool:
    """Return whether a finding is listed under the lead finding. A wrong setting or a risk never is."""
    is_attached = lead is not None and finding.rule in lead.consequences
    return is_attached and finding.role not in ("configuration", "risk", "context")


def other_findings(result: Result) -> list[Finding]:
    return [finding for _, findings in finding_groups(result) for finding in findings]


def role(result: Result, finding: Finding) -> str:
    """Return the role of a finding relative to the verdict."""
    if is_consequence(finding, lead_finding(result)):
        return "consequence"
    return (finding.role or "finding").replace("_", " ")


def is_shown_in_full(result: Result, finding: Finding) -> bool:
    """Return whether a finding other than the lead finding is shown in full.

    That is a wrong configuration, or without a verdict the best finding (a risk too), unless another finding demotes
    it, whose evidence contradicts it. Accepted findings are never shown in full.
    """
    undecided = result.verdict.status == "cannot_tell" and not finding.demoted_by
    shown_roles = ("configuration", "contributing", "risk") if undecided else ("configuration",)
    return not finding.suppressed and finding.role in shown_roles and finding.severity not in ("info", "low")


def first_actionable_finding(result: Result) -> Finding | None:
    """Return the first finding other than the lead finding that is shown in full and has a remedy."""
    return next((f for f in other_findings(result) if is_shown_in_full(result, f) and f.remedies), None)


def confidence_reason(finding: Finding) -> str:
    """Return one or two sentences: the classes of evidence that support a finding, and those missing."""
    classes = _in_order(finding.classes_spoken)
    supporting = _join([CLASSES.get(name, name) for name in classes])
    parts = [f"Supported by {supporting}."] if supporting else []
    missing = _missing_classes(finding.classes_missing)
    if missing and finding.confidence != "confirmed":
        parts.append(f"Not in the bundle: {missing}.")
    return " ".join(parts)


def strongest_classes(finding: Finding, most: int = 2) -> str:
    """Return the strongest classes of evidence for a finding, in a few words."""
    return ", ".join(_SHORT_CLASSES.get(name, name) for name in _in_order(finding.classes_spoken)[:most])


def confidence_steps(finding: Finding) -> list[tuple[str, list[str]]]:
    """Return what would raise the confidence, with the commands for the customer, as far as there are commands."""
    return [(_describe_raise(step, finding), list(step.ask_for)) for step in finding.raises if step.ask_for]


def _describe_raise(step: Raise, finding: Finding) -> str:
    classes = _missing_classes(step.classes)
    if not classes:
        return f"It would become {step.to} if this rules out other causes:"
    clearly = "more clearly " if set(step.classes) <= set(finding.classes_spoken) else ""
    return f"It would become {step.to} if it shows {clearly}in {classes}:"


def _missing_classes(classes: Sequence[str]) -> str:
    return _join([_MISSING_CLASSES.get(name, name) for name in _in_order(classes)])


def _in_order(classes: Sequence[str]) -> list[str]:
    ranked = list(CLASSES)
    return sorted(classes, key=lambda name: ranked.index(name) if name in ranked else len(ranked))


def _join(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + f" and {words[-1]}" if len(words) > 1 else "".join(words)


def acceptance(finding: Finding) -> str:
    """Return what accepts a finding, until when and why; empty if it is not accepted."""
    return acceptance_text(finding.suppressed) if finding.suppressed else ""


def acceptance_text(mark: Acceptance) -> str:
    until = f" until {mark.expires}" if mark.expires else ""
    why = f": {mark.reason}" if mark.reason else ""
    return f"accepted by a {mark.by or 'file'}{until}{why}"


def better_explanations(result: Result, finding: Finding) -> list[str]:
    """Return the rules that explain the evidence better, with title and figure; empty for consequences."""
    if is_consequence(finding, lead_finding(result)):
        return []
    findings = {other.rule: other for other in result.findings}
    return [_describe_other(findings[rule]) if rule in findings else rule for rule in finding.demoted_by]


def _describe_other(other: Finding) -> str:
    number = strongest_figure(other)
    return f"{other.rule} ({other.title or other.mechanism}{f': {number.text}' if number else ''})"


def rule_title(result: Result, rule: str) -> str:
    """Return the title of a rule, as far as the document contains it."""
    titles = [(finding.rule, finding.title) for finding in result.findings]
    titles += [(other.rule, other.title) for other in result.ruled_out]
    titles += [(row.id, row.title) for row in result.rules]
    return next((title for rule_id, title in titles if rule_id == rule and title), "")


def headline(finding: Finding) -> str:
    """Return the title of a finding with the process or zone that it is about."""
    about = f" ({finding.entity})" if finding.entity else ""
    return prose(f"{finding.title or finding.mechanism or finding.rule}{about}")


def summary(finding: Finding) -> str:
    """Return headline and strongest proof in one line."""
    return prose(". ".join([headline(finding), *(item.text for item in proof(finding)[:1] if item.text)]) + ".")


def annotation_lines(result: Result, finding: Finding) -> Iterator[str]:
    """Yield a finding as lines for another program: confidence, proof with places, the first step with its undo."""
    yield headline(finding)
    grade = [
        f"severity {finding.severity}" if finding.severity else "",
        f"confidence {finding.confidence}" if finding.confidence else "",
        role(result, finding),
    ]
    yield prose(f"Host {name(result)}: {', '.join(filter(None, grade))}. {confidence_reason(finding)}")
    if finding.suppressed:
        yield prose(acceptance(finding))
    for evidence in proof(finding) or finding.evidence[:MAX_PROOF]:
        yield prose(with_aside(evidence.text or "", place(evidence)))
    if finding.remedies:
        _, remedy = first_step(finding)  # as on the first screen of the page
        yield from command_lines("Try first:", remedy.now)
        yield from command_lines("Undo:", remedy.undo_now or remedy.undo)


# Evidence

MAX_PROOF = 3  # lines of evidence on the first screen
MAX_UNFOLDED_DENIALS = 5  # shown unfolded: causes with similar symptoms come first
_PROOF_ORDER = ("toggle", "stack", "counter", "cpu", "effect", "log", "application", "testimony", "total")
_FIGURE_ORDER = ("stack", "cpu", "effect", "counter", "toggle")
MARK = "| "
CUT = " ..."
SEPARATORS = " <>=#*-"


def place(cited: Cited) -> str:
    """Return `member:line`, or the part of it that is known."""
    member = cited.member or ""
    return f"{member}:{cited.line}" if member and cited.line is not None else member


def places(evidence: Iterable[Evidence]) -> list[Evidence]:
    """Return the evidence that has a place, one for each place."""
    by_place: dict[str, Evidence] = {}
    for item in evidence:
        by_place.setdefault(place(item), item)
    return [item for where, item in by_place.items() if where]


def with_aside(text: str, aside: str) -> str:
    return f"{text} ({aside})" if aside else text


def proof(finding: Finding) -> list[Evidence]:
    """Return the evidence for the first screen: the strongest of each class that raises the confidence."""
    strongest: dict[str, Evidence] = {}
    for evidence in finding.evidence:
        if evidence.kind in _PROOF_ORDER and evidence.member:
            strongest.setdefault(evidence.kind, evidence)
    return distinct_evidence([strongest[kind] for kind in _PROOF_ORDER if kind in strongest])[:MAX_PROOF]


def strongest_figure(finding: Finding) -> Evidence | None:
    """Return the evidence with the figure of a cause: a share in call stacks, else what changed or grew."""
    figures = [evidence for evidence in finding.evidence if evidence.kind in _FIGURE_ORDER]
    return min(figures, key=lambda evidence: _FIGURE_ORDER.index(evidence.kind or ""), default=None)


def further_cause_figure(finding: Finding) -> Evidence | None:
    """Return the figure of a contributing or alternative cause; a setting needs none."""
    return strongest_figure(finding) if finding.role in ("contributing", "alternative") else None


def distinct_evidence(evidence: Iterable[Evidence]) -> list[Evidence]:
    """Return the evidence without repetitions of a figure of the same line by several checks."""
    distinct: dict[tuple[object, ...], Evidence] = {}
    for item in evidence:
        figure = (item.value, item.unit) if item.value is not None and item.line is not None else item.text
        distinct.setdefault((item.member, item.line, figure), item)
    return list(distinct.values())


# The causes that an engineer asks for first, and the most convincing classes of evidence against them
_FIRST_SUSPECTS = ("memory-pressure", "steal-or-balloon", "swap-storm", "io-wait", "gc-spinning", "memory-leak")
_DENIAL_ORDER = ("stack", "cpu", "counter", "state", "policy", "log", "effect")
GROWTH_MECHANISMS = frozenset({
    "khugepaged-bloat", "first-touch-bloat", "memory-leak", "cgroup-bloat", "allocation-knee", "purge-fight",
    "lazy-free",
})  # fmt: skip


def ruled_out(result: Result) -> list[RuledOut]:
    """Return the denials, the most important first and each figure once: two rules often fail by the same line."""
    mechanism = {row.id: row.mechanism or "" for row in result.rules}
    alternative = {row.id for row in result.rules if row.role == "alternative"}
    growth = result.verdict.mechanism in GROWTH_MECHANISMS

    def order(other: RuledOut) -> tuple[object, ...]:
        name, kind = mechanism.get(other.rule, ""), other.evidence[0].kind if other.evidence else None
        suspect = _FIRST_SUSPECTS.index(name) if name in _FIRST_SUSPECTS else len(_FIRST_SUSPECTS)
        weight = _DENIAL_ORDER.index(kind) if kind in _DENIAL_ORDER else len(_DENIAL_ORDER)
        return (is_denied_by_growth(other) != growth, other.rule not in alternative, suspect, weight)

    distinct: dict[tuple[object, ...], RuledOut] = {}
    for other in sorted(result.ruled_out, key=order):
        where = (other.evidence[0].member, other.evidence[0].line) if other.evidence else other.rule
        distinct.setdefault((other.because or other.rule, where), other)
    return list(distinct.values())


def is_denied_by_growth(other: RuledOut) -> bool:
    """Return whether the growth of one process denies the rule, which is no evidence about CPU time."""
    return bool(other.evidence) and other.evidence[0].kind == "effect"


def first_screen_denials(result: Result) -> list[RuledOut]:
    """Return the denials for the first screen: one per mechanism, growth only for a verdict about growth."""
    mechanism = {row.id: row.mechanism for row in result.rules}
    growth = result.verdict.status != "found" or result.verdict.mechanism in GROWTH_MECHANISMS
    by_mechanism: dict[str, RuledOut] = {}
    for other in ruled_out(result):
        if growth or not is_denied_by_growth(other):
            by_mechanism.setdefault(mechanism.get(other.rule) or other.rule, other)
    return list(by_mechanism.values())


def denied_cause(result: Result, other: RuledOut) -> str:
    """Return `Not memory pressure`; without a known mechanism the title of the rule."""
    name = next((row.mechanism for row in result.rules if row.id == other.rule), None)
    known = mechanisms().get(name or "")
    return f"Not {known.noun}" if known else f"Not the case ({other.title or other.rule})"


def denial(result: Result, other: RuledOut) -> str:
    return f"{denied_cause(result, other)}: {other.because or 'its checks say no'}"


def cited_line(evidence: Evidence) -> str:
    """Return the quoted line with the evidence: the head of a sample, the first row of a snapshot, else the last line.

    Above a row of a table the excerpt has the line with the column names.
    """
    if not evidence.excerpt:
        return ""
    use_first = evidence.kind == "stack" or evidence.excerpt_line is not None
    return evidence.excerpt[0] if use_first else evidence.excerpt[-1]


def quotation(evidence: Evidence, margin: str) -> list[str]:
    """Return the cited line cut to the width of a terminal, with its number if it differs; empty without one."""
    text = visible(cited_line(evidence)).strip()
    if not any(map(str.isalpha, text)) and not any(map(str.isspace, text.strip(SEPARATORS))):
        return []  # empty, or a separator line between samples with their time
    if evidence.excerpt_line not in (None, evidence.line):
        text = f"line {evidence.excerpt_line}: {text}"
    max_width = WIDTH - columns(margin + MARK)
    if columns(text) > max_width:
        within = takewhile(lambda width: width <= max_width - columns(CUT), accumulate(map(columns, text)))
        text = text[: sum(1 for _ in within)] + CUT
    return [margin + MARK + text]


# Remedies


def remedy_text(advice: Remedy, margin: str = "", label: str = "", verified_in: int | None = None) -> Iterator[str]:
    """Yield the lines of one remedy; every command on its own line, indented, not wrapped.

    `verified_in` is the number of an earlier step with the same verification.
    """
    yield from fold(prose(f"{advice.reason or ''} [{advice.id}]"), margin + label, margin + " " * len(label))
    yield from command_lines("Now:", advice.now, margin)
    yield from command_lines("Permanently:", advice.persist, margin)
    if verified_in:
        yield f"{margin}Verify: as in step {verified_in}"
    elif check := advice.verify:
        yield from fold(prose(expectation(check)), f"{margin}Verify: ", f"{margin}  ")
        yield from command_lines("", [check.how] if check.how else [], margin)
    yield from command_lines("Undo:", advice.undo, margin)
    if advice.cost:
        yield from fold(prose(advice.cost), f"{margin}Cost: ", f"{margin}  ")
    if advice.safety:
        yield from fold(prose(advice.safety), f"{margin}Safety: ", f"{margin}  ")
    if advice.restart is not None:
        yield from fold(prose(restart_text(advice)), f"{margin}Restart: ", f"{margin}  ")


def expectation(check: Verification) -> str:
    return ": ".join(filter(None, [check.metric, check.expect]))


def restart_text(advice: Remedy) -> str:
    """Return whether a restart is needed, in one word or in the remedy's own words; empty if unknown."""
    words = {True: "needed", False: "not needed", None: ""}
    return advice.restart if isinstance(advice.restart, str) else words[advice.restart]


def command_lines(label: str, commands: Sequence[str], margin: str = "") -> Iterator[str]:
    """Yield commands below a label, not wrapped, each alone on its lines, to be copied."""
    if commands and label:
        yield margin + label
    yield from (f"{margin}    {line}" for command in commands for line in lines(command))


def repeated_commands(remedies: Sequence[Remedy], number: int, part: Callable[[Remedy], Sequence[str]]) -> str:
    """Return which earlier step has the same commands, or the same long script but for one word; else empty."""
    rows = _command_rows(part(remedies[number - 1]))
    for earlier in range(1, number) if len(rows) > 1 else ():
        change = _changed_word(_command_rows(part(remedies[earlier - 1])), rows)
        if change == ("", ""):
            return f"as in step {earlier}"
        if change and len(rows) > MAX_REPEATED_LINES:
            return f"as in step {earlier}, with {change[1]} in place of {change[0]}"
    return ""


MAX_REPEATED_LINES = 2  # a script with more lines is not printed again for one changed word
_WORD = re.compile(r"(\W+)")


def _command_rows(commands: Sequence[str]) -> list[str]:
    return [line for command in commands for line in lines(command)]


def _changed_word(before: Sequence[str], after: Sequence[str]) -> tuple[str, str] | None:
    """Return the only word that differs between two scripts, old and new; empty words if none, None if more differ."""
    if len(before) != len(after):
        return None
    words = [_WORD.split("\n".join(script)) for script in (before, after)]
    if len(words[0]) != len(words[1]):
        return None
    changes = {(old, new) for old, new in zip(*words, strict=True) if old != new}
    return next(iter(changes)) if len(changes) == 1 else ("", "") if not changes else None


def repeated_part(remedies: Sequence[Remedy], number: int, part: str) -> str:
    """Return `repeated_commands` of `persist` or `undo`, for templates."""
    return repeated_commands(remedies, number, lambda step: step.persist if part == "persist" else step.undo)


def same_verification(remedies: Sequence[Remedy], number: int) -> int | None:
    """Return the number (from 1) of the first step before step `number` with the same verification."""
    check = remedies[number - 1].verify
    earlier = (n for n, advice in enumerate(remedies[: number - 1], 1) if advice.verify == check)
    return next(earlier, None) if check else None


def new_remedies(result: Result, finding: Finding) -> tuple[list[Remedy], list[str]]:
    """Return the remedies of a finding that differ from the lead finding's, and the ids of the others."""
    lead = lead_finding(result)
    lead_commands = [remedy.now for remedy in lead.remedies] if lead else []
    new = [remedy for remedy in finding.remedies if remedy.now not in lead_commands]
    return new, [remedy.id for remedy in finding.remedies if remedy.now in lead_commands]


def first_step(finding: Finding) -> tuple[int, Remedy]:
    """Return the number (from 1) of the step for the first screen, and the step: the first with an immediate effect.

    The mildest step often needs a restart of the application and begins with commands that only read. A setting that is
    changed on the running host and restored a minute later shows the effect at once.
    """
    steps = list(enumerate(finding.remedies, 1))
    immediate = (step for step in steps if step[1].undo_now and str(step[1].restart).startswith("none"))
    return next(immediate, steps[0])


# Settings


def contradictions(settings: Mapping[str, Setting]) -> list[tuple[str, str]]:
    """Return each contradiction with its setting and place, the policies for all programs first."""
    order = sorted(settings, key=lambda name: (name not in ("thp.enabled", "thp.defrag"), name))
    return [(f"{name}: {row.text}", place(row)) for name in order for row in settings[name].contradictions]


def setting_details(setting: Setting) -> Iterator[str]:
    """Yield lines below a setting: other values, other times, the next boot; none if only its value is known."""
    for other in setting.other_states:
        yield with_aside(f"at another time: {quantity(other.value)}", place(other))
    for configured in setting.said:
        yield with_aside(f"{configured.place} says {quantity(configured.value)}{effect(configured)}", place(configured))
    if boot := setting.next_boot:
        yield with_aside(f"after the next boot: {next_boot(boot)}", place(boot))
    for contradiction in setting.contradictions:
        yield with_aside(f"disagrees: {contradiction.text}", place(contradiction))


def effect(configured: ConfiguredSetting) -> str:
    """Return whether a configured value takes effect, where that is not obvious."""
    if configured.counts:
        return f", {configured.why}" if configured.why else ""
    return f"; without effect: {configured.why}" if configured.why else "; without effect"


def next_boot(boot: NextBoot) -> str:
    """Return the value of a setting after the next boot, or why it is unknown."""
    if boot.value is None:
        return f"unknown ({boot.from_})" if boot.from_ else "unknown"
    source = "assumed; nothing in the input sets it" if boot.assumed else f"from {boot.from_}"
    return f"{quantity(boot.value)} ({source})"


# Recordings of call stacks


def ordered_profiles(result: Result) -> list[Profile]:
    """Return the recordings: first the one with the evidence of the lead finding, last those without samples."""
    first = lead_finding(result)
    cited = {evidence.member for evidence in (first.evidence if first else ()) if evidence.kind == "stack"}
    return sorted(result.profiles, key=lambda p: (not (p.matched and p.member in cited), not p.matched, not p.folded))


def recording_summary(profile: Profile) -> str:
    """Return event, samples, duration, time, and the source of kernel function names."""
    event = profile.event or "an unnamed event"
    text = event if profile.samples is None else f"{plural(profile.samples, 'sample')} of {event}"
    if profile.first is not None and profile.last is not None:
        text += f" in {duration(profile.last - profile.first)}"
    symbols = f"kernel functions: {profile.symbols}" if profile.symbols else ""
    return "; ".join(filter(None, [text, profile.when, symbols]))


def recording_state(profile: Profile) -> str:
    """Return the settings of a recording as the end of a sentence; empty if there was only one state."""
    is_partial = profile.state and profile.state != "all"
    return f"; recorded under the settings of {profile.state}" if is_partial else ""


_LOSSES = {
    "without_stack": "without a stack",
    "truncated": "with a stack cut at the recorded depth",
    "unknown_symbol": "in a function without a name",
}


def losses(profile: Profile) -> str:
    """Return what the recording or its text lost or omits; empty if nothing."""
    return "; ".join(_losses(profile.loss))


def _losses(loss: SampleLoss) -> Iterator[str]:
    read = loss.read or 0
    if loss.lost:
        share = f", {percent(loss.lost_share)} of all" if loss.lost_share is not None else ""
        yield f"the recorder reports that it lost {plural(loss.lost, 'sample')}{share}"
    if loss.throttled:
        yield f"the kernel slowed sampling down {plural(loss.throttled, 'time')}"
    if loss.kept is not None and loss.kept < read:
        yield f"{loss.kept:,} of {read:,} read were kept"
    for reason, count in sorted(loss.odd.items()):
        yield f"{count:,} times: {reason}"
    for key, description in _LOSSES.items():
        if count := getattr(loss, key):
            share = f" ({percent(count / read)})" if read else ""
            yield f"{plural(count, 'sample')}{share} {description}"
    if loss.unlisted:
        yield f"{percent(loss.unlisted)} is not listed"


def signature_summary(signature: StackSignature) -> str:
    """Return a finding's signature over the time of the recording; its onset is printed with the finding."""
    share = f": {percent(signature.share)} on average" if signature.share is not None else ""
    worst = signature.worst.text if signature.worst else None
    return "; ".join(filter(None, [f"{signature.what}{share}", worst]))
