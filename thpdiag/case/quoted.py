"""The text of lines that an explanation cites, read from the input a second time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from thpdiag.bundle import Limits, Member, members
from thpdiag.bundle.open import STDIN
from thpdiag.case.beside import beside
from thpdiag.model import Citation

LONGEST = 300  # characters of a line that are kept


def quoted(
    paths: Sequence[Path], cited: Iterable[Citation], limits: Limits, stdin: BinaryIO | None = None
) -> dict[tuple[str, int], str]:
    """By member and line what stands there; without those that cannot be read again (a pipe, no text)."""
    wanted: dict[str, set[int]] = {}
    for cite in cited:
        if cite.line is not None:
            wanted.setdefault(cite.member, set()).add(cite.line)
    if not wanted or (STDIN in paths and not _rewound(stdin)):
        return {}
    ends = {end for member in wanted for end in _ends(member)}
    found: dict[tuple[str, int], str] = {}
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


def _lines(member: Member, wanted: set[int]) -> Mapping[tuple[str, int], str]:
    if b"\0" in member.head() and not member.head().startswith((b"\xff\xfe", b"\xfe\xff")):
        return {}
    found: dict[tuple[str, int], str] = {}
    last = max(wanted)
    for number, text in member.lines():
        if number > last:
            break
        if number in wanted and not found.get((member.path, number), "").strip():
            found[member.path, number] = text[:LONGEST]
    return found
