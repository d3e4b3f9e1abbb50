"""Known issues in text and Markdown: which affect the host, their workaround, and until when it is needed.

Level 0 has the first few and the number of others that may apply; from level 1 on all with their missing data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thpdiag.model.result import KnownIssue, Result
from thpdiag.report import messages
from thpdiag.report.escaping import code, code_block, paragraph, prose, visible
from thpdiag.report.layout import fold

MAX_DETAILED = 3  # described in full without --full: a kernel that is years old has more
SEVERE_HARMS = ("data", "hang", "stall", "slow", "memory")  # described in full
STATES = {
    "affected": "",
    "fixed-but-workaround-on": "fixed here, and the workaround is still on: undo it",
    "workaround-on": "worked around; undo that after the update",
    "possible": "may apply",
}


def heading(result: Result) -> str:
    """Return the title of the section, with the date of the catalogue."""
    return f"Known issues (catalogue of {result.tool.known_issues or 'unknown date'})"


def by_certainty(result: Result) -> tuple[list[KnownIssue], list[KnownIssue]]:
    """Return the issues that affect the host, and those that may."""
    certain = [issue for issue in result.known_issues if issue.state != "possible"]
    return certain, [issue for issue in result.known_issues if issue.state == "possible"]


def state_words(issue: KnownIssue) -> str:
    """Return the state of an issue on this host; empty if the host is simply affected."""
    return STATES[issue.state]


def fix(issue: KnownIssue) -> str:
    """Return the first version with the fix."""
    return f"First fixed version: {issue.fixed or 'none known'}"


def source(issue: KnownIssue) -> str:
    return messages.with_aside(f"Source: {issue.source}", issue.date or "")


def missing(issue: KnownIssue) -> str:
    return f"Not known: {', '.join(issue.missing)}" if issue.missing else ""


def undo_label(issue: KnownIssue) -> str:
    """Return the label of the commands that undo a workaround."""
    return f"Undo when {issue.until}." if issue.until and issue.state != "fixed-but-workaround-on" else "Undo:"


def select_shown(result: Result) -> tuple[list[KnownIssue], list[KnownIssue]]:
    """Return the issues that are described in full without --full, and those shown by title only."""
    certain, _ = by_certainty(result)
    full = [issue for issue in certain if issue.harm in SEVERE_HARMS or issue.state != "affected"][:MAX_DETAILED]
    return full, [issue for issue in certain if issue not in full][:MAX_DETAILED]


def more(result: Result, shown: int) -> str:
    """Return how many issues are not shown."""
    certain, possible = by_certainty(result)
    parts = [f"{len(certain) - shown} more" if len(certain) > shown else ""]
    parts += [f"{len(possible)} that may apply, depending on missing data" if possible else ""]
    return " and ".join(filter(None, parts))


def text(result: Result, level: int) -> list[list[str]]:
    """Return the blocks of the section for a terminal; none if no issue affects or may affect the host."""
    certain, possible = by_certainty(result)
    full, brief = ([*certain, *possible], []) if level else select_shown(result)
    blocks = [[*_title(issue), *(_details(issue) if level else _brief(issue))] for issue in full]
    blocks += [_title(issue) for issue in brief]
    rest = "" if level else more(result, len(full) + len(brief))
    return [*blocks, [f"  {rest} (--full)"]] if rest else blocks


def _title(issue: KnownIssue) -> list[str]:
    words = messages.with_aside(issue.title or issue.id, state_words(issue))
    return fold(prose(words), f"  {visible(issue.id)}  ", "      ")


def _brief(issue: KnownIssue) -> Iterator[str]:
    """Yield the fix; for a fixed issue the commands that undo the workaround."""
    yield from fold(prose(fix(issue)), "      ", "        ")
    if issue.state == "fixed-but-workaround-on":
        yield from messages.command_lines("Undo:", issue.undo, "      ")
    elif issue.now:
        yield from fold("Workaround: see --full", "      ", "        ")


def _details(issue: KnownIssue) -> Iterator[str]:
    facts = [messages.with_aside(fact.text or "", messages.place(fact)) for fact in issue.facts]
    doubt = f"Doubt: {issue.doubt}" if issue.doubt else ""
    for line in (issue.defect or "", *facts, missing(issue), doubt, fix(issue), source(issue)):
        yield from fold(prose(line), "      ", "        ") if line else ()
    yield from messages.command_lines("Workaround:", issue.now, "      ")  # the permanent one: HTML and JSON
    yield from fold(prose(undo_label(issue)), "      ", "        ") if issue.undo or issue.until else ()
    yield from messages.command_lines("", issue.undo, "      ")


def markdown(result: Result) -> Iterator[str]:
    """Yield blocks of Markdown."""
    full, brief = select_shown(result)
    if not full and not brief:
        return
    yield f"### {paragraph(heading(result))}"
    for issue in full:
        words = messages.with_aside(f"{issue.title or issue.id}", state_words(issue))
        rows = [f"**{paragraph(issue.id)}** {paragraph(words)}", paragraph(fix(issue)), paragraph(source(issue))]
        places = ", ".join(dict.fromkeys(code(location) for fact in issue.facts if (location := messages.place(fact))))
        yield "\n".join(f"- {row}" for row in [*rows, *([f"by {places}"] if places else [])])
        yield from _block("Workaround", issue.now)
        yield from _block(undo_label(issue).rstrip(":."), issue.undo)
    if brief:
        yield "\n".join(f"- **{paragraph(issue.id)}** {paragraph(issue.title or '')}" for issue in brief)
    if rest := more(result, len(full) + len(brief)):
        yield f"{rest} in the full report"


def _block(label: str, commands: Sequence[str]) -> Iterator[str]:
    if commands:
        yield f"**{paragraph(label)}:**"
        yield code_block(commands, "sh")
