"""The result for a terminal: 80 columns, the first block of a ticket, then the detail; plain text, or with colours.

The level (`Presentation.verbosity`) is -1 for the first block alone (`--short`); 0 for a report of fewer than 60 lines,
whose longest sections end with how many entries `--full` adds; 1 for all findings, steps, denials, settings, problems
and the lines that evidence cites; 2 for the evaluated condition of every rule too. Nothing stands twice: what the first
block shows whole is not in the detail. Commands stand alone on their lines, unbroken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from thpdiag.model.result import ConditionTree, Evidence, Finding, Problem, Profile, Remedy, Result, RuledOut, Setting
from thpdiag.report import AnyResult, known_issues, messages
from thpdiag.report.escaping import prose, visible
from thpdiag.report.first_block import LABELS, Block, first_block, subject
from thpdiag.report.layout import WIDTH, Line, columns, fold, paint
from thpdiag.report.messages import place, plural, with_aside
from thpdiag.report.presentation import PLAIN, Presentation
from thpdiag.report.quantity import duration, quantity

MAX_LINES = 59  # of a host at level 0, with its first block
MAX_REQUESTS = 3  # commands that are asked for, at level 0
HEAD_LINES = 3  # that a section costs beside its blocks
SHORT = 8  # entries of a list at level 0, before the room decides
INDENT = " " * 5  # of what belongs to a step
MARKS = {"yes": "+", "no": "-", "unknown": "?"}


@dataclass
class Section:
    """Blocks of lines under a heading; `least` of them stay however little room there is, `hidden` are left out.

    A section of twice the `weight` gets twice the lines where there is little room; `last` are the numbers of the
    blocks that get none as long as another waits, and `more` names what is left out.
    """

    heading: str
    blocks: list[list[str]]
    least: int = 0
    hidden: int = 0
    weight: float = 1
    last: Sequence[int] = ()
    more: str = ""

    def __post_init__(self) -> None:
        order = sorted(range(len(self.blocks)), key=lambda number: (number in self.last, number))
        self.shown, self.waiting = set(order), order

    def size(self) -> int:
        """The lines of the blocks that are shown."""
        return sum(len(self.blocks[number]) for number in self.shown)

    def lines(self) -> list[str]:
        """What is printed, with an empty line before it; nothing of a section that shows no block."""
        if not self.shown:
            return []
        rows = [row for number, block in enumerate(self.blocks) if number in self.shown for row in block]
        hidden = self.hidden + len(self.blocks) - len(self.shown)
        if hidden and self.heading:
            rows.append(f"  {self.more or f'and {hidden} more'} (--full)")
        return ["", *(_heading(self.heading) if self.heading else ()), *rows]


def render(document: AnyResult, presentation: Presentation = PLAIN) -> str:
    """The report; of several hosts the worst in full, of the others that have a cause the first block."""
    level = presentation.verbosity
    worst, *rest = messages.hosts(document)
    out = list(_host_report(worst, level))
    bad = [other for other in rest if other.verdict.status == "found"]
    for other in rest if level > 0 else bad:
        out += ["", *_heading(f"Host {prose(messages.name(other))}"), *_host_report(other, level if level > 0 else -1)]
    quiet = [other for other in rest if level <= 0 and other not in bad]
    if quiet:
        out += ["", *_heading(plural(len(quiet), "other host"))]
    for other in quiet:
        out += fold(f"{prose(messages.name(other))}: {prose(messages.sentence(other))}", "  ", "      ")
    return "\n".join(paint(line) if presentation.color else line.rstrip() for line in out) + "\n"


def _host_report(result: Result, level: int) -> Iterator[str]:
    block = first_block(result)
    yield from block.lines
    if level < 0:
        return
    sections = [section for section in _sections(result, block, level) if section.blocks]
    absent = _fit(sections, MAX_LINES - len(block.lines) - 2) if level == 0 else []
    for section in sections:
        yield from section.lines()
    if told := [f"{len(section.blocks)} under {section.heading}" for section in absent if section.heading]:
        yield from fold(f"{', '.join(told)}.", "--full also shows: ", "  ")


def _fit(sections: Sequence[Section], room: int) -> list[Section]:
    """Give each section its least, then the next block to the one with the fewest lines for its weight, while it fits.

    Those for which there is no room at all are returned.
    """
    for section in sections:
        section.shown, section.waiting = set(section.waiting[: section.least]), section.waiting[section.least :]
    while able := [section for section in sections if section.waiting]:
        section = min(able, key=lambda one: (HEAD_LINES + one.size()) / one.weight)
        number = section.waiting.pop(0)
        section.shown.add(number)
        if sum(len(one.lines()) for one in sections) > room:  # perhaps the next one does fit
            section.shown.remove(number)
            if number not in section.last:
                section.waiting = [other for other in section.waiting if other not in section.last]
    return [section for section in sections if not section.shown]


def _heading(text: str) -> list[str]:
    return [Line(f"{text}:", "bold")]


def _sections(result: Result, block: Block, level: int) -> Iterator[Section]:
    finding = subject(result)
    head = [rows for rows in (_redaction(result), _meaning(finding), list(_host_lines(result))) if rows]
    yield Section("", head, least=2 if result.tool.redacted else 1, weight=4)
    if finding:
        yield _evidence_section(result, finding, block, level)
        yield Section("Evidence against", [_evidence(one, level) for one in finding.against], least=1, weight=2)
    yield _denials(result, level)
    if finding and finding.remedies:
        yield _remedies(result, finding, block, level)
    yield from _other_findings(result, finding, level)
    yield _contradictions(result)
    issues = known_issues.text(result, level)
    sure, _ = known_issues.by_certainty(result)
    yield Section(known_issues.heading(result), issues, least=min(len(sure), 1), weight=0.5)
    yield _undecided_rules(result, block, level)
    seen = SHORT if level else 1  # the first signatures are those of the gravest findings
    lossy = any(profile.loss.lost for profile in result.profiles)  # which makes evidence weak
    recordings = [_recording(profile, seen) for profile in result.profiles]
    yield Section("Recordings of call stacks", recordings, least=lossy, weight=0.5)
    yield Section("", [list(_inputs(result, level)), *_notes(result)], least=2)
    if level >= 1:
        yield from _settings_and_measures(result)
    yield _problems(result, level)
    if level >= 2:
        rules = [list(_rule(rule.id, rule.title, rule.outcome, rule.tree)) for rule in result.rules]
        yield Section("Rules (+ yes, - no, ? unknown)", rules)


def _meaning(finding: Finding | None) -> list[str]:
    """Never cut: the last sentence is often what it is not."""
    return fold(prose(finding.means)) if finding and finding.means else []


def _redaction(result: Result) -> list[str]:
    notice = messages.redaction_notice(result)
    return fold(notice) if notice else []


def _host_lines(result: Result) -> Iterator[str]:
    """What of the verdict and the host the first block has no room for."""
    verdict = result.verdict
    if verdict.rule:
        state = messages.state(result)
        yield from fold(
            visible(f"{verdict.rule} ({verdict.mechanism})" + (f"; {state}" if state else "")), "Rule: ", "  "
        )
    if told := _host_line(result):
        yield from fold(prose(told[:1].upper() + told[1:]), "", "  ")
    if policy := _policy(result.host.settings):
        yield from fold(prose(policy), "Transparent huge pages: ", "  ")
    if verdict.window:
        yield from fold(prose(messages.window_text(verdict.window)), "Time: ", "  ")


def _acceptance(finding: Finding, margin: str = "") -> list[str]:
    """By whom it is accepted, why and until when."""
    told = prose(messages.acceptance(finding))
    return fold(told[:1].upper() + told[1:], margin) if told else []


def _host_line(result: Result) -> str:
    host = result.host
    parts = [
        f"platform {host.platform}" if host.platform else "",
        f"up {duration(host.uptime)}" if host.uptime is not None else "",
        f"runs {', '.join(host.apps)}" if host.apps else "",
    ]
    return ", ".join(filter(None, parts))


def _policy(settings: Mapping[str, Setting]) -> str:
    """The two settings that decide what a page fault may do, since a reader asks for them first; with other values that
    the input shows of them, which may be of another time, or of another host."""
    known = [(name, settings[f"thp.{name}"]) for name in ("enabled", "defrag") if f"thp.{name}" in settings]
    return ", ".join(f"{name} {setting.value}{_doubt(setting)}" for name, setting in known)


def _doubt(setting: Setting) -> str:
    if setting.provenance == "assumed":
        return " (assumed, the default of this kernel)"
    others = [with_aside(str(other.value), place(other)) for other in setting.other_states]
    return f"; elsewhere {' and '.join(others)}" if others else ""


def _evidence_section(result: Result, finding: Finding, block: Block, level: int) -> Section:
    """The evidence that the first block does not show whole; with its lines of the files if they are asked for.

    Then what makes it as sure as it is, and what would make it surer.
    """
    evidence = messages.distinct_evidence(finding.evidence)
    blocks = [_evidence(one, level, text=one not in block.evidence) for one in evidence]
    blocks = [rows for rows in blocks if rows]
    reason = messages.confidence_reason(finding)
    told = fold(prose(reason), "  ", "  ") if reason else []
    for step, commands in messages.confidence_steps(finding)[: None if level else 1]:
        told += [*fold(prose(step), "  ", "  "), *messages.command_lines("", commands, "  ")]
    for more in finding.raise_confidence if result.verdict.confidence != "confirmed" and level else ():
        told += fold(prose(more), "  To be more certain: ", "    ")
    kept = blocks if level else blocks[:SHORT]
    return Section("Why", [*([told] if told else []), *kept], least=1, hidden=len(blocks) - len(kept))


def _evidence(evidence: Evidence, level: int, *, text: bool = True) -> list[str]:
    """With since when a recording shows it; from level 1 on with the line of the customer's file."""
    quoted = messages.quotation(evidence, "      ") if level else []
    if not text:
        return [*citation_lines(place(evidence), "see above"), *quoted] if quoted else []
    since = fold(prose(evidence.onset.text), "      ") if evidence.onset and evidence.onset.text else []
    return [*citation_lines(place(evidence), evidence.text or ""), *since, *quoted]


def citation_lines(where: str, text: str, margin: str = "  ") -> list[str]:
    """`file:line  text`; the text goes below a place that takes much of the line. A place is never broken."""
    at = visible(where)
    if columns(at) > WIDTH // 3:
        return [margin + at, *fold(prose(text), margin + "    ")]
    return fold(prose(text), f"{margin}{at}  " if at else margin, margin + "    ")


def _denials(result: Result, level: int) -> Section:
    """What is not the cause, and by which number; at level 0 the most telling of each mechanism."""
    every = messages.ruled_out(result)
    shown = every if level else messages.telling_denials(result)[: messages.FIRST_OUT]
    return Section("Not the cause", [_denial(result, one) for one in shown], least=1, hidden=len(every) - len(shown))


def _denial(result: Result, other: RuledOut) -> list[str]:
    places = ", ".join(dict.fromkeys(filter(None, map(place, other.evidence[:2]))))
    return fold(prose(with_aside(messages.denial(result, other), places)), "  ", "      ")


# Remedies


def _remedies(result: Result, finding: Finding, block: Block, level: int) -> Section:
    """The remedies in the order in which to try them: at level 0 what the first block lacks of its step, the others in
    a sentence each; from level 1 on in full."""
    remedies = finding.remedies
    intro: list[str] = []
    if len(remedies) > 1:
        intro.append("  Take the mildest step first; stop as soon as its Verify line holds.")
    if not result.host.platform and any(advice.persist for advice in remedies):
        intro.append("  The distribution is not in the input; the commands are written for any Linux.")
    blocks = [intro] if intro else []
    last: list[int] = []
    for number, advice in enumerate(remedies, 1):
        shown = block.labels if number == block.step else frozenset()
        if level or number == (block.step or 1):
            title, *parts = _step(remedies, number, shown, level)
            last += range(len(blocks) + 1, len(blocks) + 1 + len(parts))
            blocks += [title, *parts]
        else:
            blocks.append(_step_title(advice, number, len(remedies)))
    return Section("What to do", blocks, least=2, weight=4, last=last, more="more on these steps")


def _step_title(advice: Remedy, number: int, count: int) -> list[str]:
    label = f"  {number}. " if count > 1 else "  "
    rows = fold(prose(f"{advice.reason or ''} [{advice.id}]"), label, " " * len(label))
    return [Line(row, "", len(label)) if not n else row for n, row in enumerate(rows)]


def _step(remedies: Sequence[Remedy], number: int, shown: frozenset[str], level: int) -> Iterator[list[str]]:
    """The parts of a step, without the commands that stand in the first block; as in an earlier step where they are."""
    advice = remedies[number - 1]
    title = _step_title(advice, number, len(remedies))
    if shown and len(remedies) > 1:
        title.append(f"{INDENT}{', '.join(label for label in LABELS if label in shown)}: above")
    if "Do now" not in shown:
        title += _commands(remedies, number, "Now:", lambda step: step.now)
    yield title
    if lasting := _commands(remedies, number, "Permanently:", lambda step: step.persist):
        yield lasting
    check = advice.verify
    verified_in = messages.same_verification(remedies, number)
    if verified_in and (level or "Verify" not in shown):
        yield [f"{INDENT}Verify: as in step {verified_in}"]
    elif check:
        rows = fold(prose(messages.expectation(check)), f"{INDENT}Verify: ", f"{INDENT}  ")
        how = [check.how] if check.how and "Verify" not in shown else []
        yield rows + list(messages.command_lines("", how, INDENT))
    done = (advice.undo_now or advice.undo) if "Undo" in shown else []
    label = "Undo the permanent change:" if done else "Undo:"
    if undo := _commands(remedies, number, label, lambda step: [one for one in step.undo if one not in done]):
        yield undo
    told = fold(prose(advice.cost), f"{INDENT}Cost: ", f"{INDENT}  ") if advice.cost else []
    if advice.safety:
        told += fold(prose(advice.safety), f"{INDENT}Safety: ", f"{INDENT}  ")
    if advice.restart is not None:
        told += fold(prose(messages.restart_text(advice)), f"{INDENT}Restart: ", f"{INDENT}  ")
    if told:
        yield told


def _commands(
    remedies: Sequence[Remedy], number: int, label: str, part: Callable[[Remedy], Sequence[str]]
) -> list[str]:
    """The commands of one part of a step; of long ones that an earlier step has but for a word, that word."""
    told = messages.repeated_commands(remedies, number, part)
    if told:
        return fold(told, f"{INDENT}{label} ", f"{INDENT}  ")
    return list(messages.command_lines(label, part(remedies[number - 1]), INDENT))


# Other findings


def _other_findings(result: Result, first: Finding | None, level: int) -> Iterator[Section]:
    """Consequences and other findings: one line each; in full from level 1 on, and what is to be mended at once."""
    for heading, findings in messages.finding_groups(result):
        rest = [finding for finding in findings if finding is not first]
        blocks = []
        for finding in rest:
            rows = list(_finding_in_short(result, finding, level))
            if level or messages.acts_alone(result, finding):
                rows += _finding_in_full(result, finding, level)
            blocks.append(rows)
        kept = blocks if level else blocks[:SHORT]
        yield Section(
            heading,
            kept,
            least=heading != "Consequences",
            weight=1 if heading != "Consequences" else 0.5,
            hidden=len(blocks) - len(kept),
        )


def _finding_in_short(result: Result, finding: Finding, level: int) -> Iterator[str]:
    role = messages.role(result, finding)
    weight = ", ".join(filter(None, [role, finding.severity, finding.confidence] if role != "context" else []))
    aside = "; ".join(filter(None, [finding.entity, messages.window_text(finding.window)]))
    told = with_aside(finding.title or finding.rule, aside)
    yield from fold(prose(f"{weight}: {told}" if weight else told), f"  {visible(finding.rule)}  ", "      ")
    yield from _acceptance(finding, "      ")
    number = messages.further_cause_figure(finding)
    if number and (level or not messages.is_consequence(finding, messages.leading(result))):
        yield from citation_lines(place(number), number.text or "", "      ")
    for better in messages.better_explanations(result, finding):
        yield from fold(prose(f"superseded by {better}"), "      ", "        ")


def _finding_in_full(result: Result, finding: Finding, level: int) -> Iterator[str]:
    """At level 0, of a finding whose steps are those of the verdict, one line of evidence."""
    own, above = messages.new_remedies(result, finding)
    told = messages.further_cause_figure(finding)
    evidence = [(one, "") for one in messages.distinct_evidence(finding.evidence)][: None if level or own else 1]
    for one, label in (*evidence, *((one, "against: ") for one in finding.against)):
        if one is not told:
            yield from citation_lines(place(one), f"{label}{one.text or ''}", "      ")
        yield from messages.quotation(one, " " * 10) if level else ()
    if above:
        yield from fold(prose(f"Under What to do: {', '.join(above)}"), "      ")
    for advice in own if level else own[:1]:
        yield from (
            messages.remedy_text(advice, "      ") if level else messages.command_lines("Do now:", advice.now, "      ")
        )


def _contradictions(result: Result) -> Section:
    """Where the places that set huge pages disagree: what a reader must know before he believes one of them."""
    found = messages.contradictions(result.host.settings)
    blocks = [fold(prose(with_aside(text, where)), "  ", "      ") for text, where in found[:SHORT]]
    if len(found) > SHORT:
        blocks.append([f"  and {len(found) - SHORT} more (-f json)"])
    return Section("Settings that disagree", blocks, least=1, weight=2)


def _undecided_rules(result: Result, block: Block, level: int) -> Section:
    """What could not be decided, what is missing, and what to send to the customer."""
    text, commands = messages.customer_request(result)
    blocks = []
    if result.unknown:
        blocks.append(
            [f"  {plural(len(result.unknown), 'rule')} could not be decided{'' if level else ' (--full lists them)'}."]
        )
    for unknown in result.unknown if level else ():
        needs = ", ".join(unknown.missing) or "more data"
        lack = ". ".join([f"{messages.rule_title(result, unknown.rule)}: needs {needs}", *unknown.because])
        blocks.append(fold(prose(lack), f"  {visible(unknown.rule)}  ", "      "))
    told = fold(prose(text), "  ") if text and "To send" not in block.labels else []
    finding = subject(result)
    steps = messages.confidence_steps(finding)[: None if level else 1] if finding else []
    asked = {*block.requests, *(command for _, asks in steps for command in asks)}
    left = [command for command in commands if command not in asked]
    told += messages.command_lines("By hand, most useful first:", left if level else left[:MAX_REQUESTS], "  ")
    return Section("Not decided", [*blocks, *([told] if told else [])], least=2, weight=2)


# Recordings, inputs, problems


def _recording(profile: Profile, seen: int) -> list[str]:
    """What it is and when it was made, what it lost, what findings saw in it when."""
    told = citation_lines(place(profile), messages.recording_summary(profile))
    further = [messages.losses(profile), *map(messages.signature_summary, profile.signatures[:seen])]
    return [*told, *(line for text in further if text for line in fold(prose(text), "      ", "        "))]


def _inputs(result: Result, level: int) -> Iterator[str]:
    """How many members were read, how many problems that met, and what was noted in passing."""
    members = {row.member: row.files or 1 for row in result.inputs}
    read = sum({row.member: row.files or 1 for row in result.inputs if row.reader}.values())
    told = [f"{read:,} of {plural(sum(members.values()), 'member')} read."] if members else []
    if result.problems:
        kinds = Counter(messages.problem_kind(problem) for problem in result.problems)
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        all_listed = level or all(problem.hides for problem in result.problems)
        told.append(
            f"{plural(len(result.problems), 'problem')} ({counts}){'' if all_listed else '; --full lists them'}."
        )
    if told:
        yield from fold(" ".join(told))
    asked = [f"{name}={value}" for name, value in sorted(result.tool.options.items()) if value is not None]
    if asked:
        yield from fold(prose("; ".join(asked)), "Options that change the analysis: ", "  ")


def _notes(result: Result) -> list[list[str]]:
    return [fold(prose(with_aside(note.text or "", place(note))), "Note: ", "  ") for note in result.notes]


def _settings_and_measures(result: Result) -> Iterator[Section]:
    host = result.host
    rows = []
    for name, setting in sorted(host.settings.items()):
        how = ", ".join(filter(None, [setting.provenance, place(setting)]))
        value = "not known" if setting.value is None else quantity(setting.value)
        rows.append(fold(prose(with_aside(f"{name} = {value}", how)), "  ", "      "))
        rows += [fold(prose(text), "      ", "        ") for text in messages.setting_details(setting)]
    yield Section("Settings", rows)
    rows = []
    for name, measure in sorted(host.measures.items()):
        how = ", ".join(filter(None, [measure.window, measure.source]))
        told = f"{name} = {quantity(measure.value, measure.unit)}"
        rows.append(fold(prose(with_aside(told, how)), "  ", "      "))
    yield Section("Figures", rows)


def _problems(result: Result, level: int) -> Section:
    """At level 0 those that may have taken evidence away: without them a reader takes silence for an answer."""
    listed = result.problems if level else [problem for problem in result.problems if problem.hides]
    kept = listed if level else listed[:SHORT]
    heading = "Problems" if level else "Problems that may hide evidence"
    return Section(heading, [_problem(problem) for problem in kept], least=1, hidden=len(listed) - len(kept))


def _problem(problem: Problem) -> list[str]:
    times = f" ({problem.count} times)" if (problem.count or 1) > 1 else ""
    return citation_lines(place(problem), f"{messages.problem_kind(problem)}: {problem.text}{times}")


def _rule(name: str, title: str | None, outcome: str, tree: ConditionTree | None) -> Iterator[str]:
    """The condition of a rule as evaluated: + yes, - no, ? unknown."""
    yield from fold(prose(f"{title or ''} [{outcome}]"), f"{visible(name)}  ", "    ")
    if tree:
        yield from _condition(tree, 2)


def _condition(node: ConditionTree, indent: int) -> Iterator[str]:
    margin = " " * min(indent, WIDTH // 2)
    told = ": ".join(filter(None, [node.expr, node.text]))
    needed = f" (needed: {quantity(node.needed)})" if node.needed not in {None, ""} else ""
    yield from fold(prose(told + needed), f"{margin}{MARKS.get(node.value or '', '?')} ", f"{margin}    ")
    for child in node.children:
        yield from _condition(child, indent + 2)
