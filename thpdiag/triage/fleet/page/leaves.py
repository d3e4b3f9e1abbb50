"""Long tables as leaves of 200 rows that fold by themselves, so that a browser without scripts can show 10,000.

A script takes the rows out of the leaves and shows those that are asked for; what it needs to know of a column stands
in the head: `data-facet` names a filter, `data-order` the values from first to last, `data-many` that a cell has
several values, `data-number` that `data-v` of the cell is what to sort by, `data-plain` that there is no
sorting by it, `data-notes` that notes stand below the value, and what to call that there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from markupsafe import Markup

LEAF: Final = 200


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and what a script needs to know of its cells, as attributes of ours."""

    heading: str
    attributes: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """`name` is its id, `rows` what is counted in headings (`hosts`), `one` a single of them."""

    name: str
    rows: str
    one: str
    columns: tuple[Column, ...]

    @property
    def head(self) -> str:
        cells = "".join(f"<th scope=col{f' {c.attributes}' if c.attributes else ''}>{c.heading}" for c in self.columns)
        return f"<thead><tr>{cells}<tbody>\n"


def leaves(table: Table, rows: Iterable[str], total: int) -> Iterator[Markup]:
    """The table as pieces of HTML: one leaf for each 200 rows, the first unfolded; few rows do not fold."""
    left, first = iter(rows), 1
    while leaf := list(islice(left, LEAF)):
        last = first + len(leaf) - 1
        span = f"{table.rows} {first:,} to {last:,}" if total > LEAF else table.rows
        label = f"{span[:1].upper()}{span[1:]}"
        inner = (
            f'<div class="scroll" role="region" tabindex="0" aria-label="Table of {span}">\n<table>{table.head}'
            f"{''.join(leaf)}</table>\n</div>\n"
        )
        if total > LEAF:
            opened = " open" if first == 1 else ""
            inner = f'<details class="leaf" name="{table.name}"{opened}><summary>{label}</summary>\n{inner}</details>\n'
        yield Markup(inner)
        first = last + 1
