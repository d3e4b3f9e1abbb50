"""The lines of the customer's file that evidence quotes (result document, `evidence[].excerpt`)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, takewhile
from typing import Any

from thpdiag.reports.columns import WIDTH, columns
from thpdiag.reports.visible import visible

MARK = "| "
CUT = " ..."


def said_line(said: Mapping[str, Any]) -> str:
    """The one line that says it: the head of a sample, the first of the rows of a snapshot, else the last line.

    Above a row of a table stands the line that names its columns.
    """
    lines: list[str] = said["excerpt"]
    if not lines:
        return ""
    first = said["kind"] == "stack" or said["excerpt_line"] is not None
    return lines[0] if first else lines[-1]


def quoted(said: Mapping[str, Any], margin: str) -> list[str]:
    """That line for a terminal, cut to its width, with its number if that is another; nothing if there is none."""
    text = visible(said_line(said)).strip()
    if not text:
        return []
    if said["excerpt_line"] not in (None, said["line"]):
        text = f"line {said['excerpt_line']}: {text}"
    room = WIDTH - columns(margin + MARK)
    if columns(text) > room:
        within = takewhile(lambda width: width <= room - columns(CUT), accumulate(map(columns, text)))
        text = text[: sum(1 for _ in within)] + CUT
    return [margin + MARK + text]
