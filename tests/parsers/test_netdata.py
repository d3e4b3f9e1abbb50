"""netdata: charts by their dimensions, one line or many, and what cannot be told."""

from __future__ import annotations

import json

import pytest

from parse_bytes import readings
from thpdiag.model import Problem, Record, Sample

ROWS = [[1795886116, 2.0, 0.0, 7.5], [1795886115, 1.0, None, 3.0]]


def records(document: object, indent: int | None = None) -> list[Record]:
    return [r.record for r in readings(json.dumps(document, indent=indent).encode(), "data.json")]


@pytest.mark.parametrize("indent", [None, 2], ids=["one line", "jq"])
def test_compaction_is_known_by_its_dimensions(indent: int | None) -> None:
    """The oldest row first; what is null is not there."""
    found = records({"labels": ["time", "success", "fail", "stall"], "data": ROWS}, indent)
    assert [(r.time and r.time.seconds, dict(r.values)) for r in found if isinstance(r, Sample)] == [
        (1795886115, {"node_vmstat_compact_success:rate": 1.0, "node_vmstat_compact_stall:rate": 3.0}),
        (
            1795886116,
            {
                "node_vmstat_compact_success:rate": 2.0,
                "node_vmstat_compact_fail:rate": 0.0,
                "node_vmstat_compact_stall:rate": 7.5,
            },
        ),
    ]


def test_dimensions_of_several_charts_tell_none() -> None:
    """`in` and `out` are those of swap, of disks and of networks; with its id the chart is known."""
    table = {"labels": ["time", "in", "out"], "data": [[1795886116, 1.0, 2.0]]}
    assert not [r for r in records(table) if isinstance(r, Sample)]
    wrapped = {"api": 1, "id": "mem.swapio", "name": "mem.swapio", "view_update_every": 1, "result": table}
    assert [dict(r.values) for r in records(wrapped, 1) if isinstance(r, Sample)] == [
        {"swap_in_bytes:rate": 1024.0, "swap_out_bytes:rate": 2048.0}
    ]


def test_a_document_that_is_cut_is_a_problem() -> None:
    """Nothing of it is read."""
    text = json.dumps({"labels": ["time", "success", "fail", "stall"], "data": ROWS}, indent=1)[:-20]
    found = [r.record for r in readings(text.encode(), "data.json")]
    assert [type(r) for r in found] == [Problem]
