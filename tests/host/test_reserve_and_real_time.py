"""The reserve of free memory as a share of all, and a kernel that cannot have huge pages: each from a line."""

from __future__ import annotations

import pytest

from analyze_bytes import document


def outcomes(text: str) -> dict[str, str]:
    return {rule["id"]: rule["outcome"] for rule in document(text.encode())["rules"]}


@pytest.mark.parametrize(("reserve", "outcome"), [(2_000_000, "fires"), (67_584, "silent")])
def test_the_reserve_is_a_share_of_memory(reserve: int, outcome: str) -> None:
    """Of 16 GiB, from two commands of one session."""
    text = f"node1:~# sysctl vm.min_free_kbytes\nvm.min_free_kbytes = {reserve}\n"
    text += "node1:~# cat /proc/meminfo\nMemTotal:       16384000 kB\nMemFree:         9384000 kB\n"
    assert outcomes(text)["THP-145"] == outcome


@pytest.mark.parametrize(
    "build", ["#1 SMP PREEMPT_RT Debian 6.12.57-1", "#1 SMP PREEMPT RT Thu Sep 5 12:00:00 EDT 2019"]
)
def test_a_real_time_kernel_has_no_huge_pages(build: str) -> None:
    """By the line of its build, unless sysfs shows that it has them."""
    text = f"node1:~# uname -a\nLinux node1 6.12.57-rt {build} x86_64 GNU/Linux\n"
    assert outcomes(text)["CTX-02"] == "fires"
    assert "thp.enabled" not in document(text.encode())["host"]["settings"]  # no default is assumed
    shown = "node1:~# cat /sys/kernel/mm/transparent_hugepage/enabled\n[always] madvise never\n"
    assert outcomes(text + shown)["CTX-02"] == "silent"


def test_another_kernel_leaves_it_open() -> None:
    """PREEMPT_DYNAMIC says nothing of huge pages."""
    text = "node1:~# uname -a\nLinux node1 6.12.57-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.12.57-1 x86_64 GNU/Linux\n"
    assert outcomes(text)["CTX-02"] != "fires"
