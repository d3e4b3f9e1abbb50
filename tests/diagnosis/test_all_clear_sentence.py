"""The all-clear speaks of what the counters answer, and names what they do not."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract.recorded_answers import recorded_values

from analyze_bytes import STRICT, document, rules
from conftest import ROOT
from thpdiag.knowledge.mechanisms import mechanisms
from thpdiag.pipeline import analyze

KILLED = ROOT / "fixtures/readers/kernel_log/el7_oom_cgroup/dmesg.txt"
SHELL = "[root@db1 ~]# "


def quiet_counters() -> str:
    """Two minutes in which nothing asked for a huge page."""
    text = f"{SHELL}cat /sys/kernel/mm/transparent_hugepage/hpage_pmd_size\n2097152\n"
    text += f"{SHELL}while sleep 10; do date +%s; cat /proc/vmstat; done\n"
    for i in range(12):
        text += f"{1700000000 + 10 * i}\nnr_free_pages 4000000\nallocstall_normal 0\nallocstall_movable 0\n"
        text += "compact_stall 7\nthp_fault_alloc 20\nthp_fault_fallback 0\nthp_collapse_alloc 3\n"
    return text


@pytest.mark.parametrize(("huge", "start"), [(True, "None of the main"), (False, "No huge-page problem:")])
def test_a_group_killed_in_huge_pages_stays_open_beside_quiet_counters(huge: bool, start: str) -> None:
    """Quiet counters say nothing of the huge pages that filled a control group before they began."""
    log = KILLED.read_text()
    assert "rss_huge:1892352KB" in log
    text = quiet_counters() + f"{SHELL}dmesg\n" + (log if huge else log.replace("rss_huge:1892352KB", "rss_huge:0KB"))
    verdict = document(text.encode())["verdict"]
    assert verdict["status"] == "nothing_found"
    assert verdict["sentence"].startswith(start)
    assert ("cgroup" in verdict["sentence"]) is huge


@pytest.mark.parametrize(
    ("looks", "status", "told"),
    [
        (12, "nothing_found", ""),
        (5, "nothing_found", "watched for 40 s only"),
        (3, "nothing_found", "watched for 20 s only"),
        (2, "cannot_tell", "watched for 10 s, which is too short"),
        (1, "cannot_tell", ""),
    ],
)
def test_how_long_the_counters_were_watched_is_told(looks: int, status: str, told: str) -> None:
    """Twenty seconds without any demand are an all-clear of these twenty seconds; ten are too short for one."""
    rounds = quiet_counters().split("17000")
    verdict = document("17000".join(rounds[: looks + 1]).encode())["verdict"]
    assert verdict["status"] == status
    assert told in verdict["sentence"]
    assert ("watched" in verdict["sentence"]) is bool(told)


def test_a_short_look_is_told_where_something_stays_open_too() -> None:
    """Before what is open."""
    text = "17000".join(quiet_counters().split("17000")[:4]) + f"{SHELL}dmesg\n" + KILLED.read_text()
    sentence = document(text.encode())["verdict"]["sentence"]
    assert sentence.index("watched for 20 s only") < sentence.index("Still open")


COUNTERS = sorted((ROOT / "fixtures/captures").glob("*/bundle/loops/counters.txt"))
CORE = {mechanism.name for mechanism in mechanisms().values() if mechanism.demand}


@pytest.mark.parametrize("counters", COUNTERS, ids=lambda path: path.parents[2].name)
def test_less_input_is_no_surer_all_clear(counters: Path) -> None:
    """The kernel's counters alone do not clear a mechanism that the whole recording shows at work."""
    whole = recorded_values("analyze.captures", f"captures/{counters.parents[2].name}")
    if whole["verdict"].get("mechanism") in CORE:
        assert analyze([counters], rules(), STRICT)["verdict"]["status"] != "nothing_found"


@pytest.mark.parametrize("counters", ["khugepaged-growth", "database-start"])
def test_huge_pages_of_khugepaged_stay_open_without_processes(counters: str) -> None:
    """That host memory did not grow by them denies one rule; whether a process grew is another's question."""
    path = ROOT / "fixtures/captures" / counters / "bundle/loops/counters.txt"
    told = analyze([path], rules(), STRICT)
    outcomes = {rule["id"]: rule["outcome"] for rule in told["rules"]}
    assert (outcomes["THP-030"], outcomes["THP-032"]) == ("unknown", "silent")
    assert told["verdict"]["status"] == "cannot_tell"


def test_the_counters_alone_show_that_khugepaged_fills_memory() -> None:
    """AnonPages stands in /proc/vmstat, too, in pages; before 4.8 it had no huge pages in it."""
    text = (ROOT / "fixtures/acceptance/counters-of-growth/bundle/session.txt").read_text()
    assert document(text.encode())["verdict"]["mechanism"] == "khugepaged-bloat"
    old = "\n".join(line for line in text.splitlines() if not line.startswith("nr_zone_"))
    assert document(old.encode())["verdict"]["status"] == "cannot_tell"
