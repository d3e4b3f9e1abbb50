"""Which hosts are compared with which.

The narrowest group is of hosts with the same applications on the same platform family (`el8`) with kernels of the same
era (what the fault path of the kernel does; without an era its first two numbers). Where fewer than `LEAST` of them
have what is to be compared, the group is all hosts with the same applications, and then all hosts.

Kernel releases belong to a distribution: they are compared in the narrowest group and, where that is too small, with
all hosts on the same platform family.

`LEAST` is a judgement: a quarter of eight is two, so that one strange host moves neither the median nor the quartiles
far. What is unknown of a host is no match for anything: such a host is in wider groups only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from thpdiag.triage.fleet.hosts import FleetHost

LEAST: Final = 8  # hosts that have what is compared
_MINOR: Final = re.compile(r"(el\d+)\.\d+", re.ASCII)
_MAJOR: Final = re.compile(r"(\d+\.\d+)\b", re.ASCII)


@dataclass(frozen=True, slots=True)
class Group:
    """`apps` None: whatever runs there. Without a family it is of all platforms and kernels."""

    apps: tuple[str, ...] | None = None
    family: str = ""
    kernels: str = ""

    @property
    def definition(self) -> str:
        """For people: `redis on el8 with kernels of era E6`, `java and redis on any platform`, `all hosts on el8`."""
        if self.apps is None:
            return f"all hosts on {self.family}" if self.family else "all hosts"
        if not self.family:
            return f"{_listed(self.apps)} on any platform"
        return f"{_listed(self.apps)} on {self.family} with {self.kernels}"

    @property
    def width(self) -> int:
        """0 of the narrowest kind, and more of wider ones."""
        return (self.apps is None) + (not self.kernels)


ALL: Final = Group()


def family(platform: str) -> str:
    """`el8` of `el8.6`; other platforms stand for themselves (`ubuntu22.04`)."""
    minor = _MINOR.fullmatch(platform)
    return minor[1] if minor else platform


def groups(host: FleetHost) -> Iterator[Group]:
    """Those that a host is compared in, the narrowest first."""
    yield from _narrowest(host)
    if host.apps:
        yield Group(host.apps)
    yield ALL


def groups_of_kernels(host: FleetHost) -> Iterator[Group]:
    """The same for the release of its kernel."""
    yield from _narrowest(host)
    if host.platform:
        yield Group(None, family(host.platform))


def _narrowest(host: FleetHost) -> Iterator[Group]:
    kernels = _kernels(host)
    if host.platform and kernels:
        yield Group(host.apps, family(host.platform), kernels)


def _kernels(host: FleetHost) -> str:
    if host.era:
        return f"kernels of era {host.era}"
    major = _MAJOR.match(host.kernel or "")
    return f"kernels {major[1]}" if major else ""


def _listed(apps: tuple[str, ...]) -> str:
    if not apps:
        return "no known application"
    return " and ".join(filter(None, (", ".join(apps[:-1]), apps[-1])))
