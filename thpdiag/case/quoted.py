"""The text of lines that an explanation cites, read from the input a second time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from thpdiag.bundle import Limits, Member, members
from thpdiag.bundle.open import STDIN
from thpdiag.case.beside import beside
from thpdiag.model import Citation

LONGEST = 300  # characters of a line that are kept
SNAPSHOT = 400  # lines of one; /proc/vmstat has some 200
_ROW = re.compile(r"\s*[\w()]+:?\s+\d")  # a name and a number, as /proc/vmstat, meminfo and status have them


def quoted(
    paths: Sequence[Path], cited: Iterable[Citation], limits: Limits, stdin: BinaryIO | None = None
) -> dict[Citation, tuple[int, str]]:
    """By citation the line that says it, without those that cannot be read again (a pipe, no text).

    A snapshot of many lines is cited by its first; `text` of a citation names what to look for below that one.
    """
    wanted: dict[str, set[Citation]] = {}
    for cite in cited:
        if cite.line is not None:
            wanted.setdefault(cite.member, set()).add(cite)
    if not wanted or (STDIN in paths and not _rewound(stdin)):
        return {}
    ends = {end for member in wanted for end in _ends(member)}
    found: dict[Citation, tuple[int, str]] = {}
    for member in members([*paths, *beside(paths)], ends.__contains__, limits, stdin):
        if isinstance(member, Member) and member.path in wanted:
            found |= _lines(member, wanted.pop(member.path))
        if not wanted:
            break
    return found


def _rewound(stdin: BinaryIO | None) -> bool:
    """Whether what came through standard input is a file, which can be read again."""
    if stdin is None or not stdin.seekable():
        return False
    stdin.seek(0)
    return True


def _ends(member: str) -> Iterable[str]:
    """A member's path, and the same without the folders or labels before it."""
    parts = member.split("/")
    return ("/".join(parts[at:]) for at in range(len(parts)))


def _lines(member: Member, wanted: set[Citation]) -> Mapping[Citation, tuple[int, str]]:
    if b"\0" in member.head() and not member.head().startswith((b"\xff\xfe", b"\xfe\xff")):
        return {}
    seen = _Seen()
    later: dict[int, list[Citation]] = {}
    for cite in wanted:
        later.setdefault(cite.line or 0, []).append(cite)
    last = max(later)
    for number, text in member.lines():
        if number > last and not seen.searched:
            break
        for cite in later.get(number, ()):
            seen.begin(cite, number, text)
        seen.search(number, text)
    return seen.found


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was found so far, and of which snapshots the line that names the value is still looked for."""

    found: dict[Citation, tuple[int, str]] = field(default_factory=dict)
    searched: dict[Citation, re.Pattern[str]] = field(default_factory=dict)

    def begin(self, cite: Citation, number: int, text: str) -> None:
        """The cited line; carriage returns may part it."""
        if self.found.get(cite, (0, ""))[1].strip():
            return
        self.found[cite] = (number, text[:LONGEST])
        if cite.text and _ROW.match(text):
            names = "|".join(map(re.escape, cite.text.split()))
            self.searched[cite] = re.compile(rf"\s*(?:{names}):?\s+\d")

    def search(self, number: int, text: str) -> None:
        """One further line; a snapshot ends where a line has another form."""
        for cite, pattern in list(self.searched.items()):
            if pattern.match(text):
                self.found[cite] = (number, text[:LONGEST])
            if pattern.match(text) or number > (cite.line or 0) + SNAPSHOT or not _ROW.match(text):
                del self.searched[cite]
