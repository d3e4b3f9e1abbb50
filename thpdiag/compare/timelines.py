"""The part of a timeline that two panels beside one another show, in few buckets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from thpdiag.compare.figures import Host, numeric

PANELS = ("cpu", "huge_pages", "memory")
MOST_BUCKETS = 200  # of a series: half a page is narrow

Row = Sequence[float | None]


def timeline(host: Host) -> dict[str, Any]:
    """Series of the whole host with what operators did."""
    series = [
        {key: one[key] for key in ("metric", "panel", "means", "unit", "source", "clock")}
        | {"points": _fewer(one["points"])}
        for one in host["timeline"]["series"]
        if one["panel"] in PANELS and not one["entity"]
    ]
    actions = [
        {key: one[key] for key in ("t", "clock", "text", "member", "line")} for one in host["timeline"]["actions"]
    ]
    return {"series": series, "actions": actions}


def _fewer(points: Sequence[Row]) -> list[list[float]]:
    rows = [[float(v) for v in row if numeric(v)] for row in points]
    whole = [row for row in rows if len(row) == 4]
    return list(_buckets(whole, -(-len(whole) // MOST_BUCKETS))) if len(whole) > MOST_BUCKETS else whole


def _buckets(rows: Sequence[Sequence[float]], size: int) -> Iterator[list[float]]:
    for start in range(0, len(rows), size):
        at, low, high, mean = zip(*rows[start : start + size], strict=True)
        yield [at[0], min(low), max(high), float(f"{sum(mean) / len(mean):.4g}")]
