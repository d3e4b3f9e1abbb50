r"""Escaping of untrusted text for terminals, HTML, Markdown and CSV.

Names and excerpts come from untrusted input. Control characters, escapes, bidirectional controls and zero-width
characters are written as `\x1b` or `\u202e`.

In Markdown no untrusted text becomes markup, a link, a mention or a reference. GitHub and GitLab search the rendered
text for @names, #numbers, addresses and commit ids, so a backslash does not stop them; they search nothing inside code.
A word with a special character is therefore shown as code, which suits names of kernel functions (`_raw_spin_lock`).
Jira converts the same subset into its own markup.

In CSV a cell that a spreadsheet would evaluate as a formula begins with an apostrophe. All CSV is written by
`csv_writer`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, TextIO

# C0, DEL, C1; the default ignorable characters of Unicode (soft hyphen, joiners, bidi controls, fillers, variation
# selectors, tags); line and paragraph separators; interlinear marks; lone surrogates, which no encoding can write;
# U+FFFE and U+FFFF, which XML forbids.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_SPACE = re.compile(r"[ \t\r\n]+")


def visible(text: str) -> str:
    r"""Return the text on one line: a tab becomes a space, a line end `\x0a`."""
    return _HIDDEN.sub(_escape_character, text.replace("\t", " "))


def prose(text: str) -> str:
    """Return a sentence or paragraph: each run of white space, line ends included, becomes one space."""
    return visible(_SPACE.sub(" ", text).strip())


def lines(command: str) -> list[str]:
    """Return the lines of a command or script as they were written."""
    return [visible(line) for line in command.replace("\r\n", "\n").rstrip("\n").split("\n")]


def _escape_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


MAX_PARAGRAPH_CHARACTERS = 4000
MAX_BLOCK_LINES, MAX_LINE = 200, 2000  # lines of a block, characters of a line
# Characters that begin Markdown, HTML, mathematics, links, and mentions and references of GitHub and GitLab
_SPECIAL = re.compile(
    r"[\\`*<>\[\]{}|~$&@^]|[#!%]\w|(?<!\w)_|_(?!\w)|://|(?i:www\.|mailto:|\bGH-\d)"
    r"|\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{7,64}\b|(?<!\d):[\w+-]+:(?!\d)"
)
_BLOCK_START = re.compile(r"[^\w(\"'.]|\d+[.)]$")  # a list, heading, quote or command where it begins a paragraph
_TRAILING_PUNCTUATION = ".,;:)"


def paragraph(text: str) -> str:
    """Return text for a Markdown sentence: words with special characters become code."""
    words = prose(text)
    if len(words) > MAX_PARAGRAPH_CHARACTERS:
        words = f"{words[:MAX_PARAGRAPH_CHARACTERS]} ..."
    shown = [_escape_word(word) for word in words.split(" ")]
    if shown and _BLOCK_START.match(shown[0]) and not shown[0].startswith("`"):
        shown[0] = code(shown[0])
    return " ".join(shown)


def code(text: str) -> str:
    """Return inline code, quoted with more backticks than any run in the text."""
    shown = visible(text)
    mark = "`" * (_longest_backtick_run(shown) + 1)
    padding = " " if shown.startswith("`") or shown.endswith("`") or not shown.strip() else ""
    return f"{mark}{padding}{shown}{padding}{mark}"


def code_block(texts: Iterable[str], kind: str = "") -> str:
    """Return a code block with each line unchanged; its fence is longer than any run of backticks in it."""
    rows = [row if len(row) <= MAX_LINE else f"{row[:MAX_LINE]} ..." for text in texts for row in lines(text)]
    if len(rows) > MAX_BLOCK_LINES:
        rows = [*rows[:MAX_BLOCK_LINES], f"... {len(rows) - MAX_BLOCK_LINES} more lines"]
    fence = "`" * max(3, *(_longest_backtick_run(row) + 1 for row in rows), 3)
    return "\n".join([f"{fence}{kind}", *rows, fence])


def _escape_word(word: str) -> str:
    if not _SPECIAL.search(word):
        return word
    prefix = "(" if word.startswith("(") else ""
    inner = word[len(prefix) :].rstrip(_TRAILING_PUNCTUATION)
    return f"{prefix}{code(inner)}{word[len(prefix) + len(inner) :]}" if inner else code(word)


def _longest_backtick_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


# = + - @ and their wide forms; % and | open older formula dialogues of spreadsheets
_FORMULA: Final = re.compile(r"\s*[=+\-@|%\uff1d\uff0b\uff0d\uff20]")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)


def csv_writer(out: TextIO, line_end: str = "\r\n") -> Callable[[Iterable[object]], object]:
    """Return a function that writes a row by RFC 4180, to a stream without translation of line ends.

    Text is written on one line, without hidden characters and formulas; numbers stay numbers, None is empty, booleans
    are 1 or 0.
    """
    write = csv.writer(out, lineterminator=line_end).writerow
    return lambda row: write([_cell(v) if isinstance(v, str) else int(v) if isinstance(v, bool) else v for v in row])


@lru_cache(1024)  # most cells of a long table repeat the row before
def _cell(text: str) -> str:
    shown = visible(text)
    return f"'{shown}" if _FORMULA.match(shown) and not _NUMBER.fullmatch(shown) else shown
