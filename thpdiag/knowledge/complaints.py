"""Complaints about what somebody wrote: at the place, with the line itself, and with the likely right word."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from thpdiag.knowledge.yaml_nodes import Place


def pointed(path: str, text: str, message: str, place: Place | None) -> str:
    """`path:line:column: message`, the line, and a caret under the column."""
    if place is None:
        return f"{path}: {message}"
    rows = text.splitlines()
    row = rows[place.line - 1] if place.line <= len(rows) else ""
    return f"{path}:{place.line}:{place.column}: {message}\n  {row}\n  {' ' * (place.column - 1)}^"


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` if something known is like the word."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.55)
    return f"; did you mean '{close[0]}'?" if close else ""
