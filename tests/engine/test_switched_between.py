"""A setting was switched between two findings: neither explains the other, and what hurts now stands first."""

from __future__ import annotations

from typing import Any

import pytest

from analyze_bytes import rules
from thpdiag.authoring.cases import build_host
from thpdiag.diagnosis.diagnose import diagnose
from thpdiag.diagnosis.result_document import document
from thpdiag.engine.evaluate import evaluate
from thpdiag.engine.schema import CaseFile
from thpdiag.engine.state_view import state_views

STALLED = (
    "isolate_migratepages_block < compact_zone < try_to_compact_pages < __alloc_pages < vma_alloc_folio"
    " < do_huge_pmd_anonymous_page {} [ingest]"
)


def state(defrag: str, compacting: int, stalls: int, start: int) -> dict[str, Any]:
    """Call stacks with so many percent in compaction, and the counter of stalls."""
    return {
        "facts": {"thp.enabled": "always", "thp.defrag": defrag},
        "stacks": [STALLED.format(compacting), f"main {100 - compacting} [ingest]"],
        "series": {"node_vmstat_compact_stall": f"{start}+{stalls}x20 @10s"},
    }


def told(*states: dict[str, Any]) -> dict[str, Any]:
    case = CaseFile.model_validate({"name": "two settings", "states": list(states), "outcome": "fires"})
    host = build_host(case)
    return document([diagnose(host, rules(), [(scene, evaluate(rules(), scene)) for scene in state_views(host)])])


BEFORE, AFTER = state("always", 30, 900, 500_000), state("madvise", 12, 9, 600_000)


def test_the_trouble_of_now_leads_and_the_one_before_the_switch_is_told() -> None:
    """Programs that ask for huge pages stall on; what all others suffered before is no consequence of that."""
    result = told(BEFORE, AFTER)
    verdict, found = result["verdict"], {finding["rule"]: finding for finding in result["findings"]}
    assert (verdict["rule"], verdict["confidence"], verdict["state"]) == ("THP-015", "likely", "present")
    assert (found["THP-010"]["confidence"], found["THP-010"]["state"]) == (
        "confirmed",
        "thp.defrag always, thp.enabled always",
    )
    assert found["THP-010"]["demoted_by"] == []
    assert "THP-010" not in found["THP-015"]["consequences"]
    assert "Before thp.defrag was switched from always to madvise: Direct compaction" in verdict["sentence"]


@pytest.mark.parametrize(
    ("states", "rule", "now"),
    [
        ((BEFORE, state("madvise", 0, 0, 600_000)), "THP-010", "past"),
        ((BEFORE, AFTER, state("always", 30, 900, 700_000)), "THP-010", "present"),
    ],
    ids=["cured", "switched back"],
)
def test_without_a_trouble_of_now_the_cured_one_leads(states: tuple[dict[str, Any], ...], rule: str, now: str) -> None:
    """Nothing else hurts under the new value, or it is the old one again."""
    verdict = told(*states)["verdict"]
    assert (verdict["rule"], verdict["state"]) == (rule, now)
    assert "was switched" not in verdict["sentence"]
