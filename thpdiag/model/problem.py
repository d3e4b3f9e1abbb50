"""What could not be read, where and why. A problem goes into the report; the run goes on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from thpdiag.model.citation import Citation


class ProblemKind(StrEnum):
    """Why. `hides_data` kinds may have taken evidence away, so that "no" is not to be believed."""

    DAMAGED = "damaged"  # bytes are broken or missing
    LIMIT = "limit"  # a limit of ours cut the input
    REFUSED = "refused"  # unsafe (a device, a path that leaves the bundle)
    UNREADABLE = "unreadable"  # permission, encryption, a format that this version does not read
    ODD = "odd"  # one line did not fit its format; the rest was read
    UNRECOGNISED = "unrecognised"  # no reader knows the format
    DISAGREEMENT = "disagreement"  # two sources say different things
    BUG = "bug"  # a mistake of thpdiag itself

    @property
    def hides_data(self) -> bool:
        return self in {ProblemKind.DAMAGED, ProblemKind.LIMIT, ProblemKind.UNREADABLE, ProblemKind.BUG}


@dataclass(frozen=True, slots=True)
class Problem:
    """`text` is a sentence without the place; the place is `cite`. `count` folds many alike into one.

    `hides` is None when the kind decides whether evidence may be missing, else it decides. `taints` says that what was
    read before may be wrong too: a checksum over all of it does not fit, and where the damage lies is not known.
    """

    cite: Citation
    text: str
    kind: ProblemKind = ProblemKind.ODD
    reader: str = ""
    count: int = 1
    hides: bool | None = None
    taints: bool = False

    @property
    def hides_data(self) -> bool:
        return self.kind.hides_data if self.hides is None else self.hides
