"""Kernel settings of vm.* and a few of kernel.*: `sysctl -a`, sysctl.conf, the files of /proc/sys.

    vm.swappiness = 60
    /proc/sys/vm/zone_reclaim_mode:0

Units as the kernel documents them (kilobytes, ratios, pages), kept as printed; several numbers on one line stay one
text. sysctl.conf and sysctl.d say what is set at boot, not what holds now: their facts have the provenance `rc file`.
A line there that means a file of /sys (kernel.mm.transparent_hugepage.enabled) sets nothing: rc.thp_write with the
label broken. All of vm.* is read; of kernel.* NUMA balancing and the lockup detectors; the rest of the tree has nothing
to do with memory. Source: sysctl(8), kernel tree, Documentation/admin-guide/sysctl.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities

_TREES = r"(?:abi|crypto|debug|dev|fs|kernel|net|sunrpc|user|vm)"
_LINE = re.compile(rf"-?\s*({_TREES}[./][\w./:*+@-]{{1,250}})\s*=(.*)$")
_GREP = re.compile(r"\S{0,100}proc/sys/((?:vm|kernel)/\w+):(.*)$")
_OPENS = re.compile(
    rf"-?(?:vm|kernel|abi|crypto|debug|dev|fs|net|user)\.\w[\w.:*+@-]*\s?=|-?{_TREES}/\w[\w/]*\s?=\s?\S|"
    r"\S{0,100}proc/sys/(?:vm|kernel)/\w+:\s*\S|sysctl: (?:reading|permission denied|cannot stat)"
)
_MESSAGE = re.compile(r"sysctl: |[#;]")
_CONTINUES = re.compile(rf"{_OPENS.pattern}|sysctl: ")
_FILE = re.compile(r"(?:^|/)proc/sys/((?:vm|kernel)/\w+)$")
_TIGHT = re.compile(r"-?\w[\w./-]*=")  # as people write it into sysctl.conf; the command prints blanks around the sign
_CONFIGURATION = re.compile(r"sysctl(?:\.d/[^/]+)?\.conf$")
_WANTED = re.compile(
    r"vm\.[\w.]+$|kernel\.(?:numa_\w+|hung_task_\w+|softlockup_\w+|hardlockup_\w+|watchdog\w*|nmi_watchdog)$"
)
_OF_SYSFS = re.compile(r"kernel\.mm\.(?:redhat_)?transparent_hugepage\.((?:khugepaged\.)?\w{1,40})$")
_NUMBER = re.compile(r"-?\d{1,19}$")


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """sysctl.NAME for each setting that is read."""
    odd = Oddities(source, READER.name)
    configured = _CONFIGURATION.search(source.path or source.member)
    single = _FILE.search(source.path)
    for number, line in lines:
        name, text = _pair(line, single[1] if single else "")
        if not name:
            if line.strip() and not _MESSAGE.match(line.strip()):
                odd.note(number, line, "not a `name = value` line")
        elif configured and (knob := _OF_SYSFS.match(name)):
            labels = (("setting", f"thp.{knob[1]}"), ("path", source.path or source.member), ("broken", "sysctl"))
            yield Fact("rc.thp_write", text, source.cite(number, line), labels, source.time, "rc file")
        elif _WANTED.match(name):
            value = _value(text)
            if value is None:
                odd.note(number, line, "a value that is neither numbers nor one word; it is left out")
                continue
            how = "rc file" if configured or _TIGHT.match(line) else ""
            yield Fact(f"sysctl.{name}", value, source.cite(number, line), time=source.time, provenance=how)
    yield from odd.problems()


def _pair(line: str, single: str) -> tuple[str, str]:
    """Name and value of a line; `single` is the setting whose file this is."""
    if found := _GREP.match(line) or _LINE.match(line):
        return found[1].replace("/", "."), found[2].strip()
    return single.replace("/", "."), line.strip()


def _value(text: str) -> int | str | None:
    if _NUMBER.match(text):
        return int(text)
    words = text.split()
    return " ".join(words) if len(words) == 1 or (words and all(_NUMBER.match(word) for word in words)) else None


READER = Reader(
    name="sysctl",
    title="sysctl -a, sysctl.conf and /proc/sys",
    read=read,
    opens=_OPENS,
    continues=_CONTINUES.match,
    paths=(_FILE, re.compile(r"(?:^|/)sysctl\.conf$|(?:^|/)sysctl\.d/[^/]+\.conf$")),
)
