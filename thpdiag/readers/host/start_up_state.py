"""Whether a start-up file runs at boot: `systemctl list-unit-files`, `chkconfig --list`, `ls -l` of rc.local.

    disable-thp.service                         enabled         disabled
    disable-thp     0:off   1:off   2:on    3:on    4:on    5:on    6:off
    -rw-r--r--. 1 root root 473 Sep 14  2017 /etc/rc.d/rc.local

One rc.state per service or file: `yes`, `no`. Labels: unit, or path. Of systemd's states enabled, disabled and masked
are taken; static, indirect and generated units run if another asks for them, so nothing is said of those. chkconfig: on
in runlevel 3 or 5. Since systemd, rc.local runs only if it is executable. Source: systemctl(1), chkconfig(8),
systemd-rc-local-generator(8).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.reader import Lines, Reader, Source

_NAME = r"[\w@.:\\+-]{1,120}"
_UNIT = re.compile(rf"\s{{0,4}}({_NAME}\.service)\s+([a-z-]{{4,20}})(?:\s+[a-z-]{{1,20}})?\s*$")
_RUNLEVELS = re.compile(rf"({_NAME})\s+(?:\d:(?:on|off)\s*){{7}}$")
_MODE = re.compile(r"-([rwxst-]{9})\S?\s.{0,120}\s/?(etc/(?:rc\.d/)?rc\.local|etc/init\.d/(?:boot|after)\.local)\s*$")
_STATES = {"enabled": "yes", "enabled-runtime": "no", "disabled": "no", "masked": "no"}
_OPENS = re.compile(rf"UNIT FILE\s+STATE\b|{_UNIT.pattern}|{_RUNLEVELS.pattern}|{_MODE.pattern}")
_ROW = re.compile(
    rf"{_OPENS.pattern}|\s{{0,4}}{_NAME}\.(?:mount|path|scope|slice|socket|target|timer|automount|swap|device)\s"
    r"|\d+ unit files listed"
)


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """rc.state of each service or file that the lines tell of."""
    for number, line in lines:
        if told := _told(line):
            label, name, state = told
            yield Fact("rc.state", state, source.cite(number, line), ((label, name),), source.time)


def _told(line: str) -> tuple[str, str, str] | None:
    """The kind of label, its value, and whether it runs at boot."""
    if unit := _UNIT.match(line):
        state = _STATES.get(unit[2])
        return ("unit", unit[1], state) if state else None
    if levels := _RUNLEVELS.match(line):
        return "unit", levels[1], "yes" if re.search(r"[35]:on", line) else "no"
    if mode := _MODE.match(line):
        return "path", mode[2], "yes" if "x" in mode[1] else "no"
    return None


READER = Reader(
    name="start_up_state",
    title="what runs at boot: systemctl list-unit-files, chkconfig --list, ls -l rc.local",
    read=read,
    opens=_OPENS,
    continues=_ROW.match,
    paths=(re.compile(r"(?:^|/)sos_commands/\w+/(?:systemctl_list-unit-files|chkconfig_--list)[^/]*$"),),
)
