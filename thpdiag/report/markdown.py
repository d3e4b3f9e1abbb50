"""The diagnosis as Markdown, to be pasted into a ticket or shown as the summary of a CI job.

The subset is what GitHub, GitLab and the editor of Jira agree on: headings, lists, bold words, code and code blocks; no
tables, links or HTML. Words of the customer stay text (`paragraph`). Commands and lines of the customer's files are in
code blocks. GitHub accepts summaries of 1 MiB per step: what exceeds this is replaced by a note.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from thpdiag.model.result import Evidence, Finding, Result, Tool, Verification
from thpdiag.report import AnyResult, known_issues, messages
from thpdiag.report.escaping import code, code_block, paragraph
from thpdiag.report.first_block import Summary, summarize
from thpdiag.report.messages import place, with_aside
from thpdiag.report.presentation import PLAIN, Presentation

MAX_BYTES = 1_000_000
MAX_ROWS = 8  # of evidence and of other findings
MAX_EXCERPT_LINES = 12
_OPTION_SEPARATOR = re.compile(r", (?=[\w-]+\.\w+=)")
CUT = "The rest is left out: a summary has a size limit."


def render(document: AnyResult, presentation: Presentation = PLAIN) -> str:
    """Return blocks separated by empty lines; all hosts, the worst first."""
    blocks, size = [], len(CUT)
    for block in _blocks(messages.hosts(document), presentation):
        size += len(block.encode()) + 2
        if size > MAX_BYTES:
            blocks.append(CUT)
            break
        blocks.append(block)
    return "\n\n".join(blocks) + "\n"


def _blocks(hosts: Sequence[Result], presentation: Presentation) -> Iterator[str]:
    for host in hosts:
        finding = messages.lead_finding(host)
        summary = summarize(host)
        subject = summary.finding  # without a verdict, the finding that can be fixed anyway
        yield from _first_block(host, summary)
        yield from _details(host, finding)
        if subject:
            yield from _proof(subject, summary.proofs, is_lead=subject is finding)
        yield from _ruled_out(host)
        if subject and subject.remedies:
            yield from _remedies(subject, summary.step)
        yield from _other_findings(host, subject, presentation)
        yield from known_issues.markdown(host)
        yield from _request(host, summary.request_commands)
    yield from _reproduce(hosts[0].tool)


def _bullets(rows: Iterable[str]) -> str:
    return "\n".join(f"- {row}".rstrip() for row in rows)


def _first_block(host: Result, summary: Summary) -> Iterator[str]:
    """Yield the first block of the text report."""
    yield f"## {paragraph(f'thpdiag: {messages.name(host)}')}"
    status = host.verdict.status.replace("_", " ").capitalize()
    sentence = paragraph(summary.sentence)
    yield sentence if summary.sentence.startswith(status) else f"**{status}.** {sentence}"
    rows = {"": summary.grade, "Accepted": summary.acceptance.removeprefix("Accepted "), "Host": summary.host}
    bullets = [f"**{label}:** {paragraph(text)}" if label else paragraph(text) for label, text in rows.items() if text]
    for evidence in summary.proofs:
        location = f"{code(place(evidence))} " if place(evidence) else ""
        bullets.append(f"**Proof:** {location}{paragraph(evidence.text or '')}")
    yield _bullets(bullets)
    if summary.no_action:
        yield f"**Do now:** {paragraph(summary.no_action)}"
    for label, commands in summary.actions.items():
        yield from _commands(label, commands)
    if summary.request:
        yield f"**To send:** {paragraph(summary.request)}"
        if summary.request_commands:
            yield code_block(summary.request_commands, "text")


def _details(host: Result, finding: Finding | None) -> Iterator[str]:
    """Yield the verdict details that are not in the first block."""
    verdict = host.verdict
    rows = {
        "Confidence": messages.confidence_reason(finding) if finding and verdict.confidence else None,
        "State": messages.state(host) if verdict.severity else None,
        "Time": messages.window_text(verdict.window) if verdict.window else None,
        "Rule": f"{verdict.rule} ({verdict.mechanism})" if verdict.rule else None,
        "Names": messages.redaction_notice(host) or None,
    }
    bullets = [f"**{label}:** {paragraph(text)}" for label, text in rows.items() if text]
    if bullets:
        yield _bullets(bullets)
    if finding and finding.means:
        yield paragraph(finding.means)


def _proof(finding: Finding, shown: Sequence[Evidence], *, is_lead: bool) -> Iterator[str]:
    """Yield the evidence that is not in the first block or has an excerpt, and the evidence against the finding."""
    evidence = [item for item in messages.distinct_evidence(finding.evidence) if item.excerpt or item not in shown]
    if evidence:
        weight = ", ".join(filter(None, [finding.severity, finding.confidence]))
        title = f"{finding.rule} {finding.title or finding.mechanism or ''}"
        yield "### Proof" if is_lead else f"### Seen ({weight}): {paragraph(title)}"
        yield from _evidence(evidence[:MAX_ROWS])
        if len(evidence) > MAX_ROWS:
            yield f"and {len(evidence) - MAX_ROWS} more in the full report"
    if finding.against:
        yield "### Evidence against it"
        yield from _evidence(finding.against[:MAX_ROWS])


def _evidence(evidence: Sequence[Evidence]) -> Iterator[str]:
    """Yield evidence without an excerpt together as one list, since an interrupted list becomes two."""
    rows: list[str] = []
    for item in evidence:
        location = f"{code(place(item))} " if place(item) else ""
        rows.append(f"{location}{paragraph(item.text or '')}")
        if item.excerpt:
            yield _bullets(rows)
            yield code_block(item.excerpt[:MAX_EXCERPT_LINES], "text")
            rows = []
    if rows:
        yield _bullets(rows)


def _ruled_out(host: Result) -> Iterator[str]:
    denials = messages.ruled_out(host)
    if not denials:
        return
    yield "### Not the cause"
    rows = []
    for denial in denials[: messages.MAX_UNFOLDED_DENIALS]:
        places = ", ".join(dict.fromkeys(code(location) for location in map(place, denial.evidence[:2]) if location))
        rows.append(with_aside(paragraph(messages.denial(host, denial)), places))
    if (more := len(denials) - messages.MAX_UNFOLDED_DENIALS) > 0:
        rows.append(f"and {more} more in the full report")
    yield _bullets(rows)


def _remedies(finding: Finding, first_step: int | None) -> Iterator[str]:
    """Yield the steps in the order in which to try them; the commands of step `first` are above."""
    yield "### What to do"
    has_several = len(finding.remedies) > 1
    if has_several:
        yield "Apply one step at a time, mildest first; stop as soon as the check under Verify holds."
    for number, remedy in enumerate(finding.remedies, 1):
        label = f"**Step {number}.** " if has_several else ""
        yield f"{label}{paragraph(remedy.reason or remedy.id)}"
        if number == first_step:
            yield "Do now, undo and verify: above."
        else:
            yield from _commands("Now", remedy.now)
        yield from _commands("Permanently", remedy.persist)
        yield from _verification(
            remedy.verify, messages.same_verification(finding.remedies, number), above=number == first_step
        )
        shown_above = (remedy.undo_now or remedy.undo) if number == first_step else []
        undo = [command for command in remedy.undo if command not in shown_above]
        yield from _commands("Undo the permanent change" if shown_above else "Undo", undo)
        details = (("Cost", remedy.cost), ("Safety", remedy.safety), ("Restart", messages.restart_text(remedy)))
        rows = [f"**{label}:** {paragraph(text)}" for label, text in details if text]
        if rows:
            yield _bullets(rows)


def _verification(check: Verification | None, same_as: int | None, *, above: bool) -> Iterator[str]:
    if same_as:
        yield f"**Verify:** as in step {same_as}"
    elif check:
        yield f"**Verify:** {paragraph(messages.expectation(check))}".rstrip()
        if check.how and not above:
            yield code_block([check.how], "sh")


def _commands(label: str, commands: Sequence[str]) -> Iterator[str]:
    if commands:
        yield f"**{label}:**"
        yield code_block(commands, "sh")


def _other_findings(host: Result, subject: Finding | None, presentation: Presentation) -> Iterator[str]:
    """Yield the findings not shown above, one line each, and how many accepted ones are left out."""
    shown, first = presentation.findings(host), messages.lead_finding(host)
    rest = [finding for finding in messages.other_findings(host) if finding in shown and finding is not subject]
    hidden = sum(1 for finding in host.findings if finding not in shown and finding is not first)
    rows = [_finding_line(host, finding) for finding in rest[:MAX_ROWS]]
    rows += [f"and {len(rest) - MAX_ROWS} more in the full report"] if len(rest) > MAX_ROWS else []
    rows += [f"{messages.plural(hidden, 'accepted finding')} left out"] if hidden else []
    if rows:
        yield "### Also found"
        yield _bullets(rows)


def _finding_line(host: Result, finding: Finding) -> str:
    weight = ", ".join(filter(None, [messages.role(host, finding), finding.severity, finding.confidence]))
    window, accepted = messages.window_text(finding.window), messages.acceptance(finding)
    aside = "; ".join(filter(None, [finding.entity, window, accepted]))
    title = finding.title or finding.mechanism or ""
    return paragraph(with_aside(f"{finding.rule}, {weight}: {title}", aside))


def _request(host: Result, shown_above: Sequence[str]) -> Iterator[str]:
    """Yield what to ask for in addition to the commands above."""
    text, all_commands = messages.customer_request(host)
    commands = [command for command in all_commands if command not in shown_above]
    if commands:
        yield "### What to request from the customer"
        if text and not shown_above:
            yield paragraph(text)
        yield code_block(commands, "text")
    if host.unknown:
        count = messages.plural(len(host.unknown), "rule")
        yield f"{count} could not be decided; the full report lists what each lacks."


def _reproduce(tool: Tool) -> Iterator[str]:
    """Yield the version, the rules and the command with the options that change the analysis."""
    yield "### Reproduce"
    packs = [f"with rules of {' '.join(filter(None, [pack.name, pack.version]))}" for pack in tool.packs]
    versions = ", ".join([f"thpdiag {tool.version or 'of an unknown version'}", *packs])
    yield f"{paragraph(versions)}, rules {code(tool.rules_digest or '?')}"
    flags = [f"--{name}={text}" for name, value in sorted(tool.options.items()) for text in _option_values(name, value)]
    yield code_block([" ".join(["thpdiag", "analyze", "WHAT-THE-CUSTOMER-SENT", *map(shlex.quote, flags)])], "sh")


def _option_values(name: str, value: object) -> list[str]:
    """Return the values of an option: `set` has all of them in one text."""
    if value is None:
        return []
    return _OPTION_SEPARATOR.split(str(value)) if name == "set" else [str(value)]
