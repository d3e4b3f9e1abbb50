"""One of several runs that share a work list without knowing of each other: `--shard 2/8`.

Which run does a bundle follows from its name in results alone, without that of the folder in which the run happens to
be: no order, no process, no machine and no job changes it. Each of the N runs must be given the same list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from thpdiag.errors import UsageError
from thpdiag.triage.item import Item

_FORM: Final = re.compile(r"([1-9][0-9]{0,6})/([1-9][0-9]{0,6})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Shard:
    """`number` of `of`, from 1 on."""

    number: int
    of: int

    @classmethod
    def parsed(cls, text: str) -> Shard:
        """From `I/N`; raises UsageError for anything else."""
        found = _FORM.fullmatch(text)
        if not found or int(found[1]) > int(found[2]):
            raise UsageError(f"--shard takes I/N with I from 1 to N, such as 2/8, not {text!r}")
        return cls(int(found[1]), int(found[2]))

    def has(self, told: str) -> bool:
        """Whether the bundle of this name is done by this run."""
        digest = sha256(told.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") % self.of == self.number - 1

    def mine(self, items: Iterable[Item], told: str = "", key: str = "") -> Iterator[Item]:
        """Those of the items that this run does, in their order; `told`, with which names begin, is read as `key`."""
        return (item for item in items if self.has(_keyed(item.told, told, key)))


ALL: Final = Shard(1, 1)


def _keyed(name: str, told: str, key: str) -> str:
    """The name with `key` for `told`, which stands at its beginning or before the line of a list, in brackets."""
    if name == told or name.startswith(f"{told}/"):
        return key + name[len(told) :]
    before, line, behind = name.rpartition(f" ({told}/")
    return f"{before} ({key}/{behind}" if line and name.endswith(")") else name
