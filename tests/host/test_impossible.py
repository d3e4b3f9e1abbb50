"""Values that no kernel has given are left out and named: a damaged digit makes another number, not none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from analyze_bytes import document, found, result_of, rules, sure
from command_line import ROOT
from thpdiag.pipeline import analyze

STORM = ROOT / "fixtures" / "captures" / "storm-always" / "bundle"
GUEST = ROOT / "fixtures/healthy/sosreport-debian12-guest/bundle"
SIZE = "sys/kernel/mm/transparent_hugepage/hpage_pmd_size"
MEMINFO = """\
MemTotal:       65536000 kB
MemFree:         2000000 kB
MemAvailable:   40000000 kB
Buffers:          100000 kB
Cached:         30000000 kB
Active:         20000000 kB
Inactive:       12000000 kB
Active(anon):   10000000 kB
Inactive(anon):  2000000 kB
AnonPages:      11000000 kB
Slab:            3000000 kB
SReclaimable:    2000000 kB
SUnreclaim:      1000000 kB
SwapTotal:       8000000 kB
SwapFree:        8000000 kB
HugePages_Total:     100
HugePages_Free:       10
Hugepagesize:       2048 kB
"""


@pytest.mark.parametrize("digits", ["7152", "2097", "20971520"])
def test_a_page_size_that_is_no_power_of_two(tmp_path: Path, digits: str) -> None:
    """A size of the kernel that was damaged makes no other cause likely."""
    shutil.copytree(STORM, tmp_path / "bundle")
    (place,) = (tmp_path / "bundle").rglob(SIZE)
    place.write_text(f"{digits}\n")
    damaged = analyze([tmp_path / "bundle"], rules())
    assert sure(found(damaged)).keys() <= sure(found(result_of(STORM))).keys()
    (problem,) = [one for one in damaged["problems"] if one["member"].endswith(SIZE)]
    assert "is not a page size" in problem["text"]
    assert problem["hides"]


@pytest.mark.parametrize(
    "line",
    [
        "vm.swappiness = 600",
        "vm.compaction_proactiveness = 2020",
        "vm.extfrag_threshold = -500",
        "vm.dirty_ratio = 200",
        "vm.watermark_scale_factor = 0",
        "vm.min_free_kbytes = -67584",
        "vm.zone_reclaim_mode = -1",
        "vm.defrag_mode = 11",
    ],
)
def test_a_setting_that_the_kernel_refuses(tmp_path: Path, line: str) -> None:
    """It is no value in force, and is named; a file that is read at boot may say so."""
    (tmp_path / "sysctl.txt").write_text(f"vm.stat_interval = 1\n{line}\nvm.overcommit_ratio = 50\n")
    (problem,) = analyze([tmp_path], rules())["problems"]
    assert "cannot be" in problem["text"]
    assert problem["line"] == 2
    (tmp_path / "sysctl.txt").unlink()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "sysctl.conf").write_text(f"{line}\n")
    assert not analyze([tmp_path], rules())["problems"]


@pytest.mark.parametrize(
    ("line", "part", "whole"),
    [
        ("MemFree:        72000000 kB", "MemFree", "MemTotal"),
        ("MemTotal:          65536 kB", "Active", "MemTotal"),
        ("SReclaimable:   20000000 kB", "SReclaimable", "Slab"),
        ("Inactive(anon): 22000000 kB", "Inactive_anon", "Inactive"),
        ("SwapFree:       80000000 kB", "SwapFree", "SwapTotal"),
        ("HugePages_Free:    1000", "HugePages_Free", "HugePages_Total"),
    ],
)
def test_a_part_that_is_larger_than_its_whole(line: str, part: str, whole: str) -> None:
    """Neither is used, and rules that need them say unknown."""
    name = line.partition(":")[0]
    text = "\n".join(line if row.startswith(f"{name}:") else row for row in MEMINFO.splitlines())
    problems = document(f"[root@db1 ~]# cat /proc/meminfo\n{text}\n".encode())["problems"]
    assert any(f"{part} is more than {whole}, which includes it" in one["text"] for one in problems)
    assert all(one["hides"] for one in problems)


def test_what_can_be_is_believed() -> None:
    """A snapshot as the kernel prints it has no problem."""
    assert document(f"[root@db1 ~]# cat /proc/meminfo\n{MEMINFO}".encode())["problems"] == []


def counter(*values: int) -> bytes:
    rows = "".join(
        f"Mon Nov 23 10:00:{at * 5:02} UTC 2026\nthp_fault_alloc 100\nthp_fault_fallback {value}\n"
        for at, value in enumerate(values)
    )
    return f"[root@db1 ~]# while sleep 5; do date; egrep 'compact|thp' /proc/vmstat; done\n{rows}".encode()


@pytest.mark.parametrize("damaged", [44, 4488544885])
def test_a_counter_that_falls_for_one_row_has_not_grown_by_that(damaged: int) -> None:
    """A digit less or more in one row makes no finding."""
    steady = [44885, 44885, 44886, 44886, 44887, 44887]
    whole, changed = counter(*steady), counter(*steady[:3], damaged, *steady[4:])
    assert sure(found(document(changed))).keys() <= sure(found(document(whole))).keys()


def test_two_files_of_a_capture_that_differ(tmp_path: Path) -> None:
    """A setting that lost digits is another one; the list of sysctl in the same sosreport gives it away."""
    shutil.copytree(GUEST, tmp_path / "bundle")
    (place,) = (tmp_path / "bundle").rglob("proc/sys/vm/min_free_kbytes")
    place.write_text("84\n")
    result = analyze([tmp_path / "bundle"], rules())
    assert sure(found(result)).keys() <= sure(found(result_of(GUEST))).keys()
    texts = {one["member"].rpartition("/")[2]: one["text"] for one in result["problems"]}
    assert "vm.min_free_kbytes is 84 here and 67584 in" in texts["min_free_kbytes"]
    assert "vm.min_free_kbytes is 67584 here and 84 in" in texts["sysctl_-a"]
    assert {r["id"]: r["outcome"] for r in result["rules"]}["THP-145"] == "unknown"
