"""How many hosts have each verdict, mechanism, kernel ..: small tables with bars, the same words as in the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from markupsafe import Markup

from thpdiag.triage.fleet.page.summary import Summary, Values
from thpdiag.triage.fleet.page.words import CONFIDENCES, FOUND, GRAVEST, UNKNOWN, VERDICTS

FEW: Final = 6  # values of which a table shows all at once
MOST: Final = 200  # values that a page names; of the others it tells the number


@dataclass(frozen=True, slots=True)
class Row:
    """A value, its number of hosts and its bar."""

    value: str
    hosts: int
    bar: Markup


@dataclass(frozen=True, slots=True)
class Counts:
    """`facet` is the filter of the same name in the table of hosts. `few` are shown, `more` folded.

    `left_out` tells of values that are
    not named, `folded` that all of it is for who asks.
    """

    title: str
    facet: str
    few: Sequence[Row]
    more: Sequence[Row]
    left_out: str
    folded: bool


def all_counts(told: Summary) -> list[Counts]:
    """In the order of the page; a table without a value is left out."""
    found = [
        _counts("Verdict", told.verdicts.ordered(tuple(VERDICTS.values())), told.verdicts),
        _counts("Severity", told.severities.ordered((*GRAVEST, FOUND)), told.severities),
        _counts("Confidence", told.confidences.ordered((*CONFIDENCES, UNKNOWN)), told.confidences),
        _counts("Mechanism", told.mechanisms.frequent(), told.mechanisms),
        *(
            replace(_counts(title, values.frequent(), values), folded=True)
            for title, values in (
                ("Kernel", told.kernels),
                ("Distribution", told.distributions),
                ("Application", told.applications),
            )
        ),
    ]
    return [counts for counts in found if counts.few]


def _counts(title: str, values: Sequence[tuple[str, int]], counted: Values) -> Counts:
    most = max((hosts for _, hosts in values), default=1)
    rows = [Row(value, hosts, bar(hosts / most)) for value, hosts in values[:MOST]]
    few = len(rows) if len(rows) <= FEW + 1 else FEW
    rest = values[MOST:]
    others = f"{len(rest):,} other values with {sum(hosts for _, hosts in rest) + counted.rest:,} hosts"
    return Counts(title, title, rows[:few], rows[few:], others if rest else "", folded=False)


def bar(share: float) -> Markup:
    """A bar as long as a share of the longest one, visible however short."""
    width = max(1, round(100 * share))
    return Markup(
        f'<svg class="bar" viewBox="0 0 100 8" width="100" height="8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="b1" width="{width}" height="8" fill="#2b6cb0"/></svg>'
    )
