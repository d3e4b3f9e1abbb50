"""Every form in which kernels from 2.6.32 on say a thing, and every prefix a log puts before it."""

from __future__ import annotations

import pytest

from conftest import ROOT
from thpdiag.detect import Detector
from thpdiag.model import Clock, Event, Moment, Problem
from thpdiag.model.parser import Source
from thpdiag.parsers import all_parsers
from thpdiag.parsers.kernel_log import log as journal_json


def events(text: str) -> list[Event]:
    """The events that all readers together find in a text."""
    found = Detector(all_parsers(), strict=True).read("paste.txt", enumerate(text.splitlines(), 1), text)
    return [r.record for r in found if isinstance(r.record, Event)]


JAVA = {"comm": "java", "pid": "4711"}
ORDER_9 = {"comm": "java", "order": "9"}
GFP = "0x24c0c0(GFP_KERNEL|__GFP_COMP|__GFP_ZERO)"
MOVABLE = "0x14200ca(GFP_HIGHUSER_MOVABLE)"
VICTIM = {"victim": "java", "victim_pid": "4711"}
KILLED = {**VICTIM, "victim_anon_rss_bytes": str(65280 * 1024)}
RAISED = "raising min_free_kbytes from 45056 to 67584 to help transparent hugepage allocations"
SIZES = "total-vm:75160kB, anon-rss:65280kB, file-rss:6616kB"

MESSAGES = [
    ("BUG: soft lockup - CPU#11 stuck for 67s! [java:4711]", "soft_lockup", {"cpu": "11", "seconds": "67", **JAVA}),
    ("BUG: soft lockup detected on CPU#1!", "soft_lockup", {"cpu": "1"}),
    ("NMI watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [java:4711]", "soft_lockup", {"seconds": "22", **JAVA}),
    ("watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [java:4711]", "soft_lockup", {"seconds": "26", **JAVA}),
    ("NMI Watchdog detected LOCKUP on CPU 4", "hard_lockup", {"cpu": "4"}),
    ("Watchdog detected hard LOCKUP on cpu 4", "hard_lockup", {"cpu": "4"}),
    ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 4dModules linked in: xfs", "hard_lockup", {"cpu": "4"}),
    ("watchdog: CPU4: Watchdog detected hard LOCKUP on cpu 4", "hard_lockup", {"cpu": "4"}),
    ("watchdog: CPU 4 self-detected hard LOCKUP @ compact_zone+0x1/0x2", "hard_lockup", {"cpu": "4"}),
    ("watchdog: CPU 4 detected hard LOCKUP on other CPUs 7", "hard_lockup", {"cpu": "7"}),
    ("Kernel panic - not syncing: Watchdog detected hard LOCKUP on cpu 0", "hard_lockup", {"cpu": "0"}),
    ("watchdog: CPU 4 Hard LOCKUP", "hard_lockup", {"cpu": "4"}),
    ("BUG: workqueue lockup - pool cpus=3 node=0 flags=0x0 nice=0 stuck for 31s!", "workqueue_lockup",
     {"cpu": "3", "seconds": "31"}),
    ("INFO: task java:4711 blocked for more than 120 seconds.", "hung_task", {"seconds": "120", **JAVA}),
    ("INFO: task java:4711 blocked in I/O wait for more than 122 seconds.", "hung_task", {"seconds": "122", **JAVA}),
    ("java: page allocation failure. order:9, mode:0x20", "allocation_failure", {**ORDER_9, "mode": "0x20"}),
    ("java: page allocation failure: order:9, mode:0x20", "allocation_failure", {**ORDER_9, "mode": "0x20"}),
    (f"java: page allocation failure: order:9, mode:{GFP}", "allocation_failure", {**ORDER_9, "mode": GFP}),
    (f"java: page allocation failure: order:9, mode:{GFP}, nodemask=(null),cpuset=/,mems_allowed=0-1",
     "allocation_failure", {**ORDER_9, "mode": GFP}),
    ("java: vmalloc: allocation failure: 4096 bytes, mode:0xd2", "allocation_failure", {"mode": "0xd2"}),
    (f"java: vmalloc error: size 4096, page order 9, failed to allocate pages, mode:{GFP}, nodemask=(null)",
     "allocation_failure", {**ORDER_9, "mode": GFP}),
    (f"java: page allocation stalls for 10482ms, order:9, mode:{MOVABLE}, nodemask=(null)",
     "allocation_stall", {**ORDER_9, "seconds": "10.482", "mode": MOVABLE}),
    ("java invoked oom-killer: gfp_mask=0x201da, order=0, oom_adj=0", "oom_kill",
     {"comm": "java", "order": "0", "mode": "0x201da"}),
    ("java invoked oom-killer: gfp_mask=0x201da, order=0, oom_adj=0, oom_score_adj=0", "oom_kill", {"order": "0"}),
    (f"java invoked oom-killer: gfp_mask={MOVABLE}, nodemask=(null),  order=9, oom_score_adj=0", "oom_kill",
     {**ORDER_9, "mode": MOVABLE}),
    (f"java invoked oom-killer: gfp_mask={MOVABLE}, order=-1, oom_score_adj=0", "oom_kill", {"order": "-1"}),
    ("Out of memory: kill process 4711 (java) score 900 or a child", "oom_kill", VICTIM),
    ("Out of memory: Kill process 4711 (java) score 900 or sacrifice child", "oom_kill", VICTIM),
    ("Out of memory (oom_kill_allocating_task): Kill process 4711 (java) score 0 or sacrifice child", "oom_kill",
     VICTIM),
    ("Memory cgroup out of memory: Kill process 4711 (java) score 1000 or sacrifice child", "oom_kill",
     {**VICTIM, "constraint": "CONSTRAINT_MEMCG"}),
    (f"Killed process 4711, UID 500, (java) {SIZES}", "oom_kill", KILLED),
    (f"Killed process 4711 (java) {SIZES}", "oom_kill", KILLED),
    (f"Out of memory: Killed process 4711 (java) {SIZES}, shmem-rss:0kB, UID:0 pgtables:200kB oom_score_adj:0",
     "oom_kill", KILLED),
    (f"Memory cgroup out of memory: Killed process 4711 (java) {SIZES}", "oom_kill",
     {**KILLED, "constraint": "CONSTRAINT_MEMCG"}),
    (RAISED, "min_free_raised", {"from": "45056", "to": "67584"}),
    (f"khugepaged: {RAISED}", "min_free_raised", {"from": "45056", "to": "67584"}),
    ("INFO: RCU detected CPU 2 stall (t=10000 jiffies)", "rcu_stall", {"cpu": "2", "jiffies": "10000"}),
    ("rcu: INFO: rcu_tasks detected stalls on tasks:", "rcu_stall", {"flavour": "rcu_tasks"}),
    ("INFO: rcu_sched_state detected stall on CPU 2 (t=60000 jiffies)", "rcu_stall", {"cpu": "2", "jiffies": "60000"}),
    ("INFO: rcu_sched self-detected stall on CPU { 2}  (t=60000 jiffies g=1 c=0 q=0)", "rcu_stall", {"cpu": "2"}),
    ("rcu: INFO: rcu_preempt self-detected stall on CPU", "rcu_stall", {"flavour": "rcu_preempt"}),
    ("BUG: unable to handle kernel paging request at ffffea0015a11028", "oops", {}),
    ("BUG: unable to handle kernel NULL pointer dereference at 0000000000000010", "oops", {}),
    ("BUG: unable to handle page fault for address: ffffea0015a11028", "oops", {}),
    ("BUG: kernel NULL pointer dereference, address: 0000000000000000", "oops", {}),
    ("Unable to handle kernel paging request at virtual address dfff800000000003", "oops", {}),
    ("kernel BUG at mm/huge_memory.c:2450!", "oops", {"at": "mm/huge_memory.c:2450"}),
    ("general protection fault: 0000 [#1] SMP", "oops", {}),
    ("Oops: general protection fault, probably for non-canonical address 0xdead000000000108: 0000 [#1] PREEMPT SMP",
     "oops", {}),
    ("Internal error: Oops: 0000000096000004 [#1] SMP", "oops", {}),
    ("rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 2-... } 21 jiffies", "rcu_stall", {"cpu": "2"}),
]  # fmt: skip


@pytest.mark.parametrize(("message", "kind", "fields"), MESSAGES, ids=[m[:60] for m, *_ in MESSAGES])
def test_a_message_of_any_kernel_is_its_event(message: str, kind: str, fields: dict[str, str]) -> None:
    """Its numbers and names are told whatever the words of the era."""
    (event,) = events(f"Nov 20 03:35:43 host kernel: [ 1055.188049] {message}")
    assert event.kind == kind
    assert {name: event.fields.get(name) for name in fields} == fields


BOOT = Moment(1055.188049, Clock.BOOT)
UTC = Moment(1795145743.0, Clock.UTC)
LOCAL = Moment(1795145743.0, Clock.LOCAL)
DAY = Moment(12943.0, Clock.DAY)
PREFIXES = [
    ("Nov 20 03:35:43 host kernel: ", DAY),
    ("Nov  2 03:35:43 host.example.org kernel: [ 1055.188049] ", BOOT),
    ("Nov 20 03:35:43 192.0.2.7 kernel:[ 1055.188049] ", BOOT),
    ("Nov 20 03:35:43 host kern.warn kernel: ", DAY),
    ("Nov 20 03:35:43.250000 host kernel: ", Moment(12943.25, Clock.DAY)),  # journalctl -o short-precise
    ("2026-11-20T03:35:43.000000+00:00 host kernel: [ 1055.188049] ", UTC),
    ("2026-11-20T04:35:43+0100 host kernel: ", UTC),  # short-iso
    ("2026-11-20T04:35:43.000000+0100 host kernel: ", UTC),  # short-iso-precise
    ("Fri 2026-11-20 03:35:43 UTC host kernel: ", UTC),  # short-full
    ("1795145743.000000 host kernel: ", UTC),  # short-unix
    ("[ 1055.188049] host kernel: ", BOOT),  # short-monotonic
    ("[ 1055.188049 <    0.000011 >] host kernel: ", BOOT),  # short-delta
    ("[ 1055.188049                ] host kernel: ", BOOT),
    ("kernel: ", None),  # with `Message from syslogd@host` above it
    ("[ 1055.188049] ", BOOT),
    ("[1055.188049] ", BOOT),
    ("[Fri Nov 20 03:35:43 2026] ", LOCAL),  # dmesg -T
    ("kern  :warn  : [ 1055.188049] ", BOOT),  # dmesg -x
    ("kern  :err   : [Fri Nov 20 03:35:43 2026] ", LOCAL),
    ("<6>[ 1055.188049] ", BOOT),  # dmesg -r, vmcore-dmesg
    ("<4>", None),
    ("[ 1055.188049][  T136] ", BOOT),  # CONFIG_PRINTK_CALLER
    ("[ 1055.188049] [  T136] ", BOOT),
]


@pytest.mark.parametrize(("prefix", "time"), PREFIXES, ids=[p for p, _ in PREFIXES])
def test_a_message_behind_any_prefix_is_the_same_event(prefix: str, time: Moment | None) -> None:
    """With the frame below it, which has the same prefix; the line of other things ends it."""
    text = (
        "INFO: task java:4711 blocked for more than 120 seconds.",
        "Call Trace:",
        " compact_zone+0x1/0x2",
        "usb 1-1: x",
    )
    (event,) = events("\n".join(prefix + line for line in text))
    assert (event.kind, event.fields["comm"], event.fields["pid"]) == ("hung_task", "java", "4711")
    assert event.stack == ("compact_zone",)
    assert event.time == time


def test_emergencies_that_syslogd_sends_to_terminals_are_events() -> None:
    """In a pasted session; the words above each are no frame."""
    head = "Message from syslogd@host at Nov 20 03:35:43 ..."
    locked = " kernel:{}BUG: soft lockup - CPU#{} stuck for 22s! [java:7]\n"
    text = f"{head}\n{locked.format('', 3)}\n{head}\n{locked.format('[ 1055.188049] ', 4)}"
    assert [(e.fields["cpu"], e.stack) for e in events(text)] == [("3", ()), ("4", ())]


LOCKUP = "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [java:7]"
TRACES = {
    "x86 2.6.32": """Pid: 4711, comm: java Not tainted 2.6.32-220.el6.x86_64 #1 Dell Inc. PowerEdge R610/0F0XJ6
RIP: 0010:[<ffffffff814ed7ee>]  [<ffffffff814ed7ee>] _spin_lock_irq+0x1e/0x30
RSP: 0000:ffff880c0a5b3a98  EFLAGS: 00000202
Call Trace:
 [<ffffffff8115e2b8>] ? left_over+0x10/0x40
 [<ffffffff81170b02>] compact_zone+0x462/0x480 [mod]""",
    "x86 4.4": """CPU: 3 PID: 7 Comm: java Tainted: G             L  4.4.0-21-generic #37-Ubuntu
task: ffff8800b5e7c600 ti: ffff8800b5f1c000 task.ti: ffff8800b5f1c000
RIP: 0010:[<ffffffff811b2a2d>]  [<ffffffff811b2a2d>] _spin_lock_irq+0x1d/0x3a0
Call Trace:
 [<ffffffff811b3bb8>] compact_zone+0x148/0x1f0
 [<ffffffff811b3bb8>] ? left_over+0x148/0x1f0""",
    "x86 5.14": """CPU: 3 PID: 7 Comm: java Kdump: loaded Tainted: G             L    5.14.0-70.el9.x86_64 #1
RIP: 0010:_spin_lock_irq+0x1d/0x3a0
Code: 00 01
Call Trace:
 <IRQ>
 ? watchdog_timer_fn+0x1b2/0x210
 ? hrtimer_interrupt+0x1/0x2
 </IRQ>
 <TASK>
 ? asm_sysvec_apic_timer_interrupt+0x1/0x2
 ? left_over+0x148/0x1f0
 compact_zone+0x148/0x1f0 [mod]
RIP: 0033:0x7f1c2a8b3a10
 </TASK>""",
    "arm64 4.9": """PC is at _spin_lock_irq+0x1d/0x3a0
LR is at left_over+0x148/0x1f0
pc : [<ffff0000081b2a2d>] lr : [<ffff0000081b2a2d>] pstate: 60000145
Call trace:
[<ffff0000081b2a2d>] _spin_lock_irq+0x1d/0x3a0
[<ffff0000081b2a2d>] compact_zone+0x148/0x1f0""",
    "arm64 5.10": """pstate: 60400009 (nZCv daif +PAN -UAO)
pc : _spin_lock_irq+0x1d/0x3a0
lr : left_over+0x148/0x1f0
sp : ffff80002b3b3980
x29: ffff80002b3b3980 x28: 0000000000000000
Call trace:
 _spin_lock_irq+0x1d/0x3a0
 compact_zone+0x148/0x1f0""",
    "arm64 6.13": """pc : _spin_lock_irq+0x1d/0x3a0
lr : left_over+0x148/0x1f0
Call trace:
 _spin_lock_irq+0x1d/0x3a0 (P)
 left_over+0x148/0x1f0 (L)
 compact_zone+0x148/0x1f0""",
    "powerpc": """NIP:  c00000000038b6f0 LR: c00000000038bb14 CTR: c000000000000000
REGS: c000001fe7d2f530 TRAP: 0901   Not tainted  (4.18.0)
NIP [c00000000038b6f0] _spin_lock_irq+0x1d/0x3a0
LR [c00000000038bb14] left_over+0x148/0x1f0
Call Trace:
[c000001fe7d2f7b0] [c00000000038bb14] left_over+0x148/0x1f0 [mod] (unreliable)
[c000001fe7d2f7c0] [c00000000038bb14] compact_zone+0x148/0x1f0""",
    "s390": """Krnl PSW : 0704c00180000000 00000000a5d2e1c2 (_spin_lock_irq+0x1d/0x3a0)
           R:0 T:1 IO:0 EX:0 Key:0 M:1 W:0 P:0 AS:3 CC:0 PM:0 RI:0 EA:3
Call Trace:
([<00000000a5d2e1c2>] left_over+0x1d/0x3a0)
 [<00000000a5d2e1c2>] compact_zone+0x148/0x1f0""",
}


@pytest.mark.parametrize("prefix", ["Nov 20 03:35:43 host kernel: ", "[ 1055.188049] ", ""])
@pytest.mark.parametrize("trace", TRACES)
def test_what_ran_is_the_leaf_and_what_may_be_left_over_is_no_caller(trace: str, prefix: str) -> None:
    """The function of the instruction pointer, then the frames the kernel is sure of, on every architecture."""
    (event,) = events("\n".join(prefix + line for line in [LOCKUP, *TRACES[trace].splitlines()]))
    assert event.kind == "soft_lockup"
    assert event.stack == ("_spin_lock_irq", "compact_zone")


def test_an_export_of_the_journal_holds_the_events_of_the_kernel() -> None:
    """`journalctl -o json`: not what another program quotes; a message of bytes too; a cut line is a problem."""
    path = ROOT / "fixtures" / "readers" / "journal_json" / "hung_task" / "journal.json"
    hung, failed = events(path.read_text())
    assert (hung.kind, hung.fields["comm"], hung.stack) == ("hung_task", "java", ("__schedule", "compact_zone"))
    assert hung.time == Moment(1795145743.188049, Clock.UTC)
    assert (failed.kind, failed.fields["order"]) == ("allocation_failure", "9")
    lines = path.read_text().splitlines()
    cut = journal_json.JOURNAL_JSON.read(Source("m"), enumerate([*lines[:3], lines[3][:-2]], 1))
    assert [r.cite.line for r in cut if isinstance(r, Problem)] == [4]


@pytest.mark.parametrize("first", ["BUG: kernel NULL pointer dereference, address: 0000000000000000",
                                   "kernel BUG at mm/compaction.c:412!"])  # fmt: skip
def test_an_oops_is_one_event_with_the_function_that_ran_as_leaf(first: str) -> None:
    """The lines that follow the first belong to it; a program's own fault is none of the kernel's, and a bad page that
    is set aside ends no task."""
    [oops] = events(
        f"""\
[ 4001.238399] BUG: Bad page state in process kcompactd0  pfn:12345
[ 4001.238400] traps: java[4711] general protection fault ip:7f2a sp:7ffd error:0 in libc.so.6[7f2a+1000]
[ 4001.238405] ------------[ cut here ]------------
[ 4001.238411] {first}
[ 4001.238415] #PF: supervisor read access in kernel mode
[ 4001.238418] PGD 0 P4D 0
[ 4001.238420] Oops: 0000 [#1] SMP PTI
[ 4001.238423] CPU: 3 PID: 143 Comm: kswapd0 Tainted: G          I       5.2.16 #1
[ 4001.238430] RIP: 0010:__reset_isolation_pfn+0x27f/0x3c0
[ 4001.238446] Call Trace:
[ 4001.238450]  __reset_isolation_suitable+0x9b/0x120
[ 4001.238453]  reset_isolation_suitable+0x3b/0x40
[ 4001.238456]  kswapd+0x98/0x300
[ 4001.238460]  kthread+0x114/0x130
"""
    )
    assert (oops.kind, oops.fields["comm"], oops.fields["pid"]) == ("oops", "kswapd0", "143")
    assert oops.stack[:3] == ("__reset_isolation_pfn", "__reset_isolation_suitable", "reset_isolation_suitable")


HUNG = "INFO: task java:4711 blocked for more than 120 seconds."


@pytest.mark.parametrize("mark", ["-- Boot 3f0c1a5d9f1e4c64a1f0c2b7d5e6f708 --", "-- Reboot --"])
@pytest.mark.parametrize(
    ("earlier", "later", "times"),
    [
        # dates: all of them count, and what comes after the line of journalctl is after a restart
        ("Nov 18 03:35:43 db1 kernel: ", "Nov 20 05:57:55 db1 kernel: ", [12943.0, 194275.0, 194275.0]),
        # seconds since boot with dates: only those of the last boot are seconds since boot
        (
            "Nov 18 03:35:43 db1 kernel: [  920.500000] ",
            "Nov 20 05:57:55 db1 kernel: [ 1055.500000] ",
            [12943.0, 194275.0, 1055.5],
        ),
        # journalctl -o short-monotonic: nothing tells when the earlier ones were
        ("[  920.500000] db1 kernel: ", "[ 1055.500000] db1 kernel: ", [None, 1055.5]),
    ],
)
def test_boots_of_a_journal_are_kept_apart(mark: str, earlier: str, later: str, times: list[float | None]) -> None:
    """Between the messages of two boots journalctl prints a line; filtered, it is all that tells the restart."""
    found = events(f"$ journalctl\n{earlier}{HUNG}\n{mark}\n{later}x\n{later}{HUNG}\n")
    assert [event.time.seconds if event.time else None for event in found] == times
    assert [event.kind for event in found][-2:] == ["restart", "hung_task"]
    assert next(event.cite.line for event in found if event.kind == "restart") == 3


def test_what_a_journal_says_of_the_kernel_is_that_of_its_last_boot() -> None:
    """The line of journalctl, or that of the kernel itself."""
    lines = ["Linux version 5.4.0-1", "Command line: ro", HUNG, "-- Reboot --", "Linux version 5.4.0-2", "x"]
    text = "".join(f"{'' if line[0] == '-' else 'Nov 20 05:57:55 db1 kernel: '}{line}\n" for line in lines)
    read = Detector(all_parsers(), strict=True).read("paste.txt", enumerate(text.splitlines(), 1), text)
    assert [r.record.value for r in read if getattr(r.record, "name", "") == "kernel.release"] == ["5.4.0-2"]
