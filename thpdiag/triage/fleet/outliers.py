"""Hosts that differ from the others of their group, each with the group's distribution and the number of hosts in it.

Two passes over the hosts: the first takes the numbers of all groups together, the second asks of each host what of it
lies apart. In memory are the numbers (8 bytes each, in at most three groups) and how many hosts have which value.

A host counts once, with its latest bundle. It is compared in the narrowest group in which enough hosts have what is
compared (`groups.LEAST`); those that do not tell it are in no distribution.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from thpdiag.triage.fleet.bundles_of_host import earlier
from thpdiag.triage.fleet.distribution import Counts, Numbers, apart, counts, numbers, strange
from thpdiag.triage.fleet.groups import LEAST, Group, groups, groups_of_kernels
from thpdiag.triage.fleet.hosts import FleetHost, hosts
from thpdiag.triage.fleet.subjects import KERNEL, RATE, Number, window
from thpdiag.triage.fleet.subjects import numbers as numbers_of
from thpdiag.triage.fleet.subjects import values as values_of
from thpdiag.triage.store.reading import Reading

MOST_NAMES: Final = 2_000  # of settings in a group: a document that lies cannot fill the memory
_ORDER: Final = ("thp.", KERNEL, "node_", "AnonHugePages", "sysctl.")


@dataclass(frozen=True, slots=True)
class Outlier:
    """That a host differs in one thing. `host` is without its settings and measures.

    `name` is the metric or setting, `title` the same for people. `score` is the modified z-score of a number, None of a
    value, and of a number where half of the others or more are the same. `size` is the number of hosts in the group, of
    which `distribution.n` tell what is compared; `same` is how many have the same value, this one included (None of
    numbers). `window` is the time that a rate is of, as the host's result tells it.
    """

    host: FleetHost
    name: str
    title: str
    value: str | float
    unit: str | None
    score: float | None
    group: Group
    size: int
    distribution: Numbers | Counts
    same: int | None = None
    window: str = ""

    @property
    def rank(self) -> tuple[int, int, float]:
        """The order for people: stalls, THP settings, kernels, memory, other settings; narrow groups first."""
        weight = self.score if self.score is not None else math.inf
        if self.same is not None:
            weight = self.distribution.n / self.same
        kind = (
            0 if self.unit == RATE else next((at for at, name in enumerate(_ORDER, 1) if self.name.startswith(name)), 3)
        )
        return kind, self.group.width, -abs(weight)


@dataclass(slots=True)
class _Taken:
    """What the hosts of a group have; the distributions are made of it when the first of them is asked for."""

    size: int = 0
    numbers: defaultdict[str, array[float]] = field(default_factory=lambda: defaultdict(lambda: array("d")))
    values: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    _numbers: dict[str, Numbers] = field(default_factory=dict)
    _counts: dict[str, Counts] = field(default_factory=dict)

    def take(self, found: Iterable[tuple[Number, float]], told: Iterable[tuple[str, str]]) -> None:
        self.size += 1
        for kind, number in found:
            self.numbers[kind.name].append(number)
        for name, value in told:
            if name in self.values or len(self.values) < MOST_NAMES:
                self.values[name][value] += 1

    def of_numbers(self, kind: Number) -> Numbers | None:
        """None if too few hosts tell it."""
        if kind.name not in self._numbers and len(self.numbers[kind.name]) >= LEAST:
            self._numbers[kind.name] = numbers(self.numbers[kind.name], kind)
        return self._numbers.get(kind.name)

    def of_values(self, name: str) -> Counts | None:
        """The same."""
        if name not in self._counts and name in self.values:
            self._counts[name] = counts(self.values[name])
        found = self._counts.get(name)
        return found if found and found.n >= LEAST else None


_Own = list[tuple[Group, _Taken]]


class Survey:
    """The distributions of a fleet. `counts` says whether a host stands for itself, or an older bundle of it."""

    def __init__(self, hosts: Iterable[FleetHost], counts: Callable[[FleetHost], bool] = lambda host: True) -> None:
        self._groups: dict[Group, _Taken] = {}
        self._kernels: dict[Group, _Taken] = {}
        self._counts = counts
        for host in hosts:
            if host.known and counts(host):
                self._take(host)

    @property
    def groups(self) -> dict[Group, int]:
        """All groups with the number of their hosts, the largest first."""
        sizes = ((group, taken.size) for group, taken in self._groups.items())
        return dict(sorted(sizes, key=lambda pair: (-pair[1], pair[0].definition)))

    def outliers(self, host: FleetHost) -> Iterator[Outlier]:
        """What of a host of this fleet lies apart."""
        if not host.known or not self._counts(host):
            return
        own = [(group, self._groups[group]) for group in groups(host)]
        for kind, number in numbers_of(host):
            yield from self._number(host, own, kind, number)
        for name, value in values_of(host):
            yield from self._value(host, own, name, value)
        if host.kernel:
            kernels = [(group, self._kernels[group]) for group in groups_of_kernels(host)]
            yield from self._value(host, kernels, KERNEL, host.kernel)

    def _take(self, host: FleetHost) -> None:
        found, told = list(numbers_of(host)), list(values_of(host))
        for group in groups(host):
            self._groups.setdefault(group, _Taken()).take(found, told)
        if host.kernel:
            for group in groups_of_kernels(host):
                self._kernels.setdefault(group, _Taken()).take([], [(KERNEL, host.kernel)])

    def _number(self, host: FleetHost, own: _Own, kind: Number, number: float) -> Iterator[Outlier]:
        for group, taken in own:
            known = taken.of_numbers(kind)
            if known is not None:
                if found := apart(number, known, kind):
                    unit = kind.unit or None
                    yield Outlier(
                        host.bare, kind.name, kind.title, number, unit, found.score, group, taken.size, known,
                        window=window(host, kind),
                    )  # fmt: skip
                return

    def _value(self, host: FleetHost, own: _Own, name: str, value: str) -> Iterator[Outlier]:
        for group, taken in own:
            known = taken.of_values(name)
            if known is not None:
                same = taken.values[name][value]
                if strange(same, known):
                    yield Outlier(host.bare, name, _title(name), value, None, None, group, taken.size, known, same)
                return


def survey(store: Reading) -> Survey:
    """The distributions of the hosts of a store, each with its latest bundle."""
    replaced = earlier(store)
    return Survey(hosts(store), lambda host: (host.bundle, host.place) not in replaced)


def _title(name: str) -> str:
    return "kernel release" if name == KERNEL else name
