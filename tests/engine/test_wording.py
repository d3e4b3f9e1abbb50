"""Sentences about figures: no name of ours where people have a phrase, one sample is one, times are times."""

from __future__ import annotations

import re
from typing import Any

from analyze_bytes import result_of
from conftest import ROOT
from thpdiag.engine.wording import fact_text, metric_words


def _document(name: str) -> dict[str, Any]:
    return result_of(ROOT / "fixtures" / name / "bundle")


def test_counters_have_the_names_that_the_kernel_gives_them() -> None:
    """What stands in /proc/vmstat and meminfo is called as there; what was added up has a phrase."""
    assert metric_words(["node_vmstat_compact_stall"]) == "compact_stall"
    assert metric_words(["node_memory_AnonPages_bytes"]) == "AnonPages"
    assert metric_words(["node_allocstall_total"]) == "direct reclaim entries over all zones"
    assert (
        metric_words(["node_buddyinfo_blocks_order9"], "node 0 zone Normal")
        == "free blocks of order 9 of node 0 zone Normal"
    )


def test_facts_are_sentences() -> None:
    """Settings by their names, other facts by what they mean, without what only rules need to know."""
    assert fact_text("thp.khugepaged.max_ptes_none", "", "511") == "thp.khugepaged/max_ptes_none is 511"
    assert fact_text("thp.applicable", "", "no") == "this kernel has transparent huge pages at all: no"
    assert fact_text("memory.available_ratio", "", "95.9 %") == "available memory: 95.9 %"
    assert "(label" not in fact_text("memory.unusable_index", "node 0", "100 %")


def test_what_lasted_too_briefly_says_how_long() -> None:
    """The figure beside a cause that was ruled out is all that was seen, not the moment that came nearest."""
    (said,) = {r["because"] for r in _document("captures/khugepaged-growth")["ruled_out"] if r["rule"] == "THP-041"}
    assert "above 50 % in 2 of 76 samples" in said


def test_a_process_keeps_its_spelling() -> None:
    """The sentence of the verdict begins with the name of a process as the kernel has it."""
    assert ". winbindd (1902) uses" in _document("stories/winbindd-after-the-fix")["verdict"]["sentence"]


def test_series_say_what_they_measure() -> None:
    """The timeline of the page has phrases, not names of ours."""
    series = _document("captures/alloc-churn")["timeline"]["series"]
    assert {"kernel CPU time (system + irq)", "compact_stall"} <= {s["means"] for s in series}
    assert not [s["means"] for s in series if re.search(r"\bnode_\w|\bcpu_ratio\b", s["means"])]
