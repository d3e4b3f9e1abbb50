"""The diagnosis as Markdown, to be pasted into a ticket or shown as the summary of a CI job.

The subset is what GitHub, GitLab and the editor of Jira agree on: headings, lists, bold words, code and blocks of code;
no tables, links or HTML. Every word of the customer stays text (`paragraph`). Commands and lines of the customer's
files stand in blocks, to be copied. Summaries of GitHub take 1 MiB a step: what would be more is left out, and said to
be.
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
SHORT = 8  # lines of evidence, other findings
MAX_EXCERPT_LINES = 12
_EACH_SET = re.compile(r", (?=[\w-]+\.\w+=)")
CUT = "The rest is left out: a summary has a size limit."


def render(document: AnyResult, presentation: Presentation = PLAIN) -> str:
    """Blocks with an empty line between; all hosts, the worst first."""
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
        finding = messages.leading(host)
        told = summarize(host)
        subject = told.finding  # where nothing is decided, what is to be mended all the same
        yield from _first_block(host, told)
        yield from _details(host, finding)
        if subject:
            yield from _proof(subject, told.proofs, leads=subject is finding)
        yield from _ruled_out(host)
        if subject and subject.remedies:
            yield from _remedies(subject, told.step)
        yield from _other_findings(host, subject, presentation)
        yield from known_issues.markdown(host)
        yield from _request(host, told.asked)
    yield from _reproduce(hosts[0].tool)


def _bullets(rows: Iterable[str]) -> str:
    return "\n".join(f"- {row}".rstrip() for row in rows)


def _first_block(host: Result, told: Summary) -> Iterator[str]:
    """The first block of the text report: sentence, how bad and how sure, host, proofs, the commands of the step to try
    first, what to send."""
    yield f"## {paragraph(f'thpdiag: {messages.name(host)}')}"
    status = host.verdict.status.replace("_", " ").capitalize()
    plain = paragraph(told.sentence)
    yield plain if told.sentence.startswith(status) else f"**{status}.** {plain}"
    rows = {"": told.weight, "Accepted": told.accepted.removeprefix("Accepted "), "Host": told.host}
    bullets = [f"**{label}:** {paragraph(text)}" if label else paragraph(text) for label, text in rows.items() if text]
    for one in told.proofs:
        where = f"{code(place(one))} " if place(one) else ""
        bullets.append(f"**Proof:** {where}{paragraph(one.text or '')}")
    yield _bullets(bullets)
    if told.instead:
        yield f"**Do now:** {paragraph(told.instead)}"
    for label, commands in told.actions.items():
        yield from _commands(label, commands)
    if told.request:
        yield f"**To send:** {paragraph(told.request)}"
        if told.asked:
            yield code_block(told.asked, "text")


def _details(host: Result, finding: Finding | None) -> Iterator[str]:
    """What the first block has no room for."""
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


def _proof(finding: Finding, shown: Sequence[Evidence], *, leads: bool) -> Iterator[str]:
    """The evidence that does not stand above, or has a quotation; what speaks against it."""
    evidence = [one for one in messages.distinct_evidence(finding.evidence) if one.excerpt or one not in shown]
    if evidence:
        weight = ", ".join(filter(None, [finding.severity, finding.confidence]))
        title = f"{finding.rule} {finding.title or finding.mechanism or ''}"
        yield "### Proof" if leads else f"### Seen ({weight}): {paragraph(title)}"
        yield from _evidence(evidence[:SHORT])
        if len(evidence) > SHORT:
            yield f"and {len(evidence) - SHORT} more in the full report"
    if finding.against:
        yield "### Evidence against it"
        yield from _evidence(finding.against[:SHORT])


def _evidence(evidence: Sequence[Evidence]) -> Iterator[str]:
    """Lines without a quotation together in one list, since an interrupted list is two."""
    rows: list[str] = []
    for one in evidence:
        where = f"{code(place(one))} " if place(one) else ""
        rows.append(f"{where}{paragraph(one.text or '')}")
        if one.excerpt:
            yield _bullets(rows)
            yield code_block(one.excerpt[:MAX_EXCERPT_LINES], "text")
            rows = []
    if rows:
        yield _bullets(rows)


def _ruled_out(host: Result) -> Iterator[str]:
    out = messages.ruled_out(host)
    if not out:
        return
    yield "### Not the cause"
    rows = []
    for other in out[: messages.FIRST_OUT]:
        places = ", ".join(dict.fromkeys(code(where) for where in map(place, other.evidence[:2]) if where))
        rows.append(with_aside(paragraph(messages.denial(host, other)), places))
    if (more := len(out) - messages.FIRST_OUT) > 0:
        rows.append(f"and {more} more in the full report")
    yield _bullets(rows)


def _remedies(finding: Finding, first: int | None) -> Iterator[str]:
    """In the order in which to try them; the commands of step `first` stand above."""
    yield "### What to do"
    several = len(finding.remedies) > 1
    if several:
        yield "Apply one step at a time, mildest first; stop as soon as the check under Verify holds."
    for number, advice in enumerate(finding.remedies, 1):
        label = f"**Step {number}.** " if several else ""
        yield f"{label}{paragraph(advice.reason or advice.id)}"
        if number == first:
            yield "Do now, undo and verify: above."
        else:
            yield from _commands("Now", advice.now)
        yield from _commands("Permanently", advice.persist)
        yield from _verification(
            advice.verify, messages.same_verification(finding.remedies, number), above=number == first
        )
        undone = (advice.undo_now or advice.undo) if number == first else []
        yield from _commands(
            "Undo the permanent change" if undone else "Undo", [one for one in advice.undo if one not in undone]
        )
        told = (("Cost", advice.cost), ("Safety", advice.safety), ("Restart", messages.restart_text(advice)))
        rows = [f"**{label}:** {paragraph(text)}" for label, text in told if text]
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
    """The findings that are not told above, a line each; how many are left out because somebody accepted them."""
    shown, first = presentation.findings(host), messages.leading(host)
    rest = [finding for finding in messages.other_findings(host) if finding in shown and finding is not subject]
    hidden = sum(1 for finding in host.findings if finding not in shown and finding is not first)
    rows = [_finding_line(host, finding) for finding in rest[:SHORT]]
    rows += [f"and {len(rest) - SHORT} more in the full report"] if len(rest) > SHORT else []
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


def _request(host: Result, asked: Sequence[str]) -> Iterator[str]:
    """What to ask for beyond what stands above."""
    text, every = messages.customer_request(host)
    commands = [command for command in every if command not in asked]
    if commands:
        yield "### What to request from the customer"
        if text and not asked:
            yield paragraph(text)
        yield code_block(commands, "text")
    if host.unknown:
        count = messages.plural(len(host.unknown), "rule")
        yield f"{count} could not be decided; the full report lists what each lacks."


def _reproduce(tool: Tool) -> Iterator[str]:
    """The version, the rules and the command, with the options that change the analysis."""
    yield "### Reproduce"
    packs = [f"with rules of {' '.join(filter(None, [pack.name, pack.version]))}" for pack in tool.packs]
    told = ", ".join([f"thpdiag {tool.version or 'of an unknown version'}", *packs])
    yield f"{paragraph(told)}, rules {code(tool.rules_digest or '?')}"
    flags = [f"--{name}={one}" for name, value in sorted(tool.options.items()) for one in _option_values(name, value)]
    yield code_block([" ".join(["thpdiag", "analyze", "WHAT-THE-CUSTOMER-SENT", *map(shlex.quote, flags)])], "sh")


def _option_values(name: str, value: object) -> list[str]:
    """What an option was given: `set` tells all its values in one text."""
    if value is None:
        return []
    return _EACH_SET.split(str(value)) if name == "set" else [str(value)]
