"""Kernel messages as other things carry them (/dev/kmsg, consoles, containers, the journal), and whose they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import ROOT
from parse_bytes import readings
from thpdiag.host.cases import host_cases
from thpdiag.host.options import Options
from thpdiag.host.reading import read_input
from thpdiag.model import Case, Clock, Event, Fact, Problem, Record, Sample

CARRIERS = ROOT / "fixtures" / "readers" / "kernel_log" / "carriers"
EXPORTS = ROOT / "fixtures" / "readers" / "journal_export" / "two_reports"
SINCE_BOOT = {"kmsg.txt", "netconsole_extended.txt", "netconsole_syslog.txt", "serial_console.txt", "container.txt"}


def found(text: bytes) -> list[Record]:
    return [r.record for r in readings(text)]


def events(text: bytes) -> list[Event]:
    return [r for r in found(text) if isinstance(r, Event)]


@pytest.mark.parametrize("name", sorted(path.name for path in CARRIERS.iterdir()))
def test_whatever_carries_two_reports_they_are_the_same(name: str) -> None:
    """With their stacks; seconds since boot are kept where something prints them, whatever a receiver's clock says."""
    hung, failed = events((CARRIERS / name).read_bytes())
    assert (hung.kind, hung.fields["pid"], hung.stack[0], len(hung.stack)) == ("hung_task", "4711", "__schedule", 3)
    assert (failed.kind, failed.fields["order"], failed.stack[0]) == ("allocation_failure", "9", "warn_alloc")
    if name in SINCE_BOOT:
        assert hung.time
        assert (hung.time.clock, hung.time.seconds) == (Clock.BOOT, 1055.188049)


@pytest.mark.parametrize("name", sorted(path.name for path in EXPORTS.iterdir()))
def test_every_export_of_the_journal_has_the_time_in_utc_and_no_programs_words(name: str) -> None:
    """In verbose output the date is in the zone of who printed it; the cursor tells UTC."""
    hung, failed = events((EXPORTS / name).read_bytes())
    assert (hung.kind, failed.kind) == ("hung_task", "allocation_failure")
    assert hung.time
    assert (hung.time.clock, round(hung.time.seconds)) == (Clock.UTC, 1795145743)
    assert "blocked for more than" in hung.cite.text


@pytest.mark.parametrize("prefix", ["30,7,1055188049,-;", "<30>[ 1055.188049] ", "daemon:info  : [ 1055.188049] "])
def test_what_a_program_writes_into_the_kernels_log_is_no_report(prefix: str) -> None:
    """Its facility is not the kernel's."""
    text = f"{prefix}INFO: task java:4711 blocked for more than 120 seconds.\n".encode() * 2
    assert events(text) == []


def test_the_holder_of_the_lock_is_named_and_its_stack_is_its_own() -> None:
    """From Linux 6.15 a hung task's report goes on with who has what it waits for."""
    hung, holder = events((ROOT / "fixtures/readers/kernel_log/blocked_by_6.18/dmesg.txt").read_bytes())
    assert (hung.fields["comm"], hung.fields["lock"], hung.fields["holder"]) == ("waiter", "rw-semaphore", "holder")
    assert "down_write" in hung.stack
    assert (holder.kind, holder.fields["comm"], holder.fields["holds"]) == ("task_stack", "holder", "rw-semaphore")
    assert "fuse_mkdir" in holder.stack


def test_the_counters_of_a_cgroup_in_a_report_are_not_those_of_the_host() -> None:
    """A report on a cgroup at its limit, pasted without prefixes, lists names that /proc/vmstat has too."""
    lines = (ROOT / "fixtures/readers/kernel_log/oom_cgroup_6.18/dmesg.txt").read_text().splitlines()
    text = "\n".join(line.partition("] ")[2] for line in lines)
    records = found(text.encode())
    assert [r for r in records if isinstance(r, Sample) and r.kind == "system"] == []
    (kill,) = (r for r in records if isinstance(r, Event))
    assert (kill.kind, kill.fields["victim"]) == ("oom_kill", "python3")


@pytest.mark.parametrize("name", ["v1.txt", "v2.txt"])
def test_a_memory_stat_without_its_path_is_not_taken_for_vmstat(name: str) -> None:
    """`thp_fault_alloc` of one container says nothing of the host; the report says that it was seen."""
    records = found((ROOT / "fixtures/readers/memory_stat/versions" / name).read_bytes())
    assert len(records) == 1
    assert isinstance(records[0], Problem)


EMPTY = " ".join(f"0*{4 << order}kB" for order in range(1, 11))
MESSAGES = f"""\
Nov 20 09:00:01 web2 kernel: BUG: soft lockup - CPU#3 stuck for 67s! [java:4711]
Nov 20 09:00:01 web2 kernel: Call Trace:
Nov 20 09:00:01 web2 kernel:  compact_zone+0x2e5/0x400
Nov 20 09:00:01 web2 kernel:  do_huge_pmd_anonymous_page+0xf3/0x420
Nov 20 09:00:05 web2 kernel: Node 0 Normal: 2*4kB (U) {EMPTY} = 8kB
"""


def of_a_log_server(tmp_path: Path, more: str = "") -> dict[str, Case]:
    root = tmp_path / "sosreport-web1-2026-11-20-abcdefg"
    (root / "var" / "log").mkdir(parents=True)
    (root / "sos_commands" / "kernel").mkdir(parents=True)
    uname = "Linux web1 3.10.0-229.el7.x86_64 #1 SMP Tue Sep 15 15:05:51 UTC 2015 x86_64 x86_64 x86_64 GNU/Linux\n"
    (root / "sos_commands" / "kernel" / "uname_-a").write_text(uname)
    (root / "var" / "log" / "messages").write_text(MESSAGES + more)
    options = Options()
    return {case.name: case for case in host_cases(read_input([root], options), options)}


def test_messages_of_other_hosts_in_the_log_of_a_log_server_are_theirs(tmp_path: Path) -> None:
    """Neither their events nor the free blocks they list become the bundle's host's."""
    known = of_a_log_server(tmp_path)
    assert set(known) == {"web1", "web2"}
    events_of = {name: [e for state in case.states for e in state.events] for name, case in known.items()}
    samples_of = {name: [s for state in case.states for s in state.samples] for name, case in known.items()}
    assert [e.kind for e in events_of["web2"]] == ["soft_lockup"]
    assert (len(samples_of["web2"]), events_of["web1"], samples_of["web1"]) == (1, [], [])


def test_of_a_log_of_several_hosts_silence_is_not_believed(tmp_path: Path) -> None:
    """Which of them would have spoken is not known."""
    more = "Nov 20 09:00:09 web1 kernel: java: page allocation failure. order:9, mode:0x20\n" * 30
    known = of_a_log_server(tmp_path, more)
    assert [f for case in known.values() for f in case.facts if isinstance(f, Fact) and f.name == "log.read"] == []
    assert len([e for state in known["web1"].states for e in state.events]) == 30
