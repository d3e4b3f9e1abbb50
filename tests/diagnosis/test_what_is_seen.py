"""An input that does not decide it still says something: the verdict begins with what an expert would see first."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract.run_command import run_command

from analyze_bytes import document
from expected_diagnosis import FIXTURES


def vmstat(user: int, kernel: int, idle: int) -> str:
    """vmstat, nine rows of two seconds."""
    head = """[root@db1 ~]# vmstat 2 9
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
"""
    return (
        head + f" 4  0      0 812345  20000 900000    0    0     0    20 1000 2000 {user} {kernel} {idle}  0  0\n" * 9
    )


FAULT = "clear_page_erms do_anonymous_page handle_mm_fault do_user_addr_fault exc_page_fault asm_exc_page_fault"
CALL = "copy_page_to_iter filemap_read vfs_read ksys_read do_syscall_64 entry_SYSCALL_64_after_hwframe"


def perf_script(*turns: str) -> str:
    """Four hundred samples of a program, which does one of `turns` after the other in the kernel or, if empty, none."""
    text = "[root@db1 ~]# perf script -i thp.data\n"
    for sample in range(400):
        text += f"worker  4711 [000] {100 + sample / 100:.6f}:     250000 cpu-clock:ppp:\n"
        for name in turns[sample % len(turns)].split():
            text += f"\tffffffff81000000 {name}+0x10 ([kernel.kallsyms])\n"
        text += "\t          401136 main+0x30 (/opt/app/worker)\n\n"
    return text


HUNG = """\
[  245.528573] INFO: task khugepaged:136 blocked for more than 122 seconds.
[  245.528579]       Not tainted 6.8.1 #1
[  245.528581] "echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.
"""
OF_A_GROUP = """\
[ 7215.004711] Memory cgroup out of memory: Killed process 4711 (worker) total-vm:900000kB, anon-rss:510000kB
"""
SLABTOP = """\
 Active / Total Objects (% used)    : 739390584 / 740008326 (99.9%)
 Active / Total Slabs (% used)      : 11594275 / 11594275 (100.0%)
 Active / Total Caches (% used)     : 105 / 129 (81.4%)
 Active / Total Size (% used)       : 47121380.33K / 47376581.93K (99.5%)
 Minimum / Average / Maximum Object : 0.01K / 0.06K / 8.00K

  OBJS ACTIVE  USE OBJ SIZE  SLABS OBJ/SLAB CACHE SIZE NAME
{rows}
 69442  36292  52%    2.00K   4341       16    138912K kmalloc-2048
"""
LEAK = "734506368 734506368 100%    0.06K 11476662       64  45906648K filter_node"
TOP = """\
top - 14:02:50 up 16:38,  1 user,  load average: 37.90, 32.11, 18.45
Tasks: 488 total,   2 running, 486 sleeping,   0 stopped,   0 zombie
%Cpu(s):  4.4 us,  6.6 sy,  0.0 ni,  0.0 id, 88.3 wa,  0.2 hi,  0.3 si,  0.2 st
MiB Mem :  88363.9 total,   1007.3 free,  87028.3 used,    328.2 buff/cache
MiB Swap:      0.0 total,      0.0 free,      0.0 used.  {available} avail Mem

    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
    160 root      20   0       0      0      0 R  99.0   0.0  10:42.59 [kswapd0]
"""
PAUSES = (FIXTURES / "readers/gc_log/jdk17-dated/gc.log").read_text("utf-8")
SEEN = {
    "java": (PAUSES, "Pauses of a Java program are kernel time, which page faults for huge pages or swapping"),
    "java8": (PAUSES.replace("User=0.0", "User=2.0"), "Inconclusive."),
    "kernel": (vmstat(20, 75, 5), "The kernel uses much of the CPU time, and the input does not show for what."),
    "stacks": (
        vmstat(40, 55, 5) + perf_script(CALL, CALL, FAULT, "", ""),
        "The kernel uses much of the CPU time, and almost none of it for huge pages or compaction. 40.0 % of the",
    ),
    "faults": (
        vmstat(40, 55, 5) + perf_script(FAULT, FAULT, CALL, "", ""),
        "Page faults for small pages take the kernel time. 40.0 % of the non-idle samples are in page faults",
    ),
    "programs": (vmstat(92, 5, 3), "Programs use the CPU time in user space, and the kernel takes little of it."),
    "rest": (vmstat(8, 2, 90), "The CPUs had idle time, so CPU time was not short unless one thread was at its limit."),
    "between": (vmstat(45, 28, 27), "Inconclusive. See what to send."),
    "hang": (HUNG, "The kernel reports a problem that the input does not explain: a task did not run for a long time "),
    "group": (OF_A_GROUP, "A process was OOM-killed at the memory limit of its cgroup."),
    "slabs": (SLABTOP.format(rows=LEAK), "Almost all slab memory of the kernel is in one cache."),
    "names": (SLABTOP.format(rows=LEAK.replace("filter_node", "dentry")), "Inconclusive."),
    "memory": (TOP.format(available="  549.4"), "The host is short of memory and reclaims it. kswapd0"),
    "disk": (TOP.format(available="30549.4"), "Programs wait for disks, or writing to disks takes the kernel time."),
}  # fmt: skip


@pytest.mark.parametrize("what", SEEN)
def test_the_verdict_begins_with_what_is_seen(what: str) -> None:
    """Kernel time, programs' time, rest; a hang without a trace; a kill; and what a single look proves."""
    text, sentence = SEEN[what]
    assert document(text.encode())["verdict"]["sentence"].startswith(sentence)


def test_a_name_of_the_customers_in_it_is_redacted(tmp_path: Path) -> None:
    """The program that hangs is named in the verdict, and by a pseudonym where names may not leave the house."""
    log = tmp_path / "dmesg.txt"
    log.write_text(HUNG.replace("khugepaged:136", "acmeledgerd:136"))
    assert "(acmeledgerd)" in run_command("analyze", log, "-f", "json").document["verdict"]["sentence"]
    assert "acmeledgerd" not in run_command("analyze", "--redact", log, "-f", "json").out
