"""`toggle`: what two stretches with different settings prove, and what they do not."""

from __future__ import annotations

from typing import Any

import pytest

from thpdiag.authoring.cases import build_host
from thpdiag.engine.check_result import NO, UNKNOWN, YES, CheckResult
from thpdiag.engine.checks import judge
from thpdiag.engine.schema import CaseFile, ToggleCheck
from thpdiag.engine.state_view import state_views

STALLS, SHARE = "node_vmstat_compact_stall", "cpu_ratio.sys_share"


def switched(always: dict[str, Any], never: dict[str, Any], **check: Any) -> CheckResult:
    """What a switch of `enabled` shows in the stretch before it."""
    states = [{"facts": {"thp.enabled": "always", **always.pop("facts", {})}, **always},
              {"facts": {"thp.enabled": "never", **never.pop("facts", {})}, **never}]  # fmt: skip
    case = build_host(CaseFile.model_validate({"name": "a", "outcome": "fires", "states": states}))
    every = state_views(case)
    return judge(ToggleCheck.model_validate({"toggle": {"setting": "thp.enabled", "ratio": 2, **check}}), every[0])


def series(**values: str) -> dict[str, Any]:
    return {"series": {name.replace("__", "."): f"{row} @10s" for name, row in values.items()}}


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("5+0x12", "5+0x12", NO),  # it never moved
        ("5+10x12", "5+0x12", NO),  # a stall a second costs nothing that can be felt
        ("5+30x12", "5+0x12", YES),
        ("5+30x12", "5+20x12", NO),
    ],
)
def test_a_counter_that_hardly_moved_was_not_cured(before: str, after: str, wanted: object) -> None:
    """Nothing before and nothing after is no difference; a little that is gone is none that matters."""
    said = switched(series(node_vmstat_compact_stall=before), series(node_vmstat_compact_stall=after))
    assert said.value is wanted
    assert ("too little to matter" in said.text) is (before in ("5+0x12", "5+10x12"))


def test_a_healthy_share_that_fell_is_no_proof() -> None:
    """From a tenth to a twentieth of the busy time."""
    assert switched(series(cpu_ratio__sys_share="0.1+0x12"), series(cpu_ratio__sys_share="0.04+0x12")).value is NO
    assert switched(series(cpu_ratio__sys_share="0.6+0x12"), series(cpu_ratio__sys_share="0.24+0x12")).value is YES


@pytest.mark.parametrize("after", ["0.6", "0.61", "0.9"])
def test_a_share_that_stayed_or_rose_was_not_cured(after: str) -> None:
    """A little worse after the switch is a no as well; only what got better asks whether the switch did it."""
    always, never = series(cpu_ratio__sys_share="0.6+0x12"), series(cpu_ratio__sys_share=f"{after}+0x12")
    assert switched(always, never).value is NO


@pytest.mark.parametrize(("seconds", "wanted"), [(600, NO), (100, NO), (30, YES)])
def test_the_work_done_decides(seconds: int, wanted: object) -> None:
    """Less kernel time is no gain where the same work takes longer, or as long."""
    always = {"facts": {"work.seconds": [{"value": 100, "job": "sort", "kind": "real"}]}}
    never = {"facts": {"work.seconds": [{"value": seconds, "job": "sort", "kind": "real"}]}}
    said = switched(always | series(cpu_ratio__sys_share="0.6+0x12"), never | series(cpu_ratio__sys_share="0.2+0x12"))
    assert said.value is wanted
    assert "time for the same work" in said.text


@pytest.mark.parametrize("strict", ["defer", "never"])
@pytest.mark.parametrize("loose", ["madvise", "defer+madvise", "always"])
def test_memory_that_asked_for_huge_pages_waits_unless_compaction_is_deferred(loose: str, strict: str) -> None:
    """The switch to defer cures what madvise leaves, and the switch back brings it again."""
    stalls = {loose: "5+300x12 @10s", strict: "5+1x12 @10s"}
    for order in ((loose, strict), (strict, loose)):
        states = [{"facts": {"thp.defrag": value}, "series": {STALLS: stalls[value]}} for value in order]
        case = build_host(CaseFile.model_validate({"name": "a", "outcome": "fires", "states": states}))
        worse = state_views(case)[order.index(loose)]
        said = judge(ToggleCheck.model_validate({"toggle": {"setting": "thp.defrag", "ratio": 2}}), worse)

        assert said.value is YES
        assert f"thp.defrag {loose}: compaction stalls" in said.text


FAULT, BACKGROUND, READ_AHEAD = (
    "compact_zone < try_to_compact_pages < do_huge_pmd_anonymous_page",
    "compact_zone < kcompactd_do_work < kcompactd",
    "compact_zone < try_to_compact_pages < page_cache_ra_order < filemap_read",
)


@pytest.mark.parametrize("other", [BACKGROUND, READ_AHEAD])
def test_compaction_for_others_goes_on_after_the_cure(other: str) -> None:
    """A switch to defer leaves the work to kcompactd, and files are read as before: neither is for page faults."""
    before, after = [f"{FAULT} 30", "main 70"], [f"{other} 30", "main 70"]
    said = switched({"stacks": before}, {"stacks": after}, effects=["stalls"])

    assert (said.value, "30.0 %" in said.text) == (YES, True)
    assert switched({"stacks": after}, {"stacks": ["main 100"]}, effects=["stalls"]).value is NO


def test_a_profile_without_callers_is_not_compared_with_call_chains() -> None:
    """It cannot tell for whom the compaction is."""
    flat, chains = ["compact_zone 30", "main 70"], [f"{BACKGROUND} 30", "main 70"]
    said = switched({"flat": flat}, {"stacks": chains}, effects=["stalls"])

    assert said.value is UNKNOWN
    assert switched({"flat": flat}, {"flat": ["main 100"]}, effects=["stalls"]).value is YES


def together(*settings: tuple[str, str, str], asked: str | list[str] = "thp.defrag") -> CheckResult:
    """Stretches with enabled, defrag and the seconds that a job took, as the check sees them in the first."""
    states = [
        {"facts": {"thp.enabled": on, "thp.defrag": defrag, "work.seconds": [{"value": took, "job": "fill"}]}}
        for on, defrag, took in settings
    ]
    case = build_host(CaseFile.model_validate({"name": "a", "outcome": "fires", "states": states}))
    return judge(ToggleCheck.model_validate({"toggle": {"setting": asked, "ratio": 2}}), state_views(case)[0])


def test_of_two_settings_switched_together_neither_is_named_alone() -> None:
    """Who writes never into both and is cured does not know by which; both together did it."""
    slow, cured = ("always", "always", "3672"), ("never", "never", "58")
    said = together(slow, cured)
    assert (said.value, "switched together" in said.text) == (UNKNOWN, True)
    both = together(slow, cured, asked=["thp.enabled", "thp.defrag"])
    assert both.value is YES
    assert "thp.enabled always and thp.defrag always" in both.text or "thp.defrag always and thp.enabled" in both.text
    for stricter in ("never", "madvise"):  # whatever defrag does, it was huge pages
        either = together(slow, (stricter, "never", "58"), asked="thp.enabled")
        assert (either.value, "and thp.defrag always" in either.text) == (YES, True)


def test_a_stretch_that_differs_in_one_setting_alone_is_taken() -> None:
    """First defrag, then enabled as well: the first step shows what defrag does."""
    slow, first, second = ("always", "always", "3672"), ("always", "never", "60"), ("never", "never", "58")
    said = together(slow, first, second)
    assert (said.value, said.measured) == (YES, pytest.approx(3672 / 60))
    assert together(slow, ("always", "never", "3600"), second).value is NO
