"""Rows of hosts that differ from the others of their group, with what the others have, as a picture and in words."""

from __future__ import annotations

from typing import Final

from thpdiag.reports.quantity import quantity
from thpdiag.triage.fleet.distribution import Counts
from thpdiag.triage.fleet.outliers import Outlier
from thpdiag.triage.fleet.page.leaves import Column, Table
from thpdiag.triage.fleet.page.rows import host_cell
from thpdiag.triage.fleet.page.strips import bar, box
from thpdiag.triage.fleet.page.words import count, five_numbers, listed, told

OUTLIERS: Final = Table(
    "outliers",
    "differences",
    "difference",
    (
        Column("Host"),
        Column("What", 'data-facet="What"'),
        Column("Value", "data-number"),
        Column("Values of the group", "data-plain"),
        Column("Compared with", 'data-facet="Compared with"'),
        Column("Distance", "data-number"),
    ),
)


def outlier_row(one: Outlier) -> str:
    """Picture and words of the distribution; the distance of a number is its modified z-score."""
    group, number = one.distribution, ""
    if isinstance(group, Counts):
        picture, score = bar(str(one.value), group), ""
        distance = f"{one.same or 0:,} of {group.n:,}"
    else:
        number = f" data-v={float(one.value):.6g}"
        picture, score = box(float(one.value), group), "" if one.score is None else f" data-v={abs(one.score):.2f}"
        distance = "at least half are the same" if one.score is None else f"{one.score:+.1f}"
    size = count(one.size, "host") + ("" if group.n == one.size else f", {group.n:,} of them tell it")
    return (
        f"<tr><td>{host_cell(one.host)}<td>{told(one.title)}<td{number}>{told(quantity(one.value, one.unit))}"
        f"{window(one.window)}<td>{picture} <small>{told(spread(one))}</small>"
        f"<td><span>{told(one.group.definition)}</span> <small>{size}</small><td{score}>{distance}\n"
    )


def window(of: str) -> str:
    """The time that a rate is of, below it."""
    return f" <small>{told(of)}</small>" if of else ""


def spread(one: Outlier) -> str:
    """The distribution in words."""
    group = one.distribution
    if not isinstance(group, Counts):
        return five_numbers(group, one.unit)
    rest = [f"{group.others:,} with other values"] if group.others else []
    return listed([*(f"{hosts:,} {value}" for value, hosts in group.counts), *rest])
