"""What `--isolate` makes of a child that did not come to its end: a document, and what to leave with."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from thpdiag.case.options import Options
from thpdiag.engine.load import Rule
from thpdiag.errors import ThpdiagError
from thpdiag.guard.outcome import Outcome, Status
from thpdiag.isolated import analyzed, unfinished
from thpdiag.reports.visible import visible


class IsolationError(ThpdiagError):
    """The child process did not come to its end; the exit code is that of the reason."""

    def __init__(self, outcome: Outcome) -> None:
        lost = "" if outcome.status is Status.REFUSED else "; nothing of the input is known"
        super().__init__("\n".join(visible(line) for line in f"{outcome.sentence.rstrip()}{lost}".split("\n")))
        self.exit_code = outcome.exit_code


def isolated(
    paths: Sequence[Path], rules: Sequence[Rule], options: Options
) -> tuple[dict[str, Any], IsolationError | None]:  # fmt: skip
    """The result document of what is at the paths, and what to leave with if it could not be made of them."""
    outcome = analyzed(paths, rules, options, stdin=sys.stdin.buffer)
    if outcome.status is Status.OK:
        return json.loads(outcome.content), None
    if outcome.status is Status.REFUSED:
        raise IsolationError(outcome)
    return unfinished(outcome, rules, options), IsolationError(outcome)
