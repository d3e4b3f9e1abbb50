"""A burst in a short recording is a hypothesis, and work that keeps nobody waiting is no cause."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from analyze_bytes import STDIN, STRICT, document, rules
from thpdiag.host.options import parse_window
from thpdiag.pipeline import analyze

HEAD = """[root@db1 ~]# vmstat -t 2 30
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu----- -----timestamp-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st                 UTC
"""
BURST = range(10, 14)
ALL = range(30)


def vmstat(when: range, *, blocked: int = 0, read: int = 0, written: int = 0, wait: int = 0) -> bytes:
    """A minute, a row each two seconds; KiB/s of swap, percent of waiting for disks, in some of the rows."""
    text = HEAD
    for at in range(30):
        b, si, so, wa = (blocked, read, written, wait) if at in when else (0, 0, 0, 0)
        time = f"2026-11-20 10:00:{2 * at:02d}"
        text += f" 2 {b} 100000 812345 20000 900000 {si} {so} 0 20 1000 2000 20 5 {75 - wa} {wa} 0 {time}\n"
    return text.encode()


def told(data: bytes) -> tuple[str | None, str | None]:
    verdict = document(data)["verdict"]
    return verdict.get("mechanism"), verdict.get("confidence")


@pytest.mark.parametrize(
    ("figures", "mechanism"),
    [({"wait": 45}, "io-wait"), ({"read": 45000}, "swap-storm"), ({"written": 45000, "blocked": 4}, "swap-storm")],
)
def test_a_burst_is_a_hypothesis(figures: dict[str, int], mechanism: str) -> None:
    """Eight seconds of a minute; what lasts all of it is a cause."""
    assert told(vmstat(BURST, **figures)) == (mechanism, "possible")
    assert told(vmstat(ALL, **figures)) == (mechanism, "likely")


def test_the_share_of_the_recording_is_told() -> None:
    """In the sentence and in each line of proof."""
    result = document(vmstat(BURST, wait=45))
    [finding] = [f for f in result["findings"] if f["mechanism"] == "io-wait"]
    assert result["verdict"]["sentence"].endswith("8 s of 56 s recorded.")
    assert all(line["text"].endswith("8 s of 56 s recorded") for line in finding["evidence"])
    assert "the same for longer" in finding["raise_confidence"][0]


def test_the_time_that_was_asked_for_is_no_burst() -> None:
    """Who names the time says that it hurt then."""
    asked = replace(STRICT, window=parse_window("2026-11-20 10:00:19", "2026-11-20 10:00:27", None))
    verdict = analyze([STDIN], rules(), asked, stdin=io.BytesIO(vmstat(BURST, wait=45)))["verdict"]
    assert (verdict["mechanism"], verdict["confidence"]) == ("io-wait", "likely")


def context(result: dict[str, Any]) -> set[str]:
    return {finding["rule"] for finding in result["findings"] if finding["role"] == "context"}


def test_memory_that_is_only_written_to_swap_is_seen_and_is_no_cause() -> None:
    """Nobody reads it back, nobody waits for a disk."""
    result = document(vmstat(ALL, written=45000))
    assert "mechanism" not in result["verdict"]
    assert "CTX-20" in context(result)
    assert "CTX-20" not in context(document(vmstat(ALL, written=45000, read=20000)))


MPSTAT = "Linux 5.15.0-91-generic (web1) \t11/20/2026 \t_x86_64_\t(8 CPU)\n\n"
MPSTAT += "10:00:00  CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n"
ROW = "10:00:{:02d}  all   {}.00    0.00   10.00    0.00    0.00   {}.00    0.00    0.00    0.00   {}.00\n"


@pytest.mark.parametrize(
    ("soft", "idle", "confidence"), [(35, 2, "likely"), (22, 2, "possible"), (22, 40, None), (35, 40, None)]
)
def test_traffic_is_a_cause_only_where_cpus_are_short(soft: int, idle: int, confidence: str | None) -> None:
    """A web server that works is not ill."""
    text = MPSTAT + "".join(ROW.format(5 * at, 90 - soft - idle, soft, idle) for at in range(1, 12))
    result = document(text.encode())
    assert result["verdict"].get("confidence") == confidence
    out = {one["rule"]: one["because"] for one in result["ruled_out"]}
    assert ("CTX-19" in out.get("ALT-04", "")) is (confidence is None)


TOP = "[root@db1 ~]# pidstat -u 2 30\nLinux 5.15.0-91-generic (db1) \t11/20/2026 \t_x86_64_\t(8 CPU)\n\n"
TOP += "10:00:00      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command\n"
SHARES = {
    "io-wait": "kworker/u8:2;kthread;worker_thread;wb_workfn;wb_writeback;do_writepages;ext4_writepages {}\n",
    "non-thp-high-order": "reader;page_cache_ra_order;folio_alloc;__alloc_pages;try_to_compact_pages;compact_zone {}\n",
    "operator-compaction": "sh;proc_sys_call_handler;sysctl_compaction_handler;compact_node;compact_zone {}\n",
}


@pytest.mark.parametrize("mechanism", SHARES)
def test_a_large_share_of_little_work_does_not_lead(mechanism: str) -> None:
    """Samples show what CPUs did; whether anybody waited for it the idle time, the disks and the programs show."""

    def leads(*, idle: bool, blocked: int = 0) -> str | None:
        text = vmstat(ALL, blocked=blocked).decode()
        text = text if idle else text.replace(" 20 5 75 0 0", " 90 9 1 0 0")
        rows = "".join(
            f"10:00:{2 * at:02d}     1000        9   30.00    5.00    0.00    0.00   35.00     1  app\n"
            for at in range(30)
        )
        folded = SHARES[mechanism].format(400) + "app;main 600\n"
        verdict = document(f"{text}{TOP}{rows}\n{folded}".encode())["verdict"]
        return verdict.get("mechanism") if verdict.get("confidence") in ("likely", "confirmed") else None

    assert leads(idle=True) is None
    assert leads(idle=False) == mechanism
    assert leads(idle=True, blocked=4) == ("io-wait" if mechanism == "io-wait" else None)
