"""What counts a part of the host, or for a time that is not known, gives no rate of the host; prose is no prompt."""

from __future__ import annotations

import pytest

from parse_bytes import readings
from thpdiag.model import Event, Fact, Sample

COUNT = "tracepoint:compaction:mm_compaction_try_to_compact_pages"
BEGIN = "tracepoint:compaction:mm_compaction_begin { @s[tid] = nsecs; }"
END = "tracepoint:compaction:mm_compaction_end /@s[tid]/"
TEN = "interval:s:10 { exit(); }"
STALLS, SECONDS = "node_vmstat_compact_stall:rate", "node_compaction_seconds_total.unknown:rate"


def rates(text: str) -> dict[str, float]:
    """All figures of the host that a text gives."""
    samples = [found.record for found in readings(text.encode()) if isinstance(found.record, Sample)]
    return {name: value for sample in samples if sample.kind == "system" for name, value in sample.values.items()}


@pytest.mark.parametrize(
    ("command", "printed", "expected"),
    [
        (f"bpftrace -e '{COUNT} {{ @[comm] = count(); }} {TEN}'", "@[java]: 600", {STALLS: 60.0}),
        (f"timeout -k 5 60 bpftrace -e '{COUNT} {{ @[comm] = count(); }}'", "@[java]: 600", {STALLS: 10.0}),
        (f"bpftrace -e '{COUNT} {{ @[comm] = count(); }}'", "@[java]: 600", {}),
        (f"bpftrace -e '{COUNT} {{ @[comm] = count(); }} {TEN}'", "^C\n\n@[java]: 600", {}),
        (f"bpftrace -p 12 -e '{COUNT} {{ @[comm] = count(); }} {TEN}'", "@[java]: 600", {}),
        (f"bpftrace -e '{COUNT}/pid == 12/ {{ @ = count(); }} {TEN}'", "@: 0", {}),
        (f"bpftrace -e '{COUNT}, kprobe:vfs_read {{ @[probe] = count(); }} {TEN}'", "@[a]: 20\n@[b]: 99999", {}),
        (f"bpftrace -e '{COUNT} {{ @[comm] = count(); }} interval:s:5 {{ print(@); }} {TEN}'", "@[java]: 600", {}),
        (f"bpftrace -e '{BEGIN} {END} {{ @us[comm] = sum((nsecs - @s[tid]) / 1000); }} {TEN}'", "@us[java]: 5000000",
         {SECONDS: 0.5}),
        (f"bpftrace -e '{BEGIN} {END} {{ @us[tid] = sum((nsecs - @s[tid]) / 1000); }} {TEN}'", "@us[45]: 5000000", {}),
        (f"bpftrace -e '{BEGIN} {END} {{ @us[comm] = max((nsecs - @s[tid]) / 1000); }} {TEN}'", "@us[java]: 500", {}),
    ],
)  # fmt: skip
def test_maps_of_bpftrace(command: str, printed: str, expected: dict[str, float]) -> None:
    """A rate where one probe was counted everywhere for a known time."""
    assert rates(f"[root@db1 ~]# {command}\nAttaching 3 probes...\n\n{printed}\n") == pytest.approx(expected)


@pytest.mark.parametrize(
    ("command", "faults"),
    [
        ("perf stat -a -x, -e page-faults sleep 10", 120.0),
        ("perf stat -a -x, -e page-faults ./job; sleep 10", None),
        ("perf stat -a -x, -D 5000 -e page-faults sleep 10", None),
        ("perf stat -aC 0 -x, -e page-faults sleep 10", None),
    ],
)
def test_how_long_perf_stat_counted(command: str, faults: float | None) -> None:
    """A rate where `sleep` alone was the run, on all CPUs, from its start."""
    assert (
        rates(f"[root@db1 ~]# {command}\n1200,,page-faults,1001,100.00,,\n").get("node_vmstat_pgfault:rate") == faults
    )


def test_two_names_of_an_event_are_one_count() -> None:
    """Of the rows of a node."""
    rows = "".join(f"N{node}  2  600      {event}\n" for node in (0, 1) for event in ("page-faults", "faults"))
    head = (
        "# perf stat -a --per-node -e page-faults,faults sleep 10\n\n Performance counter stats for 'system wide':\n\n"
    )
    assert rates(f"{head}{rows}\n      10.000000000 seconds time elapsed\n")["node_vmstat_pgfault:rate"] == 120.0


@pytest.mark.parametrize("command", ["strace -c -etrace=memory -p 7", "strace -c -p 7 2>&1 | egrep 'madvise|mmap'"])
def test_chosen_calls_have_no_share(command: str) -> None:
    """No fact from a share among the calls that somebody chose."""
    head = "% time     seconds  usecs/call     calls    errors syscall"
    table = f"{head}\n 99.00    4.120441        9812       420           madvise\n"
    assert not [r for r in readings(f"# {command}\n{table}".encode()) if isinstance(r.record, Fact)]


def test_a_killed_container_is_of_its_node() -> None:
    """Not of the host that asked; of two nodes it is of none."""
    head = "[admin@laptop ~]$ kubectl get events\nLAST SEEN   TYPE      REASON       OBJECT          MESSAGE\n"
    one = "12m         Warning   OOMKilling   node/worker-3   Out of memory: Killed process 12345 (java) total-vm:1kB\n"
    records = [found.record for found in readings(f"{head}{one}".encode())]
    assert [r.value for r in records if isinstance(r, Fact) and r.name == "host.name"] == ["worker-3"]
    assert len([r for r in records if isinstance(r, Event)]) == 1
    both = readings(f"{head}{one}{one.replace('worker-3', 'worker-4')}".encode())
    assert not [r for r in both if isinstance(r.record, Event)]


@pytest.mark.parametrize("remark", ["docker needs this", "mongo wants THP off", "kubectl notes", "bpftrace results"])
def test_a_remark_is_no_prompt(remark: str) -> None:
    """The output of the command above goes on behind it."""
    text = f"[root@db1 ~]# cat /sys/kernel/mm/transparent_hugepage/enabled\n# {remark}\n[always] madvise never\n"
    facts = [r.record for r in readings(text.encode()) if isinstance(r.record, Fact)]
    assert [fact.value for fact in facts if fact.name == "thp.enabled"] == ["always"]
