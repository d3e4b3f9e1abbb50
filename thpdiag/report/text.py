"""The result for a terminal: 80 columns, the first block of a ticket, then the detail; plain text, or with colours.

The level (`Presentation.verbosity`) is -1 for the first block alone (`--short`); 0 for a report of fewer than 60 lines,
whose longest sections end with how many entries `--full` adds; 1 for all findings, steps, denials, settings, problems
and the lines that evidence cites; 2 for the evaluated condition of every rule too. What the first block shows uncut is
not repeated in the detail. Commands are alone on their lines, not wrapped.
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
MAX_REQUESTS = 3  # commands requested at level 0
HEAD_LINES = 3  # lines of a section in addition to its blocks
MAX_ENTRIES = 8  # of a list at level 0, before the number of lines limits it
INDENT = " " * 5  # of the parts of a step
MARKS = {"yes": "+", "no": "-", "unknown": "?"}


@dataclass
class Section:
    """Blocks of lines under a heading. At least `least` of them are shown; `hidden` counts entries without a block.

    If lines are short, a section of twice the `weight` gets twice the lines. `last` are the numbers of the blocks that
    are shown only when no other block waits; `more` names what is left out.
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
        """Return the number of lines of the shown blocks."""
        return sum(len(self.blocks[number]) for number in self.shown)

    def lines(self) -> list[str]:
        """Return the printed lines after an empty line; none without a shown block."""
        if not self.shown:
            return []
        rows = [row for number, block in enumerate(self.blocks) if number in self.shown for row in block]
        hidden = self.hidden + len(self.blocks) - len(self.shown)
        if hidden and self.heading:
            rows.append(f"  {self.more or f'and {hidden} more'} (--full)")
        return ["", *(_heading(self.heading) if self.heading else ()), *rows]


def render(document: AnyResult, presentation: Presentation = PLAIN) -> str:
    """Return the report: the worst host in full, of other hosts with a cause the first block."""
    level = presentation.verbosity
    worst, *rest = messages.hosts(document)
    rows = list(_host_report(worst, level))
    with_cause = [other for other in rest if other.verdict.status == "found"]
    for other in rest if level > 0 else with_cause:
        rows += ["", *_heading(f"Host {prose(messages.name(other))}"), *_host_report(other, level if level > 0 else -1)]
    without_cause = [other for other in rest if level <= 0 and other not in with_cause]
    if without_cause:
        rows += ["", *_heading(plural(len(without_cause), "other host"))]
    for other in without_cause:
        rows += fold(f"{prose(messages.name(other))}: {prose(messages.sentence(other))}", "  ", "      ")
    return "\n".join(paint(line) if presentation.color else line.rstrip() for line in rows) + "\n"


def _host_report(result: Result, level: int) -> Iterator[str]:
    block = first_block(result)
    yield from block.lines
    if level < 0:
        return
    sections = [section for section in _sections(result, block, level) if section.blocks]
    omitted = _fit(sections, MAX_LINES - len(block.lines) - 2) if level == 0 else []
    for section in sections:
        yield from section.lines()
    if counts := [f"{len(section.blocks)} under {section.heading}" for section in omitted if section.heading]:
        yield from fold(f"{', '.join(counts)}.", "--full also shows: ", "  ")


def _fit(sections: Sequence[Section], max_lines: int) -> list[Section]:
    """Show the least of each section, then add blocks to the shortest section for its weight while they fit.

    Return the sections without a shown block.
    """
    for section in sections:
        section.shown, section.waiting = set(section.waiting[: section.least]), section.waiting[section.least :]
    while growing := [section for section in sections if section.waiting]:
        section = min(growing, key=lambda candidate: (HEAD_LINES + candidate.size()) / candidate.weight)
        number = section.waiting.pop(0)
        section.shown.add(number)
        if sum(len(candidate.lines()) for candidate in sections) > max_lines:  # a shorter one may still fit
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
        yield Section("Evidence against", [_evidence(row, level) for row in finding.against], least=1, weight=2)
    yield _denials(result, level)
    if finding and finding.remedies:
        yield _remedies(result, finding, block, level)
    yield from _other_findings(result, finding, level)
    yield _contradictions(result)
    issues = known_issues.text(result, level)
    sure, _ = known_issues.by_certainty(result)
    yield Section(known_issues.heading(result), issues, least=min(len(sure), 1), weight=0.5)
    yield _undecided_rules(result, block, level)
    max_signatures = MAX_ENTRIES if level else 1  # the first signatures are those of the most severe findings
    has_losses = any(profile.loss.lost for profile in result.profiles)  # lost samples make evidence weak
    recordings = [_recording(profile, max_signatures) for profile in result.profiles]
    yield Section("Recordings of call stacks", recordings, least=has_losses, weight=0.5)
    yield Section("", [list(_inputs(result, level)), *_notes(result)], least=2)
    if level >= 1:
        yield from _settings_and_measures(result)
    yield _problems(result, level)
    if level >= 2:
        rules = [list(_rule(rule.id, rule.title, rule.outcome, rule.tree)) for rule in result.rules]
        yield Section("Rules (+ yes, - no, ? unknown)", rules)


def _meaning(finding: Finding | None) -> list[str]:
    """Return the meaning of the finding, uncut: the last sentence often names what it is not."""
    return fold(prose(finding.means)) if finding and finding.means else []


def _redaction(result: Result) -> list[str]:
    notice = messages.redaction_notice(result)
    return fold(notice) if notice else []


def _host_lines(result: Result) -> Iterator[str]:
    """Yield what the first block does not show of the verdict and the host."""
    verdict = result.verdict
    if verdict.rule:
        state = messages.state(result)
        yield from fold(
            visible(f"{verdict.rule} ({verdict.mechanism})" + (f"; {state}" if state else "")), "Rule: ", "  "
        )
    if host_text := _host_line(result):
        yield from fold(prose(host_text[:1].upper() + host_text[1:]), "", "  ")
    if policy := _policy(result.host.settings):
        yield from fold(prose(policy), "Transparent huge pages: ", "  ")
    if verdict.window:
        yield from fold(prose(messages.window_text(verdict.window)), "Time: ", "  ")


def _acceptance(finding: Finding, margin: str = "") -> list[str]:
    """Return what accepts the finding, why and until when."""
    text = prose(messages.acceptance(finding))
    return fold(text[:1].upper() + text[1:], margin) if text else []


def _host_line(result: Result) -> str:
    host = result.host
    parts = [
        f"platform {host.platform}" if host.platform else "",
        f"up {duration(host.uptime)}" if host.uptime is not None else "",
        f"runs {', '.join(host.apps)}" if host.apps else "",
    ]
    return ", ".join(filter(None, parts))


def _policy(settings: Mapping[str, Setting]) -> str:
    """Return the settings that decide what a page fault may do, with other values of another time or host."""
    known = [(name, settings[f"thp.{name}"]) for name in ("enabled", "defrag") if f"thp.{name}" in settings]
    return ", ".join(f"{name} {setting.value}{_doubt(setting)}" for name, setting in known)


def _doubt(setting: Setting) -> str:
    if setting.provenance == "assumed":
        return " (assumed, the default of this kernel)"
    others = [with_aside(str(other.value), place(other)) for other in setting.other_states]
    return f"; elsewhere {' and '.join(others)}" if others else ""


def _evidence_section(result: Result, finding: Finding, block: Block, level: int) -> Section:
    """Return the confidence, how to raise it, and the evidence that the first block does not show uncut.

    On request the evidence includes the cited lines.
    """
    evidence = messages.distinct_evidence(finding.evidence)
    blocks = [_evidence(item, level, text=item not in block.evidence) for item in evidence]
    blocks = [rows for rows in blocks if rows]
    reason = messages.confidence_reason(finding)
    summary = fold(prose(reason), "  ", "  ") if reason else []
    for step, commands in messages.confidence_steps(finding)[: None if level else 1]:
        summary += [*fold(prose(step), "  ", "  "), *messages.command_lines("", commands, "  ")]
    for advice in finding.raise_confidence if result.verdict.confidence != "confirmed" and level else ():
        summary += fold(prose(advice), "  To be more certain: ", "    ")
    kept = blocks if level else blocks[:MAX_ENTRIES]
    return Section("Why", [*([summary] if summary else []), *kept], least=1, hidden=len(blocks) - len(kept))


def _evidence(evidence: Evidence, level: int, *, text: bool = True) -> list[str]:
    """Return one piece of evidence with its onset in a recording; from level 1 on with the cited line."""
    quoted = messages.quotation(evidence, "      ") if level else []
    if not text:
        return [*citation_lines(place(evidence), "see above"), *quoted] if quoted else []
    since = fold(prose(evidence.onset.text), "      ") if evidence.onset and evidence.onset.text else []
    return [*citation_lines(place(evidence), evidence.text or ""), *since, *quoted]


def citation_lines(location: str, text: str, margin: str = "  ") -> list[str]:
    """Return `file:line  text`; after a long place the text is on its own line. A place is never broken."""
    path = visible(location)
    if columns(path) > WIDTH // 3:
        return [margin + path, *fold(prose(text), margin + "    ")]
    return fold(prose(text), f"{margin}{path}  " if path else margin, margin + "    ")


def _denials(result: Result, level: int) -> Section:
    """Return what is not the cause, and the figure that denies it; at level 0 the most important of each mechanism."""
    denials = messages.ruled_out(result)
    shown = denials if level else messages.first_screen_denials(result)[: messages.MAX_UNFOLDED_DENIALS]
    blocks = [_denial(result, denial) for denial in shown]
    return Section("Not the cause", blocks, least=1, hidden=len(denials) - len(shown))


def _denial(result: Result, other: RuledOut) -> list[str]:
    places = ", ".join(dict.fromkeys(filter(None, map(place, other.evidence[:2]))))
    return fold(prose(with_aside(messages.denial(result, other), places)), "  ", "      ")


# Remedies


def _remedies(result: Result, finding: Finding, block: Block, level: int) -> Section:
    """Return the remedies in the order in which to try them; below level 1 all but one step have one sentence each."""
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
    """Yield the parts of a step without the commands of the first block; parts equal to an earlier step refer to it."""
    advice = remedies[number - 1]
    title = _step_title(advice, number, len(remedies))
    if shown and len(remedies) > 1:
        title.append(f"{INDENT}{', '.join(label for label in LABELS if label in shown)}: above")
    if "Do now" not in shown:
        title += _commands(remedies, number, "Now:", lambda step: step.now)
    yield title
    if permanent := _commands(remedies, number, "Permanently:", lambda step: step.persist):
        yield permanent
    check = advice.verify
    verified_in = messages.same_verification(remedies, number)
    if verified_in and (level or "Verify" not in shown):
        yield [f"{INDENT}Verify: as in step {verified_in}"]
    elif check:
        rows = fold(prose(messages.expectation(check)), f"{INDENT}Verify: ", f"{INDENT}  ")
        how = [check.how] if check.how and "Verify" not in shown else []
        yield rows + list(messages.command_lines("", how, INDENT))
    above = (advice.undo_now or advice.undo) if "Undo" in shown else []
    label = "Undo the permanent change:" if above else "Undo:"
    if undo := _commands(remedies, number, label, lambda step: [line for line in step.undo if line not in above]):
        yield undo
    notes = fold(prose(advice.cost), f"{INDENT}Cost: ", f"{INDENT}  ") if advice.cost else []
    if advice.safety:
        notes += fold(prose(advice.safety), f"{INDENT}Safety: ", f"{INDENT}  ")
    if advice.restart is not None:
        notes += fold(prose(messages.restart_text(advice)), f"{INDENT}Restart: ", f"{INDENT}  ")
    if notes:
        yield notes


def _commands(
    remedies: Sequence[Remedy], number: int, label: str, part: Callable[[Remedy], Sequence[str]]
) -> list[str]:
    """Return the commands of one part of a step, or the earlier step that has the same ones."""
    repetition = messages.repeated_commands(remedies, number, part)
    if repetition:
        return fold(repetition, f"{INDENT}{label} ", f"{INDENT}  ")
    return list(messages.command_lines(label, part(remedies[number - 1]), INDENT))


# Other findings


def _other_findings(result: Result, first: Finding | None, level: int) -> Iterator[Section]:
    """Yield other findings in one line each; in full from level 1 on, and if they can be fixed at once."""
    for heading, findings in messages.finding_groups(result):
        rest = [finding for finding in findings if finding is not first]
        blocks = []
        for finding in rest:
            rows = list(_finding_in_short(result, finding, level))
            if level or messages.is_shown_in_full(result, finding):
                rows += _finding_in_full(result, finding, level)
            blocks.append(rows)
        kept = blocks if level else blocks[:MAX_ENTRIES]
        is_main = heading != "Consequences"
        yield Section(heading, kept, least=is_main, weight=1 if is_main else 0.5, hidden=len(blocks) - len(kept))


def _finding_in_short(result: Result, finding: Finding, level: int) -> Iterator[str]:
    role = messages.role(result, finding)
    weight = ", ".join(filter(None, [role, finding.severity, finding.confidence] if role != "context" else []))
    aside = "; ".join(filter(None, [finding.entity, messages.window_text(finding.window)]))
    text = with_aside(finding.title or finding.rule, aside)
    yield from fold(prose(f"{weight}: {text}" if weight else text), f"  {visible(finding.rule)}  ", "      ")
    yield from _acceptance(finding, "      ")
    number = messages.further_cause_figure(finding)
    if number and (level or not messages.is_consequence(finding, messages.lead_finding(result))):
        yield from citation_lines(place(number), number.text or "", "      ")
    for explanation in messages.better_explanations(result, finding):
        yield from fold(prose(f"superseded by {explanation}"), "      ", "        ")


def _finding_in_full(result: Result, finding: Finding, level: int) -> Iterator[str]:
    """Yield evidence and remedies; at level 0 one line of evidence if the steps are those of the lead finding."""
    remedies, shown_above = messages.new_remedies(result, finding)
    shown_figure = messages.further_cause_figure(finding)
    evidence = [(item, "") for item in messages.distinct_evidence(finding.evidence)][: None if level or remedies else 1]
    for item, label in (*evidence, *((item, "against: ") for item in finding.against)):
        if item is not shown_figure:
            yield from citation_lines(place(item), f"{label}{item.text or ''}", "      ")
        yield from messages.quotation(item, " " * 10) if level else ()
    if shown_above:
        yield from fold(prose(f"Under What to do: {', '.join(shown_above)}"), "      ")
    for advice in remedies if level else remedies[:1]:
        yield from (
            messages.remedy_text(advice, "      ") if level else messages.command_lines("Do now:", advice.now, "      ")
        )


def _contradictions(result: Result) -> Section:
    """Return where the places that set huge pages disagree, so that a reader trusts none of them blindly."""
    contradictions = messages.contradictions(result.host.settings)
    blocks = [fold(prose(with_aside(*row)), "  ", "      ") for row in contradictions[:MAX_ENTRIES]]
    if len(contradictions) > MAX_ENTRIES:
        blocks.append([f"  and {len(contradictions) - MAX_ENTRIES} more (-f json)"])
    return Section("Settings that disagree", blocks, least=1, weight=2)


def _undecided_rules(result: Result, block: Block, level: int) -> Section:
    """Return which rules are undecided, which data they need, and what to send to the customer."""
    text, commands = messages.customer_request(result)
    blocks = []
    if result.unknown:
        blocks.append(
            [f"  {plural(len(result.unknown), 'rule')} could not be decided{'' if level else ' (--full lists them)'}."]
        )
    for unknown in result.unknown if level else ():
        needs = ", ".join(unknown.missing) or "more data"
        need = ". ".join([f"{messages.rule_title(result, unknown.rule)}: needs {needs}", *unknown.because])
        blocks.append(fold(prose(need), f"  {visible(unknown.rule)}  ", "      "))
    request = fold(prose(text), "  ") if text and "To send" not in block.labels else []
    finding = subject(result)
    steps = messages.confidence_steps(finding)[: None if level else 1] if finding else []
    asked = {*block.requests, *(command for _, asks in steps for command in asks)}
    others = [command for command in commands if command not in asked][: None if level else MAX_REQUESTS]
    request += messages.command_lines("By hand, most useful first:", others, "  ")
    return Section("Not decided", [*blocks, *([request] if request else [])], least=2, weight=2)


# Recordings, inputs, problems


def _recording(profile: Profile, max_signatures: int) -> list[str]:
    """Return event, time, losses and signatures of a recording."""
    rows = citation_lines(place(profile), messages.recording_summary(profile))
    further = [messages.losses(profile), *map(messages.signature_summary, profile.signatures[:max_signatures])]
    return [*rows, *(line for text in further if text for line in fold(prose(text), "      ", "        "))]


def _inputs(result: Result, level: int) -> Iterator[str]:
    """Yield how many members were read, the number of problems by kind, and the options."""
    members = {row.member: row.files or 1 for row in result.inputs}
    read = sum({row.member: row.files or 1 for row in result.inputs if row.reader}.values())
    sentences = [f"{read:,} of {plural(sum(members.values()), 'member')} read."] if members else []
    if result.problems:
        kinds = Counter(messages.problem_kind(problem) for problem in result.problems)
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        all_listed = level or all(problem.hides for problem in result.problems)
        sentences.append(
            f"{plural(len(result.problems), 'problem')} ({counts}){'' if all_listed else '; --full lists them'}."
        )
    if sentences:
        yield from fold(" ".join(sentences))
    options = [f"{name}={value}" for name, value in sorted(result.tool.options.items()) if value is not None]
    if options:
        yield from fold(prose("; ".join(options)), "Options that change the analysis: ", "  ")


def _notes(result: Result) -> list[list[str]]:
    return [fold(prose(with_aside(note.text or "", place(note))), "Note: ", "  ") for note in result.notes]


def _settings_and_measures(result: Result) -> Iterator[Section]:
    host = result.host
    rows = []
    for name, setting in sorted(host.settings.items()):
        origin = ", ".join(filter(None, [setting.provenance, place(setting)]))
        value = "not known" if setting.value is None else quantity(setting.value)
        rows.append(fold(prose(with_aside(f"{name} = {value}", origin)), "  ", "      "))
        rows += [fold(prose(text), "      ", "        ") for text in messages.setting_details(setting)]
    yield Section("Settings", rows)
    rows = []
    for name, measure in sorted(host.measures.items()):
        origin = ", ".join(filter(None, [measure.window, measure.source]))
        figure = f"{name} = {quantity(measure.value, measure.unit)}"
        rows.append(fold(prose(with_aside(figure, origin)), "  ", "      "))
    yield Section("Figures", rows)


def _problems(result: Result, level: int) -> Section:
    """Return the problems; at level 0 those that may hide evidence, so that a missing finding is no all-clear."""
    listed = result.problems if level else [problem for problem in result.problems if problem.hides]
    kept = listed if level else listed[:MAX_ENTRIES]
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
    text = ": ".join(filter(None, [node.expr, node.text]))
    needed = f" (needed: {quantity(node.needed)})" if node.needed not in {None, ""} else ""
    yield from fold(prose(text + needed), f"{margin}{MARKS.get(node.value or '', '?')} ", f"{margin}    ")
    for child in node.children:
        yield from _condition(child, indent + 2)
