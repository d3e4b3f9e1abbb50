"""What a host runs in: `hostnamectl`, `systemd-detect-virt`, `virt-what`.

         Chassis: container
  Virtualization: lxc
    kvm

systemd names containers and machines in one word; virt-what prints one fact a line (`kvm`, `aws`). A capture from
inside a container shows settings and counters of the host's kernel, but sizes of memory, CPUs and the uptime may be
the container's own (lxcfs). Source: systemd src/basic/virt.c, virt-what(1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Fact, Record
from thpdiag.reader import Lines, Reader, Source

_CONTAINERS = frozenset({
    "lxc", "lxc-libvirt", "systemd-nspawn", "docker", "podman", "rkt", "wsl", "proot", "pouch", "openvz", "oci",
    "linux_vserver", "container-other", "container",
})  # fmt: skip
_MACHINES = {
    "kvm": "kvm", "qemu": "kvm", "vmware": "vmware", "microsoft": "hyperv", "hyperv": "hyperv", "xen": "xen",
    "xen-hvm": "xen", "xen-domu": "xen", "oracle": "virtualbox", "virtualbox": "virtualbox", "amazon": "kvm",
}  # fmt: skip
_ROW = re.compile(r"\s{0,24}(Chassis|Virtualization): +([\w-]{1,40})(?: \S{1,8})?\s*$")
_WORD = re.compile(r"\s*([a-z][\w-]{1,40})\s*$")
_OPENS = re.compile(r"\s{0,24}(?:Static hostname|Icon name): +\S")


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """host.container and host.hypervisor."""
    for number, line in lines:
        found = _ROW.match(line)
        word = (found[2] if found else one[1] if (one := _WORD.match(line)) else "").lower()
        if word in _CONTAINERS:
            yield Fact("host.container", word, source.cite(number, line), time=source.time)
        elif word in _MACHINES and (found is None or found[1] == "Virtualization"):
            yield Fact("host.hypervisor", _MACHINES[word], source.cite(number, line), time=source.time)


READER = Reader(
    name="virtualization",
    title="hostnamectl, systemd-detect-virt, virt-what",
    read=read,
    opens=_OPENS,
    continues=re.compile(r"\s{0,24}[A-Z][\w ]{2,30}: ").match,
    paths=(
        re.compile(
            r"(?:^|/)(?:sos_commands/\w+|insights_commands)/(?:hostnamectl|virt-what|systemd-detect-virt)[^/]*$"
        ),
    ),
)
