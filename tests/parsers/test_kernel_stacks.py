"""Kernel logs and kernel stacks: what an event says, whose stack it carries, and what is no event."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT
from thpdiag.detect import Detector
from thpdiag.model import Clock, Event, Fact, Moment, Problem, Record, Sample
from thpdiag.model.parser import Source
from thpdiag.parsers import all_parsers
from thpdiag.parsers.kernel_log import call_traces as crash_bt
from thpdiag.parsers.kernel_log import log as kernel_log
from thpdiag.parsers.kernel_log import log as kernel_trace
from thpdiag.parsers.kernel_log import log as sysrq
from thpdiag.parsers.procfs import stacks as proc_stack
from thpdiag.parsers.procfs import stacks as wchan

FIXTURES = ROOT / "fixtures" / "readers"
OURS = (
    kernel_log.KERNEL_LOG,
    sysrq.SYSRQ,
    kernel_trace.KERNEL_TRACE,
    proc_stack.PID_STACK,
    wchan.WCHAN,
    crash_bt.CRASH_BT,
)
TRACE = ["Call Trace:", " compact_zone+0x57a/0xec0", " try_to_compact_pages+0xd0/0x240"]


def read(text: str | Iterable[str], member: str = "paste.txt") -> list[tuple[str, Record]]:
    """What all readers together find, with the name of the reader."""
    lines = text.splitlines() if isinstance(text, str) else list(text)
    recogniser = Detector(all_parsers(), strict=True)
    return [(r.reader, r.record) for r in recogniser.read(member, enumerate(lines, 1), "\n".join(lines))]


def events(text: str | Iterable[str], member: str = "paste.txt") -> list[Event]:
    return [record for _, record in read(text, member) if isinstance(record, Event)]


def fixture(path: str) -> list[Event]:
    return events((FIXTURES / path).read_text(), path)


def stamped(lines: Iterable[str]) -> list[str]:
    """Lines as dmesg prints them."""
    return [f"[{100 + i / 1000:12.6f}] {line}" for i, line in enumerate(lines)]


def test_an_order_9_failure_tells_task_order_and_mode() -> None:
    """The failure of a driver's ring is an allocation_failure of order 9 with the driver in its stack."""
    (event,) = fixture("kernel_log/el8_order9/dmesg-T.txt")
    assert event.kind == "allocation_failure"
    assert (event.fields["order"], event.fields["comm"]) == ("9", "runc:[1:CHILD]")
    assert event.fields["mode"] == "0x60c0c0(GFP_KERNEL|__GFP_COMP|__GFP_ZERO)"
    assert "ring_create" in event.stack
    assert "get_page_from_freelist" not in event.stack


def test_a_soft_lockup_of_rhel_6_carries_the_compaction_below_its_rip() -> None:
    """The function of the instruction pointer is the leaf, compact_zone right above it."""
    lockup = next(e for e in fixture("kernel_log/rhel6_messages/var/log/messages") if e.kind == "soft_lockup")
    assert lockup.stack[:3] == ("_spin_lock_irq", "compact_zone", "compact_zone_order")
    assert lockup.stack[-1] == "page_fault"
    assert (lockup.fields["cpu"], lockup.fields["seconds"], lockup.fields["comm"]) == ("11", "67", "java")


def test_frames_behind_question_marks_are_noted_but_no_part_of_the_stack() -> None:
    """Leftovers on the stack prove nothing."""
    lockup = fixture("kernel_log/el7_soft_lockup/dmesg.txt")[0]
    assert "leave_mm" not in lockup.stack
    assert lockup.fields["unreliable"].split() == ["leave_mm", "cpumask_next_and", "isolate_freepages_block"]


ALL_IN_DOUBT = [
    "BUG: soft lockup - CPU#11 stuck for 67s! [java:18812]",
    "RIP: 0010:[<ffffffff814ff3ee>]  [<ffffffff814ff3ee>] _spin_lock_irqsave+0x2e/0x40",
    "Call Trace:",
    " [<ffffffff8116ad8a>] ? compact_zone+0x1ba/0x5a0",
    " [<ffffffff8116b351>] ? try_to_compact_pages+0x121/0x180",
    " [<ffffffff811271ed>] ? __alloc_pages_nodemask+0x5ed/0x940",
    " [<ffffffff81177c0d>] ? do_huge_pmd_anonymous_page+0x14d/0x3b0",
    " [<ffffffff81500625>] ? page_fault+0x25/0x30",
]


@pytest.mark.parametrize(
    ("trace", "deepest"),
    [
        pytest.param(ALL_IN_DOUBT, "page_fault", id="down to an entry of the kernel"),
        pytest.param(ALL_IN_DOUBT[:-1], "_spin_lock_irqsave", id="cut"),
        pytest.param([*ALL_IN_DOUBT[:3], *ALL_IN_DOUBT[5:]], "_spin_lock_irqsave", id="a few frames"),
        pytest.param([*ALL_IN_DOUBT, " [<ffffffff81500625>] kthread+0x25/0x30"], "kthread", id="one that is certain"),
    ],
)
def test_a_stack_of_which_no_frame_is_certain_is_better_than_none(trace: list[str], deepest: str) -> None:
    """The kernel could not unwind; only a chain that reaches an entry of the kernel counts."""
    (lockup,) = events(stamped(trace))
    assert lockup.stack[0] == "_spin_lock_irqsave"
    assert lockup.stack[-1] == deepest
    assert ("try_to_compact_pages" in lockup.stack) is (deepest == "page_fault")


@pytest.mark.parametrize("name", ["bracket", "ctime", "level", "raw", "delta", "reltime", "iso"])
def test_every_form_of_dmesg_gives_the_same_hung_task(name: str) -> None:
    """The prefix changes, the report does not."""
    (event,) = fixture(f"kernel_log/hung_task_6.18/{name}.txt")
    assert event.kind == "hung_task"
    assert (event.fields["comm"], event.fields["pid"], event.fields["seconds"]) == ("python3", "7202", "8")
    assert event.stack[:3] == ("__schedule", "schedule", "percpu_rwsem_wait")


def test_a_hung_khugepaged_is_told_apart_from_the_owner_of_the_lock() -> None:
    """The victim's stack ends in down_write; the reader that holds the lock is another task's stack."""
    victim, owner = fixture("kernel_log/uek_khugepaged_journal/journalctl.txt")
    assert (victim.kind, victim.fields["comm"], victim.fields["state"]) == ("hung_task", "khugepaged", "D")
    assert "down_write" in victim.stack
    assert "khugepaged_scan_mm_slot" in victim.stack
    assert (owner.kind, owner.fields["comm"], owner.fields["how"]) == ("task_stack", "java", "log")
    assert "fuse_readahead" in owner.stack


def test_rhel_6_dmesg_has_no_prefix_and_is_read_all_the_same() -> None:
    """The name of the member says what the file is."""
    (event,) = fixture("kernel_log/rhel6_dmesg/sos_commands/kernel/dmesg")
    assert (event.kind, event.fields["comm"], event.fields["pid"]) == ("hung_task", "khugepaged", "84")
    assert event.time is None


def test_an_oom_tells_constraint_cgroup_and_huge_pages() -> None:
    """A recorded kill in a memory cgroup, and one of 3.10 of which nearly all is huge pages."""
    (recorded,) = fixture("kernel_log/oom_cgroup_6.18/dmesg.txt")
    assert (recorded.kind, recorded.fields["constraint"]) == ("oom_kill", "CONSTRAINT_MEMCG")
    assert recorded.fields["memcg_limit_bytes"] == str(64 << 20)
    assert "mem_cgroup_out_of_memory" in recorded.stack
    (old,) = fixture("kernel_log/el7_oom_cgroup/dmesg.txt")
    assert old.fields["constraint"] == "CONSTRAINT_MEMCG"
    assert int(old.fields["memcg_huge_bytes"]) > 0.9 * int(old.fields["memcg_usage_bytes"])
    assert (old.fields["victim"], old.fields["victim_pid"]) == ("java", "6101")


def test_a_global_oom_of_an_old_kernel_has_no_constraint() -> None:
    """What the kernel did not print is unknown."""
    lines = ["java invoked oom-killer: gfp_mask=0x201da, order=0, oom_adj=0", *TRACE, "Mem-Info:",
             "Out of memory: Kill process 4711 (java) score 900 or sacrifice child",
             "Killed process 4711, UID 500, (java) total-vm:100kB, anon-rss:80kB, file-rss:0kB"]  # fmt: skip
    (event,) = events(stamped(lines))
    assert "constraint" not in event.fields
    assert event.fields["victim_anon_rss_bytes"] == str(80 * 1024)


def test_a_global_oom_sums_the_huge_pages_of_the_nodes() -> None:
    """anon_thp is printed per node."""
    node = "Node {} active_anon:1kB mapped:2kB shmem_thp: 0kB anon_thp: 2048kB writeback_tmp:0kB"
    lines = ["a invoked oom-killer: gfp_mask=0x1(X), order=0, x", *TRACE, node.format(0), node.format(1)]
    (event,) = events(stamped(lines))
    assert event.fields["anon_huge_bytes"] == str(2 * 2048 * 1024)


def test_an_allocation_stall_counts_in_seconds() -> None:
    """Milliseconds on the line, seconds in the event."""
    stalls = fixture("kernel_log/ubuntu1604_kern_log/var/log/kern.log")
    assert [(e.kind, e.fields.get("seconds")) for e in stalls] == [
        ("min_free_raised", None),
        ("allocation_stall", "10.482"),
        ("rcu_stall", None),
    ]


def test_the_watchdogs_own_interrupt_is_no_part_of_the_stack() -> None:
    """An RCU stall of khugepaged shows compaction, not the timer that noticed it."""
    stall = fixture("kernel_log/ubuntu1604_kern_log/var/log/kern.log")[-1]
    assert stall.stack[0] == "isolate_freepages_block"
    assert "rcu_check_callbacks" not in stall.stack
    assert (stall.fields["cpu"], stall.fields["comm"]) == ("2", "khugepaged")


def test_an_allocation_that_failed_in_an_interrupt_keeps_its_frames() -> None:
    """There the interrupt is the point, and the idle loop below it is not the cause."""
    lines = ["swapper/3: page allocation failure: order:2, mode:0x20", "Call Trace:", " <IRQ>",
             " warn_alloc+0x1/0x2", " __napi_alloc_skb+0x1/0x2", " </IRQ>", " <TASK>", " asm_common_interrupt+0x1/0x2",
             "RIP: 0010:native_safe_halt+0xb/0x10", " do_idle+0x1/0x2", " </TASK>"]  # fmt: skip
    (event,) = events(stamped(lines))
    assert event.stack[:2] == ("warn_alloc", "__napi_alloc_skb")


def test_a_page_fault_inside_the_kernel_is_not_cut_off_like_an_interrupt() -> None:
    """copy_from_user may fault and compact: that compaction is what the lockup is about."""
    lines = ["watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [java:7]", "RIP: 0010:compact_zone+0x1/0x2",
             "Call Trace:", " <TASK>", " try_to_compact_pages+0x1/0x2", " asm_exc_page_fault+0x1/0x2",
             "RIP: 0010:copy_user_generic_string+0x1/0x2", "RSP: 0018:ffff EFLAGS: 1", " vfs_write+0x1/0x2",
             " </TASK>"]  # fmt: skip
    (event,) = events(stamped(lines))
    assert event.stack[:2] == ("compact_zone", "try_to_compact_pages")
    assert event.stack[-2:] == ("copy_user_generic_string", "vfs_write")


def test_reports_of_two_cpus_at_once_keep_their_own_stacks() -> None:
    """Where the log names the caller, interleaved lines are sorted out."""
    hung, hard = fixture("kernel_log/two_callers/dmesg.txt")
    assert (hung.kind, hard.kind) == ("hung_task", "hard_lockup")
    assert "proactive_compact_node" in hung.stack
    assert "proactive_compact_node" not in hard.stack
    assert hard.stack[:2] == ("native_queued_spin_lock_slowpath", "_raw_spin_lock_irqsave")


@pytest.mark.parametrize(
    "line",
    [
        "Nov 20 03:35:42 host monitor[812]: INFO: task khugepaged:38 blocked for more than 120 seconds.",
        "Nov 20 03:35:42 host monitor[812]: kernel: BUG: soft lockup - CPU#3 stuck for 67s! [java:1]",
        "2026-11-20T03:35:42.123456+00:00 host app: java: page allocation failure: order:9, mode:0x20",
        "[ 1055.188049] systemd-journald[301]: INFO: task khugepaged:38 blocked for more than 120 seconds.",
        '[ 1055.188049] audit: type=1400 comm="x" msg="java invoked oom-killer: order=0"',
        "Nov 20 03:35:42 host kernel: usb 1-1: Product: INFO: task a:1 blocked for more than 9 seconds.",
    ],
)
def test_a_program_that_quotes_the_kernel_is_no_event(line: str) -> None:
    """Only the start of a message of the kernel counts."""
    assert events([line, "Nov 20 03:35:43 host kernel: eth0: link up", *stamped(["eth0: link up"])], "log.txt") == []


def test_a_name_that_looks_like_a_message_stays_a_name() -> None:
    """15 characters of a program's choice cannot name another task, state or CPU."""
    hung = fixture("kernel_log/hostile/dmesg.txt")[1]
    assert (hung.fields["comm"], hung.fields["pid"], hung.fields["state"]) == ("x:7 blocked", "51", "D")


def test_a_name_with_line_feeds_adds_no_frame_and_no_task() -> None:
    """A forged frame between two headers belongs to nobody, and the task above it keeps its own stack."""
    lines = ["sysrq: Show Blocked State", "task:java            state:D stack:0     pid:7     ppid:1      flags:0x0",
             *TRACE, "", " forged_function+0x1/0x2", " y              D    0    99      1 0x00000000"]  # fmt: skip
    found = events(stamped(lines))
    assert found[0].stack == ("compact_zone", "try_to_compact_pages")
    assert not any("forged_function" in e.stack for e in found)


def test_escape_sequences_in_a_name_do_not_reach_the_event() -> None:
    """The fields are printable."""
    (event,) = events(stamped(["INFO: task \x1b[2Jevil\x07:66 blocked for more than 120 seconds.", *TRACE]))
    assert event.fields["comm"].isprintable()
    assert event.fields["pid"] == "66"


def test_a_pasted_report_needs_no_prefix() -> None:
    """A mail with the console's text in it, empty lines and all."""
    (event,) = fixture("kernel_log/pasted/mail.txt")
    assert event.kind == "soft_lockup"
    assert event.stack[:2] == ("_spin_lock_irq", "compact_zone")


def test_a_trace_without_any_headline_is_the_stack_of_a_task() -> None:
    """Its functions are known, its reason is not."""
    for name in ("el7_no_headline", "frames_only", "decoded_arm64"):
        (event,) = fixture(f"kernel_trace/{name}/ticket.txt")
        assert (event.kind, event.fields["how"]) == ("task_stack", "log")
        assert "compact_zone" in event.stack


def test_free_blocks_of_a_report_are_samples_like_those_of_buddyinfo() -> None:
    """Orders by block size, under the names of /proc/buddyinfo."""
    found = [r for _, r in read((FIXTURES / "sysrq/m_3.10/console.txt").read_text()) if isinstance(r, Sample)]
    normal = next(s for s in found if s.entity == (("node", "0"), ("zone", "Normal")))
    assert normal.kind == "zone"
    assert normal.values["node_buddyinfo_blocks_order0"] == 120
    assert normal.values["node_buddyinfo_blocks_order2"] == 7
    assert normal.values["node_buddyinfo_blocks_order9"] == 0


@pytest.mark.parametrize("row", ["Node 0 Normal: 120*4kB 33*8kB = 9kB", "Node 0 Normal: 120*4kB (UME) 33*8k"])
def test_free_blocks_that_do_not_add_up_are_a_problem(row: str) -> None:
    """A cut row would make free memory look fragmented."""
    found = [r for _, r in read(stamped(["Mem-Info:", row]))]
    assert [type(r) for r in found] == [Problem]


def test_sysrq_output_inside_a_log_is_claimed_once() -> None:
    """The log's reader reads it, with the same events as from a console."""
    alone = (FIXTURES / "sysrq/t_5.10/dmesg-tail.txt").read_text()
    inside = read("[    1.000000] Linux version 5.10.0-9-amd64\n" + alone)
    assert {name for name, _ in inside} == {"kernel_log"}
    assert [e.stack for e in events(alone)] == [r.stack for _, r in inside if isinstance(r, Event)]


def test_sysrq_tasks_of_two_eras_become_stacks_of_single_tasks() -> None:
    """Columns to 5.9, words from 5.10; names may have blanks in them."""
    old = fixture("sysrq/w_2.6.32/console.txt")
    new = fixture("sysrq/t_5.10/dmesg-tail.txt")
    assert [(e.fields["comm"], e.fields["pid"], e.fields["state"]) for e in old] == [
        ("java", "20433", "D"),
        ("flush-253:0", "1190", "D"),
    ]
    assert [e.fields["comm"] for e in new] == ["systemd", "Web Content", "kworker/u8:2"]
    assert {e.kind for e in old + new} == {"task_stack"}
    assert "isolate_migratepages_block" in new[1].stack


def test_a_backtrace_of_all_cpus_begins_at_what_they_ran() -> None:
    """The NMI that asked is not what the CPU did; idle CPUs are left out."""
    found = fixture("sysrq/l_6.1/dmesg-tail.txt")
    assert [e.fields["cpu"] for e in found] == ["1", "2"]
    assert found[1].stack[:2] == ("clear_page_erms", "clear_huge_page")


@pytest.mark.parametrize("head", [
    "=== 4711 Web Content D", "--- PID 4711 Web Content D", "==> /proc/4711/stack <==", "/proc/4711/stack:", "4711",
    "# 4711 (Web Content) state: D", "pid=4711 comm=Web Content", "Web-Content (4711) D", "[4711] Web Content",
    "/proc/4700/task/4711/stack", "4711 D Web Content",
])  # fmt: skip
def test_what_stands_above_a_stack_names_its_task(head: str) -> None:
    """People print what they like; the number is found."""
    (event,) = events([head, "[<0>] futex_wait+0x67/0x120", "[<0>] do_syscall_64+0x71/0x280"])
    assert (event.kind, event.fields["pid"], event.fields["how"]) == ("task_stack", "4711", "proc")
    assert event.fields.get("comm", "Web Content").replace("-", " ") == "Web Content"
    assert event.fields.get("state", "D") == "D"
    assert event.stack == ("futex_wait", "do_syscall_64")


@pytest.mark.parametrize("name", ["loop-echo", "tail", "grep", "status", "bare"])
def test_every_loop_gives_each_task_its_own_stack(name: str) -> None:
    """No frame goes to a neighbour, also when a running task with an empty stack stands between."""
    found = {e.fields["pid"]: e.stack for e in fixture(f"proc_stack/tasks_6.18/{name}.txt")}
    assert found["6875"][0] == "futex_do_wait"
    assert found["6876"][0] == "anon_pipe_read"
    assert found["6878"][0] == "kernel_clone"
    assert found.get("6874", ()) == ()


def test_a_recorders_comment_behind_the_command_names_the_task() -> None:
    """`# cat PATH   # STATE COMM` is how our own capture script writes it."""
    (event,) = events(["# cat /proc/38/task/39/stack   # SN khugepaged", "[<0>] khugepaged+0x38d/0x8f0"])
    assert (event.fields["pid"], event.fields["tgid"]) == ("39", "38")
    assert (event.fields["state"], event.fields["comm"]) == ("S", "khugepaged")


def test_the_name_in_a_head_line_cannot_choose_the_number() -> None:
    """A task that calls itself pid:1 is still task 4711."""
    (event,) = events(["=== 4711 pid:1 S", "[<0>] futex_wait+0x67/0x120"])
    assert event.fields["pid"] == "4711"


def test_stacks_of_a_loop_carry_the_time_above_them() -> None:
    """`date` between the rounds."""
    times = {e.time for e in fixture("proc_stack/tasks_6.18/loop-echo.txt")}
    assert times == {Moment(1795154253.0, Clock.UTC), Moment(1795154254.0, Clock.UTC)}


def test_a_table_of_wchan_says_what_tasks_wait_for() -> None:
    """A fact for each task that waits, and a stack of one function; running tasks have none."""
    found = [r for _, r in read((FIXTURES / "wchan/loop_6.18/loop.txt").read_text())]
    waits = [r for r in found if isinstance(r, Fact) and r.label("comm") == "vfork parent"]
    assert [(f.name, f.value, f.label("stat")) for f in waits] == [("process.wchan", "kernel_clone", "D")] * 3
    assert not any(isinstance(r, Fact) and r.label("comm") == "touch huge" for r in found)
    assert len([r for r in found if isinstance(r, Event)]) == len([r for r in found if isinstance(r, Fact)])


def test_names_that_ps_cut_off_are_no_frames() -> None:
    """`compac` is told as it stands, but matches no function."""
    found = [r for _, r in read((FIXTURES / "wchan/cut_names/ps.txt").read_text())]
    assert [r.value for r in found if isinstance(r, Fact)] == ["compac", "futex_"]
    assert not any(isinstance(r, Event) for r in found)


def test_tables_with_memory_columns_are_left_to_the_ps_reader() -> None:
    """WCHAN alone does not make a table ours."""
    table = ["F S UID        PID  PPID  C PRI  NI ADDR SZ WCHAN  STIME TTY          TIME CMD",
             "4 S root         1     0  0  80   0 -  4851 poll_s 03:00 ?        00:00:01 /sbin/init"]  # fmt: skip
    assert "wchan" not in {name for name, _ in read(table)}


def test_crash_shows_what_ran_when_the_dump_was_taken() -> None:
    """The exception RIP is the leaf, the frames of the dump's own NMI are dropped."""
    java, idle = fixture("crash_bt/active_el6/session.txt")
    assert java.stack[:3] == ("_spin_lock_irq", "compact_zone", "compact_zone_order")
    assert (java.fields["comm"], java.fields["cpu"], java.fields["how"]) == ("java", "11", "crash")
    assert idle.stack[0] == "intel_idle"


def test_a_trace_cut_anywhere_keeps_whose_it_is() -> None:
    """However few lines arrive, no frame of the first task goes to another, and nothing raises."""
    lines = (FIXTURES / "kernel_log/uek_khugepaged_journal/journalctl.txt").read_text().splitlines()
    for length in range(len(lines)):
        for event in events(lines[:length], "journalctl.txt"):
            assert ("fuse_readahead" in event.stack) <= (event.fields["comm"] == "java")


@pytest.mark.parametrize("reader", OURS, ids=lambda reader: reader.name)
@given(st.lists(st.text(max_size=80), max_size=12), st.integers(0, 40))
@settings(max_examples=40, deadline=None)
def test_no_text_makes_a_reader_raise(reader, texts: list[str], place: int) -> None:  # type: ignore[no-untyped-def]
    """Arbitrary lines, also in the middle of a real report."""
    folder = FIXTURES / reader.name
    real = next(p for p in sorted(folder.rglob("*.txt")) if p.is_file()).read_text().splitlines()
    lines = [*real[:place], *texts, *real[place:]]
    for record in reader.read(Source("m"), enumerate(lines, 1)):
        assert record.cite.line is not None
