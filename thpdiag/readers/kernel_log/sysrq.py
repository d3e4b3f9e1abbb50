"""What `echo l|t|m|w > /proc/sysrq-trigger` printed, cut out of the log or read from a console.

    sysrq: Show Blocked State
    task:khugepaged      state:D stack:0     pid:38    tgid:38    ppid:2      task_flags:0x200040 flags:0x00004000

t dumps all tasks, w the blocked ones, l the CPUs' current tasks, m the memory. Task headers by era: to 5.9 `comm S PC
stack pid father flags` in columns, from 5.10 `task:comm state:S stack: pid:`, with tgid from 6.8. Each stack is one
task at one moment, of weight one: it says what waits, not what costs CPU. Memory lines are the free blocks of
/proc/buddyinfo. SysRq output inside a whole log is read by kernel_log. Source: kernel tree, drivers/tty/sysrq.c,
kernel/sched/core.c (sched_show_task), lib/nmi_backtrace.c, mm/show_mem.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.kernel_log.lines import OPENS as PREFIX
from thpdiag.readers.kernel_log.log import continues
from thpdiag.readers.kernel_log.messages import Messages

_OPENS = re.compile(
    rf"(?:(?:{PREFIX}) ?)?(?:(?:sysrq: ?|SysRq ?: ?){{1,2}}Show|Mem-Info:"
    r"|task:.{1,16} state:[A-Z]|(?:Node \d{1,4} )?(?:DMA|Normal|HighMem|Movable)\w{0,4}: \d{1,15}\*\d{1,9}kB )"
    r"|  task {20,30}PC stack   pid father"
    r"|\S(?:.{0,14}\S)? +[A-Z] +(?:running task +|[0-9a-f]{8,16} +)?\d{1,6} +\d{1,8} +-?\d{1,8} 0x[0-9a-f]{8,16}$"
)
_TABLES = re.compile(
    r"  task {20,30}PC|Sched Debug Version|Showing |runnable tasks:|\s{0,4}\.\w+ {1,40}:|\w{2,8}_rq\[\d|cpu#\d|Mem-Info"
)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """A task_stack for every task or CPU, a sample for every zone."""
    return Messages(source, READER.name).read(lines)


READER = Reader(
    name="sysrq",
    title="SysRq output (tasks, CPUs, memory)",
    read=read,
    opens=_OPENS,
    continues=lambda text: continues(text) or bool(_TABLES.match(text)),
    priority=11,
)
