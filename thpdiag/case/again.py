"""Members that are read a second time: for lines that are quoted, and for lists that something asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from thpdiag.bundle import Limits, Member
from thpdiag.bundle.open import members_again
from thpdiag.case.beside import beside


def again(
    left: dict[str, set[str]], paths: Sequence[Path], limits: Limits, stdin: BinaryIO | None = None
) -> Iterator[Member]:
    """The members of the paths in `left`, by path the SHA-256 of those that are wanted, until all of them were met.

    A member is one of them only if it has such a SHA-256 when it was read to its end (`finish`): it may have changed,
    or be another of the same name. Those that were met are taken out of `left`.
    """
    if not left:
        return
    ends = {end for path in left for end in _ends(path)}
    for member in members_again([*paths, *beside(paths)], ends.__contains__, limits, stdin):
        if member.path not in left:
            continue
        yield member
        member.finish()
        left[member.path].discard(member.sha256)
        if not left[member.path]:
            del left[member.path]
        if not left:
            return


def _ends(member: str) -> Iterable[str]:
    """A member's path, and the same without the folders or labels before it."""
    parts = member.split("/")
    return ("/".join(parts[at:]) for at in range(len(parts)))
