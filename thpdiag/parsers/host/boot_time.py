"""When the host was booted, as programs that keep track of it say.

`who -b`, `last reboot` or any other `last`, `journalctl --list-boots`, `uptime --since` (a date alone), `cloud-init
analyze boot`:

             system boot  2026-11-20 05:40
    reboot   system boot  3.10.0-957.el7.x Fri Nov 20 05:40   still running
     0 5d1f2c6b0f3c4b6e9a7d8e1f2a3b4c5d Fri 2026-11-20 05:40:20 UTC—Fri 2026-11-20 09:47:00 UTC
        Kernel Started at: 2026-11-20 05:40:12.493820

One boot.record per text, of the last boot in it, in the words of the program: without a year (`last` without -F, `who`
in the C locale), to the minute, in the host's wall clock. `last` has the newest first; who writes the time of the boot
into wtmp does so seconds or minutes later, and before the clock was set where nothing keeps it. The list of boots of
systemd 254 and later has the two times in columns of their own. cloud-init prints UTC; of a container it tells the
start of that, which is no boot. systemd-analyze tells how long a boot took and not when it was: it is not read.
Source: util-linux last(1), coreutils who(1), systemd journalctl.c (output_boots), cloud-init analyze_boot().
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.model.parser import Lines, Parser, Source

_DATE = r"(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d(?::\d\d \d{4})?|\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?"
_WHO = re.compile(rf"\s{{0,12}}system boot {{1,2}}({_DATE})\s*$")
_LAST = re.compile(rf"(?:reboot|\(unknown\)) {{1,9}}system boot {{1,9}}(?:\S{{1,80}} {{1,40}})?({_DATE})(?: |$)")
_BOOTS = re.compile(
    r"\s{0,12}0 [0-9a-f]{32} [A-Z][a-z]{2} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: UTC)?)(?: ?[A-Z+-][\w:+-]{1,8})?"
    r"(?:\u2014| )"
)
_CLOUD_INIT = re.compile(r"\s{0,8}Kernel Started at: (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d{1,6})?\s*$")
_CLOUD_INIT_HEAD = re.compile(r"-- Most Recent Boot Record --\s*$")
_CLOUD_INIT_ROW = re.compile(r"\s{0,8}(?:Kernel|Cloud-init|Time between Kernel) [^:]{3,60}: ?\S")
_ANY_BOOT = re.compile(r"\s{0,12}-?\d{1,5} [0-9a-f]{32} [A-Z][a-z]{2} \d{4}-\d\d-\d\d |IDX BOOT ID ")
_SESSION = re.compile(r"\S{1,32} {1,12}(?:pts/\d|tty\w|system boot|runlevel|shutdown|:\d|~)|\s*$|wtmp begins ")
_OPENS = re.compile(f"{_WHO.pattern}|{_LAST.pattern}|{_ANY_BOOT.pattern}|{_CLOUD_INIT_HEAD.pattern}")
_SINCE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*$")
_HOW = (
    (_WHO, "by who"), (_LAST, "by last"), (_BOOTS, "by the list of boots"), (_SINCE, "by uptime"),
    (_CLOUD_INIT, "by cloud-init"),
)  # fmt: skip


def parse_boot_record(source: Source, lines: Lines) -> Iterator[Record]:
    """boot.record of the last boot."""
    for number, line in lines:
        for pattern, how in _HOW:
            if found := pattern.match(line):
                date = f"{found[1]} UTC" if pattern is _CLOUD_INIT else found[1]
                yield Fact("boot.record", date, source.cite(number, line), (("how", how),), source.time)
                return


BOOT_RECORD = Parser(
    "boot_record",
    "the time of the boot: who -b, last reboot, journalctl --list-boots, uptime -s, cloud-init analyze boot",
    parse_boot_record, opens=_OPENS,
    continues=lambda text: _SESSION.match(text) or _ANY_BOOT.match(text) or _CLOUD_INIT_ROW.match(text), priority=12,
    paths=(
        re.compile(r"(?:^|/)sos_commands/(?:last|login|logs|host)/(?:who_-b|last(?:_[\w-]{1,40})?)$"),
        re.compile(r"(?:^|/)journalctl_\S{0,40}--list-boots$|(?:^|/)uptime[/_](?:-s|--since)$"),
    ),
)  # fmt: skip
