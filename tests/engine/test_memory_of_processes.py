"""What memory of processes and control groups is derived, and how checks speak of one process."""

from __future__ import annotations

import pytest

from thpdiag.authoring.cases import parse_case
from thpdiag.engine.check_result import NO, UNKNOWN, YES
from thpdiag.engine.checks import judge
from thpdiag.engine.schema import CaseFile, Process, ProcessCheck
from thpdiag.engine.state_view import state_views
from thpdiag.host.derived import add_derived_facts
from thpdiag.model import Case, Verdict3

JAVA = ["/usr/bin/java -Xmx8g -XX:+AlwaysPreTouch App", "/opt/cache/cached --size 8g"]


def case(**of: object) -> Case:
    return add_derived_facts(parse_case(CaseFile.model_validate({"name": "x", "outcome": "fires", **of})))


def facts(of: Case) -> dict[str, str | float]:
    return {fact.name: fact.value for state in of.states for fact in (*of.facts, *state.facts)}


def values(of: Case, metric: str) -> list[float]:
    rows = (sample for state in of.states for sample in state.samples)
    return [row.values[metric] for row in rows if metric in row.values]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("pid", "check", "answer"),
    [
        ("100", Process(app="jvm"), YES),
        ("101", Process(app="jvm"), NO),
        ("100", Process(args="AlwaysPreTouch"), YES),
        ("101", Process(args="AlwaysPreTouch"), NO),
        ("101", Process(comm="cached"), YES),
        ("101", Process(comm="cached", args="16g"), NO),
        ("999", Process(args="AlwaysPreTouch"), UNKNOWN),
    ],
)
def test_a_bound_check_speaks_of_that_process_only(pid: str, check: Process, answer: Verdict3) -> None:
    """That Java runs somewhere on the host says nothing of another process."""
    scene = state_views(case(processes=JAVA))[0].bind("process", (("pid", pid),))

    assert judge(ProcessCheck(process=check), scene).value is answer


def test_an_unbound_check_looks_at_all_processes() -> None:
    """One that fits is enough; that none fits is known only where they were listed."""
    some, none = state_views(case(processes=JAVA))[0], state_views(case())[0]

    assert judge(ProcessCheck(process=Process(args="PreTouch")), some).value is YES
    assert judge(ProcessCheck(process=Process(args="huge-pages=on")), some).value is NO
    assert judge(ProcessCheck(process=Process(args="PreTouch")), none).value is UNKNOWN


@pytest.mark.parametrize(
    ("told", "huge_page"),
    [
        ({}, 2 * 2**20),
        ({"facts": {"thp.hpage_pmd_size": 2 * 2**20}}, 2 * 2**20),
        ({"facts": {"thp.hpage_pmd_size": 512 * 2**20}}, 512 * 2**20),
        ({"facts": {"kernel.page_size": 65536}}, 512 * 2**20),
        ({"series": {"node_memory_Hugepagesize_bytes": str(512 * 2**20)}}, 512 * 2**20),
        ({"series": {"node_memory_Hugepagesize_bytes": str(2**30)}}, 2 * 2**20),
    ],
    ids=["nothing told", "x86", "64 KiB pages", "getconf", "meminfo", "another default of reserved pages"],
)
def test_a_page_fault_brings_one_huge_page_at_most(told: dict[str, dict[str, object]], huge_page: int) -> None:
    """Of whatever size it is on the host."""
    series = {**told.get("series", {}), "process_faults_total": "3 5"}

    assert values(case(facts=told.get("facts", {}), series=series), "process_fault_bytes_total") == [
        3 * huge_page,
        5 * huge_page,
    ]


def test_memory_given_back_in_parts_of_huge_pages_is_found_in_meminfo() -> None:
    """What is on the lists of anonymous pages, less what somebody maps, shares or has in the swap cache."""
    meminfo = {"MemTotal": 1000, "Active_anon": 100, "Inactive_anon": 500, "AnonPages": 300, "Shmem": 50}
    series = {f"node_memory_{name}_bytes": str(size) for name, size in meminfo.items()}

    assert facts(case(series=series))["memory.anon_unmapped_ratio"] == 0.25
    assert facts(case(series={**series, "node_memory_SwapCached_bytes": "200"}))["memory.anon_unmapped_ratio"] == 0.05
    assert facts(case(series={**series, "node_memory_AnonPages_bytes": "900"}))["memory.anon_unmapped_ratio"] == 0
    del series["node_memory_Shmem_bytes"]
    assert "memory.anon_unmapped_ratio" not in facts(case(series=series))


def test_reserved_pages_of_all_sizes_count() -> None:
    """`Hugetlb` knows them all; before 4.19 only those of the default size are known."""
    pool = {"HugePages_Total": 100, "HugePages_Free": 60, "HugePages_Rsvd": 10, "Hugepagesize_bytes": 2}
    series = {f"node_memory_{name}": str(value) for name, value in {**pool, "MemTotal_bytes": 1000}.items()}
    told = facts(case(series=series))

    assert (told["memory.hugetlb_ratio"], told["memory.hugetlb_unused_ratio"]) == (0.2, 0.1)
    assert facts(case(series={**series, "node_memory_Hugetlb_bytes": "700"}))["memory.hugetlb_ratio"] == 0.7


def test_a_control_group_is_charged_for_what_nobody_maps() -> None:
    """As recorded on 6.18; a small group is left out."""
    group = {"active_anon": 4096, "inactive_anon": 1073840128, "anon": 134320128, "shmem": 0}
    series = {f"cgroup_memory_{name}_bytes{{cgroup=/web}}": str(size) for name, size in group.items()}
    small = {name: str(int(size) // 100) for name, size in series.items()}

    assert values(case(series=series), "cgroup_memory_unmapped_share") == [pytest.approx(0.875, abs=0.001)]
    assert values(case(series=small), "cgroup_memory_unmapped_share") == []


@pytest.mark.parametrize(("pages", "pause", "pace"), [(4096, 10000, 409.6), (4096, 0, 4096000.0)])
def test_the_pace_of_khugepaged(pages: int, pause: int, pace: float) -> None:
    """No pause at all is taken for a millisecond."""
    of = {"thp.khugepaged.pages_to_scan": pages, "thp.khugepaged.scan_sleep_millisecs": pause}

    assert facts(case(facts=of))["thp.khugepaged.scan_rate"] == pace
    del of["thp.khugepaged.pages_to_scan"]
    assert "thp.khugepaged.scan_rate" not in facts(case(facts=of))


def test_free_memory_is_told_as_a_share() -> None:
    """Free memory of all memory, row by row; without either there is none."""
    series = {"node_memory_MemTotal_bytes": "1000+0x2 @10s", "node_memory_MemFree_bytes": "100 250 500 @10s"}

    assert values(case(series=series), "node_memory_MemFree_share") == [0.1, 0.25, 0.5]
    del series["node_memory_MemTotal_bytes"]
    assert values(case(series=series), "node_memory_MemFree_share") == []
