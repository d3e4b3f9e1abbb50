"""What the page says first, in sentences."""

from __future__ import annotations

from typing import Final

from thpdiag.triage.fleet.hosts import OK
from thpdiag.triage.fleet.page.summary import ACCEPTED, EARLIER, OVER, UNORDERED, Summary
from thpdiag.triage.fleet.page.words import FOUND, GRAVEST, VERDICTS, count, listed

REASONS: Final = 8  # ways in which bundles failed that are told at once
_NOTES: Final = (
    (ACCEPTED, "is", "are", "accepted by suppression or baseline"),
    (OVER, "was", "were", "over at the end of the bundle"),
    (EARLIER, "is", "are", "of a name with a later bundle"),
    (UNORDERED, "is", "are", "of names with several bundles in an order that is not known"),
)


def title(told: Summary) -> str:
    """The same in one line, for the tab of a browser."""
    return f"Triage of {count(told.bundles, 'bundle')}: {_found(told)}"


def headline(told: Summary) -> str:
    """How many bundles, hosts, hosts with a finding, by severity."""
    if not told.bundles:
        return "No bundle was read."
    if not told.hosts.all:
        return f"{count(told.bundles, 'bundle')}, and no host in any of them."
    named = f" ({count(len(told.names), 'name')})" if len(told.names) < told.hosts.all else ""
    return f"{count(told.bundles, 'bundle')}, {count(told.hosts.all, 'host')}{named}: {_found(told)}{_graded(told)}."


def sentences(told: Summary) -> list[str]:
    """Below it: what of the findings needs no hands, the other hosts, and what is missing."""
    found = []
    for note, one, many, rest in _NOTES:
        if number := told.noted[note]:
            found.append(f"{count(number, 'finding')} of these {one if number == 1 else many} {rest}.")
    others = [
        f"{told.verdicts[words]:,} {words}"
        for words in (*VERDICTS.values(), "unknown")
        if words != VERDICTS[FOUND] and told.verdicts[words]
    ]
    if others:
        found.append(f"{'The other hosts' if told.found else 'Hosts'}: {listed(others)}.")
    return found


def incomplete(told: Summary) -> str:
    """How many bundles have no complete result, and why; empty if all have."""
    if not told.failed:
        return ""
    why = [(status, number) for status, number in told.statuses.frequent() if status != OK]
    others = told.failed - sum(number for _, number in why[:REASONS])
    words = [f"{number:,} {status}" for status, number in why[:REASONS]] + ([f"{others:,} others"] if others else [])
    return f"{count(told.failed, 'bundle')} without a complete result: {listed(words)}."


def _found(told: Summary) -> str:
    return f"{told.found:,} with a finding" if told.found else "none with a finding"


def _graded(told: Summary) -> str:
    grades = [f"{told.severities[grade]:,} {grade}" for grade in GRAVEST if told.severities[grade]]
    if unknown := told.severities[FOUND]:
        grades.append(f"{unknown:,} of unknown severity")
    return f" ({listed(grades)})" if grades else ""
