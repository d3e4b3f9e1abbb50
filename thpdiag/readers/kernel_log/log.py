"""Kernel logs: dmesg, syslog, kern.log, messages, journalctl; in a text also a report pasted without any prefix.

    [  245.528573] INFO: task khugepaged:136 blocked for more than 122 seconds.
    Nov 20 03:35:43 host kernel: java: page allocation failure. order:9, mode:0x20

Prefixes and clocks: see kernel_lines.py; reports: kernel_headlines.py. Other programs' lines in the same file belong
to the block but are no events. What a file holds between its reports is passed over, many lines at once. Files that
sosreport and distributions name so are kernel logs from end to end, since RHEL 6 prints dmesg without brackets.
Source: kernel tree, as named in those files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.reader import Lines, Passable, Reader, Source
from thpdiag.readers.kernel_log.call_traces import part_of_a_trace
from thpdiag.readers.kernel_log.lines import OPENS, SPOKEN, belongs
from thpdiag.readers.kernel_log.messages import Messages
from thpdiag.readers.kernel_log.oom_report import CGROUP_COUNTER

_BARE = (
    r"[ \t]{0,8}(?:<\d>)?(?:kernel: ?)?(?:INFO: task .{1,16}:\d{1,8} blocked "
    r"|(?:NMI )?(?:watchdog: )?(?:BUG: soft lockup |Watchdog detected )"
    r"|(?:rcu: )?INFO: rcu\w{0,40} (?:self-)?detected |.{1,16}: (?:page allocation (?:failure|stalls)|vmalloc)[ .:]"
    r"|.{1,16} invoked oom-killer: |(?:khugepaged: )?raising min_free_kbytes from "
    r"|(?:Memory cgroup o|O)ut of memory: [Kk]ill)"
)
_BODY = re.compile(
    r"\s{0,8}(?:Not tainted|Tainted:|\"echo 0 >|task:|Modules linked in:|CPU \d{1,5}:?\s*$|CPU: \d|P[Ii][Dd]: \d"
    r"|Hardware name:|Workqueue: |Call |Code:|Process \S{1,16} \(pid|Stack:|rcu: |INFO: |BUG: |WARNING: |[Ss]ending NMI"
    r"|NMI backtrace|\(detected by|\(t=\d|\d{1,4}-[.!?A-Za-z]{3,4}: |-{4,}\[ |---\[ "
    r"|(?:<\d> ?)?(?:[0-9a-f]{16} [0-9a-f]{16}|[0-9a-f]{8} [0-9a-f]{8})"
    r"|Mem-Info:|(?:isolated_|in?active_|free:|unevictable:|slab_|mapped:)|Node \d{1,4} (?:[A-Z]|active_|hugepages)"
    r"|lowmem_reserve\[|\d{1,15} (?:total pagecache|pages |reserved|pagecache)|Swap cache stats|(?:Free|Total) swap  ?="
    r"|(?:DMA|Normal|HighMem|Movable)\w{0,4}(?: free|: \d)|\[ *(?:pid|\d{1,8}) *\] |Tasks state|Tasks in /|Task in /"
    r"|(?:Memory cgroup )?stats for |(?:memory|memory\+swap|kmem|swap): usage|(?:Memory cgroup o|O)ut of memory"
    rf"|Kill(?:ed)? process|oom[-_]\w|{CGROUP_COUNTER})"
    r"|.{1,16} +[A-Z] +(?:running task +|[0-9a-f]{8,16} +)?\d{1,6} +\d{1,8} +\d{1,8} 0x"
)
_HEAD = re.compile(_BARE)
_UNSTAMPED = re.compile(rf"Message from syslogd@|{SPOKEN.pattern}")  # emergencies come on every terminal
BOOT_LINES = 400  # the kernel names itself and its command line at the start
_VERSION = re.compile(r"\bLinux version (\d+\.\d+\S{0,80})")
_BOOT_LINE = re.compile(r"\bKernel command line: (.{1,4000})")
_BOOT_THP = re.compile(r"(?:^|\s)transparent_hugepage=(\w{1,16})")
LEAST_LINES = 20  # a quoted message or trace is no log that could show what did not happen


def continues(text: str) -> bool:
    """Another line of a log, or without prefixes one that can stand inside a report."""
    return (
        belongs(text)
        or bool(_UNSTAMPED.match(text))
        or part_of_a_trace(text)
        or bool(_BODY.match(text) or _HEAD.match(text))
    )


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """All that a kernel log says."""
    return records(source, READER.name, lines)


def records(source: Source, reader: str, lines: Lines) -> Iterator[Record]:
    """Events, the free blocks of zones that reports list, and that a log was read: its silence says something.

    Of which host, in a log of many (a log server's /var/log/messages), it does not.
    """
    passed, messages = _Passed(source, lines), Messages(source, reader)
    yield from messages.read(passed)
    if len(messages.hosts) > 1:
        return
    yield from passed.facts
    if passed.count > LEAST_LINES:
        yield Fact("log.read", passed.count, source.cite(passed.first))


class _Passed:
    """What goes by on the way to the messages: how many lines, and what the kernel says of itself while it boots."""

    def __init__(self, source: Source, lines: Lines) -> None:
        self.source, self.count, self.first = source, 0, 0
        self.facts: list[Fact] = []
        self._lines = lines
        self._passable = lines if isinstance(lines, Passable) else None

    def __iter__(self) -> Iterator[tuple[int, str]]:
        for number, text in self._lines:
            self.first = self.first or number
            self.count += 1
            if self.count <= BOOT_LINES and ("Linux version" in text or "ommand line" in text):
                self._look(number, text)
            yield number, text

    def pass_over(self, words: tuple[str, ...]) -> int:
        """The same of the lines that go by, but for those at the start, which are looked at."""
        passed = self._passable.pass_over(words) if self._passable and self.count >= BOOT_LINES else 0
        self.count += passed
        return passed

    def _look(self, number: int, text: str) -> None:
        if found := _VERSION.search(text):
            self.facts.append(Fact("kernel.release", found[1], self.source.cite(number, text)))
        elif found := _BOOT_LINE.search(text):
            cite = self.source.cite(number, text)
            self.facts.append(Fact("boot.cmdline", found[1].strip(), cite))
            if setting := _BOOT_THP.search(found[1]):
                self.facts.append(Fact("boot.transparent_hugepage", setting[1], cite))


READER = Reader(
    name="kernel_log",
    title="kernel log (dmesg, syslog, journal)",
    read=read,
    opens=re.compile(f"{OPENS}|{_BARE}"),
    continues=continues,
    paths=(
        re.compile(r"(?:^|/)dmesg(?:_-T|\.old|\.\d{1,2})?$"),
        re.compile(r"(?:^|/)var/log/(?:messages|syslog|kern\.log|kernel|warn)(?:[-.][\w.-]{1,40})?$"),
        re.compile(r"(?:^|/)journalctl_--no-pager[^/]{0,120}$"),
    ),
    priority=10,
)
