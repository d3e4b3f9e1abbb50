"""Shares of a part of a recording: of one function, one command, or of what callers do; and of how many samples."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from thpdiag.authoring.cases import build_host
from thpdiag.engine.check_result import NO, UNKNOWN, YES, CheckResult
from thpdiag.engine.checks import judge
from thpdiag.engine.schema import CaseFile, ProfileCheck
from thpdiag.engine.schema import Profile as Check
from thpdiag.engine.state_view import state_views

SEARCH = "isolate_migratepages_block < compact_zone < try_to_compact_pages < do_huge_pmd_anonymous_page"
MOVE = "migrate_pages < compact_zone < try_to_compact_pages < do_huge_pmd_anonymous_page"
FLUSH = f"smp_call_function_many_cond < {MOVE}"
MOVING = {"anywhere": ["migrate", "tlb_flush"], "under": ["compaction", "thp_fault"], "of": "callers"}
PURE = {"anywhere": "tlb_flush", "under": ["migrate", "compaction", "thp_fault"], "of": "symbol", "at_least": "90 %"}


def judged(stacks: list[str], key: str = "stacks", **check: Any) -> CheckResult:
    """Ten samples for each unit of weight."""
    case = build_host(CaseFile.model_validate({"name": "a", "outcome": "fires", key: stacks}))
    return judge(ProfileCheck(profile=Check.model_validate(check)), state_views(case)[0])


def test_what_callers_do_is_a_share_of_the_callers() -> None:
    """Of forty hundredths in compaction thirty are in moving pages, however much else ran."""
    said = judged([f"{SEARCH} 10", f"{MOVE} 30", "main 60"], **MOVING, at_least="70 %")
    assert (said.value, said.measured) == (YES, 0.75)
    assert said.text.startswith(
        "75.0 % of the samples in memory compaction within huge-page faults are in page migration or TLB flushes"
    )
    assert judged([f"{SEARCH} 10", f"{MOVE} 30", "main 60"], **MOVING, at_least="80 %").value is NO


def test_callers_that_are_not_there_do_nothing() -> None:
    """And where a source shows no callers nobody knows."""
    assert judged(["main 100"], **MOVING, at_least="50 %").value is NO
    assert judged(["migrate_pages 50", "compact_zone 50"], "flat", **MOVING, at_least="50 %").value is UNKNOWN


def test_callers_must_be_named() -> None:
    """A share of callers without any is none."""
    with pytest.raises(ValidationError, match="needs under"):
        Check.model_validate({"anywhere": "migrate", "of": "callers", "at_least": "50 %"})


@pytest.mark.parametrize(("weight", "wanted"), [("0.3", UNKNOWN), ("0.9", UNKNOWN), ("1.0", YES)])
def test_no_share_of_a_function_that_was_hardly_seen(weight: str, wanted: object) -> None:
    """All of three samples is no purity; ten of a recording of eighty are some."""
    said = judged([f"{FLUSH} {weight}", "main 7"], **PURE)
    assert said.value is wanted
    assert ("too few" in said.text) is (wanted is UNKNOWN)
    assert said.missing == (("profile",) if wanted is UNKNOWN else ())


@pytest.mark.parametrize(("weight", "wanted"), [("0.4", UNKNOWN), ("0.5", YES), ("0.1", NO)])
def test_a_few_samples_may_be_chance(weight: str, wanted: object) -> None:
    """Four of eighty are five in a hundred and show nothing; that one sample is too little stays said."""
    said = judged([f"{FLUSH} {weight}", "main 7.5"], anywhere="compaction", at_least="5 %")
    assert said.value is wanted
    assert ("4 of 79 samples may be chance" in said.text) is (wanted is UNKNOWN)


def test_a_command_of_a_few_samples_is_no_subject() -> None:
    """Two of two samples of one command; a recording whose maker accepts few takes them."""
    stacks = [f"{FLUSH} 0.2 [cc]", "main 7 [java]"]
    assert judged(stacks, anywhere="compaction", of="comm", at_least="50 %").value is NO
    assert judged(stacks, anywhere="compaction", of="comm", at_least="50 %", min_samples=5).value is YES
