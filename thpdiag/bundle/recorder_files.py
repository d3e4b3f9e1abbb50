"""What the name of a recorder's file tells of its contents: the command that wrote it, and when it began.

    2026_11_20_10_54_10-vmstat              pt-stalk: one name for all files of a collection, its local time first
    oswvmstat/node1_vmstat_26.11.20.1000.dat     OSWatcher: a file per command and hour; times stand in it

pt-stalk runs its commands with its own default interval (--sleep-collect) of 1 s, which is rarely changed.
Source: percona-toolkit pt-stalk 2.1 to 3.6, OSWatcher 3 to 8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from thpdiag.model import Clock, Moment

_STALK = re.compile(r"(?:^|/)(\d{4})_(\d\d)_(\d\d)_(\d\d)_(\d\d)_(\d\d)-([a-z_-]{2,30})$", re.ASCII)
_WATCHER = re.compile(r"(?:^|/)[^/]{1,255}_([a-z]{2,12})_\d\d\.\d\d\.\d\d\.\d{4}\.dat$", re.ASCII)
STALK_COMMANDS = {
    "vmstat": "vmstat 1",
    "vmstat-overall": "vmstat 30",
    "top": "top -b",
    "ps": "ps -eaF",
    "iostat": "iostat -dx 1",
    "sysctl": "sysctl -a",
    "dmesg": "dmesg",
    "numastat": "cat numastat",
}
STAMPED = frozenset({"procvmstat", "procstat", "meminfo", "slabinfo", "interrupts", "diskstats", "df", "numastat"})
WATCHER_COMMANDS = {"vmstat": "vmstat 1 3", "ps": "ps -elf", "top": "top -b -n 2", "iostat": "iostat -xk 1 3"}


@dataclass(frozen=True, slots=True)
class Recorded:
    """`command` is empty and `begun` None where the name does not tell."""

    command: str = ""
    begun: Moment | None = None


UNKNOWN = Recorded()


def recorded(path: str) -> Recorded:
    """What is told by the name of a member that a recorder wrote.

    >>> recorded("stalk/2026_11_20_10_54_10-vmstat").command
    'vmstat 1'
    >>> recorded("archive/oswvmstat/node1_vmstat_26.11.20.1000.dat").command
    'vmstat 1 3'
    """
    if found := _STALK.search(path):
        what = found[7]
        begun = None if what in STAMPED else _moment([int(part) for part in found.groups()[:6]])
        return Recorded(STALK_COMMANDS.get(what, ""), begun)
    if found := _WATCHER.search(path):
        return Recorded(WATCHER_COMMANDS.get(found[1], ""))
    return UNKNOWN


def _moment(parts: list[int]) -> Moment | None:
    year, month, day, hour, minute, second = parts
    try:
        seconds = datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        return None
    return Moment(seconds, Clock.LOCAL)
