"""What the charts are drawn from: series by panel and within their budget, free blocks by order, names of findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analyze_bytes import result_of, rules
from conftest import ROOT
from thpdiag.model.finding import fingerprint
from thpdiag.pipeline import analyze

CHURN = ROOT / "fixtures/captures/alloc-churn/bundle"


def churn() -> dict[str, Any]:
    return result_of(CHURN)


def test_every_series_belongs_to_a_panel() -> None:
    """A capture with perf has CPU, huge-page counters, memory, processes, free blocks and a signature in stacks."""
    panels = {series["panel"] for series in churn()["timeline"]["series"]}
    assert panels == {"cpu", "huge_pages", "memory", "processes", "free_blocks", "call_stacks"}


def test_free_blocks_are_those_of_the_file() -> None:
    """Counts and line of the first and last reading stand in the bundle as printed."""
    told = churn()["host"]["free_blocks"]
    assert {one["zone"] for one in told} >= {"Normal"}
    for one in told:
        line = (CHURN / one["member"]).read_text().splitlines()[one["line"] - 1]
        assert line.split()[:4] == ["Node", f"{one['node']},", "zone", one["zone"]]
        assert [int(word) for word in line.split()[4:]] == one["counts"]


def test_a_source_that_stands_still_is_not_drawn_where_another_moves() -> None:
    """Twenty rows of vmstat 4.0.2 repeat the free memory of the first; top shows how it was used up."""
    knee = result_of(ROOT / "fixtures/captures/knee-of-the-host/bundle")
    [free] = [one for one in knee["timeline"]["series"] if one["metric"] == "node_memory_MemFree_bytes"]
    assert free["source"].startswith("top.txt:")
    assert free["points"][0][3] > 1.5 * free["points"][-1][3]


def test_many_series_share_the_room(tmp_path: Path) -> None:
    """Of a day with a row a second no document holds more than 6,000 buckets, and each series keeps its extremes."""
    head = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----\n"
    names = " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC\n"
    row = " 1  0      0 8000 1000 2000    0    0     0     0  100  200 10 {} {} 7  0 2026-11-19 {:02}:{:02}:{:02}\n"
    rows = [row.format(*((60, 23) if n == 4321 else (3, 80)), n // 3600, n // 60 % 60, n % 60) for n in range(20_000)]
    (tmp_path / "vmstat.txt").write_text(head + names + "".join(rows))
    series = analyze([tmp_path / "vmstat.txt"], rules())["timeline"]["series"]
    assert len(series) >= 3
    assert 200 * len(series) <= sum(len(one["points"]) for one in series) <= 6000
    system = next(one for one in series if one["metric"].startswith("cpu_ratio.sys_total"))
    assert max(point[2] for point in system["points"]) == 0.6


def test_a_finding_keeps_its_name_in_the_next_bundle() -> None:
    """Another pid of the same program is the same finding; another host, rule or program is not."""
    name = fingerprint("THP-013", "db1", "redis-server (1234)")
    assert name == fingerprint("THP-013", "db1", "redis-server (77)")
    assert len(name) == 16
    others = [
        ("THP-012", "db1", "redis-server (1)"),
        ("THP-013", "db2", "redis-server (1)"),
        ("THP-013", "db1", "java"),
    ]
    assert name not in {fingerprint(*other) for other in others}
    found = churn()["findings"]
    assert len({one["fingerprint"] for one in found}) == len(found)


def test_a_process_that_two_sources_watched_is_one_series() -> None:
    """/proc/PID/stat and /proc/PID/status of one loop say the same: the chart has one of them, and room for others."""
    told = [s for s in churn()["timeline"]["series"] if s["panel"] == "processes"]
    names = [(s["metric"], s["entity"], s["clock"]) for s in told]
    assert len(names) == len(set(names))
    assert ("process_resident_memory_bytes", "churn (20963)", "utc") in names
    assert {(entity, clock) for _, entity, clock in names} == {("churn (20963)", "utc")}  # of smaps: process 20963
