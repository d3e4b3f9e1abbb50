"""Texts of strangers as cells of a spreadsheet: what it would take for a formula begins with an apostrophe."""

from __future__ import annotations

import re
from typing import Final

from thpdiag.reports.visible import prose, visible

# = + - @ and their wide forms; % and | open older dialogues of spreadsheets.
_FORMULA: Final = re.compile(r"\s*[=+\-@|%\uff1d\uff0b\uff0d\uff20]")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?", re.ASCII)


def cell(text: str) -> str:
    """A text as a sentence, on one line with nothing hidden in it."""
    return guarded(visible(prose(text)))


def guarded(shown: str) -> str:
    """A text that is visible already; a number stays one."""
    return f"'{shown}" if _FORMULA.match(shown) and not _NUMBER.fullmatch(shown) else shown
