"""Make visible what a terminal or a browser would act upon or hide.

Names and excerpts come from strangers. Control characters, escapes, bidirectional controls and characters without
width are written as `\\x1b` or `\\u202e`, so that text shows what it is and a command shows what it does.
"""

from __future__ import annotations

import re

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
    return _HIDDEN.sub(_shown, text.replace("\t", " "))


def prose(text: str) -> str:
    """A sentence or paragraph: line ends and runs of white space become one space."""
    return visible(_SPACE.sub(" ", text).strip())


def lines(command: str) -> list[str]:
    """A command or script, line by line as it was written."""
    return [visible(line) for line in command.replace("\r\n", "\n").rstrip("\n").split("\n")]


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
