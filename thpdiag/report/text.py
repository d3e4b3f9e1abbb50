"""The result for a terminal: 80 columns, the verdict first, plain text.

Level 0 is what one reads first, with the problems that may hide evidence; level 1 adds all findings, everything ruled
out, settings, all problems and the lines that evidence cites; level 2 adds the evaluated condition of every rule.
Commands stand alone on their lines, unbroken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from thpdiag.model.result import ConditionTree, Evidence, Finding, Problem, Profile, Result, RuledOut, Setting
from thpdiag.report import AnyResult, known_issues, messages
from thpdiag.report.escaping import prose, visible
from thpdiag.report.layout import WIDTH, columns, fold
from thpdiag.report.messages import place, plural, with_aside
from thpdiag.report.presentation import PLAIN, Presentation
from thpdiag.report.quantity import duration, quantity

SHORT = 8  # list entries at level 0; "and N more" stands for the rest
MARKS = {"yes": "+", "no": "-", "unknown": "?"}


def render(document: AnyResult, presentation: Presentation = PLAIN) -> str:
    """The report; with several hosts the worst in full, the others too from level 1 on."""
    verbosity = presentation.verbosity
    worst, *rest = messages.hosts(document)
    out = list(_host_report(worst, verbosity))
    if rest:
        out += _heading(plural(len(rest), "other host"))
    for other in rest:
        told = f"{prose(messages.name(other))}: {prose(messages.sentence(other))}"
        out += _host_report(other, verbosity) if verbosity else fold(told, "  ", "      ")
    return "\n".join(line.rstrip() for line in out) + "\n"


def _host_report(result: Result, verbosity: int) -> Iterator[str]:
    finding = messages.leading(result)
    yield from _verdict(result, finding, verbosity)
    yield from _reasons(result, finding, verbosity)
    yield from _remedies(result, finding)
    yield from _other_findings(result, verbosity)
    yield from _contradictions(result)
    yield from _known_issues(result, verbosity)
    yield from _undecided_rules(result, verbosity)
    if result.profiles:
        yield from _heading("Recordings of call stacks")
    seen = SHORT if verbosity else 1  # the first signatures are those of the gravest findings
    yield from _short((_recording(profile, seen) for profile in result.profiles), len(result.profiles), verbosity)
    yield from _inputs(result, verbosity)
    if verbosity >= 1:
        yield from _settings_and_measures(result)
    yield from _problems(result, verbosity)
    if verbosity >= 2:
        yield from _condition_trees(result)


def _heading(text: str) -> list[str]:
    return ["", text, "-" * columns(text)]


def _verdict(result: Result, finding: Finding | None, verbosity: int) -> Iterator[str]:
    """The sentence, how bad, how sure and why, what it means."""
    yield from fold(prose(messages.sentence(result)))
    yield ""
    verdict = result.verdict
    if verdict.severity:
        yield from fold(f"Severity {verdict.severity}, confidence {verdict.confidence}; {messages.state(result)}.")
        yield from fold(visible(f"Rule {verdict.rule} ({verdict.mechanism})"))
    if finding:
        yield from _acceptance(finding)
        yield from fold(prose(messages.confidence_reason(finding)))
        for step, commands in messages.confidence_steps(finding)[: None if verbosity else 1]:
            yield from fold(prose(step))
            yield from messages.command_lines("", commands)
        for more in finding.raise_confidence if verdict.confidence != "confirmed" and verbosity else ():
            yield from fold(prose(more), "To be surer: ", "  ")
    yield from _host(result)
    if finding and finding.means:
        yield ""
        yield from fold(prose(finding.means))


def _host(result: Result) -> Iterator[str]:
    """Which host, with which policy, and of which time."""
    yield from fold(prose(_host_line(result)), "Host ", "  ")
    if policy := _policy(result.host.settings):
        yield from fold(prose(policy), "Transparent huge pages: ", "  ")
    if result.verdict.window:
        yield from fold(prose(messages.window_text(result.verdict.window)), "Time ", "  ")
    if notice := messages.redaction_notice(result):
        yield from fold(notice)


def _acceptance(finding: Finding, margin: str = "") -> list[str]:
    """By whom it is accepted, why and until when."""
    told = prose(messages.acceptance(finding))
    return fold(told[:1].upper() + told[1:], margin) if told else []


def _host_line(result: Result) -> str:
    host = result.host
    parts = [
        messages.name(result),
        host.os,
        f"kernel {host.kernel}" if host.kernel else "",
        f"platform {host.platform}" if host.platform else "",
        f"up {duration(host.uptime)}" if host.uptime is not None else "",
        f"runs {', '.join(host.apps)}" if host.apps else "",
    ]
    return ", ".join(filter(None, parts))


def _policy(settings: Mapping[str, Setting]) -> str:
    """The two settings that decide what a page fault may do, since a reader asks for them first."""
    known = [(name, settings[f"thp.{name}"]) for name in ("enabled", "defrag") if f"thp.{name}" in settings]
    assumed = " (assumed, the default of this kernel)"
    return ", ".join(f"{name} {s.value}{assumed if s.provenance == 'assumed' else ''}" for name, s in known)


def _reasons(result: Result, finding: Finding | None, verbosity: int) -> Iterator[str]:
    """Evidence for, against, and what was ruled out by which number."""
    if finding and finding.evidence:
        yield from _heading("Why")
        evidence = messages.distinct_evidence(finding.evidence)
        yield from _short((_evidence(one, verbosity) for one in evidence), len(evidence), verbosity)
    if finding and finding.against:
        yield from _heading("What speaks against it")
        against = (_evidence(one, verbosity) for one in finding.against)
        yield from _short(against, len(finding.against), verbosity)
    if result.ruled_out:
        yield from _heading("Ruled out")
        out = messages.ruled_out(result)
        yield from _short(map(_ruled_out, out), len(out), verbosity)


def _short(blocks: Iterable[Sequence[str]], count: int, verbosity: int) -> Iterator[str]:
    for block in blocks if verbosity else islice(blocks, SHORT):
        yield from block
    if count > SHORT and not verbosity:
        yield f"  and {count - SHORT} more (-v)"


def _evidence(evidence: Evidence, verbosity: int) -> list[str]:
    """With since when a recording shows it; from level 1 on with the line of the customer's file."""
    since = fold(prose(evidence.onset.text), "      ") if evidence.onset and evidence.onset.text else []
    quoted = messages.quotation(evidence, "      ") if verbosity else []
    return [*citation_lines(place(evidence), evidence.text or ""), *since, *quoted]


def citation_lines(where: str, text: str, margin: str = "  ") -> list[str]:
    """`file:line  text`; the text goes below a place that takes much of the line. A place is never broken."""
    at = visible(where)
    if columns(at) > WIDTH // 3:
        return [margin + at, *fold(prose(text), margin + "    ")]
    return fold(prose(text), f"{margin}{at}  " if at else margin, margin + "    ")


def _ruled_out(other: RuledOut) -> list[str]:
    places = ", ".join(dict.fromkeys(filter(None, map(place, other.evidence[:2]))))
    return fold(prose(with_aside(messages.denial(other), places)), "  ", "      ")


def _remedies(result: Result, finding: Finding | None) -> Iterator[str]:
    """The remedies in the order in which to try them, numbered if there are several."""
    remedies = finding.remedies if finding else []
    if not remedies:
        return
    yield from _heading("What to do")
    if not result.host.platform and any(advice.persist for advice in remedies):
        yield from fold("The distribution is not in the input; the commands are written for any Linux.")
    several = len(remedies) > 1
    if several:
        yield from fold("One step after the other, the mildest first; stop as soon as its Verify line holds.")
    for number, advice in enumerate(remedies, 1):
        yield from [""] if several else []
        label = f"{number}. " if several else ""
        verified_in = messages.same_verification(remedies, number)
        yield from messages.remedy_text(advice, label=label, verified_in=verified_in)


def _other_findings(result: Result, verbosity: int) -> Iterator[str]:
    """Consequences and other findings: one line each; in full from level 1 on, and what is to be mended at once."""
    for heading, findings in messages.finding_groups(result):
        yield from _heading(heading)
        for finding in findings:
            yield from _finding_in_short(result, finding)
            if verbosity or messages.acts_alone(result, finding):
                yield from _finding_in_full(result, finding, verbosity)


def _finding_in_short(result: Result, finding: Finding) -> Iterator[str]:
    role = messages.role(result, finding)
    weight = ", ".join(filter(None, [role, finding.severity, finding.confidence] if role != "context" else []))
    aside = "; ".join(filter(None, [finding.entity, messages.window_text(finding.window)]))
    told = with_aside(finding.title or finding.rule, aside)
    yield from fold(prose(f"{weight}: {told}" if weight else told), f"  {visible(finding.rule)}  ", "      ")
    yield from _acceptance(finding, "      ")
    if number := messages.further_cause_figure(finding):
        yield from citation_lines(place(number), number.text or "", "      ")
    for better in messages.better_explanations(result, finding):
        yield from fold(prose(f"explained better by {better}"), "      ", "        ")


def _finding_in_full(result: Result, finding: Finding, verbosity: int) -> Iterator[str]:
    evidence = [(one, "") for one in messages.distinct_evidence(finding.evidence)]
    for one, label in (*evidence, *((one, "against: ") for one in finding.against)):
        yield from citation_lines(place(one), f"{label}{one.text or ''}", "      ")
        yield from messages.quotation(one, " " * 10) if verbosity else ()
    own, above = messages.new_remedies(result, finding)
    if above:
        yield from fold(prose(f"Under What to do: {', '.join(above)}"), "      ")
    for advice in own:
        yield from messages.remedy_text(advice, "      ")


def _contradictions(result: Result) -> Iterator[str]:
    """Where the places that set huge pages disagree: what a reader must know before he believes one of them."""
    found = messages.contradictions(result.host.settings)
    if found:
        yield from _heading("Settings that disagree")
    for text, where in found[:SHORT]:
        yield from fold(prose(with_aside(text, where)), "  ", "      ")
    if len(found) > SHORT:
        yield f"  and {len(found) - SHORT} more (-f json)"


def _known_issues(result: Result, verbosity: int) -> Iterator[str]:
    """What the catalogue knows of this kernel and its applications."""
    if found := list(known_issues.text(result, verbosity)):
        yield from _heading(known_issues.heading(result))
        yield from found


def _undecided_rules(result: Result, verbosity: int) -> Iterator[str]:
    """What could not be decided, what is missing, and what to send to the customer."""
    text, commands = messages.customer_request(result)
    if not result.unknown and not commands and not text:
        return
    yield from _heading("Not decided")
    if result.unknown:
        rest = "" if verbosity else " (-v lists them)"
        yield from fold(f"{plural(len(result.unknown), 'rule')} could not be decided{rest}.")
    for unknown in result.unknown if verbosity else ():
        needs = ", ".join(unknown.missing) or "more data"
        told = ". ".join([f"{messages.rule_title(result, unknown.rule)}: needs {needs}", *unknown.because])
        yield from fold(prose(told), f"  {visible(unknown.rule)}  ", "      ")
    if text:
        yield from fold(prose(text))
    yield from messages.command_lines("By hand, the most useful first:", commands)


def _recording(profile: Profile, seen: int) -> list[str]:
    """What it is and when it was made, what it lost, what findings saw in it when."""
    told = citation_lines(place(profile), messages.recording_summary(profile))
    further = [messages.losses(profile), *map(messages.signature_summary, profile.signatures[:seen])]
    return [*told, *(line for text in further if text for line in fold(prose(text), "      ", "        "))]


def _inputs(result: Result, verbosity: int) -> Iterator[str]:
    """How many members were read, how many problems that met, and what was noted in passing."""
    yield ""
    members = {row.member: row.files or 1 for row in result.inputs}
    read = sum({row.member: row.files or 1 for row in result.inputs if row.reader}.values())
    told = [f"{read:,} of {plural(sum(members.values()), 'member')} read."] if members else []
    if result.problems:
        kinds = Counter(problem.kind or "odd" for problem in result.problems)
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        all_listed = verbosity or all(problem.hides for problem in result.problems)
        told.append(f"{plural(len(result.problems), 'problem')} ({counts}){'' if all_listed else '; -v lists them'}.")
    if told:
        yield from fold(" ".join(told))
    asked = [f"{name}={value}" for name, value in sorted(result.tool.options.items()) if value is not None]
    if asked:
        yield from fold(prose("; ".join(asked)), "Options that change the analysis: ", "  ")
    for note in result.notes:
        yield from fold(prose(with_aside(note.text or "", place(note))), "Note: ", "  ")


def _settings_and_measures(result: Result) -> Iterator[str]:
    host = result.host
    if host.settings:
        yield from _heading("Settings")
    for name, setting in sorted(host.settings.items()):
        how = ", ".join(filter(None, [setting.provenance, place(setting)]))
        value = "not known" if setting.value is None else quantity(setting.value)
        yield from fold(prose(with_aside(f"{name} = {value}", how)), "  ", "      ")
        for text in messages.setting_details(setting):
            yield from fold(prose(text), "      ", "        ")
    if host.measures:
        yield from _heading("Figures")
    for name, measure in sorted(host.measures.items()):
        how = ", ".join(filter(None, [measure.window, measure.source]))
        told = f"{name} = {quantity(measure.value, measure.unit)}"
        yield from fold(prose(with_aside(told, how)), "  ", "      ")


def _problems(result: Result, verbosity: int) -> Iterator[str]:
    """At level 0 those that may have taken evidence away: without them a reader takes silence for an answer."""
    listed = result.problems if verbosity else [problem for problem in result.problems if problem.hides]
    if listed:
        yield from _heading("Problems" if verbosity else "Problems that may hide evidence")
    yield from _short(map(_problem, listed), len(listed), verbosity)


def _problem(problem: Problem) -> list[str]:
    times = f" ({problem.count} times)" if (problem.count or 1) > 1 else ""
    return citation_lines(place(problem), f"{problem.kind or 'odd'}: {problem.text}{times}")


def _condition_trees(result: Result) -> Iterator[str]:
    """The condition of every rule as evaluated: + yes, - no, ? unknown."""
    if result.rules:
        yield from _heading("Rules (+ yes, - no, ? unknown)")
    for rule in result.rules:
        yield from fold(prose(f"{rule.title or ''} [{rule.outcome}]"), f"{visible(rule.id)}  ", "    ")
        if rule.tree:
            yield from _condition(rule.tree, 2)


def _condition(node: ConditionTree, indent: int) -> Iterator[str]:
    margin = " " * min(indent, WIDTH // 2)
    told = ": ".join(filter(None, [node.expr, node.text]))
    needed = f" (needed: {quantity(node.needed)})" if node.needed not in {None, ""} else ""
    yield from fold(prose(told + needed), f"{margin}{MARKS.get(node.value or '', '?')} ", f"{margin}    ")
    for child in node.children:
        yield from _condition(child, indent + 2)
