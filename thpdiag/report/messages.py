"""What reports say of a result, in words: hosts, verdict, findings, evidence, remedies, settings, recordings.

Every format takes its sentences from here, so that the text, the page, the ticket and the annotation of a CI job say
the same. Words of the customer are made visible by whoever prints them.
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
_NOBODY = "host"  # what a document calls a host whose name is not in the input
REDACTED = "Redacted: names of hosts, users, programs, functions and paths of the customer's own are pseudonyms."
SAME_SETTINGS = "the settings were the same at the end of the input"
_STATE = {
    "present": "still happening when the recording ended",
    "past": "over at the end of the input",
    "unknown": "unknown whether it continues",
}


def hosts(document: Result | Mapping[str, object]) -> list[Result]:
    """The results of all hosts: first the one that the top speaks of, then the others as listed."""
    whole = as_result(document)
    top = (whole.case, whole.verdict)
    return sorted(whole.cases or [whole], key=lambda case: (case.case, case.verdict) != top)


def host_title(*names: str | None) -> str:
    """The first of the names that is one: the host's own, then that of the case."""
    return next((told for told in names if told and told != _NOBODY), NAMELESS)


def name(result: Result) -> str:
    return host_title(result.host.name, result.case)


def bundle_name(result: Result) -> str:
    """What the bundle is called as far as the document says: the one folder that all is in, else the case."""
    folders = {member.partition("/")[0] if "/" in member else "" for member in (row.member for row in result.inputs)}
    folder = folders.pop() if len(folders) == 1 else ""
    return folder or host_title(result.case)


_DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def recording_span(result: Result) -> str:
    """From when to when there are records with a date; empty if there are none."""
    ends = [str(end) for row in result.inputs for end in (row.first, row.last) if end and _DATE.match(str(end))]
    if not ends:
        return ""
    first, last = min(ends), max(ends)
    same_day = first[:10] == last[:10] and first != last
    return first if first == last else f"{first.removesuffix(' UTC')} to {last[11:] if same_day else last}"


def sentence(result: Result) -> str:
    return result.verdict.sentence or SENTENCES.get(result.verdict.status, "")


def state(result: Result) -> str:
    """Whether it is still so; of a stretch of a recording only the settings can be."""
    finding = leading(result)
    if result.verdict.state == "present" and finding and finding.window:
        return SAME_SETTINGS
    return _STATE.get(result.verdict.state or "", "")


def window_text(window: Window | None) -> str:
    """The window's own text, else its two ends; empty if there is none."""
    if window is None:
        return ""
    return window.text or f"{moment(window.from_, window.clock)} to {moment(window.to, window.clock)}"


def redaction_notice(result: Result) -> str:
    """That names are pseudonyms; empty if they are not."""
    return REDACTED if result.tool.redacted else ""


def customer_request(result: Result) -> tuple[str, list[str]]:
    """What to write to the customer, and the commands; what each rule asks for if the document has no `ask`."""
    if result.ask.text or result.ask.commands:
        return result.ask.text or "", list(result.ask.commands)
    return "", list(dict.fromkeys(command for unknown in result.unknown for command in unknown.ask_for))


PROBLEM_KINDS = {"odd": "irregular", "limit": "cut by a limit", "unrecognised": "unrecognized", "bug": "bug in thpdiag"}


def problem_kind(problem: Problem) -> str:
    """Why something could not be read, in a word for people; most kinds are one."""
    return PROBLEM_KINDS.get(problem.kind or "odd", problem.kind or "")


def plural(count: int, one: str) -> str:
    """`1 rule`, `2 rules`."""
    return f"{count:,} {one}" if count == 1 else f"{count:,} {one}s"


# Findings

# Classes of evidence in the order in which they weigh; plural ones say so.
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


def leading(result: Result) -> Finding | None:
    """The finding that the verdict is about."""
    return next((finding for finding in result.findings if finding.rule == result.verdict.rule), None)


def finding_groups(result: Result) -> list[tuple[str, list[Finding]]]:
    """The findings beside the leading one, by what they are to it; those folded under it last."""
    first = leading(result)
    groups: dict[str, list[Finding]] = {"Contributing": [], "Other findings": [], "Consequences": []}
    for finding in result.findings:
        if finding is first:
            continue
        heading = "Other findings"
        if first and finding.rule in first.attached:
            heading = "Contributing"
        elif is_consequence(finding, first):
            heading = "Consequences"
        groups[heading].append(finding)
    return [(heading, findings) for heading, findings in groups.items() if findings]


def charted_rules(result: Result) -> list[str]:
    """The rules whose charts come first: of the finding that the report is about, then of causes beside it."""
    first = leading(result) or acting_alone(result)
    others = [
        finding for finding in result.findings if finding.role not in ("context", "risk") and not finding.demoted_by
    ]
    return list(dict.fromkeys(finding.rule for finding in (*([first] if first else []), *others)))


def is_consequence(finding: Finding, first: Finding | None) -> bool:
    """Whether it is folded under the leading one: a wrong setting or a risk stays one, whatever explains it."""
    folded = first is not None and finding.rule in first.consequences
    return folded and finding.role not in ("configuration", "risk", "context")


def other_findings(result: Result) -> list[Finding]:
    return [finding for _, findings in finding_groups(result) for finding in findings]


def role(result: Result, finding: Finding) -> str:
    """What a finding is beside the verdict."""
    if is_consequence(finding, leading(result)):
        return "consequence"
    return (finding.role or "finding").replace("_", " ")


def acts_alone(result: Result, finding: Finding) -> bool:
    """Whether a finding beside the verdict is shown in full: a wrong configuration, or the best there is (a risk too).

    Nothing is to be done for what steps back behind another finding where nobody leads: that one speaks against it; nor
    for what somebody accepts.
    """
    undecided = result.verdict.status == "cannot_tell" and not finding.demoted_by
    wanted = ("configuration", "contributing", "risk") if undecided else ("configuration",)
    return not finding.suppressed and finding.role in wanted and finding.severity not in ("info", "low")


def acting_alone(result: Result) -> Finding | None:
    """The first finding beside the verdict that has something to mend at once."""
    return next((f for f in other_findings(result) if acts_alone(result, f) and f.remedies), None)


def confidence_reason(finding: Finding) -> str:
    """One or two sentences: which classes of evidence support it, and which the bundle has nothing of."""
    spoken = _in_order(finding.classes_spoken)
    words = _join([CLASSES.get(name, name) for name in spoken])
    parts = [f"Supported by {words}."] if words else []
    missing = _missing_classes(finding.classes_missing)
    if missing and finding.confidence != "confirmed":
        parts.append(f"Not in the bundle: {missing}.")
    return " ".join(parts)


def classes_in_short(finding: Finding, most: int = 2) -> str:
    """The weightiest classes of evidence that speak for a finding, in a few words."""
    return ", ".join(_SHORT_CLASSES.get(name, name) for name in _in_order(finding.classes_spoken)[:most])


def confidence_steps(finding: Finding) -> list[tuple[str, list[str]]]:
    """What would make it surer, with the commands to ask the customer for; only steps that somebody can take."""
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
    order = list(CLASSES)
    return sorted(classes, key=lambda name: order.index(name) if name in order else len(order))


def _join(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + f" and {words[-1]}" if len(words) > 1 else "".join(words)


def acceptance(finding: Finding) -> str:
    """By what a finding is accepted, until when and why; empty if nobody has."""
    return acceptance_text(finding.suppressed) if finding.suppressed else ""


def acceptance_text(mark: Acceptance) -> str:
    until = f" until {mark.expires}" if mark.expires else ""
    why = f": {mark.reason}" if mark.reason else ""
    return f"accepted by a {mark.by or 'file'}{until}{why}"


def better_explanations(result: Result, finding: Finding) -> list[str]:
    """What explains better what a finding saw: rule, title and the number that says so; not for consequences."""
    if is_consequence(finding, leading(result)):
        return []
    found = {other.rule: other for other in result.findings}
    return [_describe_other(found[rule]) if rule in found else rule for rule in finding.demoted_by]


def _describe_other(other: Finding) -> str:
    number = strongest_figure(other)
    return f"{other.rule} ({other.title or other.mechanism}{f': {number.text}' if number else ''})"


def rule_title(result: Result, rule: str) -> str:
    """What a rule finds, as far as the document says."""
    titles = [(finding.rule, finding.title) for finding in result.findings]
    titles += [(other.rule, other.title) for other in result.ruled_out]
    titles += [(one.id, one.title) for one in result.rules]
    return next((title for name, title in titles if name == rule and title), "")


def headline(finding: Finding) -> str:
    """What it is in one line, with the process or zone that it is about."""
    about = f" ({finding.entity})" if finding.entity else ""
    return prose(f"{finding.title or finding.mechanism or finding.rule}{about}")


def summary(finding: Finding) -> str:
    """Headline and strongest proof in one line."""
    return prose(". ".join([headline(finding), *(one.text for one in proof(finding)[:1] if one.text)]) + ".")


def few_lines(result: Result, finding: Finding) -> Iterator[str]:
    """A finding for a message of another program: how sure, the proof with places, what to try first with its undo."""
    yield headline(finding)
    weight = [
        f"severity {finding.severity}" if finding.severity else "",
        f"confidence {finding.confidence}" if finding.confidence else "",
        role(result, finding),
    ]
    yield prose(f"Host {name(result)}: {', '.join(filter(None, weight))}. {confidence_reason(finding)}")
    if finding.suppressed:
        yield prose(acceptance(finding))
    for one in proof(finding) or finding.evidence[:MAX_PROOF]:
        yield prose(with_aside(one.text or "", place(one)))
    if finding.remedies:
        _, advice = first_try(finding)  # as on the first screen of the page
        yield from command_lines("Try first:", advice.now)
        yield from command_lines("Undo:", advice.undo_now or advice.undo)


# Evidence

MAX_PROOF = 3  # lines of evidence on the first screen
FIRST_OUT = 5  # of what was ruled out, shown unfolded: look-alikes come first
_PROOF_ORDER = ("toggle", "stack", "counter", "cpu", "effect", "log", "application", "testimony", "total")
_FIGURE_ORDER = ("stack", "cpu", "effect", "counter", "toggle")
MARK = "| "
CUT = " ..."
SEPARATORS = " <>=#*-"


def place(cited: Cited) -> str:
    """`member:line`, or as much of it as there is."""
    member = cited.member or ""
    return f"{member}:{cited.line}" if member and cited.line is not None else member


def places(evidence: Iterable[Evidence]) -> list[Evidence]:
    """Evidence with a place, each place once."""
    first: dict[str, Evidence] = {}
    for one in evidence:
        first.setdefault(place(one), one)
    return [one for where, one in first.items() if where]


def with_aside(text: str, aside: str) -> str:
    return f"{text} ({aside})" if aside else text


def proof(finding: Finding) -> list[Evidence]:
    """The lines of evidence for the first screen: the strongest of each class that raises the confidence."""
    best: dict[str, Evidence] = {}
    for one in finding.evidence:
        if one.kind in _PROOF_ORDER and one.member:
            best.setdefault(one.kind, one)
    return distinct_evidence([best[kind] for kind in _PROOF_ORDER if kind in best])[:MAX_PROOF]


def strongest_figure(finding: Finding) -> Evidence | None:
    """The line of evidence with the number of a cause: a share in call stacks, else what moved or grew."""
    found = [one for one in finding.evidence if one.kind in _FIGURE_ORDER]
    return min(found, key=lambda one: _FIGURE_ORDER.index(one.kind or ""), default=None)


def further_cause_figure(finding: Finding) -> Evidence | None:
    """That line of a cause beside the verdict; a setting needs none."""
    return strongest_figure(finding) if finding.role in ("contributing", "alternative") else None


def distinct_evidence(evidence: Iterable[Evidence]) -> list[Evidence]:
    """Lines of evidence for people: the same figure of the same line once, however many checks looked at it."""
    first: dict[tuple[object, ...], Evidence] = {}
    for one in evidence:
        figure = (one.value, one.unit) if one.value is not None and one.line is not None else one.text
        first.setdefault((one.member, one.line, figure), one)
    return list(first.values())


# What an engineer asks for first, and what of evidence tells most of it; growth of one process tells of growth only.
_FIRST_SUSPECTS = ("memory-pressure", "steal-or-balloon", "swap-storm", "io-wait", "gc-spinning", "memory-leak")
_DENIAL_ORDER = ("stack", "cpu", "counter", "state", "policy", "log", "effect")
GROWTH = frozenset(
    (
        "khugepaged-bloat",
        "first-touch-bloat",
        "memory-leak",
        "cgroup-bloat",
        "allocation-knee",
        "purge-fight",
        "lazy-free",
    )
)


def ruled_out(result: Result) -> list[RuledOut]:
    """What was ruled out, the most telling first and each number once: two rules often fall by the same line."""
    mechanism = {row.id: row.mechanism or "" for row in result.rules}
    alternative = {row.id for row in result.rules if row.role == "alternative"}
    growth = result.verdict.mechanism in GROWTH

    def order(other: RuledOut) -> tuple[object, ...]:
        name, kind = mechanism.get(other.rule, ""), other.evidence[0].kind if other.evidence else None
        suspect = _FIRST_SUSPECTS.index(name) if name in _FIRST_SUSPECTS else len(_FIRST_SUSPECTS)
        weight = _DENIAL_ORDER.index(kind) if kind in _DENIAL_ORDER else len(_DENIAL_ORDER)
        return (tells_of_growth(other) != growth, other.rule not in alternative, suspect, weight)

    first: dict[tuple[object, ...], RuledOut] = {}
    for other in sorted(result.ruled_out, key=order):
        where = (other.evidence[0].member, other.evidence[0].line) if other.evidence else other.rule
        first.setdefault((other.because or other.rule, where), other)
    return list(first.values())


def tells_of_growth(other: RuledOut) -> bool:
    """Whether the growth of one process speaks against it, which says nothing of where CPU time goes."""
    return bool(other.evidence) and other.evidence[0].kind == "effect"


def telling_denials(result: Result) -> list[RuledOut]:
    """Those for the first screen: each mechanism once, and growth of a process only where the verdict is about that."""
    mechanism = {row.id: row.mechanism for row in result.rules}
    growth = result.verdict.status != "found" or result.verdict.mechanism in GROWTH
    first: dict[str, RuledOut] = {}
    for other in ruled_out(result):
        if growth or not tells_of_growth(other):
            first.setdefault(mechanism.get(other.rule) or other.rule, other)
    return list(first.values())


def denied_cause(result: Result, other: RuledOut) -> str:
    """`Not memory pressure`; of a rule whose mechanism is not known its title."""
    name = next((row.mechanism for row in result.rules if row.id == other.rule), None)
    known = mechanisms().get(name or "")
    return f"Not {known.noun}" if known else f"Not the case ({other.title or other.rule})"


def denial(result: Result, other: RuledOut) -> str:
    return f"{denied_cause(result, other)}: {other.because or 'its checks say no'}"


def cited_line(evidence: Evidence) -> str:
    """The one quoted line that says it: the head of a sample, the first of the rows of a snapshot, else the last line.

    Above a row of a table stands the line that names its columns.
    """
    if not evidence.excerpt:
        return ""
    first = evidence.kind == "stack" or evidence.excerpt_line is not None
    return evidence.excerpt[0] if first else evidence.excerpt[-1]


def quotation(evidence: Evidence, margin: str) -> list[str]:
    """That line for a terminal, cut to its width, with its number if that is another; nothing if there is none."""
    text = visible(cited_line(evidence)).strip()
    if not any(map(str.isalpha, text)) and not any(map(str.isspace, text.strip(SEPARATORS))):
        return []  # nothing, or a line that only separates samples, with its time
    if evidence.excerpt_line not in (None, evidence.line):
        text = f"line {evidence.excerpt_line}: {text}"
    room = WIDTH - columns(margin + MARK)
    if columns(text) > room:
        within = takewhile(lambda width: width <= room - columns(CUT), accumulate(map(columns, text)))
        text = text[: sum(1 for _ in within)] + CUT
    return [margin + MARK + text]


# Remedies


def remedy_text(advice: Remedy, margin: str = "", label: str = "", verified_in: int | None = None) -> Iterator[str]:
    """The lines of one remedy; every command on a line of its own, indented, unbroken.

    `verified_in` is the number of an earlier step that is verified in the same way.
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
    """Whether something must be restarted, in a word or in the remedy's own words; empty if nothing tells."""
    words = {True: "needed", False: "not needed", None: ""}
    return advice.restart if isinstance(advice.restart, str) else words[advice.restart]


def command_lines(label: str, commands: Sequence[str], margin: str = "") -> Iterator[str]:
    """Commands below a label, unbroken, each alone on its lines, to be copied."""
    if commands and label:
        yield margin + label
    yield from (f"{margin}    {line}" for command in commands for line in lines(command))


def repeated_commands(remedies: Sequence[Remedy], number: int, part: Callable[[Remedy], Sequence[str]]) -> str:
    """That an earlier step has the commands of a part of this one, a long script perhaps but for a word; else empty."""
    rows = _command_rows(part(remedies[number - 1]))
    for earlier in range(1, number) if len(rows) > 1 else ():
        change = _changed_word(_command_rows(part(remedies[earlier - 1])), rows)
        if change == ("", ""):
            return f"as in step {earlier}"
        if change and len(rows) > LONG_SCRIPT:
            return f"as in step {earlier}, with {change[1]} in place of {change[0]}"
    return ""


LONG_SCRIPT = 2  # lines that are not printed again for one other word
_WORD = re.compile(r"(\W+)")


def _command_rows(commands: Sequence[str]) -> list[str]:
    return [line for command in commands for line in lines(command)]


def _changed_word(before: Sequence[str], after: Sequence[str]) -> tuple[str, str] | None:
    """The one word that differs between two scripts, old and new; two empty ones if none does, None if more do."""
    if len(before) != len(after):
        return None
    words = [_WORD.split("\n".join(script)) for script in (before, after)]
    if len(words[0]) != len(words[1]):
        return None
    changes = {(old, new) for old, new in zip(*words, strict=True) if old != new}
    return next(iter(changes)) if len(changes) == 1 else ("", "") if not changes else None


def repeats(remedies: Sequence[Remedy], number: int, part: str) -> str:
    """The same for `persist` or `undo`, as a template asks for them."""
    return repeated_commands(remedies, number, lambda step: step.persist if part == "persist" else step.undo)


def same_verification(remedies: Sequence[Remedy], number: int) -> int | None:
    """The first of the steps before step `number` (from 1 on) with the same verification."""
    check = remedies[number - 1].verify
    earlier = (n for n, advice in enumerate(remedies[: number - 1], 1) if advice.verify == check)
    return next(earlier, None) if check else None


def new_remedies(result: Result, finding: Finding) -> tuple[list[Remedy], list[str]]:
    """The remedies of a finding beside the verdict, and the names of those that the verdict's own advice has told."""
    first = leading(result)
    given = [advice.now for advice in first.remedies] if first else []
    own = [advice for advice in finding.remedies if advice.now not in given]
    return own, [advice.id for advice in finding.remedies if advice.now in given]


def first_try(finding: Finding) -> tuple[int, Remedy]:
    """The number (from 1) of the step for the first screen, and the step: the first that shows its effect at once.

    The mildest step often needs a restart of the application, and begins with commands that only look. A setting that
    is changed on the running host and set back a minute later tells more at once.
    """
    steps = list(enumerate(finding.remedies, 1))
    at_once = (step for step in steps if step[1].undo_now and str(step[1].restart).startswith("none"))
    return next(at_once, steps[0])


# Settings


def contradictions(settings: Mapping[str, Setting]) -> list[tuple[str, str]]:
    """Each contradiction with its setting and place, the policies for all programs first."""
    order = sorted(settings, key=lambda name: (name not in ("thp.enabled", "thp.defrag"), name))
    return [(f"{name}: {one.text}", place(one)) for name in order for one in settings[name].contradictions]


def setting_details(setting: Setting) -> Iterator[str]:
    """Lines below a setting: other places, other times, the next boot; nothing where only its value is known."""
    for other in setting.other_states:
        yield with_aside(f"at another time: {quantity(other.value)}", place(other))
    for said in setting.said:
        yield with_aside(f"{said.place} says {quantity(said.value)}{effect(said)}", place(said))
    if boot := setting.next_boot:
        yield with_aside(f"after the next boot: {next_boot(boot)}", place(boot))
    for against in setting.contradictions:
        yield with_aside(f"disagrees: {against.text}", place(against))


def effect(said: ConfiguredSetting) -> str:
    """Whether what a place says has an effect, where that is not plain."""
    if said.counts:
        return f", {said.why}" if said.why else ""
    return f"; without effect: {said.why}" if said.why else "; without effect"


def next_boot(boot: NextBoot) -> str:
    """What a setting will be, or why that cannot be told."""
    if boot.value is None:
        return f"unknown ({boot.from_})" if boot.from_ else "unknown"
    why = "assumed; nothing in the input sets it" if boot.assumed else f"from {boot.from_}"
    return f"{quantity(boot.value)} ({why})"


# Recordings of call stacks


def ordered_profiles(result: Result) -> list[Profile]:
    """The recordings, first the one that the leading finding rests on, those without samples last."""
    first = leading(result)
    cited = {one.member for one in (first.evidence if first else ()) if one.kind == "stack"}
    return sorted(result.profiles, key=lambda p: (not (p.matched and p.member in cited), not p.matched, not p.folded))


def recording_summary(profile: Profile) -> str:
    """Event, samples, length, when, and where the names of kernel functions come from."""
    event = profile.event or "an unnamed event"
    first = event if profile.samples is None else f"{plural(profile.samples, 'sample')} of {event}"
    if profile.first is not None and profile.last is not None:
        first += f" in {duration(profile.last - profile.first)}"
    symbols = f"kernel functions: {profile.symbols}" if profile.symbols else ""
    return "; ".join(filter(None, [first, profile.when, symbols]))


def recording_state(profile: Profile) -> str:
    """Of several stretches of unchanged settings the one that it was recorded in, as the end of a sentence."""
    own = profile.state and profile.state != "all"
    return f"; recorded under the settings of {profile.state}" if own else ""


_LOSSES = {
    "without_stack": "without a stack",
    "truncated": "with a stack cut at the recorded depth",
    "unknown_symbol": "in a function without a name",
}


def losses(profile: Profile) -> str:
    """What the recording or the text lost or does not show; empty if that is nothing."""
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
    for key, what in _LOSSES.items():
        if count := getattr(loss, key):
            share = f" ({percent(count / read)})" if read else ""
            yield f"{plural(count, 'sample')}{share} {what}"
    if loss.unlisted:
        yield f"{percent(loss.unlisted)} is not listed"


def signature_summary(signature: StackSignature) -> str:
    """A signature of a finding over the recording's time; since when it is there stands with the finding."""
    share = f": {percent(signature.share)} on average" if signature.share is not None else ""
    worst = signature.worst.text if signature.worst else None
    return "; ".join(filter(None, [f"{signature.what}{share}", worst]))
