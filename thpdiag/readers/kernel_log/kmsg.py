"""Records of /dev/kmsg, and of netconsole in its extended form: numbers before a semicolon, then the message.

    4,416,1055188049,-,caller=T136;INFO: task khugepaged:136 blocked for more than 122 seconds.
     SUBSYSTEM=cpu
    6.18.44,4,416,1055188049,-;...          netconsole with the kernel's release (from 6.4)

They are facility and level, sequence number, microseconds since boot, flags, and further keys. Lines that begin with a
blank belong to the record above. What a program writes into /dev/kmsg has a facility of its own (8 and more in the
first number). Source: kernel tree, Documentation/ABI/testing/dev-kmsg, Documentation/networking/netconsole.rst.
Not a format of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

KMSG = r"(?:\d[\w.+~-]{2,80},)?\d{1,4},\d{1,19},\d{1,16},[-c+](?:,[a-z]{1,20}=[^;,]{1,80}){0,6};"
"""What stands before the message (no named groups: it becomes part of larger patterns)."""

BELOW = r" [A-Z][A-Z0-9_]{1,40}="
"""A line of the dictionary below a record."""

_RECORD = re.compile(
    r"(?:\d[\w.+~-]{2,80},)?(?P<priority>\d{1,4}),\d{1,19},(?P<microseconds>\d{1,16}),[-c+]"
    r"(?P<keys>(?:,[a-z]{1,20}=[^;,]{1,80}){0,6});(?P<text>.*)"
)
_CALLER = re.compile(r",caller=([TC]\d{1,8})")
_LATER_PART = re.compile(r",ncfrag=(?!0/)")
_KERNEL_ONLY = 8  # facilities are counted in eights; that of the kernel is the first


@dataclass(frozen=True, slots=True)
class KmsgRecord:
    """`bracket` is the time as dmesg prints it, `by_kernel` whether the kernel itself speaks."""

    text: str
    bracket: str
    caller: str
    by_kernel: bool


def kmsg_record(line: str) -> KmsgRecord | None:
    """The record of a line, None if it is none. Of a message that netconsole cut in parts only the first is read."""
    found = _RECORD.match(line)
    if not found:
        return None
    caller = _CALLER.search(found["keys"])
    return KmsgRecord(
        found["text"],
        f"[{int(found['microseconds']) / 1e6:12.6f}]",
        caller[1] if caller else "",
        kernel_speaks(found["priority"]) and not _LATER_PART.search(found["keys"]),
    )


def kernel_speaks(priority: str) -> bool:
    """Whether a number before a message (`<4>`) is of the kernel's facility."""
    return int(priority) < _KERNEL_ONLY
