"""A kernel call trace pasted without the line that says why it was printed.

    CPU: 3 PID: 4711 Comm: java Not tainted 3.10.0-229.14.1.el7.x86_64 #1
    Call Trace:
     [<ffffffff8116a2c5>] compact_zone+0x2e5/0x400

One task_stack-like event of kind kernel_trace: nobody knows what it stands for, but its functions are as good as any.
Frames alone, without `Call Trace:`, count from two on. With prefixes such lines are a kernel log. Source: kernel
tree, arch/x86/kernel/dumpstack.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from thpdiag.model import Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.kernel_log.call_traces import frame
from thpdiag.readers.kernel_log.log import continues
from thpdiag.readers.kernel_log.messages import Messages

_OPENS = re.compile(
    r"\s{0,8}(?:Call [Tt]race:|(?:CPU: \d{1,5} (?:UID: \d{1,10} )?PID|Pid): \d{1,8},? [Cc]omm: "
    r"|(?:\[<[0-9a-f]{8,16}>\] )?(?:\? )?[A-Za-z_.][\w.$]{1,200}\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8}(?: \[|$))"
)


def _confirmed(lines: list[str]) -> bool:
    """A frame somewhere below the opening line, if that is a frame itself right below it."""
    below = [frame(line) is not None for line in lines]
    return any(below[1:3]) if below[0] else any(below) or any("RIP" in line or "Modules" in line for line in lines)


def _with_headline(lines: Lines) -> Iterable[tuple[int, str]]:
    """Frames alone get the line that begins a trace."""
    begun = False
    for number, text in lines:
        if not begun and text.strip():
            begun = True
            if frame(text) is not None:
                yield number, "Call Trace:"
        yield number, text


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One event, more if several traces follow one another."""
    return Messages(source, READER.name).read(_with_headline(lines))


READER = Reader(
    name="kernel_trace",
    title="kernel call trace without headline",
    read=read,
    opens=_OPENS,
    continues=continues,
    confirm=_confirmed,
    priority=4,
)
