"""How a report is to be shown; none of it changes what was found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from thpdiag.reports.severities import NEVER


class Suppressed(StrEnum):
    """What becomes of findings that a suppression or a baseline accepts."""

    LEFT_OUT = "left out"
    SHOWN = "shown"


@dataclass(frozen=True, slots=True)
class Presentation:
    """`verbosity` is the number of -v of text; `fail_on` the severity from which on a test case counts as failed."""

    verbosity: int = 0
    fail_on: str = NEVER
    suppressed: Suppressed = Suppressed.LEFT_OUT


PLAIN = Presentation()
