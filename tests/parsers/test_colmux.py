"""colmux: rows of several hosts, with and without their time."""

from __future__ import annotations

from conftest import ROOT
from parse_bytes import readings
from thpdiag.model import Problem, Sample

SCREENS = ROOT / "fixtures" / "readers" / "colmux" / "screens" / "colmux.txt"


def test_each_host_has_its_rows() -> None:
    """At the time above them."""
    found = [r for r in readings(SCREENS.read_bytes(), "colmux.txt") if isinstance(r.record, Sample)]
    assert {r.group[1] for r in found} == {"node1", "node2"}
    times = [r.record.time for r in found if isinstance(r.record, Sample) and r.group[1] == "node1"]
    assert times == sorted(t for t in times if t)
    assert len(times) == 6


def test_rows_in_the_order_of_a_column_are_left_out() -> None:
    """A span of times above rows without one says nothing of when each was."""
    lines = SCREENS.read_text().splitlines()
    text = "\n".join(["# 17:19:14-17:19:19  Reporting: 2 of 2", *lines[1:5]])
    found = [r.record for r in readings(text.encode(), "colmux.txt")]
    assert [(type(r), r.count) for r in found if isinstance(r, Problem)] == [(Problem, 2)]
    assert len(found) == 1
