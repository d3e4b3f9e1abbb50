"""The long tables of the page in the order of reading, each with its heading and what is to be known of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from thpdiag.triage.fleet.groups import LEAST
from thpdiag.triage.fleet.page.changes import CHANGES
from thpdiag.triage.fleet.page.differences import OUTLIERS
from thpdiag.triage.fleet.page.leaves import Table, leaves
from thpdiag.triage.fleet.page.rows import HOSTS, INCOMPLETE
from thpdiag.triage.fleet.page.summary import Summary
from thpdiag.triage.store.aside import First

COMPARED: Final = (
    "A host is compared with those that run the same on the same platform and kernels, if at least "
    f"{LEAST} of them tell it, else with more. Red in a picture is the host itself. "
    "A rate is of the time that its bundle watched, which is not as long for all of them."
)
JOINED: Final = (
    "Of hosts with several bundles, the latest first. Bundles are taken for those of one host if they name it the "
    "same: two machines of one name are taken for one."
)


@dataclass(frozen=True, slots=True)
class Listing:
    """A long table of the page; `pieces` are its HTML."""

    table: Table
    heading: str
    notes: Sequence[str]
    pieces: Iterator[Markup]


def listings(told: Summary, apart: First, changes: First) -> Iterator[Listing]:
    """Those that have a row."""
    if told.hosts.all:
        yield _listing(HOSTS, "Hosts, the gravest first", "", told.hosts)
    if apart.all:
        yield _listing(OUTLIERS, "Hosts that differ from their like", COMPARED, apart)
    if changes.all:
        yield _listing(CHANGES, "What changed over time", JOINED, changes)
    if told.incomplete.all:
        yield _listing(INCOMPLETE, "Bundles without a complete result", "", told.incomplete)


def _listing(table: Table, heading: str, note: str, rows: First) -> Listing:
    notes = [note] if note else []
    if len(rows) < rows.all:
        notes.append(
            f"These are the first {len(rows):,} of {rows.all:,} {table.rows}. The numbers at the top of the page are "
            "of all; thpdiag triage export writes all hosts and findings to a file."
        )
    return Listing(table, heading, notes, leaves(table, rows, len(rows)))
