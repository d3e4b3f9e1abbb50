"""Known issues in text and Markdown: what is true of the host, how to work around it, until when.

At level 0 the first few, and how many may apply besides; from level 1 on all, with what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from thpdiag.model.result import KnownIssue, Result
from thpdiag.report import messages
from thpdiag.report.escaping import code, code_block, paragraph, prose, visible
from thpdiag.report.layout import fold

FIRST = 3  # told in full without --full: a kernel that is years old has more
GRAVE = ("data", "hang", "stall", "slow", "memory")  # kinds of harm that are told in full
STATES = {
    "affected": "",
    "fixed-but-workaround-on": "fixed here, and the workaround is still on: undo it",
    "workaround-on": "worked around; undo that after the update",
    "possible": "may apply",
}


def heading(result: Result) -> str:
    """What the section is called, with the date of the catalogue."""
    return f"Known issues (catalogue of {result.tool.known_issues or 'unknown date'})"


def by_certainty(result: Result) -> tuple[list[KnownIssue], list[KnownIssue]]:
    """Those that are true of the host, and those that may be."""
    sure = [one for one in result.known_issues if one.state != "possible"]
    return sure, [one for one in result.known_issues if one.state == "possible"]


def state_words(issue: KnownIssue) -> str:
    """What an entry is for this host, nothing where it is simply affected."""
    return STATES[issue.state]


def fix(issue: KnownIssue) -> str:
    """The first version with the fix, where the host needs it or has it."""
    return f"First fixed version: {issue.fixed or 'none known'}"


def source(issue: KnownIssue) -> str:
    return messages.with_aside(f"Source: {issue.source}", issue.date or "")


def missing(issue: KnownIssue) -> str:
    return f"Not known: {', '.join(issue.missing)}" if issue.missing else ""


def undo_label(issue: KnownIssue) -> str:
    """The label of the commands that take a workaround back."""
    return f"Undo when {issue.until}." if issue.until and issue.state != "fixed-but-workaround-on" else "Undo:"


def first(result: Result) -> tuple[list[KnownIssue], list[KnownIssue]]:
    """Those that are told in full without --full, and those of which the title has to do."""
    sure, _ = by_certainty(result)
    full = [one for one in sure if one.harm in GRAVE or one.state != "affected"][:FIRST]
    return full, [one for one in sure if one not in full][:FIRST]


def more(result: Result, shown: int) -> str:
    """How many are not told."""
    sure, possible = by_certainty(result)
    parts = [f"{len(sure) - shown} more" if len(sure) > shown else ""]
    parts += [f"{len(possible)} that may apply, depending on missing data" if possible else ""]
    return " and ".join(filter(None, parts))


def text(result: Result, level: int) -> list[list[str]]:
    """The blocks of the section for a terminal; none where no entry is true or may be."""
    sure, possible = by_certainty(result)
    full, brief = ([*sure, *possible], []) if level else first(result)
    blocks = [[*_title(issue), *(_details(issue) if level else _brief(issue))] for issue in full]
    blocks += [_title(issue) for issue in brief]
    rest = "" if level else more(result, len(full) + len(brief))
    return [*blocks, [f"  {rest} (--full)"]] if rest else blocks


def _title(issue: KnownIssue) -> list[str]:
    words = messages.with_aside(issue.title or issue.id, state_words(issue))
    return fold(prose(words), f"  {visible(issue.id)}  ", "      ")


def _brief(issue: KnownIssue) -> Iterator[str]:
    """What mends it; of one that is mended, how to take the workaround back."""
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
    yield from messages.command_lines("Workaround:", issue.now, "      ")  # what makes it last is in HTML and JSON
    yield from fold(prose(undo_label(issue)), "      ", "        ") if issue.undo or issue.until else ()
    yield from messages.command_lines("", issue.undo, "      ")


def markdown(result: Result) -> Iterator[str]:
    """Blocks of Markdown."""
    full, brief = first(result)
    if not full and not brief:
        return
    yield f"### {paragraph(heading(result))}"
    for issue in full:
        words = messages.with_aside(f"{issue.title or issue.id}", state_words(issue))
        rows = [f"**{paragraph(issue.id)}** {paragraph(words)}", paragraph(fix(issue)), paragraph(source(issue))]
        places = ", ".join(dict.fromkeys(code(where) for fact in issue.facts if (where := messages.place(fact))))
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
