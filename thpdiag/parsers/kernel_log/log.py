"""Kernel logs of dmesg, syslog and the journal in all forms, SysRq output, and separate call traces.

Kernel logs: dmesg, syslog, kern.log, messages, journalctl; also a report pasted without any prefix.

    [  245.528573] INFO: task khugepaged:136 blocked for more than 122 seconds.
    Nov 20 03:35:43 host kernel: java: page allocation failure. order:9, mode:0x20

Prefixes and clocks: see lines.py; reports: messages.py. Lines of other programs in the same file belong to the block but
are no events. Lines between reports are skipped, many at once. Files with the names that sosreport and distributions use
are kernel logs as a whole, because RHEL 6 prints dmesg without brackets.

SysRq: the output of `echo l|t|m|w > /proc/sysrq-trigger`, cut out of the log or from a console.

    sysrq: Show Blocked State
    task:khugepaged      state:D stack:0     pid:38    tgid:38    ppid:2      task_flags:0x200040 flags:0x00004000

t dumps all tasks, w the blocked ones, l the CPUs' current tasks, m the memory. Task headers: to 5.9 `comm S PC stack
pid father flags` in columns, from 5.10 `task:comm state:S stack: pid:`, with tgid from 6.8. Each stack is one task at
one moment, of weight one: it shows what waits, not what uses CPU. Memory lines are the free blocks of /proc/buddyinfo.
Source: kernel tree, drivers/tty/sysrq.c, kernel/sched/core.c (sched_show_task), lib/nmi_backtrace.c, mm/show_mem.c.

A call trace that was pasted without its headline: the reason is unknown, but it is the stack of one task at one moment.
Frames alone, without `Call Trace:`, count from two on.

    CPU: 3 PID: 4711 Comm: java Not tainted 3.10.0-229.14.1.el7.x86_64 #1
    Call Trace:
     [<ffffffff8116a2c5>] compact_zone+0x2e5/0x400

`dmesg --json`: an array of messages with their level and the seconds since boot; with `--time-format iso` the time is
a text. Source: util-linux 2.38, sys-utils/dmesg.c.

    {
       "dmesg": [
          {
             "pri": 6,
             "time":  1055.188049,
             "msg": "INFO: task khugepaged:136 blocked for more than 122 seconds."
          },{

Exports of the journal: the fields of an entry, which are converted to a line of the kernel log.

    __CURSOR=s=...;t=648...          Fri 2026-11-20 03:35:43.188049 UTC [s=...;t=648...;x=1]      {
    _TRANSPORT=kernel                    _TRANSPORT=kernel                                            "_TRANSPORT" : "kernel",
    MESSAGE=INFO: task ...               MESSAGE=INFO: task ...                                       "MESSAGE" : "INFO: ..."
                                                                                                  }
    {"_TRANSPORT":"kernel","__REALTIME_TIMESTAMP":"1795145743188049","_HOSTNAME":"host","MESSAGE":"INFO: task ..."}
    data: {"_TRANSPORT":"kernel", ...}

Times are microseconds: `_SOURCE_MONOTONIC_TIMESTAMP` is the time of the message since boot; `__REALTIME_TIMESTAMP`,
and `t=` of the cursor in hexadecimal, is its arrival in the journal, UTC. An export ends an entry with an empty line,
verbose begins one with its date, in the time zone of journalctl. A field of bytes is no kernel message (export: its name alone
on a line, then its length as eight bytes), or a list of numbers (json); a message that is too long is null. Source:
systemd, src/shared/logs-show.c, the pages systemd.journal-fields and systemd.io/JOURNAL_EXPORT_FORMATS.
"""  # noqa: E501

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from thpdiag.model import Event, Fact, Problem, Record, Sample
from thpdiag.model.facts import MAX_CITED_CHARS
from thpdiag.model.parser import Lines, Parser, Passable, Source
from thpdiag.parsers._lines import CGROUP_COUNTER, ParseErrors, with_errors
from thpdiag.parsers.kernel_log.call_traces import frame_function, is_trace_line
from thpdiag.parsers.kernel_log.lines import BOOT_SECONDS, KERNEL_WORD, OPENS, is_log_line, split_line
from thpdiag.parsers.kernel_log.messages import BOOT_LINE, BOOT_TEXT, Messages

_REPORT_START = (
    r"[ \t]{0,8}(?:<\d>)?(?:kernel: ?)?(?:INFO: task .{1,16}:\d{1,8} blocked "
    r"|BUG: workqueue lockup |(?:NMI )?(?:watchdog: )?(?:BUG: soft lockup |Watchdog detected )"
    r"|(?:rcu: )?INFO: rcu\w{0,40} (?:self-)?detected |.{1,16}: (?:page allocation (?:failure|stalls)|vmalloc)[ .:]"
    r"|.{1,16} invoked oom-killer: |(?:khugepaged: )?raising min_free_kbytes from "
    r"|(?:Memory cgroup o|O)ut of memory: [Kk]ill)"
)
_REPORT_LINE = re.compile(
    r"\s{0,8}(?:Not tainted|Tainted:|(?:&quot;|[^\w\s]){0,3}echo 0 >|task:|Modules linked in:"
    r"|CPU \d{1,5}:?\s*$|CPU: \d|P[Ii][Dd]: \d|Hardware name:|Workqueue: |Call |Code:|Process \S{1,16} \(pid|Stack:"
    r"|rcu: |INFO: |BUG: |WARNING: |[Ss]ending NMI"
    r"|NMI backtrace|\(detected by|\(t=\d|\d{1,4}-[.!?A-Za-z]{3,4}: |-{4,}\[ |---\[ "
    r"|(?:<\d> ?)?(?:[0-9a-f]{16} [0-9a-f]{16}|[0-9a-f]{8} [0-9a-f]{8})"
    r"|Mem-Info:|(?:isolated_|in?active_|free:|unevictable:|slab_|mapped:)|Node \d{1,4} (?:[A-Z]|active_|hugepages)"
    r"|lowmem_reserve\[|\d{1,15} (?:total pagecache|pages |reserved|pagecache)|Swap cache stats|(?:Free|Total) swap  ?="
    r"|(?:DMA|Normal|HighMem|Movable)\w{0,4}(?: free|: \d)|\[ *(?:pid|\d{1,8}) *\] |Tasks state|Tasks in /|Task in /"
    r"|(?:Memory cgroup )?stats for |(?:memory|memory\+swap|kmem|swap): usage|(?:Memory cgroup o|O)ut of memory"
    rf"|Kill(?:ed)? process|oom[-_]\w|{CGROUP_COUNTER})"
    r"|.{1,16} +[A-Z] +(?:running task +|[0-9a-f]{8,16} +)?\d{1,6} +\d{1,8} +\d{1,8} 0x"
)
_REPORT_START_LINE = re.compile(_REPORT_START)
_UNPREFIXED = re.compile(rf"Message from syslogd@|{KERNEL_WORD.pattern}")  # emergencies are printed on every terminal
MAX_BOOT_LINES = 400  # in which the kernel prints its version and command line
_LINUX_VERSION = re.compile(r"\bLinux version (\d+\.\d+\S{0,80})")
_BOOT_LINE = re.compile(r"\bKernel command line: (.{1,4000})")
_BOOT_THP = re.compile(r"(?:^|\s)transparent_hugepage=(\w{1,16})")
_DMESG_FILE = re.compile(r"(?:^|/)dmesg(?:_[\w-]{1,40})?$")
_DMESG_COMMAND = re.compile(r"(?:sudo )?dmesg\b")
MIN_COUNTED_LINES = 20  # of a log whose silence is evidence; a quoted message or trace has fewer


def continues(text: str) -> bool:
    """Whether it is another line of a log, or without a prefix a line of a report."""
    return (
        is_log_line(text)
        or bool(_UNPREFIXED.match(text))
        or is_trace_line(text)
        or bool(_REPORT_LINE.match(text) or _REPORT_START_LINE.match(text) or BOOT_LINE.match(text.strip()))
    )


def kernel_log_records(source: Source, reader: str, lines: Lines) -> Iterator[Record]:
    """Events, the free blocks of zones in reports, and the fact that a log was read: its silence is evidence.

    A log of many hosts (/var/log/messages of a log server) has no such fact.
    """
    counted, messages = _CountedLines(source, lines), Messages(source, reader)
    yield from messages.read(counted)
    if len(messages.hosts) > 1:
        return
    yield from counted.facts
    yield from counted.last_time()
    if counted.count > MIN_COUNTED_LINES:
        yield Fact("log.read", counted.count, source.cite(counted.first))


class _CountedLines:
    """Counts the lines on their way to the messages, and collects facts from the kernel's boot messages."""

    def __init__(self, source: Source, lines: Lines) -> None:
        self.source, self.count, self.first = source, 0, 0
        self.facts: list[Fact] = []
        self._lines = lines
        self._passable = lines if isinstance(lines, Passable) else None
        self._last = 0, ""
        self._begin = 0  # lines before the last boot

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for number, text in self._lines:
            self.first = self.first or number
            self.count += 1
            if BOOT_LINE.match(text.strip()) or (BOOT_TEXT in text and split_line(text).text.startswith(BOOT_TEXT)):
                self.facts.clear()  # facts of an earlier boot
                self._begin = self.count
            if self._is_booting and (BOOT_TEXT in text or "ommand line" in text):
                self._add_boot_facts(number, text)
            if text:
                self._last = number, text
            yield number, text

    @property
    def _is_booting(self) -> bool:
        return self.count - self._begin <= MAX_BOOT_LINES

    def pass_over(self, words: tuple[str, ...]) -> int:
        """Skip lines like `Passable.pass_over`, except in boot messages."""
        passed = self._passable.pass_over(words) if self._passable and not self._is_booting else 0
        self.count += passed
        return passed

    def last_time(self) -> Iterator[Fact]:
        """Yield `dmesg.last_seconds`, the least uptime of the host. Other logs may be of an earlier boot."""
        if not (_DMESG_FILE.search(self.source.path) or _DMESG_COMMAND.match(self.source.command)):
            return
        passed = self._passable.passed if self._passable else (0, b"")
        for number, text in sorted([self._last, (passed[0], passed[1].decode())], reverse=True):
            if match := BOOT_SECONDS.match(split_line(text).bracket):
                yield Fact("dmesg.last_seconds", float(match[1]), self.source.cite(number, text))
                return

    def _add_boot_facts(self, number: int, text: str) -> None:
        if match := _LINUX_VERSION.search(text):
            self.facts.append(Fact("kernel.release", match[1], self.source.cite(number, text)))
        elif match := _BOOT_LINE.search(text):
            cite = self.source.cite(number, text)
            self.facts.append(Fact("boot.cmdline", match[1].strip(), cite))
            if setting := _BOOT_THP.search(match[1]):
                self.facts.append(Fact("boot.transparent_hugepage", setting[1], cite))


KERNEL_LOG = Parser(
    "kernel_log", "kernel log (dmesg, syslog, journal)",
    lambda source, lines: kernel_log_records(source, "kernel_log", lines), opens=re.compile(f"{OPENS}|{_REPORT_START}"),
    continues=continues, priority=10,
    paths=(
        re.compile(r"(?:^|/)dmesg(?:_-T|\.old|\.\d{1,2})?$"),
        re.compile(r"(?:^|/)var/log/(?:messages|syslog|kern\.log|kernel|warn)(?:[-.][\w.-]{1,40})?$"),
        re.compile(r"(?:^|/)journalctl_--no-pager[^/]{0,120}$"),
    ),
)  # fmt: skip


_SYSRQ_OPENS = re.compile(
    rf"(?:(?:{OPENS}) ?)?(?:(?:sysrq: ?|SysRq ?: ?){{1,2}}Show|Mem-Info:"
    r"|task:.{1,16} state:[A-Z]|(?:Node \d{1,4} )?(?:DMA|Normal|HighMem|Movable)\w{0,4}: \d{1,15}\*\d{1,9}kB )"
    r"|  task {20,30}PC stack   pid father"
    r"|\S(?:.{0,14}\S)? +[A-Z] +(?:running task +|[0-9a-f]{8,16} +)?\d{1,6} +\d{1,8} +-?\d{1,8} 0x[0-9a-f]{8,16}$"
)
_SYSRQ_TABLE = re.compile(
    r"  task {20,30}PC|Sched Debug Version|Showing |runnable tasks:|\s{0,4}\.\w+ {1,40}:|\w{2,8}_rq\[\d|cpu#\d|Mem-Info"
)


SYSRQ = Parser(
    "sysrq", "SysRq output (tasks, CPUs, memory)", lambda source, lines: Messages(source, "sysrq").read(lines),
    opens=_SYSRQ_OPENS, continues=lambda text: continues(text) or bool(_SYSRQ_TABLE.match(text)), priority=11,
)  # fmt: skip


_KERNEL_TRACE_OPENS = re.compile(
    r"\s{0,8}(?:Call [Tt]race:|(?:CPU: \d{1,5} (?:UID: \d{1,10} )?PID|Pid): \d{1,8},? [Cc]omm: "
    r"|\s{0,8}(?:\[<[0-9a-f]{8,16}>\] )?(?:\? )?[A-Za-z_.][\w.$]{1,200}\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}(?: \[|$))"
)


def _kernel_trace_confirmed(lines: list[str]) -> bool:
    """Whether a frame is below the opening line; directly below it if that is itself a frame."""
    below = [frame_function(line) is not None for line in lines]
    return any(below[1:3]) if below[0] else any(below) or any("RIP" in line or "Modules" in line for line in lines)


def _with_headline(lines: Lines) -> Iterable[tuple[int, str]]:
    """Yield the lines, with `Call Trace:` before frames that lack it."""
    begun = False
    for number, text in lines:
        if not begun and text.strip():
            begun = True
            if frame_function(text) is not None:
                yield number, "Call Trace:"
        yield number, text


def parse_kernel_trace(source: Source, lines: Lines) -> Iterator[Record]:
    """One stack of a task at one moment, several if traces follow one another."""
    for record in Messages(source, KERNEL_TRACE.name).read(_with_headline(lines)):
        if isinstance(record, Event) and record.kind == "kernel_trace" and "headline" not in record.fields:
            record = replace(record, kind="task_stack", fields={**record.fields, "how": "log"})
        yield record


KERNEL_TRACE = Parser(
    "kernel_trace", "kernel call trace without headline", parse_kernel_trace, opens=_KERNEL_TRACE_OPENS,
    continues=continues, confirm=_kernel_trace_confirmed, priority=4,
)  # fmt: skip


_VALUE = re.compile(r'\s*"(?P<name>pri|time|msg|fac|caller)": *(?P<value>.*?),?$')
_DMESG_JSON_CONTINUES = re.compile(r'\s*(?:[{}\[\]],?|\},\{|"[a-z]{1,16}": .*)\s*$')


def _dmesg_lines(lines: Lines, odd: ParseErrors) -> Iterator[tuple[int, str]]:
    """Yield the messages as lines of `dmesg -r`."""
    known: dict[str, object] = {}
    for number, line in lines:
        match = _VALUE.match(line)
        if not match:
            known = {} if "{" in line else known
            continue
        try:
            known[match["name"]] = json.loads(match["value"])
            text = _dmesg_line(known) if match["name"] == "msg" else None
        except (ValueError, RecursionError, OverflowError):  # too deep, or a time that is no float
            odd.note(number, line, "invalid JSON; the message is left out")
            continue
        if text is not None:
            yield number, text


def _dmesg_line(known: dict[str, object]) -> str:
    time, message = known.get("time"), str(known.get("msg", ""))
    if isinstance(time, (int, float)):
        return f"<{known.get('pri', 6)}>[{time:12.6f}] {message}"
    return f"{time} {message}" if isinstance(time, str) else message


@with_errors("dmesg_json")
def parse_dmesg_json(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """The records of a kernel log, citing the lines of the messages."""
    yield from kernel_log_records(source, DMESG_JSON.name, _dmesg_lines(lines, odd))


DMESG_JSON = Parser(
    "dmesg_json", "dmesg --json", parse_dmesg_json, opens=re.compile(r"\s{0,8}\{$|\s{0,8}\"dmesg\": \["),
    continues=_DMESG_JSON_CONTINUES.match,
    confirm=lambda lines: any(re.match(r'\s*"dmesg": \[', line) for line in lines[:2]), priority=13,
)  # fmt: skip


MIN_COUNTED_ENTRIES = 20  # of the kernel, in a log whose silence is evidence
_MICROSECONDS = re.compile(r"\d{1,17}")
_CURSOR_TIME = re.compile(r"(?:^|;)t=([0-9a-f]{1,14})(?:;|$)")


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the journal; `line` and `raw` are its message line, or the whole entry, in the export."""

    line: int
    raw: str
    fields: Mapping[str, object]

    def text(self) -> str:
        """Return the entry as a line of `journalctl -o short-unix`, with the time since boot if known."""
        message, host = self.fields.get("MESSAGE"), self.fields.get("_HOSTNAME")
        if isinstance(message, list):  # bytes that are no text
            message = bytes(b for b in message if isinstance(b, int) and 0 <= b < 256).decode(errors="replace")
        wall, boot = (str(self.fields.get(f"_{name}_TIMESTAMP", "")) for name in ("_REALTIME", "SOURCE_MONOTONIC"))
        if not _MICROSECONDS.fullmatch(wall):
            cursor = _CURSOR_TIME.search(str(self.fields.get("__CURSOR", "")))
            wall = str(int(cursor[1], 16)) if cursor else ""
        bracket = f"[{int(boot) / 1e6:12.6f}] " if _MICROSECONDS.fullmatch(boot) else ""
        stamp = f"{int(wall) / 1e6:.6f}" if wall else "0000000000.000000"
        return f"{stamp} {host or 'localhost'} kernel: {bracket}{message or ''}"


def journal_records(source: Source, reader: str, entries: Iterable[Entry]) -> Iterator[Record]:
    """The records of a kernel log, citing the lines of the export."""
    raw: dict[int, str] = {}

    def texts() -> Iterator[tuple[int, str]]:
        boot = ""
        for entry in entries:
            if entry.fields.get("_TRANSPORT") == "kernel":
                raw[entry.line] = entry.raw[:MAX_CITED_CHARS]
                before, boot = boot, str(entry.fields.get("_BOOT_ID") or boot)
                if before and before != boot:
                    yield entry.line, f"-- Boot {boot} --"
                yield entry.line, entry.text()

    messages = Messages(source, reader)
    for record in messages.read(texts()):
        if isinstance(record, (Event, Fact, Problem, Sample)):
            line = record.cite.line or 0
            yield replace(record, cite=source.cite(line, raw.get(line, "")))
    if len(messages.hosts) <= 1 and len(raw) > MIN_COUNTED_ENTRIES:
        yield Fact("log.read", len(raw), source.cite(next(iter(raw))))


_CURSOR = r"s=[0-9a-f]{1,32};i=[0-9a-f]{1,16};.{1,200}"
_DATE = r"[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})? \S{1,6}"
_ENTRY_START = re.compile(rf"__CURSOR={_CURSOR}|{_DATE} \[(?P<cursor>{_CURSOR})\]$|(?P<pretty>\{{)$")
_FIELD = re.compile(r"\s{0,8}(?P<name>_{0,2}[A-Z][A-Z0-9_]{0,63})=(?P<value>.*)")
_JSON_FIELD = re.compile(r'\s{0,8}"(?P<name>_{0,2}[A-Z][A-Z0-9_]{0,63})" : (?P<value>.*?),?$')
_JOURNAL_EXPORT_CONTINUES = re.compile(
    rf"\s*$|\{{$|\}}$|[ \t]|_{{0,2}}[A-Z][A-Z0-9_]{{0,63}}(?:=|$)|{_DATE} \[{_CURSOR}\]$"
)


def _journal_export_entries(lines: Lines) -> Iterator[Entry]:
    fields: dict[str, object] = {}
    place = (0, "")
    for number, line in lines:
        if begins := _ENTRY_START.match(line):
            if fields:
                yield Entry(*place, fields)
            fields, place = {}, (number, line)
            if begins["cursor"]:
                fields["__CURSOR"] = begins["cursor"]
        name, value = _field(line)
        if name == "MESSAGE":
            place = (number, line)
        if name:
            fields.setdefault(name, value)
    if fields:
        yield Entry(*place, fields)


def _field(line: str) -> tuple[str, object]:
    """Return name and value of the field on this line; the name is empty if there is none."""
    if match := _FIELD.match(line):
        return match["name"], match["value"]
    if match := _JSON_FIELD.match(line):
        try:
            return match["name"], json.loads(match["value"])
        except (ValueError, RecursionError):  # a list of bytes over several lines
            pass
    return "", ""


def _journal_export_confirmed(lines: list[str]) -> bool:
    """Whether fields of the journal follow, if the block begins with a brace."""
    begins = _ENTRY_START.match(lines[0])
    pretty = begins and begins["pretty"]
    return not pretty or any('"__CURSOR" : "' in line or '"_BOOT_ID" : "' in line for line in lines)


JOURNAL_EXPORT = Parser(
    "journal_export", "journalctl -o export, verbose, json-pretty",
    lambda source, lines: journal_records(source, "journal_export", _journal_export_entries(lines)),
    opens=re.compile(_ENTRY_START.pattern.replace("?P<cursor>", "?:").replace("?P<pretty>", "?:")),
    continues=_JOURNAL_EXPORT_CONTINUES.match, confirm=_journal_export_confirmed, priority=12,
)  # fmt: skip


_JOURNAL_JSON_OPENS = re.compile(r'\s{0,8}(?:data: )?\{.{0,4000}"__REALTIME_TIMESTAMP" ?: ?"')
_KERNEL_ENTRY = re.compile(r'"_TRANSPORT" ?: ?"kernel"')
_JOURNAL_JSON_CONTINUES = re.compile(r"\s*(?:(?:data: )?\{|$)")


def _journal_json_entries(lines: Lines, odd: ParseErrors) -> Iterator[Entry]:
    for number, line in lines:
        if not _KERNEL_ENTRY.search(line):
            continue
        try:
            entry = json.loads(line.strip().removeprefix("data: "))
        except (ValueError, RecursionError):
            odd.note(number, line, "incomplete JSON; the entry is left out")
            continue
        yield Entry(number, line, entry)


@with_errors("journal_json")
def parse_journal_json(source: Source, lines: Lines, odd: ParseErrors) -> Iterator[Record]:
    """The records of a kernel log, citing the lines of the export."""
    yield from journal_records(source, JOURNAL_JSON.name, _journal_json_entries(lines, odd))


JOURNAL_JSON = Parser(
    "journal_json", "journalctl -o json", parse_journal_json, opens=_JOURNAL_JSON_OPENS,
    continues=_JOURNAL_JSON_CONTINUES.match, priority=12,
)  # fmt: skip
