"""Text of strangers as Markdown: nothing of it becomes markup, a link, a mention or a reference.

GitHub and GitLab look for @names, #numbers, addresses and commit ids in what is already rendered, so that a backslash
does not stop them; inside code they look for nothing. A word with a character that means something is therefore shown
as code, which names of kernel functions want anyway (`_raw_spin_lock`). Jira turns the same subset into its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from thpdiag.reports.visible import lines, prose, visible

LONGEST = 4000  # characters of a paragraph
MOST_LINES, WIDEST = 200, 2000  # of a block
# What Markdown, HTML, the mentions and references of GitHub and GitLab, mathematics and links begin with.
_SPECIAL = re.compile(
    r"[\\`*<>\[\]{}|~$&@^]|[#!%]\w|(?<!\w)_|_(?!\w)|://|(?i:www\.|mailto:|\bGH-\d)"
    r"|\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,64}\b|(?<!\d):[\w+-]+:(?!\d)"
)
_OPENS = re.compile(r"[^\w(\"'.]|\d+[.)]$")  # what makes a list, heading, quote or command at the begin of a paragraph
_BEHIND = ".,;:)"  # what follows a word and is none of it


def paragraph(text: str) -> str:
    """Words of a sentence; those that could act become code."""
    words = prose(text)
    if len(words) > LONGEST:
        words = f"{words[:LONGEST]} ..."
    shown = [_word(word) for word in words.split(" ")]
    if shown and _OPENS.match(shown[0]) and not shown[0].startswith("`"):
        shown[0] = code(shown[0])
    return " ".join(shown)


def code(text: str) -> str:
    """One piece of code in a line; its quotes are longer than any in the text."""
    shown = visible(text)
    mark = "`" * (_longest(shown) + 1)
    room = " " if shown.startswith("`") or shown.endswith("`") or not shown.strip() else ""
    return f"{mark}{room}{shown}{room}{mark}"


def fenced(texts: Iterable[str], kind: str = "") -> str:
    """A block of code with each line as it is; the fence is longer than any in it."""
    rows = [row if len(row) <= WIDEST else f"{row[:WIDEST]} ..." for text in texts for row in lines(text)]
    if len(rows) > MOST_LINES:
        rows = [*rows[:MOST_LINES], f"... {len(rows) - MOST_LINES} more lines"]
    fence = "`" * max(3, *(_longest(row) + 1 for row in rows), 3)
    return "\n".join([f"{fence}{kind}", *rows, fence])


def _word(word: str) -> str:
    if not _SPECIAL.search(word):
        return word
    before = "(" if word.startswith("(") else ""
    inner = word[len(before) :].rstrip(_BEHIND)
    return f"{before}{code(inner)}{word[len(before) + len(inner) :]}" if inner else code(word)


def _longest(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
