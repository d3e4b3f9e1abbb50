"""Huge pages of 512 MiB: rates that mean nothing elsewhere are gigabytes here."""

from __future__ import annotations

import pytest

from analyze_bytes import document

SIZE = "cat /sys/kernel/mm/transparent_hugepage/hpage_pmd_size\n"
MEMINFO = "cat /proc/meminfo\nMemTotal: 66000000 kB\nMemFree: 16000000 kB\nHugepagesize: 524288 kB\n"


@pytest.mark.parametrize(
    ("told", "status"),
    [
        (f"{SIZE}2097152\n", "nothing_found"),
        (f"{SIZE}536870912\n", "cannot_tell"),
        (MEMINFO, "cannot_tell"),
        ("uname -r\n5.14.0-427.el9.x86_64\n", "nothing_found"),
        ("uname -r\n5.14.0-427.el9.aarch64\n", "cannot_tell"),
        ("uname -r\n5.14.0-427.el9.aarch64+64k\n", "cannot_tell"),
        ("getconf PAGESIZE\n65536\n", "cannot_tell"),
        ("sudo getconf PAGE_SIZE\n4096\n", "nothing_found"),
        ("uname -r\n5.14.0-427.el9.aarch64\n[root@db1 ~]# getconf PAGE_SIZE\n4096\n", "nothing_found"),
    ],
)
def test_two_huge_pages_per_second_are_nothing_only_if_they_are_small(told: str, status: str) -> None:
    """Counters that show a gigabyte of clearing per second do not say that nothing is the matter."""
    shell = "[root@db1 ~]# "
    text = f"{shell}{told}"
    text += f"{shell}while sleep 10; do date +%s; cat /proc/vmstat; done\n"
    for i in range(12):
        text += f"{1700000000 + 10 * i}\nnr_free_pages 4000000\nallocstall_normal 0\nallocstall_movable 0\n"
        text += f"compact_stall 7\nthp_fault_alloc {20 * i}\nthp_fault_fallback 0\nthp_collapse_alloc 3\n"
    assert document(text.encode())["verdict"]["status"] == status
