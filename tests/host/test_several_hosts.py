"""Bundles of several hosts in one input: what has no name of its own belongs to the bundle that it lies in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import STRICT, found, rules
from thpdiag.detect import TaggedRecord
from thpdiag.host.hosts import group_by_host
from thpdiag.model import Citation, Fact, Sample
from thpdiag.pipeline import analyze


def readings(root: str, host: str) -> dict[str, list[TaggedRecord]]:
    """A capture: uname in a file of its own, a copy of /proc, and a loop that names nobody."""
    named = Fact("host.name", host, Citation(f"{root}/host.txt", 2))
    build = Fact("kernel.build", "#1 SMP", Citation(f"{root}/host.txt", 2))
    copied = Fact("kernel.release", "6.18.0", Citation(f"{root}/proc/version", 1))
    row = Sample("system", {"node_load1": 1.0}, Citation(f"{root}/loops/counters.txt", 7), "x")
    return {
        f"{root}/host.txt": [TaggedRecord(named, "uname", ("", host)), TaggedRecord(build, "uname", ("", host))],
        f"{root}/proc/version": [TaggedRecord(copied, "proc_version", ("", ""))],
        f"{root}/loops/counters.txt": [TaggedRecord(row, "x", ("", ""))],
    }


def test_unnamed_members_join_the_host_of_their_bundle() -> None:
    """Two captures side by side stay two hosts, each with its own loop."""
    piles = group_by_host({**readings("a", "node1"), **readings("b", "node2")}).hosts
    found = {pile.host: {record.cite.member for record in pile.records} for pile in piles}
    assert found == {
        "node1": {"a/host.txt", "a/proc/version", "a/loops/counters.txt"},
        "node2": {"b/host.txt", "b/proc/version", "b/loops/counters.txt"},
    }


def test_uname_decides_where_a_bundle_names_two() -> None:
    """A tool's header with another spelling of the name does not take the loop away from the host."""
    members = readings("a", "node1") | readings("b", "node2")
    cpu = Sample("system", {"node_load1": 1.0}, Citation("a/mpstat.txt", 3), "mpstat")
    members["a/mpstat.txt"] = [TaggedRecord(cpu, "mpstat", ("", "alias"))]
    found = {pile.host: {record.cite.member for record in pile.records} for pile in group_by_host(members).hosts}
    assert "a/loops/counters.txt" in found["node1"]
    assert found["alias"] == {"a/mpstat.txt"}


def test_a_bundle_without_a_name_is_not_the_host_of_the_one_that_has_one() -> None:
    """Of two nodes of a must-gather only one has a log that names it; loose files beside them may be of neither."""
    unnamed = Sample("system", {"node_load1": 1.0}, Citation("b/proc/vmstat", 7), "x")
    loose = Sample("system", {"node_load1": 1.0}, Citation("vmstat.txt", 7), "x")
    members = readings("a", "node1")
    members["b/proc/vmstat"] = [TaggedRecord(unnamed, "x", ("", ""))]
    assert {pile.host for pile in group_by_host(members).hosts} == {"node1", ""}
    alone = {**readings("a", "node1"), "vmstat.txt": [TaggedRecord(loose, "x", ("", ""))]}
    assert [pile.host for pile in group_by_host(alone).hosts] == ["node1"]


def test_another_kernel_is_another_host() -> None:
    """A copied tree that names nobody and has another kernel is not the host that a text beside it names."""

    def beside(kernel: str) -> dict[str, set[str]]:
        ticket = {
            "ticket.txt": [
                TaggedRecord(Fact("host.name", "node1", Citation("ticket.txt", 1)), "uname", ("", "node1")),
                TaggedRecord(Fact("kernel.release", kernel, Citation("ticket.txt", 1)), "uname", ("", "node1")),
            ]
        }
        members = {path: rows for path, rows in readings("a", "x").items() if not path.endswith("host.txt")}
        return {pile.host: {r.cite.member for r in pile.records} for pile in group_by_host({**ticket, **members}).hosts}

    tree = {"a/proc/version", "a/loops/counters.txt"}
    assert beside("6.18.0") == {"node1": {"ticket.txt", *tree}}
    assert beside("2.6.32-220.el6") == {"node1": {"ticket.txt"}, "": tree}


def test_a_file_without_a_name_belongs_to_the_host_of_its_folder() -> None:
    """One folder per host: perf's text beside a uname is of that host, though another folder names another."""
    row = Sample("system", {"node_load1": 1.0}, Citation("a/vmstat.txt", 3), "x")
    loose = Sample("system", {"node_load1": 1.0}, Citation("vmstat.txt", 3), "x")
    members = {}
    for folder, host in (("a", "node1"), ("b", "node2")):
        named = Fact("host.name", host, Citation(f"{folder}/uname.txt", 1))
        members[f"{folder}/uname.txt"] = [TaggedRecord(named, "uname", ("", host))]
    members |= {"a/vmstat.txt": [TaggedRecord(row, "x", ("", ""))], "vmstat.txt": [TaggedRecord(loose, "x", ("", ""))]}
    found = {pile.host: {record.cite.member for record in pile.records} for pile in group_by_host(members).hosts}
    assert found == {"node1": {"a/uname.txt", "a/vmstat.txt"}, "node2": {"b/uname.txt"}, "": {"vmstat.txt"}}


TABLE = (
    "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
    " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
)


def host_text(setting: str, user: int, kernel: int) -> str:
    """What somebody read and recorded at a prompt without a name."""
    row = f" 9  0    0 400000  1000 200000    0    0    10   100 2000 3000 {user} {kernel} {100 - user - kernel} 0 0\n"
    return f"$ cat /sys/kernel/mm/transparent_hugepage/enabled\n{setting}\n$ vmstat 5\n{TABLE}{row * 10}"


def diagnosed(folder: Path, sick: str, well: str) -> dict[str, Any]:
    for name, text in ((sick, ("[always] madvise never", 20, 70)), (well, ("always madvise [never]", 50, 4))):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(host_text(*text))
    return analyze([folder], rules(), STRICT)


@pytest.mark.parametrize(
    ("sick", "well", "hosts"),
    [
        ("db1.txt", "db2.txt", {"db1", "db2"}),
        ("lonprd01/out.txt", "lonprd02/out.txt", {"lonprd01", "lonprd02"}),
        ("vmstat-web7.log", "vmstat-web8.log", {"web7", "web8"}),
        ("node-1.txt", "node-2.txt", {"node-1", "node-2"}),
    ],
)
def test_files_that_are_named_after_hosts_are_of_several(sick: str, well: str, hosts: set[str], tmp_path: Path) -> None:
    """Huge pages are on in one and off in the other: nothing was switched. The one in trouble comes first."""
    result = diagnosed(tmp_path, sick, well)
    assert {one["case"] for one in result["cases"]} == hosts
    assert not any("toggle" in str(finding["evidence"]) for one in result["cases"] for finding in one["findings"])
    assert result["case"] == min(hosts)


@pytest.mark.parametrize(
    ("sick", "well"),
    [("before.txt", "after.txt"), ("run1.txt", "run2.txt"), ("vmstat1.txt", "vmstat2.txt"), ("db1.txt", "after.txt"),
     ("db1-always.txt", "db1-never.txt"), ("day-1/vmstat.txt", "day-2/vmstat.txt")],
)  # fmt: skip
def test_files_that_are_named_after_what_was_done_are_of_one(sick: str, well: str, tmp_path: Path) -> None:
    """Then the switch from one to the other is proof."""
    result = diagnosed(tmp_path, sick, well)
    assert "cases" not in result
    assert "THP-007" in found(result)


def test_what_names_its_host_is_not_called_as_its_file(tmp_path: Path) -> None:
    """And a file without a name beside it is not of that host."""
    named = host_text("[always] madvise never", 20, 70).replace("$ ", "[root@oradb ~]# ")
    (tmp_path / "db1.txt").write_text(named)
    (tmp_path / "db2.txt").write_text(host_text("always madvise [never]", 50, 4))
    result = analyze([tmp_path], rules(), STRICT)
    assert {one["case"] for one in result["cases"]} == {"oradb", "db2"}


def test_numbered_folders_of_the_system_are_no_hosts(tmp_path: Path) -> None:
    """Two control groups of one host."""
    for name in ("app1", "app2"):
        folder = tmp_path / "sys/fs/cgroup" / name
        folder.mkdir(parents=True)
        (folder / "memory.stat").write_text("anon 1073741824\nfile 4096\nanon_thp 536870912\nthp_fault_alloc 12\n")
    assert "cases" not in analyze([tmp_path], rules(), STRICT)
