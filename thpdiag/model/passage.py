"""What a report quotes of the customer's files, so that a reader needs not open them to believe a number."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passage:
    """A cited line that is to be quoted.

    `kind` is the class of evidence it speaks for; empty: only the line itself is wanted. A snapshot of many lines
    (/proc/vmstat, meminfo) is cited by its first, and `names` are what the kernel calls there what it is cited for.
    `text` is the line as a reader saw it, as far as the citation kept it.
    """

    member: str
    line: int
    kind: str = ""
    names: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Quote:
    """Lines of a file as they stand there. `lines[said]`, which is line number `line`, is the one that says it."""

    line: int
    lines: tuple[str, ...]
    said: int = 0
