"""Lines of a kernel log: their prefix, their times, and the headers of tasks.

    Nov 20 03:35:43 host kernel: [ 1055.188049] INFO: task python3:7202 blocked for more than 120 seconds.
    4,416,1055188049,-,caller=T136;INFO: task khugepaged:136 blocked for more than 122 seconds.
    6.18.44,4,416,1055188049,-;...          netconsole with the kernel's release (from 6.4)

Prefixes: dmesg (bracket, -T, -d, -e, -r, -x also with -t, --time-format iso), /dev/kmsg, classic and RFC 3339 syslog,
RFC 5424, journalctl short forms, each also in the log of a container; `[T1234]`/`[C3]` after the bracket is the caller
(CONFIG_PRINTK_CALLER). Times: a stamp with offset or an epoch gives UTC, a full date without zone LOCAL, a bracket
BOOT; a classic stamp has no year and gives DAY, counted from the midnight before the first such line. A stamp directly
before a bracket is that of the receiver (serial console, netconsole), on another clock; it is not used.

Records of /dev/kmsg, and of netconsole in its extended form, are facility and level, sequence number, microseconds
since boot, flags, and further keys; lines that begin with a blank belong to the record above. Messages of programs have
another facility (8 or more in the first number).

A line with a stamp and a bracket connects both clocks: the bracket is more exact and is the time of the event, the
stamp gives the time of the boot. Messages from before the start of the syslog daemon have the stamp of its start.

Source: kernel tree, kernel/printk, kernel/sched/core.c, Documentation/ABI/testing/dev-kmsg,
Documentation/networking/netconsole.rst; util-linux dmesg.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median

from thpdiag.model import Citation, Clock, Fact, Moment
from thpdiag.model.facts import zoned_moment
from thpdiag.parsers._lines import printable

KMSG = r"(?:\d[\w.+~-]{2,80},)?\d{1,4},\d{1,19},\d{1,16},[-c+](?:,[a-z]{1,20}=[^;,]{1,80}){0,6};"
"""The text before the message (no named groups, because it becomes part of larger patterns)."""

DICTIONARY_LINE = r" [A-Z][A-Z0-9_]{1,40}="
"""A line of the dictionary below a record."""

_RECORD = re.compile(
    r"(?:\d[\w.+~-]{2,80},)?(?P<priority>\d{1,4}),\d{1,19},(?P<microseconds>\d{1,16}),[-c+]"
    r"(?P<keys>(?:,[a-z]{1,20}=[^;,]{1,80}){0,6});(?P<text>.*)"
)
_CALLER = re.compile(r",caller=([TC]\d{1,8})")
_LATER_PART = re.compile(r",ncfrag=(?!0/)")  # only the first part of a message that netconsole split is read
_MIN_PROGRAM_PRIORITY = 8  # priority is 8 times the facility plus the level; the kernel's facility is 0

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS_BEFORE = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335)  # of a leap year
_YEAR_DAYS = 366

_GREP = (  # grep's prefix: the file, the line number, `-` instead of `:` for context lines
    r"(?:(?:/[\w./@+-]{1,200}|(?:messages|syslog|kern\.log|dmesg)[\w.-]{0,40}?)[:-])?(?:\d{1,8}[:-])?"
)
_DECODED = r"[a-z]{3,8}\d? {0,4}:[a-z]{3,6} {0,4}: "  # dmesg -x
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"  # dmesg's own has a comma
_FULL = r"[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})? [A-Z]{1,5}"
_CLASSIC = r"[A-Z][a-z]{2} {1,2}\d{1,2} (?:\d{4} )?\d\d:\d\d:\d\d(?:\.\d{1,9})?(?: \d{4})?"
_EPOCH = r"\d{9,10}\.\d{6}"
_BOOT_BRACKET = r"\[ {0,11}\d{1,11}\.\d{3,9}(?: <[ \d.]{1,20}>| {4,20})?\]"  # journalctl -o short-delta
_CTIME = r"\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}(?: <[ \d.]{1,20}>| {4,20})?\]"
_RELATIVE = r"\[ {0,8}\+\d{1,7}\.\d{6}\]|\[[A-Z][a-z]{2}\d\d \d\d:\d\d\]"
_BRACKET = rf"(?:{_BOOT_BRACKET}|{_CTIME}|{_RELATIVE})(?: ?\[ {{0,8}}[TC]\d{{1,8}}\])?"
_STAMP = rf"(?:{_ISO}|{_FULL}|{_CLASSIC}|{_EPOCH})"
_STRUCTURED = r"(?:-|(?:\[[\w@.-]{1,64}(?: [^\]]{0,400})?\]){1,4})"  # RFC 5424, after process and message id
_KERNEL = rf"(?:[a-z]{{3,7}}\.[a-z]{{3,7}} )?kernel(?::| [\w.-]{{1,64}} [\w.-]{{1,32}} {_STRUCTURED})"
_CONTAINER = rf"{_ISO} std(?:out|err) [FP] "  # containerd and CRI-O before each line of a container
_NODE = rf"[a-z][\w.-]{{1,253}} (?={_CLASSIC} )"  # oc adm node-logs before each line of a node
_RECEIVED = rf"(?:\[{_STAMP}\]|{_STAMP}|\[[A-Z][a-z]{{2}} {_CLASSIC}\]):? {{0,2}}"  # serial console, netconsole
_CONSOLE = r"(?=\[ {0,5}\d{1,11}\.\d{6}\])"  # unambiguous after a stamp; programs, too, print seconds in brackets
_LEVEL = (
    rf"{_GREP}(?:{_CONTAINER}|{_NODE})?"
    rf"(?:<\d{{1,3}}>(?:1 )?|{_DECODED}|(?:{_RECEIVED}(?:[\w.:-]{{1,255}} )?|kernel: ){_CONSOLE})?"
)
_DMESG_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d "
_UNTIMED = (
    r"(?:kern|user|daemon|syslog|auth) {0,4}:(?:emerg|alert|crit|err|warn|notice|info|debug) {0,3}: "
    rf"(?!{_BRACKET}|{_DMESG_ISO})"
)

OPENS = (
    rf"[ \t]{{0,8}}(?:{_LEVEL}(?:{_BRACKET}|{_STAMP} (?:[\w.:-]{{1,255}} )?{_KERNEL}|{_DMESG_ISO})|{_UNTIMED}|{KMSG})"
)
"""A line that only a kernel log has (no named groups, because it becomes part of a larger pattern)."""

_CONTINUES = re.compile(rf"{_LEVEL}(?:{_BRACKET}|{_STAMP} [^ ]{{1,255}} [^ ]{{1,255}}|{_DMESG_ISO})|{_UNTIMED}|{KMSG}")
_OUTER_PREFIX = re.compile(rf"{_GREP}(?:{_CONTAINER}|{_NODE}|{_RECEIVED}(?:(?P<host>[\w.:-]{{1,255}}) )?{_CONSOLE})")
_PROGRAM = re.compile(rf"{_GREP}(?:<(?:[89]|\d\d\d?)>(?=\[)|(?!kern\b){_DECODED})")  # a program that wrote to /dev/kmsg
_UNTIMED_LINE = re.compile(_UNTIMED)
_SYSLOG = re.compile(
    rf"{_LEVEL}(?P<stamp>{_STAMP}) (?:(?P<host>[\w.:-]{{1,255}}) )??"
    rf"(?:(?P<kernel>{_KERNEL})|(?P<other>[^ \[:]{{1,100}})(?:\[\d{{1,10}}\])?:) ?"
)
_DMESG = re.compile(
    rf"{_LEVEL}(?P<bracket>\[[^\]]{{1,60}}\]|\d{{4}}-\d\d-\d\dT[\d:,+-]{{20,24}})"
    r"(?: ?(?P<caller>\[ {0,8}[TC]\d{1,8}\]))? ?"
)
_DMESG_PREFIX = re.compile(rf"{_LEVEL}(?:{_BRACKET}|{_DMESG_ISO})")
KERNEL_WORD = re.compile(r"\s{0,4}(?:<\d>|kernel: ?)(?=\s{0,8}\S)")  # of a console, journalctl -o cat, syslogd
MAX_KERNEL_WORDS = 4  # prefixes in a row; a hostile line has thousands
_JOURNAL_HOST = re.compile(r"(?:(?P<host>[\w.-]{1,255}) )?kernel: ")
BOOT_SECONDS = re.compile(r"\[ *(\d{1,12}\.\d{1,9})")
_CLOCK = re.compile(r"(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MONTH_DAY = re.compile(r"([A-Z][a-z]{2}) +(\d{1,2}) ")
_YEAR = re.compile(r" (\d{4})(?: |\]|$)")
_OFFSET = re.compile(r"(Z|UTC|GMT|[+-]\d\d:?\d\d)$")


def is_log_line(text: str) -> bool:
    """Whether a line has the prefix of a kernel log or of the syslog around it."""
    return _CONTINUES.match(text.lstrip(" \t")) is not None or re.match(DICTIONARY_LINE, text) is not None


@dataclass(frozen=True, slots=True)
class KernelLine:
    """A message without its prefix. `foreign` is the program if syslog shows that the kernel did not print it."""

    text: str
    stamp: str = ""
    bracket: str = ""
    host: str = ""
    caller: str = ""
    foreign: str = ""


def split_line(line: str, depth: int = MAX_KERNEL_WORDS) -> KernelLine:
    """Split off the prefix; a line without one is all text. `depth` limits the number of `kernel:` in a row."""
    line = line.lstrip(" \t")  # indented in mails and tickets
    carrier = _OUTER_PREFIX.match(line)
    if not carrier:
        return _split_prefix(line, depth)
    inner = _split_prefix(line[carrier.end() :], depth)
    return replace(inner, host=carrier["host"]) if carrier["host"] and not inner.host else inner


def _split_prefix(line: str, depth: int) -> KernelLine:
    if match := _RECORD.match(line):
        bracket, caller = f"[{int(match['microseconds']) / 1e6:12.6f}]", _CALLER.search(match["keys"])
        by_kernel = int(match["priority"]) < _MIN_PROGRAM_PRIORITY and not _LATER_PART.search(match["keys"])
        foreign = "" if by_kernel else "kmsg"
        return KernelLine(match["text"], "", bracket, caller=caller[1] if caller else "", foreign=foreign)
    if match := _SYSLOG.match(line):
        if match["other"]:
            return KernelLine(line[match.end() :], match["stamp"], host=match["host"] or "", foreign=match["other"])
        rest = line[match.end() :]
        inner = _DMESG.match(rest) if _DMESG_PREFIX.match(rest) else None
        if inner:
            return KernelLine(
                rest[inner.end() :], match["stamp"], inner["bracket"], match["host"] or "", inner["caller"] or ""
            )
        return KernelLine(rest, match["stamp"], host=match["host"] or "")
    if _DMESG_PREFIX.match(line) and (match := _DMESG.match(line)):
        rest = line[match.end() :]
        journal = _JOURNAL_HOST.match(rest)
        host = (journal["host"] or "") if journal else ""
        text, foreign = rest[journal.end() :] if journal else rest, "kmsg" if _PROGRAM.match(line) else ""
        return KernelLine(text, "", match["bracket"], host, match["caller"] or "", foreign)
    if match := _UNTIMED_LINE.match(line):
        return KernelLine(line[match.end() :], foreign="" if line.startswith("kern") else "kmsg")
    if depth and (word := KERNEL_WORD.match(line)):
        message = split_line(line[word.end() :], depth - 1)
        return message if message.bracket and not message.foreign else KernelLine(line[word.end() :])
    return KernelLine(line)


class Times:
    """Moments of the lines of one log. Classic stamps are counted from the day of the first one."""

    def __init__(self) -> None:
        self._first_day: int | None = None

    def moment(self, line: KernelLine) -> Moment | None:
        """Return the most exact moment of the prefix, None if it has none or an invalid one."""
        stamp, boot = line.stamp or line.bracket, BOOT_SECONDS.match(line.bracket)
        dated = self._full_date(stamp)
        if dated is not None:
            return dated
        if boot:
            return Moment(float(boot[1]), Clock.BOOT)
        return self._day(stamp)

    def wall(self, line: KernelLine) -> Moment | None:
        """Return the moment of the syslog stamp, even if a bracket has the time since boot."""
        return (self._full_date(line.stamp) or self._day(line.stamp)) if line.stamp else None

    def _full_date(self, stamp: str) -> Moment | None:
        if re.fullmatch(_EPOCH, stamp):
            return Moment(float(stamp), Clock.UTC)
        clock, date = _CLOCK.search(stamp), _DATE.search(stamp)
        if not clock:
            return None
        if date:
            parts = (int(date[1]), int(date[2]), int(date[3]))
        elif (year := _YEAR.search(stamp)) and (day := _MONTH_DAY.search(stamp)) and day[1] in _MONTHS:
            parts = (int(year[1]), _MONTHS.index(day[1]) + 1, int(day[2]))
        else:
            return None
        try:
            seconds = datetime(*parts, int(clock[1]), int(clock[2]), int(clock[3]), tzinfo=UTC).timestamp()
        except ValueError:
            return None
        offset = _OFFSET.search(stamp)
        return zoned_moment(seconds + float(f"0.{clock[4] or 0}"), offset[1] if offset else "")

    def _day(self, stamp: str) -> Moment | None:
        clock, day = _CLOCK.search(stamp), _MONTH_DAY.match(stamp)
        if not clock or not day or day[1] not in _MONTHS:
            return None
        number = _DAYS_BEFORE[_MONTHS.index(day[1])] + int(day[2])
        if self._first_day is None:
            self._first_day = number
        days = (number - self._first_day) % _YEAR_DAYS
        seconds = int(clock[1]) * 3600 + int(clock[2]) * 60 + int(clock[3]) + float(f"0.{clock[4] or 0}")
        return Moment(days * 86400 + seconds, Clock.DAY)


_TASK = re.compile(
    r"task:(?P<comm>.{0,15}\S) *state:(?P<state>[A-Z?])(?:  running task)? .{0,40}?\bpid: *(?P<pid>\d{1,8})(?!\d)"
)
_TASK_WIDE = re.compile(_TASK.pattern.replace(r".{0,15}\S) *", ".{15}) "))
_OLD_TASK = re.compile(
    r"(?P<comm>\S(?:.{0,14}\S)?) +(?P<state>[A-Z?]) +(?:running task +|[0-9a-f]{8}(?:[0-9a-f]{8})? +)?"
    r"\d{1,6} +(?P<pid>\d{1,8}) +-?\d{1,8} +0x[0-9a-f]{8,16}\s*$"
)
_ON_CPU = re.compile(
    r"(?:CPU: (?P<cpu>\d{1,5}) )?(?:UID: \d{1,10} )?(?:PID|Pid): (?P<pid>\d{1,8}),? [Cc]omm: (?P<comm>.{0,16}) "
    r"(?:Not tainted|Tainted:|Kdump:)"
)


@dataclass(frozen=True, slots=True)
class Task:
    """The task of the stack that follows. `cpu` and `state` are empty where the header lacks them."""

    comm: str
    pid: str
    state: str = ""
    cpu: str = ""


def parse_task_header(text: str) -> Task | None:
    """Parse the line that `sched_show_task` prints before a stack.

    To 5.9: `java            D ffff88083e786800     0  4711   4700 0x00000080` (the name cut to 13 characters in
    2.6.32); from 5.10: `task:java            state:D stack:    0 pid: 4711 ppid:  4700 flags:0x80`. The name has a
    fixed width, so a name that looks like the rest of the line cannot be mistaken for it.
    """
    is_wide = text.startswith("task:")
    match = (_TASK_WIDE.match(text) or _TASK.match(text)) if is_wide else _OLD_TASK.match(text)
    return Task(printable(match["comm"].strip()), match["pid"], match["state"]) if match else None


def parse_on_cpu(text: str) -> Task | None:
    """Parse `CPU: 3 PID: 4711 Comm: java Not tainted 5.14.0`, or `Pid: 4711, comm: java ...` of 2.6.32 to 3.9."""
    match = _ON_CPU.match(text)
    return Task(printable(match["comm"].strip()), match["pid"], cpu=match["cpu"] or "") if match else None


_EARLY_SECONDS = 60.0  # since boot: the syslog daemon may not have run yet
_MAX_SPREAD_SECONDS = 60.0  # of the boot time, by delays and drift; beyond it the clock was set
_MAX_BACKWARD_SECONDS = 1.0  # lines of several CPUs may be slightly out of order
_DAY_SECONDS = 86_400.0


class ClockPairs:
    """The lines of one log with a stamp and a bracket, of the last boot in it."""

    def __init__(self) -> None:
        self._times = Times()
        self._hosts: set[str] = set()
        self._last = 0.0
        self._pairs: list[tuple[float, Moment, Citation]] = []

    def note(self, line: KernelLine, cite: Citation) -> None:
        """Take a line, if it has both times."""
        boot = BOOT_SECONDS.match(line.bracket) if line.stamp else None
        wall = self._times.wall(line) if boot else None
        if not boot or not wall:
            return
        seconds = float(boot[1])
        if seconds < self._last - _MAX_BACKWARD_SECONDS:
            self.begin_boot()
        self._last = seconds
        self._hosts.add(line.host)
        self._pairs.append((seconds, wall, cite))

    def begin_boot(self) -> None:
        """Begin another boot."""
        self._pairs.clear()
        self._last = 0.0

    def facts(self) -> Iterator[Fact]:
        """Yield `log.boot_time`, the stamp's time at second 0 of the bracket; `within` is its error."""
        if not self._pairs:
            return
        pairs = [p for p in self._pairs if p[0] >= _EARLY_SECONDS] or self._pairs
        clocks = {wall.clock for _, wall, _ in pairs}
        if len(self._hosts) != 1 or len(clocks) != 1:
            return
        first = pairs[0][1].seconds - pairs[0][0]
        offsets = [wall.seconds - seconds - first for seconds, wall, _ in pairs]
        if Clock.DAY in clocks:
            offsets = [(o + _DAY_SECONDS / 2) % _DAY_SECONDS - _DAY_SECONDS / 2 for o in offsets]
        boot_time = median(offsets)
        spread = max(abs(o - boot_time) for o in offsets)
        if spread > _MAX_SPREAD_SECONDS:
            return
        within = 1.0 + (spread if pairs[-1][0] >= _EARLY_SECONDS else _MAX_SPREAD_SECONDS)
        labels = (("clock", pairs[0][1].clock.value), ("within", f"{within:g}"))
        yield Fact("log.boot_time", first + boot_time, pairs[0][2], labels, pairs[-1][1])
