"""The texts that were read, as far as there is room for them: what a report quotes of them need not be read again.

Most of what is cited stands in small files, and what comes through a pipe cannot be read a second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from thpdiag.bundle import Member

MOST = 16 << 20  # bytes of all that is kept
EACH = 2 << 20  # of one member, where it can be read again


@dataclass(frozen=True, slots=True)
class Text:
    """One member: its beginning, which is all of it if it is `whole`."""

    begin: Sequence[bytes] = ()
    whole: bool = False


@dataclass(slots=True)
class Kept:
    """By path and SHA-256: an archive may hold two members of one name. `each` is the most of one member."""

    each: int = EACH
    _room: int = MOST
    _texts: dict[str, dict[str, Text]] = field(default_factory=dict)

    def watch(self, member: Member) -> None:
        """Has a member that is about to be read keep what it gives, as far as there is room."""
        member.keep(min(self.each, self._room))

    def add(self, member: Member) -> None:
        """Keeps a text that was read."""
        texts = self._texts.setdefault(member.path, {})
        if member.sha256 not in texts:
            texts[member.sha256] = Text(member.kept, whole=sum(map(len, member.kept)) == member.length)
            self._room -= sum(map(len, member.kept))

    def texts(self, path: str) -> Mapping[str, Text]:
        """What members of that path hold, by its SHA-256; nothing if none of them is a text."""
        return self._texts.get(path, {})
