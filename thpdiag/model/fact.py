"""One named value read from the bundle, or derived from such values."""

from __future__ import annotations

from dataclasses import dataclass

from thpdiag.model.citation import Citation
from thpdiag.model.moment import Moment

Value = str | int | float


@dataclass(frozen=True, slots=True)
class Fact:
    """A value with a name of `knowledge/vocabulary.yaml`, which also gives its unit.

    `labels` tell apart several facts of one name (`(("node", "0"), ("zone", "Normal"))`). `provenance` says how the
    value is known when it was not read where the kernel shows it: `boot line`, `tuned`, `rc file`, `assumed`;
    empty means measured.
    """

    name: str
    value: Value
    cite: Citation
    labels: tuple[tuple[str, str], ...] = ()
    time: Moment | None = None
    provenance: str = ""

    def label(self, key: str) -> str | None:
        return dict(self.labels).get(key)
