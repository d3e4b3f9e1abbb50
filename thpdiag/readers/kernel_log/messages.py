"""Kernel messages to events: one pass that joins a headline, the task, the trace and the details below it.

    INFO: task khugepaged:38 blocked for more than 120 seconds.     -> hung_task
    task:khugepaged      state:D stack:0     pid:38 ...             -> its state
    Call Trace:                                                     -> its stack

Used by the readers of kernel logs, of SysRq output and of traces without a headline, which differ only in where a
block begins. Reports of several CPUs at once are kept apart where the log names the caller (`[T1234]`) or the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from thpdiag.model import Citation, Event, Fact, Moment, Record, Sample
from thpdiag.reader import Passable, Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.kernel_log.call_traces import Trace
from thpdiag.readers.kernel_log.clocks import TwoClocks
from thpdiag.readers.kernel_log.free_blocks import FreeBlocks, free_blocks
from thpdiag.readers.kernel_log.headlines import (
    HINTS,
    NMI_BACKTRACE,
    ONE_CPU,
    OTHER_TRACE,
    SYSRQ,
    Headline,
    blocker,
    headline,
    telling,
)
from thpdiag.readers.kernel_log.lines import KernelLine, Task, Times, on_cpu, split, task_header
from thpdiag.readers.kernel_log.oom_report import kill, more

OOM_LINES = 20_000  # the table of tasks lies between the headline of an OOM report and the line that names the victim
TRACE_LINES = 150  # modules and registers lie between a headline and its trace
SYSRQ_LINES = 2_000  # lines without a task after which a SysRq dump is over
_ADDRESS = re.compile(r"[\d.]+|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")
NOT_ADDING_UP = "the free blocks of the zone do not add up to its total; the row is left out"


@dataclass(frozen=True, slots=True)
class _Message:
    """A line with its place. `key` tells apart what is printed at the same time."""

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
    """An event whose trace or details are still to come. `lines` is how many further lines it is waited for."""

    kind: str
    cite: Citation
    time: Moment | None
    fields: dict[str, str]
    lines: int
    trace: Trace = field(default_factory=Trace)

    def event(self) -> Event | None:
        """What is known at the end. A trace without a known headline is an event only if there is a trace."""
        stack = self.trace.stack()
        if self.kind == "kernel_trace" and not (stack and self.trace.seen):
            return None
        if self.trace.unreliable:
            self.fields["unreliable"] = " ".join(dict.fromkeys(self.trace.unreliable))
        return Event(self.kind, self.cite, self.time, self.fields, stack)

    def of(self, task: Task) -> None:
        """Whose stack it is, as far as that is not known."""
        for name, value in (("comm", task.comm), ("pid", task.pid), ("state", task.state), ("cpu", task.cpu)):
            if value:
                self.fields.setdefault(name, value)


class Messages:
    """The messages of one block."""

    def __init__(self, source: Source, reader: str) -> None:
        self._source = source
        self._reader = reader
        self._times = Times()
        self._clocks = TwoClocks()
        self._pending: dict[tuple[str, str], _Pending] = {}
        self._prefixed = False  # a line with a prefix was seen: lines without one are not the kernel's
        self._sysrq = 0  # lines until the dump of tasks is taken to be over
        self._reported = False  # the last headline was a report, so task headers belong to it
        self._odd = Oddities(source, reader)
        self._lock: dict[str, str] = {}  # that the last hung task waits for
        self._told = ""  # the host that the records now are of
        self.hosts: set[str] = set()
        """Whose messages were looked at; a log may be the one of many hosts."""

    def read(self, lines: Iterable[tuple[int, str]]) -> Iterator[Record]:
        """All records of a block."""
        passable = lines if isinstance(lines, Passable) else None
        for number, text in lines:
            if self._pending or self._sysrq or telling(text):
                yield from self._line(number, text)
            if passable and not (self._pending or self._sysrq):
                passable.pass_over(HINTS)
        for key in list(self._pending):
            yield from self._close(key)
        yield from self._clocks.facts()
        yield from self._odd.problems()

    def _line(self, number: int, text: str) -> Iterator[Record]:
        message = _Message(self._source.cite(number, text), split(text))
        self._clocks.note(message.line, message.cite)
        bare = not (message.line.stamp or message.line.bracket)
        if message.line.foreign:
            yield from self._other_program(message)
            return
        if bare and self._prefixed:
            return
        self._prefixed = not bare
        if name := _name(message.line.host):
            self.hosts.add(name)
        pending = self._pending.get(message.key)
        if pending and self._in_trace(pending, message.text):
            return
        if pending and pending.kind == "hung_task" and (told := blocker(message.text)):
            self._blocked(pending, told)
            return
        if pending and pending.trace.seen and pending.kind != "oom_kill":
            yield from self._close(message.key)
            pending = None
        yield from self._message(message, pending)

    def _blocked(self, pending: _Pending, told: dict[str, str]) -> None:
        """A hung task waits for a lock; the stack of its holder may follow."""
        if told.get("pid") == pending.fields.get("pid"):
            pending.fields |= {name: told[name] for name in ("lock", "holder", "holder_pid") if name in told}
            self._lock = {name: told[name] for name in ("lock", "holder_pid", "pid") if name in told}

    def _in_trace(self, pending: _Pending, text: str) -> bool:
        """Whether the line belongs to the trace.

        An empty message ends it: the next line may come out of a task's name with line feeds in it. In a text without
        prefixes an empty line is only layout.
        """
        if self._prefixed and not text.strip() and pending.trace.running and pending.trace.stack():
            pending.trace.running = False
            return True
        return pending.trace.feed(text)

    def _message(self, message: _Message, pending: _Pending | None) -> Iterator[Record]:
        """A line outside a trace."""
        if (row := free_blocks(message.text)) is not None:
            yield from self._zone(message, row)
        elif found := headline(message.text):
            yield from self._open(message, *found)
        elif killed := kill(message.text):
            pending = (
                pending if pending and pending.kind == "oom_kill" else self._begin(message, "oom_kill", {}, OOM_LINES)
            )
            if killed.into(pending.fields):
                yield from self._close(message.key)
        elif not (pending and pending.kind == "oom_kill" and more(message.text, pending.fields)):
            yield from self._introduction(message, pending)

    def _open(self, message: _Message, head: Headline, fields: dict[str, str]) -> Iterator[Record]:
        yield from self._close(message.key)
        self._sysrq, self._reported = 0, True
        if head.kind == "restart":
            if message.line.stamp:  # the log goes on over reboots; dmesg just begins with this line
                message = replace(message, line=replace(message.line, bracket=""))
            else:
                return
        self._begin(
            message, head.kind, fields, OOM_LINES if head.kind == "oom_kill" else head.trace
        ).trace.whole = head.whole
        if not head.trace:
            yield from self._close(message.key)

    def _begin(self, message: _Message, kind: str, fields: dict[str, str], lines: int = TRACE_LINES) -> _Pending:
        if message.line.host:
            fields["host"] = message.line.host
        time = self._times.of(message.line)
        if time is None and kind == "task_stack":
            time = self._source.time
        pending = _Pending(kind, message.cite, time, fields, lines)
        self._pending[message.key] = pending
        return pending

    def _introduction(self, message: _Message, pending: _Pending | None) -> Iterator[Record]:
        """Lines that say whose trace comes next."""
        self._sysrq = max(0, self._sysrq - 1)
        if sysrq := SYSRQ.match(message.text):
            yield from self._close(message.key)
            self._sysrq, self._reported = (SYSRQ_LINES if sysrq["what"].startswith("Show") else 0), False
        elif nmi := NMI_BACKTRACE.match(message.text) or (self._sysrq and ONE_CPU.match(message.text)):
            yield from self._backtrace(message, pending, nmi["cpu"])
        elif task := task_header(message.text):
            yield from self._header(message, pending, task)
        elif task := on_cpu(message.text):
            (pending or self._begin(message, "kernel_trace", {})).of(task)
        elif OTHER_TRACE.match(message.text):
            yield from self._other_trace(message, pending)
        else:
            yield from self._unknown(message, pending)

    def _unknown(self, message: _Message, pending: _Pending | None) -> Iterator[Record]:
        """Anything else: one line less to wait, or a trace that comes without a word."""
        if pending:
            pending.lines -= 1
            if pending.lines <= 0:
                yield from self._close(message.key)
        elif not self._begin(message, "kernel_trace", {}).trace.feed(message.text):
            del self._pending[message.key]

    def _backtrace(self, message: _Message, pending: _Pending | None, cpu: str) -> Iterator[Record]:
        """The stack of a CPU: of the one that a stall report is about if that has none yet."""
        if pending and pending.kind in {"rcu_stall", "hard_lockup", "soft_lockup"}:
            pending.fields.setdefault("cpu", cpu)
            return
        yield from self._close(message.key)
        self._sysrq = SYSRQ_LINES if self._sysrq else 0
        if "skipped" not in message.text:
            self._begin(message, "task_stack", {"cpu": cpu, "how": "sysrq" if self._sysrq else "log"})

    def _header(self, message: _Message, pending: _Pending | None, task: Task) -> Iterator[Record]:
        """A task header: of the report above it, or of a dump of tasks."""
        if pending and pending.kind in {"hung_task", "rcu_stall"} and pending.fields.get("pid", task.pid) == task.pid:
            pending.of(task)
            return
        yield from self._close(message.key)
        self._sysrq = 0 if self._reported else SYSRQ_LINES
        begun = self._begin(message, "task_stack", {"how": "log" if self._reported else "sysrq"})
        begun.of(task)
        if self._reported and self._lock.get("holder_pid") == task.pid:
            begun.fields |= {"holds": self._lock["lock"], "blocks_pid": self._lock["pid"]}

    def _other_trace(self, message: _Message, pending: _Pending | None) -> Iterator[Record]:
        """A warning or an oops: only its stack may matter."""
        if pending and pending.kind != "kernel_trace":
            return
        if not pending or not pending.fields.get("headline", "").startswith("----"):
            yield from self._close(message.key)
            pending = self._begin(message, "kernel_trace", {})
        pending.fields["headline"] = message.text[:200]

    def _zone(self, message: _Message, row: FreeBlocks) -> Iterator[Record]:
        if not row.values:
            self._odd.note(message.cite.line or 0, message.text, NOT_ADDING_UP)
            return
        time = self._times.of(message.line) or self._source.time
        entity = (("node", row.node), ("zone", row.zone))
        yield from self._of_host(message.line.host, message.cite)
        yield Sample("zone", row.values, message.cite, self._reader, entity, time)

    def _close(self, key: tuple[str, str]) -> Iterator[Record]:
        pending = self._pending.pop(key, None)
        if pending and (event := pending.event()):
            yield from self._of_host(event.fields.get("host", ""), event.cite)
            yield event

    def _of_host(self, host: str, cite: Citation) -> Iterator[Fact]:
        """Whose the next record is, where that is another host than that of the last one."""
        if (name := _name(host)) and name != self._told:
            self._told = name
            yield Fact("host.name", name, cite)

    def _other_program(self, message: _Message) -> Iterator[Record]:
        """Another program that warns of transparent huge pages; whatever else it says of the kernel is no event."""
        text = message.text
        if "ransparent" in text and "uge" in text and ("WARN" in text or "uggest" in text):
            labels = (("app", message.line.foreign),)
            yield Fact("app.thp_warning", text[:300], message.cite, labels, self._times.of(message.line))


def _name(host: str) -> str:
    """The name that a log calls a host by; none while it is booted, or where the log knows only an address."""
    name = host.split(".")[0]
    return "" if name == "localhost" or _ADDRESS.fullmatch(host) else name
