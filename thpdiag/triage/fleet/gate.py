"""Whether a fleet passes the gate of a CI job, and with which exit code."""

from __future__ import annotations

from dataclasses import dataclass

from thpdiag.accepted.judge import Judge
from thpdiag.reports.severities import NEVER, rank
from thpdiag.triage.fleet.acceptance import judged
from thpdiag.triage.fleet.hosts import OK
from thpdiag.triage.store.reading import Reading

FAILED, INCOMPLETE = 1, 5


@dataclass(frozen=True, slots=True)
class Gate:
    """`failing` are findings as grave as `fail_on` or graver that nobody accepts, `failing_hosts` the hosts with one.

    `undecided` are hosts with a rule that could not be decided, and bundles of which nothing could be. `incomplete` are
    bundles that did not end `ok`. `fail_on_missing` is empty if what is undecided is no failure.
    """

    fail_on: str
    failing: int = 0
    failing_hosts: int = 0
    undecided: int = 0
    incomplete: int = 0
    bundles: int = 0
    fail_on_missing: str = ""

    @property
    def missing(self) -> bool:
        """Whether it fails for what could not be decided."""
        return bool(self.fail_on_missing and self.undecided)

    @property
    def exit_code(self) -> int:
        """A finding wins over a partly failed batch."""
        if self.failing or self.missing:
            return FAILED
        return INCOMPLETE if self.incomplete else 0


def gate(store: Reading, fail_on: str, judge: Judge, fail_on_missing: str = "") -> Gate:
    """One pass over the fleet."""
    failing = failing_hosts = undecided = incomplete = bundles = 0
    last = None
    for row in store.fleet():
        grave = sum(_fails(finding["severity"], fail_on) and not entry for finding, entry in judged(row, judge))
        failing, failing_hosts = failing + grave, failing_hosts + bool(grave)
        undecided += row["place"] is None or bool(row["undecided"])
        if row["bundle"] != last:
            last, bundles = row["bundle"], bundles + 1
            incomplete += row["status"] != OK
    return Gate(fail_on, failing, failing_hosts, undecided, incomplete, bundles, fail_on_missing)


def _fails(severity: str | None, fail_on: str) -> bool:
    return fail_on != NEVER and rank(severity) >= rank(fail_on)
