"""The contents that a run leaves out, small enough to be handed to each worker, on this machine or another."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from thpdiag.triage.store.packed import UNREAD

_WIDTH: Final = 16  # bytes of each SHA-256: 16 MB for a million bundles


@dataclass(frozen=True, slots=True)
class Known:
    """`digests` are the first bytes of the SHA-256 of each content, sorted, one after the other."""

    digests: bytes = b""

    @classmethod
    def of(cls, contents: Iterable[str]) -> Known:
        """From SHA-256 in hexadecimal digits; what was not read (`packed.unread`) is never known."""
        read = (content for content in contents if not content.startswith(UNREAD))
        return cls(b"".join(sorted(bytes.fromhex(content)[:_WIDTH] for content in read)))

    def __contains__(self, content: str) -> bool:
        wanted = bytes.fromhex(content)[:_WIDTH]
        at = bisect_left(range(len(self.digests) // _WIDTH), wanted, key=self._at)
        return self._at(at) == wanted

    def _at(self, number: int) -> bytes:
        return self.digests[number * _WIDTH : (number + 1) * _WIDTH]
