"""Reports of the kernel and of containers as tickets hold them: quoted, cut, titled, without telling rows."""

from __future__ import annotations

from typing import Any

import pytest

from analyze_bytes import document

TRACE = """\
{stamp} INFO: task khugepaged:41 blocked for more than 614 seconds.
{stamp} Tainted: G E 6.12.0-5.el9.x86_64 #1
{stamp} {quote}echo 0 > /proc/sys/kernel/hung_task_timeout_secs{quote} disables this message.
{stamp} task:khugepaged state:D stack:0 pid:41 tgid:41 ppid:2 flags:0x00004000
{stamp} Call Trace:
{stamp} <TASK>
{stamp} __schedule+0x266/0x720
{stamp} schedule+0x27/0xa0
{stamp} rwsem_down_write_slowpath+0x1d3/0x4e0
{stamp} down_write+0x6a/0x70
{stamp} collapse_huge_page+0x26d/0x7d0
{stamp} hpage_collapse_scan_pmd+0x62b/0x750
{stamp} khugepaged_scan_mm_slot.constprop.0+0x3c6/0x580
{stamp} khugepaged+0xce/0x200
"""
KILL = """\
[Thu Jun  6 00:05:14 2024] Memory cgroup stats for /kubepods/pod1/c1: cache:32KB rss:524188KB rss_huge:{huge}KB
[Thu Jun  6 00:05:15 2024] [ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name
[Thu Jun  6 00:05:15 2024] [  843]     0   843  5063909   119961    1661        0          -998 java
[Thu Jun  6 00:05:15 2024] Memory cgroup out of memory: Kill process 843 (java) score 0 or sacrifice child
[Thu Jun  6 00:05:15 2024] Killed process 843 (java) total-vm:20255636kB, anon-rss:466160kB, file-rss:13684kB
"""
GROUP = """\
```
$ cat /sys/fs/cgroup/memory/memory.stat
total_cache {cache}
total_rss 218734592
total_rss_huge 109051904
...
total_inactive_anon 2554662912
total_active_anon 0
```
"""
FAILURE = "# {comm}: page allocation failure. order:0, mode:0x20\n\nWe see this on a backup host several times a day.\n"
WORK = """\
[  364.101] INFO: task kthreadd:2 blocked for more than 120 seconds.
[  364.102]       Not tainted 5.14.0-70.el9.x86_64 #1
[  364.103] "echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.
[  364.104] task:kthreadd        state:D stack:    0 pid:    2 ppid:     0 flags:0x00004000
[  364.105] Call Trace:
[  364.106]  __schedule+0x266/0x720
[  364.107]  schedule+0x27/0xa0
[  364.108]  {function}+0x116/0x170
"""


def fired(result: dict[str, Any]) -> set[str]:
    return {finding["rule"] for finding in result["findings"]}


@pytest.mark.parametrize("quote", ['"', '""', "'", "&quot;", '\\"', ""])
def test_a_quoted_line_does_not_end_the_trace(quote: str) -> None:
    """However an export wrote the quotation marks."""
    text = TRACE.format(stamp="2025-03-16T17:24:58.365Z", quote=quote)
    assert document(text.encode())["verdict"]["rule"] == "THP-037"


@pytest.mark.parametrize(("huge", "is_huge"), [(370688, True), (97000, False)])
def test_a_kill_in_a_group_whose_report_lost_its_head(huge: int, is_huge: bool) -> None:
    """The line with the usage is cut off; cache and rss are what was used."""
    result = document(KILL.format(huge=huge).encode())
    assert ("THP-087" in fired(result)) is is_huge
    assert "CTX-08" in fired(result)


@pytest.mark.parametrize(("cache", "is_held"), [(0, True), (2400000000, False)])
def test_memory_of_a_group_without_its_shared_part(cache: int, is_held: bool) -> None:
    """What version 1 does not list is at most the file cache; the end of a fence and an omission are no rows."""
    result = document(GROUP.format(cache=cache).encode())
    assert ("THP-045" in fired(result)) is is_held
    assert result["problems"] == []


def test_a_title_is_no_part_of_a_name() -> None:
    """The mark of a heading before a message of the kernel."""
    texts = [
        evidence["text"]
        for f in document(FAILURE.format(comm="txg_sync").encode())["findings"]
        for evidence in f["evidence"]
    ]
    assert any("comm txg_sync," in text for text in texts)


@pytest.mark.parametrize(("function", "is_out"), [("flush_work", False), ("nfs_wait_client_init_complete", True)])
def test_a_task_that_waits_for_another_one_rules_nothing_out(function: str, is_out: bool) -> None:
    """Whoever does the work may wait for a disk."""
    result = document(WORK.format(function=function).encode() * 4)
    assert any(out["rule"] == "ALT-32" for out in result["ruled_out"]) is is_out


@pytest.mark.parametrize(
    ("line", "release"),
    [
        ("Seen on WSL 2.9.12.0 / kernel 6.18.40.1-standard-WSL2 after an upgrade.", "6.18.40.1-standard-WSL2"),
        ("Redis 6.2.6 on Ubuntu 22.04 with kernel 5.15.0-91-generic", "5.15.0-91-generic"),
        ("Linux 4.18.0-477.el8 is the kernel here, and HAProxy 2.8.3 runs in front", "4.18.0-477.el8"),
        ("HAProxy 2.8.3 runs in front, and we tuned a dozen settings there before we looked at the kernel", None),
    ],
)  # fmt: skip
def test_the_release_is_the_version_next_to_the_kernel(line: str, release: str | None) -> None:
    """Other versions stand in the same line."""
    text = f"{line}\n\n[root@db1 ~]# cat /sys/kernel/mm/transparent_hugepage/enabled\n[always] madvise never\n"
    assert document(text.encode())["host"].get("kernel") == release
