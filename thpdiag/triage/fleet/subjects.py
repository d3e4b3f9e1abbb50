"""What is compared between hosts: settings and kernels as values, rates and shares as numbers.

Each number has the least difference that counts, so that a difference nobody would act upon is no outlier, however
alike the others are. The floors are judgements: one stall a second and twice as many, a tenth of the memory, a fifth of
the free memory. A measure of one of several states of a host (`... [enabled always]`) is not compared: which of them
the others' measures belong to is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from thpdiag.triage.fleet.hosts import FleetHost
from thpdiag.triage.store import free_memory

KERNEL: Final = "kernel"
RATE: Final = "1/s"
_SETTINGS: Final = ("thp.", "sysctl.vm.", "sysctl.kernel.numa_balancing", "boot.transparent_hugepage", "tuned.profile")
LONGEST_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class Number:
    """`floor` is the least difference from the median in its unit, `factor` the least ratio to it.

    `skewed` is what spans orders of magnitude: it is compared as it is and by the logarithm of value + floor.
    """

    name: str
    title: str
    unit: str
    floor: float
    of: Callable[[FleetHost], float | None]
    factor: float = 1.0
    skewed: bool = False


def numbers(host: FleetHost) -> Iterator[tuple[Number, float]]:
    """The numbers that the bundle of a host tells."""
    for number in NUMBERS:
        value = number.of(host)
        if value is not None:
            yield number, value


def window(host: FleetHost, kind: Number) -> str:
    """The time that a rate of a host is of: those of other hosts may be of a day or of seconds."""
    measure = host.measures.get(kind.name) if kind.unit == RATE else None
    return measure.window if measure else ""


def values(host: FleetHost) -> Iterator[tuple[str, str]]:
    """Settings that were measured; an assumed one says nothing of the host."""
    for name, setting in host.settings.items():
        if setting.measured and _compared(name):
            yield name, plain(setting.value)


@lru_cache(4096)
def _compared(name: str) -> bool:
    return name not in _SCALED and name.startswith(_SETTINGS) and len(name) <= LONGEST_NAME


def plain(value: str | float) -> str:
    """511 and 511.0 are one value."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _rate(metric: str) -> Callable[[FleetHost], float | None]:
    """Per second while somebody looked. Of a total since boot nobody knows when it came about: it is no rate."""

    def of(host: FleetHost) -> float | None:
        measure = host.measures.get(metric)
        return measure.value if measure and measure.unit == RATE and measure.value >= 0 else None

    return of


def _share(metric: str) -> Callable[[FleetHost], float | None]:
    def of(host: FleetHost) -> float | None:
        measure = host.measures.get(metric)
        return measure.value if measure and 0 <= measure.value <= 1 else None

    return of


def _of_memory(metric: str) -> Callable[[FleetHost], float | None]:
    """Its share of all memory; what is larger than all memory came from elsewhere."""

    def of(host: FleetHost) -> float | None:
        part, whole = host.measures.get(metric), host.measures.get("node_memory_MemTotal_bytes")
        return part.value / whole.value if part and whole and 0 <= part.value <= whole.value > 0 else None

    return of


def _setting(name: str) -> Callable[[FleetHost], float | None]:
    """One that the kernel derives from the size of memory: two hosts rarely have the same."""

    def of(host: FleetHost) -> float | None:
        setting = host.settings.get(name)
        if setting is None or not setting.measured or not isinstance(setting.value, int | float):
            return None
        return float(setting.value) if 0 <= setting.value < 1e300 else None

    return of


def _stalls(metric: str, title: str) -> Number:
    return Number(metric, title, RATE, floor=1.0, of=_rate(metric), factor=2.0, skewed=True)


_SCALED: Final = ("sysctl.vm.min_free_kbytes", "sysctl.vm.user_reserve_kbytes", "sysctl.vm.admin_reserve_kbytes")
NUMBERS: Final = (
    _stalls("node_vmstat_compact_stall", "direct compactions"),
    _stalls("node_vmstat_compact_fail", "failed compactions"),
    _stalls("node_allocstall_total", "direct reclaims"),
    _stalls("node_vmstat_thp_fault_fallback", "page faults that got no huge page"),
    Number(
        free_memory.NAME, "share of free memory in blocks too small for a huge page", "ratio", floor=0.2,
        of=_share(free_memory.NAME),
    ),
    Number(
        "AnonHugePages/MemTotal", "AnonHugePages as share of memory", "ratio", floor=0.1,
        of=_of_memory("node_memory_AnonHugePages_bytes"),
    ),
    *(Number(name, name, "", floor=1024.0, of=_setting(name), factor=2.0, skewed=True) for name in _SCALED),
)  # fmt: skip
