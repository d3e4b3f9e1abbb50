r"""Make visible what a terminal or a browser would act upon or hide.

Names and excerpts come from strangers. Control characters, escapes, bidirectional controls and characters without
width are written as `\x1b` or `\u202e`, so that text shows what it is and a command shows what it does.

Text of strangers as Markdown: nothing of it becomes markup, a link, a mention or a reference.

GitHub and GitLab look for @names, #numbers, addresses and commit ids in what is already rendered, so that a backslash
does not stop them; inside code they look for nothing. A word with a character that means something is therefore shown
as code, which names of kernel functions want anyway (`_raw_spin_lock`). Jira turns the same subset into its own.

Texts of strangers as cells of a spreadsheet: what it would take for a formula begins with an apostrophe. All CSV is
written by `csv_writer`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, TextIO

# C0, DEL, C1; what Unicode lists as default ignorable (soft hyphen, joiners, bidi controls, fillers, variation
# selectors, tags); line and paragraph separators; interlinear marks; lone surrogates, which no encoding can write; the
# last two of the plane, which XML forbids.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_SPACE = re.compile(r"[ \t\r\n]+")


def visible(text: str) -> str:
    """The text on one line; a tab becomes a space, a line end `\\x0a`."""
    return _HIDDEN.sub(_escape_character, text.replace("\t", " "))


def prose(text: str) -> str:
    """A sentence or paragraph: line ends and runs of white space become one space."""
    return visible(_SPACE.sub(" ", text).strip())


def lines(command: str) -> list[str]:
    """A command or script, line by line as it was written."""
    return [visible(line) for line in command.replace("\r\n", "\n").rstrip("\n").split("\n")]


def _escape_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


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


def code_block(texts: Iterable[str], kind: str = "") -> str:
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


# = + - @ and their wide forms; % and | open older dialogues of spreadsheets.
_FORMULA: Final = re.compile(r"\s*[=+\-@|%\uff1d\uff0b\uff0d\uff20]")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)


def csv_writer(out: TextIO, line_end: str = "\r\n") -> Callable[[Iterable[object]], object]:
    """A function that writes a row as RFC 4180 wants it, to a stream without translation of line ends.

    A text is on one line, with nothing hidden in it and no formula to a spreadsheet; a number stays one, None is empty,
    a truth is 1 or 0.
    """
    write = csv.writer(out, lineterminator=line_end).writerow
    return lambda row: write([_cell(v) if isinstance(v, str) else int(v) if isinstance(v, bool) else v for v in row])


@lru_cache(1024)  # most cells of long tables are those of the row before
def _cell(text: str) -> str:
    shown = visible(text)
    return f"'{shown}" if _FORMULA.match(shown) and not _NUMBER.fullmatch(shown) else shown
