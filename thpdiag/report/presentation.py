"""Options of reports, the gate of `--fail-on`, and exit codes. None of them changes the findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from thpdiag.model.finding import SEVERITIES
from thpdiag.model.result import Finding, Result, as_result

NEVER = "never"
OWN_REPORT = "thpdiag_report"  # the parser of thpdiag's own reports in the input
CUT_SHORT, DAMAGED = 6, 5


class Graded(Protocol):
    """A finding of a result or of a comparison."""

    @property
    def severity(self) -> str | None: ...

    @property
    def suppressed(self) -> object: ...


def rank(severity: str | None) -> int:
    """Return the position of a severity in their order, -1 for an unknown one."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else -1


def fails(finding: Graded, fail_on: str) -> bool:
    """Return whether a finding is at least as severe as `fail_on` and not accepted."""
    return fail_on != NEVER and not finding.suppressed and rank(finding.severity) >= rank(fail_on)


def exit_code(document: Result | Mapping[str, Any], fail_on: str = NEVER, fail_on_missing: object = None) -> int:
    """Return the first of 1, 3, 6, 5, 0 whose condition holds (`thpdiag.errors.EXIT_CODES`)."""
    results = documents(document)
    undecided = any(result.unknown for result in results)
    problems = [problem for result in results for problem in result.problems]
    if fails_gate(document, fail_on) or (fail_on_missing and undecided):
        return 1
    if not is_recognised(document):
        return 3
    if any(problem.kind == "limit" for problem in problems):
        return CUT_SHORT
    return DAMAGED if undecided and any(problem.hides for problem in problems) else 0


def is_recognised(document: Result | Mapping[str, Any]) -> bool:
    """Return whether a parser read any part of the input other than reports of thpdiag."""
    return any(row.reader and row.reader != OWN_REPORT for result in documents(document) for row in result.inputs)


def fails_gate(document: Result | Mapping[str, Any], fail_on: str) -> bool:
    """Return whether any finding fails the gate of `--fail-on`."""
    return any(fails(finding, fail_on) for result in documents(document) for finding in result.findings)


def documents(document: Result | Mapping[str, Any]) -> Sequence[Result]:
    """Return the result of each host."""
    result = as_result(document)
    return result.cases or [result]


class Suppressed(StrEnum):
    """What happens to findings that a suppression or a baseline accepts."""

    LEFT_OUT = "left out"
    SHOWN = "shown"


class Presentation(NamedTuple):
    """Options of a report; `fail_on` is the lowest severity at which a test case fails, `color` is for terminals.

    `verbosity` of text: -1 is the first block only, 1 everything, 2 the match trees too.
    """

    verbosity: int = 0
    fail_on: str = NEVER
    suppressed: Suppressed = Suppressed.LEFT_OUT
    color: bool = False

    def findings(self, host: Result) -> list[Finding]:
        """Return the findings of a host, without accepted ones unless `suppressed` is SHOWN."""
        include_suppressed = self.suppressed is Suppressed.SHOWN
        return [finding for finding in host.findings if include_suppressed or not finding.suppressed]


PLAIN = Presentation()
