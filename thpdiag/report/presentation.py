"""How a report is to be shown, and when its findings fail a gate (`--fail-on`); none of it changes what was found.

The exit code of a result is for the command line and for a server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from thpdiag.model.finding import SEVERITIES
from thpdiag.model.result import Finding, Result, as_result

NEVER = "never"
OWN_REPORT = "thpdiag_report"  # the reader that names reports of thpdiag in the input
CUT_SHORT, DAMAGED = 6, 5


class Graded(Protocol):
    """A finding of a result or of a comparison."""

    @property
    def severity(self) -> str | None: ...

    @property
    def suppressed(self) -> object: ...


def rank(severity: str | None) -> int:
    """The place of a severity in the order, -1 of an unknown one."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else -1


def fails(finding: Graded, fail_on: str) -> bool:
    """Whether a finding is as grave as `fail_on` or graver, and nobody has accepted it."""
    return fail_on != NEVER and not finding.suppressed and rank(finding.severity) >= rank(fail_on)


def exit_code(document: Result | Mapping[str, Any], fail_on: str = NEVER, fail_on_missing: object = None) -> int:
    """The first that applies of 1, 3, 6, 5, 0 (`thpdiag.errors.EXIT_CODES`)."""
    every = documents(document)
    undecided = any(one.unknown for one in every)
    problems = [problem for one in every for problem in one.problems]
    if fails_gate(document, fail_on) or (fail_on_missing and undecided):
        return 1
    if not is_recognised(document):
        return 3
    if any(problem.kind == "limit" for problem in problems):
        return CUT_SHORT
    return DAMAGED if undecided and any(problem.hides for problem in problems) else 0


def is_recognised(document: Result | Mapping[str, Any]) -> bool:
    """Whether any reader knew any part of the input that thpdiag did not write itself."""
    return any(row.reader and row.reader != OWN_REPORT for one in documents(document) for row in one.inputs)


def fails_gate(document: Result | Mapping[str, Any], fail_on: str) -> bool:
    """Whether some finding that nobody accepted fails the gate of `--fail-on`."""
    return any(fails(finding, fail_on) for one in documents(document) for finding in one.findings)


def documents(document: Result | Mapping[str, Any]) -> Sequence[Result]:
    """The result of each host."""
    whole = as_result(document)
    return whole.cases or [whole]


class Suppressed(StrEnum):
    """What becomes of findings that a suppression or a baseline accepts."""

    LEFT_OUT = "left out"
    SHOWN = "shown"


class Presentation(NamedTuple):
    """`verbosity` is how much of it text shows: -1 is the first block only, 1 everything, 2 the match trees too.

    `fail_on` is the severity from which on a test case counts as failed; `color` of text for a terminal.
    """

    verbosity: int = 0
    fail_on: str = NEVER
    suppressed: Suppressed = Suppressed.LEFT_OUT
    color: bool = False

    def findings(self, host: Result) -> list[Finding]:
        """The findings of a host, without those that somebody accepted unless these are asked for."""
        every = self.suppressed is Suppressed.SHOWN
        return [finding for finding in host.findings if every or not finding.suppressed]


PLAIN = Presentation()
