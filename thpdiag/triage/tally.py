"""How far a run has come: numbers for a bar, a log line or a machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from thpdiag.triage.store.packed import Packed
from thpdiag.triage.store.rows import FINDING

_SEVERITY = FINDING.index("severity")
COMPLETE = "ok"


@dataclass(slots=True)
class Tally:
    """`found` bundles so far, all of them once `listed`; `statuses` are of this run."""

    found: int = 0
    listed: bool = False
    skipped: int = 0
    twice: int = 0  # the same content came under another name
    statuses: Counter[str] = field(default_factory=Counter)
    hosts: int = 0
    findings: Counter[str] = field(default_factory=Counter)  # by severity

    @property
    def done(self) -> int:
        """Bundles that need no more work."""
        return self.skipped + self.twice + sum(self.statuses.values())

    @property
    def incomplete(self) -> int:
        """Bundles of this run without a complete result."""
        return sum(count for status, count in self.statuses.items() if status != COMPLETE)

    def count(self, result: Packed) -> None:
        """One more result that was stored."""
        self.statuses[result.status] += 1
        self.hosts += len(result.hosts)
        for _, findings in result.hosts:
            self.findings.update(severity for finding in findings if (severity := finding[_SEVERITY]))
