"""Two settings of one host compared: what counts as a cure, and whether the trouble is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyze_bytes import STRICT, document, documents, found, rules
from thpdiag.diagnosis.diagnose import _compare_settings
from thpdiag.model import State
from thpdiag.pipeline import analyze

HOST = "[root@db1 ~]# "
DEFRAG = "/sys/kernel/mm/transparent_hugepage/defrag"
SICK, WELL = (20, 70), (50, 4)  # user and kernel time in percent


def vmstat(user: int, kernel: int) -> str:
    """Eight rows of vmstat."""
    head = (
        "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
        " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
    )
    row = (
        f" 9  0      0 400000   1000 200000    0    0    10   100 2000 3000 {user} {kernel} {100 - user - kernel} 0 0\n"
    )
    return f"{HOST}vmstat 5\n{head}{row * 8}"


def session(*parts: str) -> bytes:
    start = f"{HOST}cat {DEFRAG}\n[always] defer defer+madvise madvise never\n"
    return (start + "".join(parts)).encode()


def switched(value: str) -> str:
    return f"{HOST}echo {value} > {DEFRAG}\n"


def test_what_got_better_before_the_switch_was_not_cured_by_it() -> None:
    """The kernel time had fallen while defrag was still always."""
    result = document(session(vmstat(*SICK), vmstat(*WELL), switched("never"), vmstat(*WELL)))
    assert "THP-006" not in found(result)


def test_what_gets_better_with_the_switch_was_cured_by_it() -> None:
    """The same recordings in the other order."""
    result = document(session(vmstat(*SICK), vmstat(*SICK), switched("never"), vmstat(*WELL)))
    assert found(result)["THP-006"] == "confirmed"
    assert result["verdict"]["state"] == "past"


def test_switched_back_the_trouble_is_there_again() -> None:
    """The last setting is the one that hurts."""
    parts = (vmstat(*SICK), switched("never"), vmstat(*WELL), switched("always"), vmstat(*SICK))
    result = document(session(*parts))
    assert (result["verdict"]["rule"], result["verdict"]["state"]) == ("THP-006", "present")


def counters(stalls: int, faults: int) -> bytes:
    """/proc/vmstat every ten seconds."""
    values = "nr_free_pages 100\ncompact_stall {}\nthp_fault_alloc {}\nthp_fault_fallback 0\n"
    lines = [f"{1700000000 + 10 * i}\n{values.format(stalls * i, faults * i)}" for i in range(12)]
    return "".join(lines).encode()


def test_two_nameless_trees_are_not_one_host_before_and_after(tmp_path: Path) -> None:
    """That one tree has huge pages off and no stalls cures nothing on the other."""
    for node, value, stalls in (("node-a", "[always] madvise never", 3000), ("node-b", "always madvise [never]", 0)):
        settings = tmp_path / "in" / node / "sys/kernel/mm/transparent_hugepage"
        settings.mkdir(parents=True)
        (settings / "enabled").write_text(f"{value}\n")
        (settings / "defrag").write_text(f"{value}\n")
        (tmp_path / "in" / node / "vmstat.txt").write_bytes(counters(stalls, stalls))
    result = analyze([tmp_path / "in"], rules(), STRICT)
    assert found(result)["THP-012"] == "likely"
    assert "THP-006" not in found(result)
    assert [one["verdict"]["status"] for one in documents(result)] == ["found", "cannot_tell"]


def test_a_host_that_got_another_kernel_is_not_said_to_be_sick_still(tmp_path: Path) -> None:
    """The profile is of the old kernel; whether the new one suffers nobody knows."""
    uname = "[root@db1 ~]# uname -r\n{}\n"
    top = "             samples  pcnt function          DSO\n"
    top += " 30000.00 80.0% _spin_lock_irq    [kernel.kallsyms]\n  1000.00  3.0% compaction_alloc  [kernel.kallsyms]\n"
    (tmp_path / "before.txt").write_text(uname.format("2.6.32-220.el6.x86_64") + f"{HOST}perf top\n{top}")
    (tmp_path / "after.txt").write_text(uname.format("3.10.0-1160.el7.x86_64") + vmstat(*WELL))
    result = analyze([tmp_path], rules(), STRICT)
    assert (result["verdict"]["rule"], result["verdict"]["state"]) == ("THP-001", "unknown")


ALWAYS, NEVER, DEFRAG_NEVER = {"thp.enabled": "always"}, {"thp.enabled": "never"}, {"thp.defrag": "never"}


@pytest.mark.parametrize(
    ("then", "now", "wanted"),
    [
        (ALWAYS, ALWAYS, "present"),
        (ALWAYS, NEVER, "past"),
        (ALWAYS | DEFRAG_NEVER, NEVER, "past"),
        (ALWAYS, {}, "unknown"),
        ({}, NEVER, "unknown"),
        (ALWAYS | DEFRAG_NEVER, DEFRAG_NEVER, "unknown"),
        ({}, {}, "present"),
    ],
)
def test_whether_it_lasts_is_unknown_where_a_setting_was_not_read(
    then: dict[str, str], now: dict[str, str], wanted: str
) -> None:
    """Nobody read `enabled` after the boot: that is neither the old value nor another one."""
    assert _compare_settings(State("then", then, 0), State("now", now, 1)) == wanted


def test_what_belongs_to_no_state_is_not_the_latest_one(tmp_path: Path) -> None:
    """A recording without a time beside the session leaves the settings that were read last."""
    (tmp_path / "session.txt").write_bytes(session(vmstat(*WELL), switched("never"), vmstat(*WELL)))
    (tmp_path / "vmstat.txt").write_text(vmstat(*WELL))
    result = analyze([tmp_path], rules(), STRICT)
    assert result["host"]["settings"]["thp.defrag"]["value"] == "never"
