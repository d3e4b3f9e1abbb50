"""A list of processes that was cut by its command does not tell that a program does not run."""

from __future__ import annotations

import pytest

from analyze_bytes import document

SHELL = "[root@db1 ~]# "
LIST = (
    "  PID COMMAND         %CPU   RSS\n 8396 busy            30.8 216728\n10621 work            27.6 126280\n"
    "    1 systemd          0.0   9000\n"
)
BESIDE = (
    f"{SHELL}uname -a\nLinux db1 3.10.0-229.14.1.el7.x86_64 #1 SMP Tue Sep 15 15:05:51 UTC 2015 x86_64 GNU/Linux\n"
    f"{SHELL}cat /sys/kernel/mm/transparent_hugepage/enabled\n[always] madvise never\n"
    f"{SHELL}free -m\n              total        used        free      shared  buff/cache   available\n"
    "Mem:          15885        4000        7812          10        4072       10742\n"
    "Swap:             0           0           0\n"
    f"{SHELL}vmstat 2 6\n"
    "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
    " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
) + " 9  0      0 8000000 72932 792768    0    0    34  1332 1926 2167 83 17  0  0  0\n" * 7
ABSENT = "not among the processes listed"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("ps -eo pid,comm,pcpu,rss --sort=-pcpu", True),
        ("ps -eo pid,comm,pcpu,rss --sort=-pcpu | head -4", False),
        ("ps -eo pid,comm,pcpu,rss|grep -v kworker", False),
    ],
)
def test_a_program_may_run_that_a_cut_list_does_not_name(command: str, told: bool) -> None:
    """The ten busiest processes say nothing of an idle database."""
    ruled_out = document(f"{BESIDE}{SHELL}{command}\n{LIST}".encode())["ruled_out"]
    assert any(ABSENT in one["because"] for one in ruled_out) is told


def test_by_how_much_a_figure_is_rounded_is_not_told_as_its_name() -> None:
    """`free -m` rounds to a MiB, which no share of memory shows."""
    ruled_out = document(BESIDE.encode())["ruled_out"]
    assert not any("within" in one["because"] for one in ruled_out)
