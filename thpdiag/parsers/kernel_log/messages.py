"""Kernel messages to events: joins a headline, the task, the trace and the details below it in one pass.

    INFO: task khugepaged:38 blocked for more than 120 seconds.     -> hung_task
    task:khugepaged      state:D stack:0     pid:38 ...             -> its state
    Call Trace:                                                     -> its stack

Used by the parsers of kernel logs, SysRq output and traces without a headline, which differ in the start of a block.
Simultaneous reports of several CPUs are separated where the log has the caller (`[T1234]`) or the host. Headlines are
those of 2.6.32 to 6.18, matched only at the start of a message: a program's line that quotes the kernel is no event. A
task's name (comm) is up to 15 arbitrary characters, so it is matched as the longest text that leaves the rest intact.

After the headline of the out-of-memory killer: the memory cgroup, huge pages, the victim.

    memory: usage 65536kB, limit 65536kB, failcnt 0
    oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/x,task_memcg=/x,task=python3,pid=7144,uid=0
    Memory cgroup out of memory: Killed process 7144 (python3) total-vm:75160kB, anon-rss:65280kB, file-rss:6616kB, ...

Units of the input: kB, bytes in lists of statistics; of the fields: bytes. The `oom-kill:` line exists from 4.20;
before, only the limit of a cgroup is recognised, by its words, and the constraint of other kills is unknown. `anon_thp`
of a node: from 4.8 on.

After the trace of a failed allocation: the watermarks and free blocks of the zones (mem_info.py), which show what was
missing (field lack). The flags of the request show whether it could not wait (field atomic).

Source: kernel tree, kernel/hung_task.c, kernel/watchdog.c, kernel/rcu/tree_stall.h, kernel/rcutree.c (2.6.32),
kernel/workqueue.c, mm/page_alloc.c, mm/oom_kill.c,
mm/memcontrol.c, mm/vmalloc.c, mm/khugepaged.c, drivers/tty/sysrq.c, lib/nmi_backtrace.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from thpdiag.knowledge.vocabulary import added_messages
from thpdiag.model import Citation, Clock, Event, Fact, Moment, Record, Sample
from thpdiag.model.parser import Passable, Source
from thpdiag.parsers._lines import ParseErrors, printable
from thpdiag.parsers.kernel_log.call_traces import Trace
from thpdiag.parsers.kernel_log.lines import (
    ClockPairs,
    KernelLine,
    Task,
    Times,
    parse_on_cpu,
    parse_task_header,
    split_line,
)
from thpdiag.parsers.kernel_log.mem_info import FREE_BLOCKS, MemInfo, may_not_wait, parse_free_blocks

BOOT_TEXT = "Linux version "  # start of the first message of a boot
MAX_OOM_LINES = 20_000  # between the headline of an OOM report and the victim is the table of tasks
_COMM = r"(?:#{1,6} |> )?(?P<comm>.{0,15}\S)"  # the mark of a title or quotation in a ticket may precede it
_FLAGS = r"0x[0-9a-f]{1,16}(?:\([\w|]{1,600}\))?"
_MODE = rf"mode:(?P<mode>{_FLAGS})"
_WATCHDOG = r"(?:NMI )?(?:[Ww]atchdog: )?"


@dataclass(frozen=True, slots=True)
class Headline:
    """The start of an event of `kind`: the line contains `hint`, and the trace is at most `trace` lines below it.

    `keep_interrupts` keeps functions of an interrupt in the trace.
    """

    kind: str
    hint: str
    trace: int
    pattern: re.Pattern[str]
    keep_interrupts: bool = False


_LOCKUPS = (
    rf"(?:Kernel panic - not syncing: )?(?:BUG: )?{_WATCHDOG}(?:CPU ?\d{{1,5}}: )?"
    r"Watchdog detected (?:hard )?LOCKUP on [Cc][Pp][Uu] ?(?P<cpu>\d{1,5})"
    r"|(?:BUG: )?NMI Watchdog detected LOCKUP on CPU ?(?P<cpu_>\d{1,5})"
    r"|(?:watchdog: )?CPU (?P<cpu__>\d{1,5}) self-detected hard LOCKUP @ "  # powerpc from 4.13
    r"|(?:watchdog: )?CPU \d{1,5} detected hard LOCKUP on other CPUs (?P<cpu___>\d{1,5})"
    r"|(?:watchdog: )?CPU (?P<cpu____>\d{1,5}) Hard LOCKUP"
)
_VMALLOC = (
    rf"{_COMM}: (?P<vmalloc>vmalloc)(?:: allocation failure| error: | size \d{{1,20}} allocation failure)"
    rf"(?:.{{0,100}}?page order (?P<order>\d{{1,3}}))?.{{0,100}}?(?:, .{{0,60}}?{_MODE}|$)"
)
_OOPS = (
    r"BUG: (?:unable to handle |kernel NULL pointer)|Unable to handle kernel "
    r"|kernel BUG at (?P<at>[\w./-]{1,100}:\d{1,6})!|(?:Oops: )?general protection fault|(?:Internal error: )?Oops\b"
)
HEADLINES = (
    Headline("hung_task", "blocked ", 80, re.compile(
        rf"INFO: task {_COMM}:(?P<pid>\d{{1,8}}) blocked [\w/ ]{{0,20}}?for more than (?P<seconds>\d{{1,9}}) seconds"
    )),
    Headline("soft_lockup", "soft lockup", 150, re.compile(
        rf"{_WATCHDOG}BUG: soft lockup (?:-|detected on) CPU#(?P<cpu>\d{{1,5}})"
        rf"(?: stuck for (?P<seconds>\d{{1,9}})s)?!(?: \[{_COMM}:(?P<pid>\d{{1,8}})\])?"
    )),
    Headline("hard_lockup", "LOCKUP", 150, re.compile(_LOCKUPS)),
    Headline("rcu_stall", " stall", 150, re.compile(
        r"(?:rcu: )?INFO: (?P<flavour>rcu\w{0,40}) (?:self-)?detected (?:expedited )?stalls? on "
        r"(?:CPUs?(?:/tasks)?|tasks):?"
        r"(?: \{? {0,2}(?P<cpu>\d{1,5})\b)?(?:.{0,200}?\bt=(?P<jiffies>\d{1,12}) jiffies)?"
        r"|INFO: RCU detected CPU (?:stalls: )?(?P<cpu_>\d{1,5})\b(?:.{0,200}?\bt=(?P<jiffies_>\d{1,12})[ /])?"
    )),
    Headline("workqueue_lockup", "workqueue lockup", 150, re.compile(
        r"BUG: workqueue lockup - pool (?:cpus=(?P<cpu>\d{1,5}))?.{0,80}? stuck for (?P<seconds>\d{1,9})s!"
    )),
    Headline("allocation_failure", "allocation failure", 30, re.compile(
        rf"{_COMM}: page allocation failure[.:] order:(?P<order>\d{{1,3}})(?:, {_MODE})?"
    ), keep_interrupts=True),
    Headline("allocation_failure", "vmalloc", 30, re.compile(_VMALLOC), keep_interrupts=True),
    Headline("allocation_stall", "allocation stalls", 30, re.compile(
        rf"{_COMM}: page allocation stalls for (?P<milliseconds>\d{{1,12}})ms, order:(?P<order>\d{{1,3}})(?:, {_MODE})?"
    ), keep_interrupts=True),
    Headline("oom_kill", "invoked oom-killer", MAX_OOM_LINES, re.compile(
        rf"{_COMM} invoked oom-killer: (?:gfp_mask=(?P<mode>{_FLAGS}))?.{{0,200}}?\border=(?P<order>-?\d{{1,3}})"
    ), keep_interrupts=True),
    *(Headline("oops", part, 60, re.compile(_OOPS)) for part in ("BUG", "protection fault", "Oops", "to handle")),
    Headline("min_free_raised", "raising min_free", 0, re.compile(
        r"(?:khugepaged: )?raising min_free_kbytes from (?P<from_>\d{1,15}) to (?P<to>\d{1,15}) to help transparent"
    )),
    Headline("restart", BOOT_TEXT, 0, re.compile(r"Linux version (?P<kernel>\d\S{1,80})")),
)  # fmt: skip

_BLOCKER = re.compile(
    rf"INFO: task {_COMM}:(?P<pid>\d{{1,8}}) (?:<\w{{1,10}}> )?(?:is )?blocked on an? (?P<lock>[\w-]{{1,20}})"
    r"(?:,? likely (?:owned|last held) by task (?P<holder>.{0,15}\S):(?P<holder_pid>\d{1,8}))?"
)
_WORK = re.compile(r"\s{2,8}in-flight: \d{1,8}(?:\(RESCUER\))?:(?P<work>[A-Za-z_][\w.]{0,120})")
SYSRQ = re.compile(r"(?:sysrq: ?|SysRq ?: ?){1,2}(?P<what>(?:Show|Trigger|HELP|Changing|Emergency|This)\b.{0,80})")
NMI_BACKTRACE = re.compile(r"NMI backtrace for cpu (?P<cpu>\d{1,5})(?P<skipped> skipped)?")
CPU_LINE = re.compile(r"CPU(?P<cpu>\d{1,5}):\s*$")  # sysrq l to 2.6.3x
WARNING_TRACE = re.compile(r"(?:WARNING: |BUG: |-{4,}\[ cut here )")

HINTS = (
    *dict.fromkeys(h.hint for h in HEADLINES), "SysRq", "sysrq", "NMI backtrace", "Call ", "omm: ", "task:", " 0x00",
    " 0x80", "*4kB", "*64kB", "-- Boot ", "WARNING: ", "BUG", "ill process", "illed process", "ransparent",
    "-- Reboot --", "cgroup stats for",
)  # fmt: skip
"""Each relevant line contains one of these. Searching for them first makes a log of a million lines cheap."""


@cache
def added_headlines() -> tuple[Headline, ...]:
    """Return the headlines of rule packs, whose patterns never backtrack."""
    messages = added_messages()
    if not messages:
        return ()
    import re2  # only where a pack has patterns

    return tuple(Headline(m.event, m.hint, m.trace, re2.compile(m.pattern)) for m in messages)


@cache
def hints() -> tuple[str, ...]:
    """Return HINTS and those of rule packs."""
    return (*HINTS, *dict.fromkeys(headline.hint for headline in added_headlines()))


def is_hint(text: str) -> bool:
    """Whether a line may be relevant while no event is open."""
    for hint in hints():  # noqa: SIM110 - `any` takes twice as long, in a log of a million lines a million times
        if hint in text:
            return True
    return False


def parse_headline(text: str) -> tuple[Headline, dict[str, str]] | None:
    """Return the report that begins on this line, and the named parts of it."""
    for headline in (*HEADLINES, *added_headlines()):
        if headline.hint in text and (match := headline.pattern.match(text)):
            fields = {k.rstrip("_"): printable(v.strip()) for k, v in match.groupdict().items() if v is not None}
            if "milliseconds" in fields:
                fields["seconds"] = f"{int(fields.pop('milliseconds')) / 1000:g}"
            return headline, fields
    return None


def parse_blocker(text: str) -> dict[str, str] | None:
    """Return the lock that a hung task waits for, and its holder if the kernel knows it (from 6.15; below the stack).

    `INFO: task java:4711 is blocked on a mutex likely owned by task java:4700.` The holder's stack follows.
    """
    match = _BLOCKER.match(text) if "blocked on a" in text else None
    return {k: printable(v) for k, v in match.groupdict().items() if v is not None} if match else None


_DETAILS = (
    re.compile(
        r"oom-kill:constraint=(?P<constraint>CONSTRAINT_\w{1,40}),.{0,400}?(?:oom_memcg=(?P<memcg>.{1,200}?),|global_oom,)"
        r".{0,600},task=(?P<victim>.{0,16}),pid=(?P<victim_pid>\d{1,8})(?:,uid=\d{1,10})?\s*$"
    ),
    re.compile(r"memory: usage (?P<memcg_usage_kb>\d{1,15})kB, limit (?P<memcg_limit_kb>\d{1,18})kB"),
    re.compile(
        r"Memory cgroup stats for (?P<memcg>[^:]{1,200}):"
        r"(?: cache:(?P<cache>\d{1,15})KB rss:(?P<rss>\d{1,15})KB rss_huge:(?P<memcg_huge_kb>\d{1,15})KB)?"
    ),
    re.compile(r"(?:rss_huge|anon_thp) (?P<memcg_huge>\d{1,18})\s*$"),
    re.compile(r"Task in .{0,200} killed as a result of limit of (?P<memcg>\S{1,200})"),
)
_CGROUP_FIELDS = {"constraint": "CONSTRAINT_MEMCG"}
_NODE_HUGE = re.compile(r"Node \d{1,4} active_anon:.{0,700}\banon_thp: ?(\d{1,15})kB")
_KILL = re.compile(
    r"(?:(?P<scope>Memory cgroup out of memory|Out of memory)(?: \([\w ]{1,40}\))?: )?(?P<verb>[Kk]ill(?:ed)?) process "
    r"(?P<victim_pid>\d{1,8})(?:, UID \d{1,10},)? \((?P<victim>.{0,16})\)"
    r"(?: total-vm:\d{1,15}kB, anon-rss:(?P<victim_anon_rss_kb>\d{1,15})kB)?"
)


def add_victim(match: re.Match[str], fields: dict[str, str]) -> bool:
    """Add the fields of a line that names a victim; return True if the report ends with it.

    To 4.19 there are two: `Kill process` has the reason, `Killed process` the memory that is freed.
    """
    if (match["scope"] or "").startswith("Memory cgroup"):
        fields.update(_CGROUP_FIELDS | fields)
    killed = match["verb"] == "Killed"
    if killed:  # the chosen and the killed task may be two threads of a process
        fields.pop("victim_pid", None)
        fields.pop("victim", None)
    _add(fields, {k: v for k, v in match.groupdict().items() if k.startswith("victim")})
    return killed


def add_oom_details(text: str, fields: dict[str, str]) -> bool:
    """Add the fields of a line of an open report; return False if it has none."""
    if huge := _NODE_HUGE.match(text):
        fields["anon_huge_bytes"] = str(int(fields.get("anon_huge_bytes", "0")) + int(huge[1]) * 1024)
        return True
    for pattern in _DETAILS:
        if match := pattern.match(text):
            parts = match.groupdict()
            usage = sum(int(parts.pop(name, None) or 0) for name in ("cache", "rss"))
            _add(fields, parts)
            if usage and "memcg_usage_bytes" not in fields:  # the line with the usage was cut off
                _add_huge_share(fields, usage * 1024)
            return True
    return False


def _add(fields: dict[str, str], parts: Mapping[str, str | None]) -> None:
    for name, value in parts.items():
        if value is None:
            continue
        if name.endswith("_kb"):
            fields.setdefault(f"{name.removesuffix('_kb')}_bytes", str(int(value) * 1024))
        else:
            fields.setdefault(f"{name}_bytes" if name == "memcg_huge" else name, printable(value))
    _add_huge_share(fields, int(fields.get("memcg_usage_bytes", "0")))


def _add_huge_share(fields: dict[str, str], usage: int) -> None:
    """Add the share of huge pages in the memory of the group that reached its limit."""
    if usage > 0 and (huge := fields.get("memcg_huge_bytes")) is not None:
        fields.setdefault("memcg_huge_share", f"{min(int(huge) / usage, 1.0):.3f}")


TASK_REPORTS = frozenset({"hung_task", "rcu_stall", "workqueue_lockup"})
MEMORY_REPORTS = frozenset({"allocation_failure"})
MAX_TRACE_LINES = 150  # between a headline and its trace are modules and registers
MAX_SYSRQ_LINES = 2_000  # without a task, after which a SysRq dump is over
_IP_ADDRESS = re.compile(r"[\d.]+|[0-9a-fA-F.]*:[0-9a-fA-F:.]*")
BOOT_LINE = re.compile(r"-- (?:Boot [0-9a-f]{32}|Reboot) --$")
"""Line of journalctl between the messages of two boots; `Reboot` up to systemd 246."""
EARLIER_BOOT_PROBLEM = "a message of an earlier boot, with only the seconds since that boot: not used"
WRONG_TOTAL_PROBLEM = "the free blocks of the zone do not add up to its total; the row is left out"


@dataclass(frozen=True, slots=True)
class _Message:
    """A line with its citation. `key` separates messages that are printed at the same time."""

    cite: Citation
    line: KernelLine

    @property
    def text(self) -> str:
        return self.line.text

    @property
    def key(self) -> tuple[str, str]:
        return (self.line.host, self.line.caller)


@dataclass(slots=True)
class _Pending:
    """An event whose trace or details are still to come. `lines` is the number of lines to wait for them."""

    kind: str
    cite: Citation
    time: Moment | None
    fields: dict[str, str]
    lines: int
    trace: Trace = field(default_factory=Trace)
    memory: MemInfo = field(default_factory=MemInfo)

    def event(self) -> Event | None:
        """Return the complete event. A trace without a known headline is an event only if it has a stack."""
        stack = self.trace.stack()
        if self.kind in MEMORY_REPORTS and {"order", "mode"} <= self.fields.keys():
            self.fields["atomic"] = "yes" if may_not_wait(self.fields["mode"]) else "no"
            if lack := self.memory.lack(int(self.fields["order"]), self.fields["mode"]):
                self.fields["lack"] = lack
        if self.kind == "kernel_trace" and not (stack and self.trace.seen):
            return None
        if self.trace.unreliable:
            self.fields["unreliable"] = " ".join(dict.fromkeys(self.trace.unreliable))
        return Event(self.kind, self.cite, self.time, self.fields, stack)

    def continues(self, text: str) -> bool:
        """Whether a line below the trace may belong to the report, or be between two lines of it."""
        if self.kind == "oom_kill" or not self.trace.seen:
            return True
        return self.kind in MEMORY_REPORTS and (self.memory.feed(text) or not is_hint(text))

    def add_task(self, task: Task) -> None:
        """Add the task of the stack, as far as it is unknown."""
        for name, value in (("comm", task.comm), ("pid", task.pid), ("state", task.state), ("cpu", task.cpu)):
            if value:
                self.fields.setdefault(name, value)


class Messages:
    """The messages of one block."""

    def __init__(self, source: Source, reader: str) -> None:
        self._source = source
        self._reader = reader
        self._times = Times()
        self._clocks = ClockPairs()
        self._pending: dict[tuple[str, str], _Pending] = {}
        self._last_has_prefix = False  # the last line had a prefix: lines without one are not the kernel's
        self._sysrq = 0  # lines until the dump of tasks is considered over
        self._in_report = False  # the last headline was a report, so task headers belong to it
        self._odd = ParseErrors(source, reader)
        self._lock: dict[str, str] = {}  # the lock that the last hung task waits for
        self._reboot: Citation | None = None  # the line of journalctl that begins another boot
        self._walls: dict[int, Moment | None] = {}  # stamps of lines with seconds since boot
        self._since_boot: list[tuple[Event | Sample, Moment | None]] = []
        self._current_host = ""  # the host of the next records
        self.hosts: set[str] = set()
        """The hosts of the messages; a log may have many."""

    def read(self, lines: Iterable[tuple[int, str]]) -> Iterator[Record]:
        """Yield all records of a block."""
        passable = lines if isinstance(lines, Passable) else None
        for number, text in lines:
            if self._pending or self._sysrq or self._reboot or is_hint(text):
                yield from self._hold_since_boot(self._take_line(number, text))
            if passable and not (self._pending or self._sysrq or self._reboot):
                passable.pass_over(hints())
        yield from self._hold_since_boot(self._close_all())
        yield from (record for record, _ in self._since_boot)
        yield from self._clocks.facts()
        yield from self._odd.problems()

    def _close_all(self) -> Iterator[Record]:
        for key in list(self._pending):
            yield from self._close(key)

    def _hold_since_boot(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield records, but hold those with seconds since boot, as a later boot may follow."""
        for record in records:
            if isinstance(record, Event | Sample) and record.time and record.time.clock is Clock.BOOT:
                self._since_boot.append((record, self._walls.get(record.cite.line or 0)))
            else:
                yield record

    def _begin_other_boot(self) -> Iterator[Record]:
        """Use stamps for the held records: their seconds are those of an earlier boot."""
        for record, wall in self._since_boot:
            if wall:
                yield replace(record, time=wall)
            else:
                self._odd.note(record.cite.line or 0, record.cite.text, EARLIER_BOOT_PROBLEM)
        self._since_boot.clear()
        self._clocks.begin_boot()

    def _restart(self, cite: Citation, message: _Message) -> Iterator[Event]:
        """Yield the restart before the first message of a boot, unless that message is itself one."""
        self._reboot = None
        if not message.text.startswith(BOOT_TEXT):
            host = {"host": message.line.host} if message.line.host else {}
            yield Event("restart", cite, self._times.wall(message.line), host)

    def _note_clocks(self, number: int, message: _Message) -> None:
        """Keep the times of a message."""
        self._clocks.note(message.line, message.cite)
        if message.line.bracket:
            self._walls[number] = self._times.wall(message.line)

    def _take_line(self, number: int, text: str) -> Iterator[Record]:
        message = _Message(self._source.cite(number, text), split_line(text))
        if BOOT_LINE.match(text.strip()):
            self._reboot = message.cite
            yield from self._hold_since_boot(self._close_all())
            yield from self._begin_other_boot()
            return
        self._note_clocks(number, message)
        has_no_prefix = not (message.line.stamp or message.line.bracket)
        if self._reboot and not has_no_prefix:
            yield from self._restart(self._reboot, message)
        if message.line.foreign:
            yield from self._other_program(message)
            return
        if has_no_prefix and self._last_has_prefix:
            return
        self._last_has_prefix = not has_no_prefix
        if name := _short_host_name(message.line.host):
            self.hosts.add(name)
        pending = self._pending.get(message.key)
        if pending and self._in_trace(pending, message.text):
            return
        if pending and pending.kind == "hung_task" and (blocker := parse_blocker(message.text)):
            if blocker.get("pid") == pending.fields.get("pid"):  # the stack of the lock's holder may follow
                pending.fields |= {name: blocker[name] for name in ("lock", "holder", "holder_pid") if name in blocker}
                self._lock = {name: blocker[name] for name in ("lock", "holder_pid", "pid") if name in blocker}
            return
        if pending and not pending.continues(message.text):
            yield from self._close(message.key)
            pending = None
        yield from self._take_message(message, pending)

    def _in_trace(self, pending: _Pending, text: str) -> bool:
        """Whether the line belongs to the trace.

        An empty message ends it: the next line may be part of a task's name that contains line feeds. In a text without
        prefixes an empty line is only layout.
        """
        if self._last_has_prefix and not text.strip() and pending.trace.running and pending.trace.stack():
            pending.trace.running = False
            return True
        return not pending.memory.begun and pending.trace.feed(text)

    def _take_message(self, message: _Message, pending: _Pending | None) -> Iterator[Record]:
        """Take a line outside a trace."""
        if row := FREE_BLOCKS.match(message.text):
            yield from self._take_zone(message, row)
        elif headline := parse_headline(message.text):
            if not (pending and pending.kind == headline[0].kind == "oops" and not pending.trace.stack()):
                yield from self._open(message, *headline)  # else a further line at the start of an oops
        elif victim := _KILL.match(message.text):
            if not pending or pending.kind != "oom_kill":
                pending = self._begin(message, "oom_kill", {}, MAX_OOM_LINES)
            if add_victim(victim, pending.fields):
                yield from self._close(message.key)
        elif not pending and message.text.startswith("Memory cgroup stats for "):  # a report without its head
            add_oom_details(message.text, self._begin(message, "oom_kill", dict(_CGROUP_FIELDS), MAX_OOM_LINES).fields)
        elif not (pending and pending.kind == "oom_kill" and add_oom_details(message.text, pending.fields)):
            yield from self._take_introduction(message, pending)

    def _open(self, message: _Message, head: Headline, fields: dict[str, str]) -> Iterator[Record]:
        yield from self._close(message.key)
        self._sysrq, self._in_report = 0, True
        if head.kind == "restart":
            if message.line.stamp:  # the log continues over reboots; dmesg begins with this line
                yield from self._begin_other_boot()
                message = replace(message, line=replace(message.line, bracket=""))
            else:
                return
        self._begin(message, head.kind, fields, head.trace).trace.keep_interrupts = head.keep_interrupts
        if not head.trace:
            yield from self._close(message.key)

    def _begin(self, message: _Message, kind: str, fields: dict[str, str], lines: int = MAX_TRACE_LINES) -> _Pending:
        if message.line.host:
            fields["host"] = message.line.host
        time = self._times.moment(message.line)
        if time is None and kind == "task_stack":
            time = self._source.time
        pending = _Pending(kind, message.cite, time, fields, lines)
        self._pending[message.key] = pending
        return pending

    def _take_introduction(self, message: _Message, pending: _Pending | None) -> Iterator[Record]:
        """Take a line that introduces a trace."""
        self._sysrq = max(0, self._sysrq - 1)
        if sysrq := SYSRQ.match(message.text):
            yield from self._close(message.key)
            self._sysrq, self._in_report = (MAX_SYSRQ_LINES if sysrq["what"].startswith("Show") else 0), False
        elif nmi := NMI_BACKTRACE.match(message.text) or (self._sysrq and CPU_LINE.match(message.text)):
            yield from self._take_backtrace(message, pending, nmi["cpu"])
        elif task := parse_task_header(message.text):
            yield from self._take_task_header(message, pending, task)
        elif task := parse_on_cpu(message.text):
            (pending or self._begin(message, "kernel_trace", {})).add_task(task)
        elif WARNING_TRACE.match(message.text):
            yield from self._take_warning(message, pending)
        else:
            yield from self._take_unknown(message, pending)

    def _take_unknown(self, message: _Message, pending: _Pending | None) -> Iterator[Record]:
        """Take any other line: it counts as waited for, or begins a trace without an introduction."""
        if not pending:
            if not self._begin(message, "kernel_trace", {}).trace.feed(message.text):
                del self._pending[message.key]
            return
        if pending.kind == "workqueue_lockup" and (work := _WORK.match(message.text)):
            pending.fields.setdefault("work", work["work"])
        pending.lines -= not pending.memory.begun or not pending.memory.feed(message.text)
        if pending.lines <= 0:
            yield from self._close(message.key)

    def _take_backtrace(self, message: _Message, pending: _Pending | None, cpu: str) -> Iterator[Record]:
        """Take the head of a CPU's stack; it belongs to an open stall report without a stack."""
        if pending and pending.kind in {"rcu_stall", "hard_lockup", "soft_lockup"}:
            pending.fields.setdefault("cpu", cpu)
            return
        yield from self._close(message.key)
        self._sysrq = MAX_SYSRQ_LINES if self._sysrq else 0
        if "skipped" not in message.text:
            self._begin(message, "task_stack", {"cpu": cpu, "how": "sysrq" if self._sysrq else "log"})

    def _take_task_header(self, message: _Message, pending: _Pending | None, task: Task) -> Iterator[Record]:
        """Take a task header, of the report above it or of a dump of tasks."""
        if pending and pending.kind in TASK_REPORTS and pending.fields.get("pid", task.pid) == task.pid:
            pending.add_task(task)
            return
        yield from self._close(message.key)
        self._sysrq = 0 if self._in_report else MAX_SYSRQ_LINES
        stack = self._begin(message, "task_stack", {"how": "log" if self._in_report else "sysrq"})
        stack.add_task(task)
        if self._in_report and self._lock.get("holder_pid") == task.pid:
            stack.fields |= {"holds": self._lock["lock"], "blocks_pid": self._lock["pid"]}

    def _take_warning(self, message: _Message, pending: _Pending | None) -> Iterator[Record]:
        """Take the head of a warning, of which only the stack is used."""
        if pending and pending.kind != "kernel_trace":
            return
        if not pending or not pending.fields.get("headline", "").startswith("----"):
            yield from self._close(message.key)
            pending = self._begin(message, "kernel_trace", {})
        pending.fields["headline"] = message.text[:200]

    def _take_zone(self, message: _Message, row: re.Match[str]) -> Iterator[Record]:
        if not (values := parse_free_blocks(message.text)):
            self._odd.note(message.cite.line or 0, message.text, WRONG_TOTAL_PROBLEM)
            return
        time = self._times.moment(message.line) or self._source.time
        entity = (("node", row["node"] or "0"), ("zone", row["zone"]))
        yield from self._host_fact(message.line.host, message.cite)
        yield Sample("zone", values, message.cite, self._reader, entity, time)

    def _close(self, key: tuple[str, str]) -> Iterator[Record]:
        pending = self._pending.pop(key, None)
        if pending and (event := pending.event()):
            yield from self._host_fact(event.fields.get("host", ""), event.cite)
            yield event

    def _host_fact(self, host: str, cite: Citation) -> Iterator[Fact]:
        """Yield the host of the next record if it differs from that of the last one."""
        if (name := _short_host_name(host)) and name != self._current_host:
            self._current_host = name
            yield Fact("host.name", name, cite)

    def _other_program(self, message: _Message) -> Iterator[Record]:
        """Yield a program's warning about transparent huge pages; its other messages are no events."""
        text = message.text
        if "ransparent" in text and "uge" in text and ("WARN" in text or "uggest" in text):
            labels = (("app", message.line.foreign),)
            yield Fact("app.thp_warning", text[:300], message.cite, labels, self._times.moment(message.line))


def _short_host_name(host: str) -> str:
    """Return the short host name of a log; empty for `localhost` (during boot) and for addresses."""
    name = host.split(".")[0]
    return "" if name == "localhost" or _IP_ADDRESS.fullmatch(host) else name
