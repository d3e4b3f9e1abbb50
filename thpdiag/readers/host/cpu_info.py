"""Number of CPUs, architecture and hypervisor: `lscpu`, `nproc`.

    CPU(s):                16
    Hypervisor vendor:     KVM

lscpu of util-linux 2.37 and later indents its rows, older ones do not; the names are the same. nproc prints a number
alone, so it is known by the path of its recorded output. /proc/cpuinfo is not read: lscpu and /proc/stat say the same.
Source: lscpu(1), nproc(1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.kernel_numbers import whole
from thpdiag.readers.elements.oddities import Oddities

_ROW = re.compile(r"\s*([A-Z][\w()\-/. ]{0,50}?(?:\(s\))?[\w ]{0,20}):(.*)$")
_OPENS = re.compile(
    r"\s*(?:Architecture|CPU op-mode\(s\)|CPU\(s\)|Hypervisor vendor|Virtualization type|Thread\(s\) per core):\s+\S"
)
_CONTINUES = re.compile(
    r"\s*(?:Architecture|CPU op-mode\(s\)|Address sizes|Byte Order|CPU\(s\)|O(?:n|ff)-line CPU\(s\) (?:list|mask)|"
    r"Vendor ID|Model name|BIOS [\w ]+|CPU family|Model|Thread\(s\) per core|Core\(s\) per (?:socket|cluster)|"
    r"(?:CPU s|S)ocket\(s\)|Cluster\(s\)|Drawer\(s\)|Book\(s\)|Stepping|Frequency boost|CPU\(s\) scaling MHz|"
    r"CPU (?:max |min |dynamic |static )?MHz|BogoMIPS|Flags|Virtualization(?: features| type)?|Hypervisor(?: vendor)?|"
    r"Caches \(sum of all\)|L\d[di]?(?: cache)?|NUMA(?: node(?:\(s\)|\d+ CPU\(s\)))?|Vulnerabilit(?:y|ies)(?: [\w ]+)?|"
    r"Gather data sampling|Itlb multihit|L1tf|Mds|Meltdown|Mmio stale data|Reg file data sampling|Retbleed|Spec [\w ]+|"
    r"Spectre v\d|Srbds|Tsx async abort|Tsa|Vmscape|Old microcode|Indirect target selection|Ghostwrite):"
)
_VENDORS = {
    "kvm": "kvm",
    "vmware": "vmware",
    "xen": "xen",
    "microsoft": "hyperv",
    "innotek gmbh": "virtualbox",
    "oracle": "virtualbox",
}


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """cpu.count, kernel.arch and host.hypervisor."""
    odd = Oddities(source, READER.name)
    for number, line in lines:
        cite, row = source.cite(number, line), _ROW.match(line)
        name, text = (row[1], row[2].strip()) if row else ("", line.strip())
        if name == "Hypervisor vendor":
            yield Fact("host.hypervisor", _VENDORS.get(text.lower(), text.lower()), cite, time=source.time)
        elif name == "Architecture":
            yield Fact("kernel.arch", text, cite, time=source.time)
        elif name == "CPU(s)" or (text.isdigit() and not row):
            count = whole(text)
            if count is None or not 0 < count < 2**20:
                odd.note(number, line, "not a number of CPUs")
            else:
                yield Fact("cpu.count", count, cite, time=source.time)
        elif text and not row:
            odd.note(number, line, "not a `name: value` row")
    yield from odd.problems()


READER = Reader(
    name="cpu_info",
    title="lscpu and nproc",
    read=read,
    opens=_OPENS,
    continues=_CONTINUES.match,
    paths=(re.compile(r"(?:^|/)nproc$"),),
)
