"""The diagnosis as Markdown, to be pasted into a ticket or shown as the summary of a CI job.

The subset is what GitHub, GitLab and the editor of Jira agree on: headings, lists, bold words, code and blocks of code;
no tables, links or HTML. Every word of the customer stays text (`marked`). Commands and lines of the customer's files
stand in blocks, to be copied. Summaries of GitHub take 1 MiB a step: what would be more is left out, and said to be.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thpdiag.reports import confidence, verdict
from thpdiag.reports.located import accepted, shown
from thpdiag.reports.marked import code, fenced, paragraph
from thpdiag.reports.presentation import PLAIN, Presentation
from thpdiag.reports.remedy_text import checked_before, restart

FORMAT = "markdown"
MOST_BYTES = 1_000_000
SHORT = 8  # lines of evidence, other findings
MOST_EXCERPT = 12
_EACH_SET = re.compile(r", (?=[\w-]+\.\w+=)")
CUT = "The rest is left out: a summary takes no more."

Host = Mapping[str, Any]


def render(document: Mapping[str, Any], presentation: Presentation = PLAIN) -> str:
    """Blocks with an empty line between; all hosts, the worst first."""
    kept, size = [], len(CUT)
    for block in _blocks(verdict.hosts(document), presentation):
        size += len(block.encode()) + 2
        if size > MOST_BYTES:
            kept.append(CUT)
            break
        kept.append(block)
    return "\n\n".join(kept) + "\n"


def _blocks(hosts: Sequence[Host], presentation: Presentation) -> Iterator[str]:
    for host in hosts:
        yield from _verdict(host)
        yield from _proof(host)
        yield from _ruled_out(host)
        yield from _do(host)
        yield from _others(host, presentation)
        yield from _ask(host)
    yield from _reproduce(hosts[0]["tool"])


def _verdict(host: Host) -> Iterator[str]:
    """The sentence, how bad, how sure and why, which host, what it means."""
    said, finding = host["verdict"], verdict.leading(host)
    yield f"## {paragraph(f'thpdiag: {verdict.name(host)}')}"
    status, sentence = said["status"].replace("_", " ").capitalize(), verdict.sentence(host)
    yield paragraph(sentence) if sentence.startswith(status) else f"**{status}.** {paragraph(sentence)}"
    rows = []
    if said["severity"]:
        rows.append(("Severity", f"{said['severity']}; {verdict.state(host)}"))
    if said["confidence"]:
        rows.append(("Confidence", f"{said['confidence']}. {confidence.why(finding) if finding else ''}"))
    rows.append(("Host", ", ".join(str(p) for p in _described(host) if p)))
    if said["window"]:
        rows.append(("Time", verdict.window(said["window"])))
    if said["rule"]:
        rows.append(("Rule", f"{said['rule']} ({said['mechanism']})"))
    if finding and finding["suppressed"]:
        rows.append(("Accepted", accepted(finding).removeprefix("accepted ")))
    if told := verdict.redacted(host):
        rows.append(("Names", told))
    yield _listed(f"**{label}:** {paragraph(text)}" for label, text in rows)
    if finding and finding["means"]:
        yield paragraph(finding["means"])


def _subject(host: Host) -> dict[str, Any] | None:
    """The cause; where nothing is decided, what is to be mended all the same."""
    return verdict.leading(host) or verdict.acting_alone(host)


def _title(finding: Mapping[str, Any]) -> str:
    return f"{finding['rule']} {finding['title'] or finding['mechanism'] or ''}"


def _described(host: Host) -> list[Any]:
    about = host["host"]
    return [verdict.name(host), about["os"], about["kernel"] and f"kernel {about['kernel']}"]


def _proof(host: Host) -> Iterator[str]:
    """Evidence with file and line, the lines of the customer's files below; what speaks against it."""
    finding = _subject(host)
    if finding and finding["evidence"]:
        weight = ", ".join(filter(None, [finding["severity"], finding["confidence"]]))
        yield "### Proof" if finding is verdict.leading(host) else f"### Seen ({weight}): {paragraph(_title(finding))}"
        yield from _cited(verdict.distinct(finding["evidence"])[:SHORT])
        if (more := len(verdict.distinct(finding["evidence"])) - SHORT) > 0:
            yield f"and {more} more in the full report"
    if finding and finding["against"]:
        yield "### What speaks against it"
        yield from _cited(finding["against"][:SHORT])


def _cited(evidence: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines without a quotation together in one list, since an interrupted list is two."""
    plain: list[str] = []
    for said in evidence:
        place = verdict.place(said)
        plain.append(f"{code(place)} {paragraph(said['text'] or '')}" if place else paragraph(said["text"] or ""))
        if said["excerpt"]:
            yield _listed(plain)
            yield fenced(said["excerpt"][:MOST_EXCERPT], "text")
            plain = []
    if plain:
        yield _listed(plain)


def _ruled_out(host: Host) -> Iterator[str]:
    out = verdict.ruled_out(host)
    if not out:
        return
    yield "### Ruled out"
    rows = []
    for other in out[: verdict.FIRST_OUT]:
        places = ", ".join(dict.fromkeys(code(p) for p in map(verdict.place, other["evidence"][:2]) if p))
        told = paragraph(f"{other['title'] or other['rule']}: {other['because'] or 'its checks say no'}")
        rows.append(f"{told} ({places})" if places else told)
    if (more := len(out) - verdict.FIRST_OUT) > 0:
        rows.append(f"and {more} more in the full report")
    yield _listed(rows)


def _do(host: Host) -> Iterator[str]:
    """The remedies of the subject, in the order in which to try them."""
    finding = _subject(host)
    remedies = finding["remedies"] if finding else []
    if not remedies:
        return
    yield "### What to do"
    if len(remedies) > 1:
        yield "One step after the other, the mildest first; stop as soon as what stands under Verify holds."
    for number, advice in enumerate(remedies, 1):
        label = f"**Step {number}.** " if len(remedies) > 1 else ""
        yield f"{label}{paragraph(advice['reason'] or advice['id'])}"
        yield from _commands("Now", advice["now"])
        yield from _commands("To last", advice["persist"])
        yield from _verify(advice["verify"], checked_before(remedies, number))
        yield from _commands("Undo", advice["undo"])
        rows = [("Cost", advice["cost"])]
        rows += [("Restart", restart(advice["restart"]))] if advice["restart"] is not None else []
        if told := [f"**{label}:** {paragraph(text)}" for label, text in rows if text]:
            yield _listed(told)


def _verify(check: Mapping[str, Any] | None, before: int | None) -> Iterator[str]:
    if before:
        yield f"**Verify:** as in step {before}"
    elif check:
        told = ": ".join(filter(None, [check["metric"], check["expect"]]))
        yield f"**Verify:** {paragraph(told)}".rstrip()
        if check["how"]:
            yield fenced([check["how"]], "sh")


def _commands(label: str, commands: Sequence[str]) -> Iterator[str]:
    if commands:
        yield f"**{label}:**"
        yield fenced(commands, "sh")


def _others(host: Host, presentation: Presentation) -> Iterator[str]:
    """The findings that are not told above, a line each; how many are left out because somebody accepted them."""
    first, kept = verdict.leading(host), shown(host, presentation)
    above = _subject(host)
    rest = [finding for finding in verdict.others(host) if finding in kept and finding is not above]
    hidden = sum(1 for finding in host["findings"] if finding not in kept and finding is not first)
    if rest or hidden:
        yield "### Also found"
    rows = [_other(host, finding) for finding in rest[:SHORT]]
    rows += [f"and {len(rest) - SHORT} more in the full report"] if len(rest) > SHORT else []
    rows += [f"{verdict.plural(hidden, 'accepted finding')} left out"] if hidden else []
    if rows:
        yield _listed(rows)


def _other(host: Host, finding: Mapping[str, Any]) -> str:
    weight = ", ".join(filter(None, [verdict.role(host, finding), finding["severity"], finding["confidence"]]))
    aside = "; ".join(filter(None, [finding["entity"], verdict.window(finding["window"]), accepted(finding)]))
    about = f" ({aside})" if aside else ""
    return paragraph(f"{finding['rule']}, {weight}: {finding['title'] or finding['mechanism'] or ''}{about}")


def _ask(host: Host) -> Iterator[str]:
    text, commands = verdict.ask(host)
    if commands:
        yield "### What to ask the customer for"
        if text:
            yield paragraph(text)
        yield fenced(commands, "text")
    if host["unknown"]:
        count = verdict.plural(len(host["unknown"]), "rule")
        yield f"{count} could not be decided; the full report says what each lacks."


def _reproduce(tool: Mapping[str, Any]) -> Iterator[str]:
    """The version, the rules and the command, with the options that change the analysis."""
    yield "### Reproduce"
    packs = [f"with rules of {' '.join(filter(None, [pack['name'], pack['version']]))}" for pack in tool["packs"]]
    told = ", ".join([f"thpdiag {tool['version'] or 'of an unknown version'}", *packs])
    yield f"{paragraph(told)}, rules {code(tool['rules_digest'] or '?')}"
    flags = [f"--{name}={one}" for name, value in sorted(tool["options"].items()) for one in _given(name, value)]
    yield fenced([" ".join(["thpdiag", "analyze", "WHAT-THE-CUSTOMER-SENT", *map(shlex.quote, flags)])], "sh")


def _given(name: str, value: object) -> list[str]:
    """What an option was given: `set` tells all its values in one text."""
    if value is None:
        return []
    return _EACH_SET.split(str(value)) if name == "set" else [str(value)]


def _listed(rows: Iterator[str] | Sequence[str]) -> str:
    return "\n".join(f"- {row}".rstrip() for row in rows)
