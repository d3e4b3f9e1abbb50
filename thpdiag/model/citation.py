"""Where a thing was read: every fact, sample, stack and event carries one."""

from __future__ import annotations

from dataclasses import dataclass

EXCERPT = 240  # characters of a cited line that are worth keeping


@dataclass(frozen=True, slots=True)
class Citation:
    """A line of a member of the bundle.

    `member` is the customer's path inside the bundle, never the analyst's. `line` counts from 1; it is None
    where the source has no lines. `text` is the line as read (control characters and quoting removed), cut to
    `EXCERPT` characters, so that a report can quote it without the bundle.
    """

    member: str
    line: int | None = None
    text: str = ""

    def __str__(self) -> str:
        return self.member if self.line is None else f"{self.member}:{self.line}"
