"""Rows of what happened to hosts with several bundles: what changed to what, and numbers far from a host's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from thpdiag.reports.quantity import quantity
from thpdiag.triage.fleet.over_time import VERDICT, History, Seen
from thpdiag.triage.fleet.page.differences import window
from thpdiag.triage.fleet.page.leaves import Column, Table
from thpdiag.triage.fleet.page.rows import natural
from thpdiag.triage.fleet.page.strips import box
from thpdiag.triage.fleet.page.words import address, count, five_numbers, listed, told
from thpdiag.triage.fleet.subjects import KERNEL

CHANGES: Final = Table(
    "changes",
    "changes",
    "change",
    (
        Column("Host"),
        Column("What", 'data-facet="What"'),
        Column("Before"),
        Column("After"),
        Column("Seen in"),
    ),
)
LAST: Final = 99_999_999  # the day of what has none: it stands below all others
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
Keyed = tuple[tuple[Any, ...], str]


def change_rows(history: History) -> Iterator[Keyed]:
    """Each with its place among all: the latest day first, then verdicts, settings of huge pages, kernels, others."""
    name = f"<span>{told(history.name)}</span> <small>{count(history.bundles, 'bundle')}</small>"
    for number, change in enumerate(history.changes):
        judged = (
            " <small>the bundles were not judged by the same rules or version</small>" if change.other_rules else ""
        )
        row = _row(
            name, change.name, told(change.before), told(change.after) + judged, _seen(change.last, change.first)
        )
        yield _key(history, change.first, change.name, number), row
    for number, far in enumerate(history.far):
        value, whole = f"{told(quantity(far.value, far.unit))}{window(far.window)}", far.distribution
        before = f"{box(far.value, whole)} <small>{told(five_numbers(whole, far.unit))}, in {whole.n:,} bundles</small>"
        yield _key(history, far.seen, far.name, number), _row(name, far.title, before, value, _seen(far.seen))
    for number, one in enumerate(history.differences):
        values = listed([f"{value} in {bundles:,}" for value, bundles in one.counts])
        row = _row(name, one.name, told(values), "their order is not known", "")
        yield _key(history, Seen("", None, ""), one.name, number), row


def _row(host: str, what: str, before: str, after: str, seen: str) -> str:
    return f"<tr><td>{host}<td>{told('kernel release' if what == KERNEL else what)}<td>{before}<td>{after}<td>{seen}\n"


def _seen(*places: Seen) -> str:
    """The bundles, the last in which it was as before and the first in which it was not, with their times."""
    words = ("until", "since") if len(places) > 1 else ("in",)
    return " ".join(
        f"<span>{word} {_linked(place)}</span> <small>{told(_time(place.recorded))}</small>"
        for word, place in zip(words, places, strict=True)
    )


def _time(recorded: str | None) -> str:
    """`2026-11-20 11:55:51 UTC`, or of the host's own clock."""
    if recorded is None:
        return ""
    return recorded.replace("T", " ").removesuffix("Z") + (" UTC" if recorded.endswith("Z") else " of its own clock")


def _linked(place: Seen) -> str:
    return f'<a href="{address(place.page)}">{told(place.path)}</a>' if place.page else told(place.path)


def _key(history: History, seen: Seen, name: str, number: int) -> tuple[Any, ...]:
    found = _DAY.match(seen.recorded or "")
    day = LAST - int("".join(found.groups())) if found else LAST
    order = (VERDICT, "thp.", KERNEL, "node_", "Anon")
    kind = next((place for place, prefix in enumerate(order) if name.startswith(prefix)), len(order))
    return day, kind, natural(history.name), name, history.name, -number
