"""Two causes on one host, from the data on: one leads, the other is named with its number, no advice contradicts."""

from __future__ import annotations

import os
import random
from functools import cache
from itertools import combinations
from typing import Any

from analyze_bytes import rules
from thpdiag.authoring.cases import build_host, load_cases
from thpdiag.diagnosis.diagnose import diagnose
from thpdiag.diagnosis.result_document import document
from thpdiag.engine.evaluate import evaluate
from thpdiag.engine.load import builtin_rules
from thpdiag.engine.schema import CaseFile
from thpdiag.engine.state_view import state_views
from thpdiag.knowledge.mechanisms import remedies
from thpdiag.report.html import render as html
from thpdiag.report.presentation import Presentation
from thpdiag.report.text import render as text

PROOF = os.environ.get("THPDIAG_PROOF") == "1"
JOINED = ("stacks", "flat", "events", "processes", "read")
ASKED = "__alloc_pages_direct_compact < __alloc_pages"


def told(case: CaseFile) -> dict[str, Any]:
    host = build_host(case)
    return document([diagnose(host, rules(), [(scene, evaluate(rules(), scene)) for scene in state_views(host)])])


@cache
def firing() -> dict[str, CaseFile]:
    """The first host of one state on which each rule fires that can lead."""
    written = load_cases([builtin_rules()], rules())
    leading = [rule for rule in rules() if rule.file.role in ("root_cause", "alternative")]
    found = {r.id: next((c for c in written[r.id] if c.outcome == "fires" and not c.states), None) for r in leading}
    return {rule: case for rule, case in found.items() if case}


def joined(one: CaseFile, other: CaseFile) -> CaseFile:
    """One host that shows what both show."""
    both: dict[str, Any] = {key: [*getattr(one, key), *getattr(other, key)] for key in JOINED}
    both |= {"facts": one.facts | other.facts, "series": one.series | other.series}
    return one.model_copy(update=both)


def wrong(result: dict[str, Any]) -> list[str]:
    """What a page must not say."""
    found, verdict = result["findings"], result["verdict"]
    leader = next((f for f in found if f["rule"] == verdict.get("rule")), None)
    causes = [f["rule"] for f in found if f["role"] == "root_cause"]
    said = [f"two causes {causes}"] if len(causes) > 1 else []
    if leader is None:
        return said + ([f"no leader, and {causes}"] if causes else [])
    said += ["a demoted finding leads"] if leader["demoted_by"] else []
    above = {advice["id"] for advice in leader["remedies"]}
    decided = {setting for name in above for setting in sets(name)}
    for finding in found:
        own = {advice["id"] for advice in finding["remedies"]} - above
        if finding["rule"] in leader["consequences"] and own | above & {a["id"] for a in finding["remedies"]}:
            said.append(f"{finding['rule']} follows and has advice of its own")
        if finding is not leader and any(sets(name) & decided for name in own):
            said.append(f"{finding['rule']} sets what {leader['rule']} sets otherwise")
    return said


def sets(name: str) -> set[str]:
    row = remedies()[name]
    return {setting for one in (row, *row.get("variants", ())) for setting in one.get("sets", ())}


def test_two_causes_at_once_make_one_verdict() -> None:
    """Pairs of the hosts of all rules that can lead: each host shows what both show."""
    pairs = list(combinations(sorted(firing()), 2))
    random.Random(7).shuffle(pairs)
    bad = {}
    for one, other in pairs if PROOF else pairs[:60]:
        if said := wrong(told(joined(firing()[one], firing()[other]))):
            bad[one, other] = said
    assert bad == {}


def both_compact(reading: int, faulting: int) -> dict[str, Any]:
    """Compaction for read-ahead of files beside compaction for huge page faults, by samples of a hundred."""
    stacks = [
        f"isolate_migratepages_block < compact_zone < {ASKED} < page_cache_ra_order < filemap_read {reading}",
        f"isolate_migratepages_block < compact_zone < {ASKED} < do_huge_pmd_anonymous_page {faulting}",
        f"main {100 - reading - faulting}",
    ]
    return told(CaseFile(name="x", outcome="fires", facts={"thp.defrag": "always"}, stacks=stacks))


def test_read_ahead_and_page_faults_are_named_with_their_shares() -> None:
    """As measured: 70 % of the samples compact for read-ahead, 28 % for page faults; and the other way round."""
    result = both_compact(70, 28)
    assert result["verdict"]["rule"] == "ALT-14"
    faults = next(f for f in result["findings"] if f["rule"] == "THP-010")
    assert (faults["role"], faults["demoted_by"]) == ("contributing", ["ALT-14"])
    assert any(a["id"].startswith("defrag") for a in faults["remedies"]), "its own share is real and can be cured"
    for report in (text(result), html(result)):
        shown = " ".join(report.split())
        assert "28.0 % of the non-idle samples" in shown
        assert "70.0 % of the non-idle samples" in shown
        assert "uperseded by ALT-14" in shown or "xplained better by ALT-14" in shown
    assert both_compact(20, 60)["verdict"]["rule"] == "THP-010"


def test_a_consequence_has_no_advice_of_its_own() -> None:
    """Stalls that the counters show follow from the compaction that the stacks show; one cure is told, once."""
    stacks = [f"isolate_migratepages_block < compact_zone < {ASKED} < do_huge_pmd_anonymous_page 40", "main 60"]
    series = {"node_vmstat_compact_stall": "0+200x12 @10s", "node_vmstat_thp_fault_alloc": "0+100x12 @10s",
              "node_vmstat_thp_fault_fallback": "0+100x12 @10s"}  # fmt: skip
    result = told(CaseFile(name="x", outcome="fires", facts={"thp.defrag": "always"}, stacks=stacks, series=series))
    leader, stalls = (next(f for f in result["findings"] if f["rule"] == r) for r in ("THP-010", "THP-012"))
    assert (result["verdict"]["rule"], stalls["remedies"]) == ("THP-010", [])
    assert "THP-012" in leader["consequences"]
    report = text(result, Presentation(verbosity=1))
    assert report.index("What to do") < report.index("Consequences") < report.index("THP-012")
