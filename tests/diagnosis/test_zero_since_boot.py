"""A counter that is 0 since boot tells that nothing of its kind happened until it was read, and nothing more."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from analyze_bytes import document

ROOT = "sosreport-demo-2026-11-20-abcdefg"
UNAME = "Linux demo 6.1.0-50-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.176-1 (2026-07-15) x86_64 GNU/Linux\n"
NOW = 1795165200  # 2026-11-20 09:00 UTC
ZERO = {
    "nr_free_pages": 300000, "allocstall_dma": 0, "allocstall_normal": 0, "allocstall_movable": 0, "pgfault": 5123456,
    "compact_stall": 0, "compact_fail": 0, "thp_fault_alloc": 0, "thp_fault_fallback": 0, "thp_collapse_alloc": 0,
}  # fmt: skip
DENIED = "cannot_tell"
SAID = " Not watched over time, but 0 in the 10 h since boot: allocstall, compact_stall, thp_collapse_alloc"


def sosreport(
    counters: Mapping[str, int], more: Mapping[str, str] | None = None, up: str = "10:00", boot: int = NOW - 36000
) -> bytes:
    """A report made at nine, with further files."""
    files = {
        "proc/vmstat": "".join(f"{name} {value}\n" for name, value in counters.items()),
        "proc/stat": f"cpu  100 0 50 900 0 0 0 0 0 0\nctxt 5\nbtime {boot}\nprocesses 7\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/kernel/mm/transparent_hugepage/hpage_pmd_size": "2097152\n",
        "sos_commands/kernel/uname_-a": UNAME,
        "sos_commands/date/date": "Fri Nov 20 09:00:00 UTC 2026\n",
        "sos_commands/date/date_--utc": "Fri Nov 20 09:00:00 UTC 2026\n",
        "sos_commands/host/uptime": f" 09:00:00 up {up},  1 user,  load average: 0.10, 0.10, 0.10\n",
        "sos_commands/host/hostname": "demo\n",
    }
    files |= more or {}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in files.items():
            info = tarfile.TarInfo(f"{ROOT}/{name}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return packed.getvalue()


def verdict(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = document(data)["verdict"]
    return found


def vmstat(first: int) -> str:
    """A recording of vmstat with its times, which says nothing of huge pages."""
    text = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----\n"
    text += " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC\n"
    for i in range(10):
        at = datetime.fromtimestamp(first + 10 * i, UTC)
        text += (
            f" 1  0      0 900000  20000 400000    0    0     0     1  100  200  5  3 92  0  0 {at:%Y-%m-%d %H:%M:%S}\n"
        )
    return text


def test_a_report_of_a_host_that_never_wanted_a_huge_page_is_an_all_clear() -> None:
    """All four counters of what asks for huge pages are 0 since ten hours, and the sentence says so."""
    told = verdict(sosreport(ZERO))
    assert told["status"] == "nothing_found"
    assert SAID in told["sentence"]


@pytest.mark.parametrize("name", ["compact_stall", "thp_fault_alloc", "thp_collapse_alloc"])
def test_one_that_is_not_zero_proves_nothing(name: str) -> None:
    """Whatever it counted may have happened in the last minute."""
    assert verdict(sosreport(ZERO | {name: 1}))["status"] == DENIED


@pytest.mark.parametrize("name", ["compact_stall", "thp_fault_alloc", "thp_collapse_alloc"])
def test_one_that_is_absent_is_not_zero(name: str) -> None:
    """Kernels without it do not count it."""
    left = {key: value for key, value in ZERO.items() if not key.startswith(name)}
    assert verdict(sosreport(left))["status"] == DENIED


def test_reclaim_is_not_for_huge_pages_that_no_fault_requested() -> None:
    """Direct reclaim may run for something else, unless faults may request huge pages of other sizes."""
    reclaim, wanted = ZERO | {"allocstall_movable": 4711}, ZERO | {"allocstall_movable": 4711, "thp_fault_fallback": 1}
    unknown = {key: value for key, value in ZERO.items() if not key.startswith("allocstall_")}
    sizes = {
        f"sys/kernel/mm/transparent_hugepage/hugepages-{size}kB/enabled": words
        for size, words in ((64, "[always] inherit madvise never\n"), (2048, "always [inherit] madvise never\n"))
    }
    assert [verdict(sosreport(c))["status"] for c in (reclaim, unknown)] == ["nothing_found", "nothing_found"]
    assert verdict(sosreport(wanted))["status"] == DENIED
    assert verdict(sosreport(reclaim, sizes))["status"] == DENIED


def test_a_kernel_that_counts_nothing_is_not_believed() -> None:
    """No host runs without page faults."""
    assert verdict(sosreport(ZERO | {"pgfault": 0}))["status"] == DENIED


def test_a_host_that_was_just_booted_has_not_shown_its_work() -> None:
    """Half an hour is too short, an hour and a half is not."""
    assert verdict(sosreport(ZERO, up="30 min", boot=NOW - 1800))["status"] == DENIED
    assert verdict(sosreport(ZERO, up="1:30", boot=NOW - 5400))["status"] == "nothing_found"


def test_boots_that_contradict_each_other_are_none() -> None:
    """The counters of one boot stand beside the uptime of another."""
    assert verdict(sosreport(ZERO, boot=NOW - 900000))["status"] == DENIED


@pytest.mark.parametrize(
    ("first", "status"),
    [(NOW - 7200, "nothing_found"), (NOW + 86400, DENIED), (NOW - 86400, DENIED), (NOW + 120, DENIED)],
    ids=["while it was up", "on the next day", "before the boot", "right after the report"],
)
def test_only_what_was_recorded_between_boot_and_reading_is_spoken_of(first: int, status: str) -> None:
    """A recording of the next day, or of before the boot, stays open."""
    assert verdict(sosreport(ZERO, {"var/log/collectl/vmstat.log": vmstat(first)}))["status"] == status


def test_a_recording_without_times_may_be_of_another_day() -> None:
    """Nobody knows whether the counters were read before it."""
    rows = "\n".join(line[:80].rstrip() for line in vmstat(NOW - 600).splitlines()) + "\n"
    assert verdict(sosreport(ZERO, {"var/log/collectl/vmstat.log": rows}))["status"] == DENIED


@pytest.mark.parametrize(("up", "status"), [(35000, "nothing_found"), (36200, DENIED)])
def test_call_stacks_of_after_the_reading_stay_open(up: int, status: str) -> None:
    """They tell their time since boot, which the report places."""
    stack = "\tffffffff81000010 work+0x10 (/usr/bin/work)\n\n"
    script = "".join(f"work  77 [000] {up + i / 10:.6f}:   10101010 cpu-clock:u: \n{stack}" for i in range(300))
    assert verdict(sosreport(ZERO, {"perf.script": script}))["status"] == status


def test_a_snapshot_pasted_without_a_time_says_nothing_of_since_when() -> None:
    """The counters stand beside an uptime, but nobody knows when they were read."""
    text = "[root@demo ~]# cat /proc/vmstat\n" + "".join(f"{k} {v}\n" for k, v in ZERO.items())
    assert verdict(text.encode())["status"] == DENIED


@pytest.mark.parametrize(
    ("up", "more", "counters", "status"),
    [
        ("41 days,  3:02", "", ZERO, "nothing_found"),
        ("10:00", "", ZERO, DENIED),
        ("41 days,  3:02", "", ZERO | {"compact_stall": 3}, DENIED),
        ("41 days,  3:02", "# uptime\n 09:00:00 up 12 min,  1 user,  load average: 0.10, 0.10, 0.10\n", ZERO, DENIED),
        ("41 days,  3:02", vmstat(NOW), ZERO, DENIED),
    ],
    ids=["weeks", "hours", "not zero", "rebooted", "dated recording"],
)
def test_a_session_shows_the_uptime_beside_the_counters(
    up: str, more: str, counters: Mapping[str, int], status: str
) -> None:
    """Its commands run within minutes of one another, which are nothing against weeks; a dated recording may be old."""
    text = f"[root@demo ~]# uptime\n 09:12:44 up {up},  2 users,  load average: 31.02, 29.88, 27.15\n"
    text += "[root@demo ~]# cat /proc/vmstat\n" + "".join(f"{k} {v}\n" for k, v in counters.items())
    text += "[root@demo ~]# vmstat 5 3\n"
    text += "\n".join(line[:80].rstrip() for line in vmstat(NOW).splitlines()[:5]) + "\n"
    assert verdict((text + more).encode())["status"] == status


def test_no_rule_answers_by_it() -> None:
    """Neither yes nor no: what is ruled out is ruled out by something else."""
    told = document(sosreport(ZERO))
    assert [f["rule"] for f in told["findings"] if f["role"] != "context"] == []
    assert not any("since boot" in one["because"] for one in told["ruled_out"] if "compact" in one["because"])


@pytest.mark.parametrize(
    ("member", "row", "status"),
    [
        ("sos_commands/process/ps_auxwww", "root 9 0.0 0.0 100 50 ? S 08:00 0:00 work {}\n", "nothing_found"),
        ("var/log/messages", "Nov 20 08:00:00 demo kernel: {}\n", DENIED),
    ],
)
def test_the_end_of_an_overlong_command_line_hides_no_counter(member: str, row: str, status: str) -> None:
    """Of a list of processes only that is lost; what is lost of another file may be what matters."""
    head = "USER PID %CPU %MEM VSZ RSS TTY STAT START TIME COMMAND\n" if "ps_aux" in member else ""
    assert verdict(sosreport(ZERO, {member: head + row.format("x" * 70000)}))["status"] == status
