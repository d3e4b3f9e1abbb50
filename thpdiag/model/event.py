"""Something that happened: a kernel message with its trace, a restart, something an operator did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from thpdiag.model.citation import Citation
from thpdiag.model.moment import Moment

# what an operator did, as distinct from what the kernel said
OPERATOR_KINDS = frozenset({"setting_written", "operator_compaction", "operator_drop_caches"})


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a `kind` in the vocabulary (`hung_task`, `soft_lockup`, `setting_written`, ...).

    `stack` is the call trace, leaf first, function names as printed without offsets; empty if there was none.
    """

    kind: str
    cite: Citation
    time: Moment | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    stack: tuple[str, ...] = ()
