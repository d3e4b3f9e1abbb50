"""One host over time: settings and kernels that changed, verdicts that came and went, numbers far from its own history.

Values are compared with the last bundle that tells them: what a bundle does not tell did not change, as far as anybody
knows, and a verdict that cannot tell neither comes nor goes. Where the order of the bundles is not known, it is told
that they differ, and not what changed to what.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from thpdiag.triage.fleet.bundles_of_host import Bundles, bundles_of_hosts
from thpdiag.triage.fleet.distribution import Numbers, apart, numbers
from thpdiag.triage.fleet.groups import LEAST
from thpdiag.triage.fleet.hosts import FleetHost, host
from thpdiag.triage.fleet.subjects import KERNEL, NUMBERS, window
from thpdiag.triage.fleet.subjects import numbers as numbers_of
from thpdiag.triage.fleet.subjects import values as values_of
from thpdiag.triage.store.reading import Reading, Row

VERDICT: Final = "verdict"
MOST: Final = 200  # changes of one host, and names in which its bundles differ, that are kept
_UNDECIDED: Final = (None, "cannot_tell")


@dataclass(frozen=True, slots=True)
class Seen:
    """A bundle in which something was seen."""

    path: str
    recorded: str | None
    page: str


@dataclass(frozen=True, slots=True)
class Change:
    """`name` is `verdict`, `kernel` or a setting. `other_rules` tells that the bundles were not judged by the same."""

    name: str
    before: str
    after: str
    last: Seen
    first: Seen
    other_rules: bool


@dataclass(frozen=True, slots=True)
class Difference:
    """The values in bundles whose order is not known, each with the number of bundles."""

    name: str
    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Far:
    """A number far from those of the host's other bundles, of which the distribution is."""

    name: str
    title: str
    value: float
    unit: str | None
    score: float | None
    seen: Seen
    distribution: Numbers
    window: str = ""


@dataclass(frozen=True, slots=True)
class History:
    """What happened to a host in its bundles; `more` is how many changes and differences are not kept."""

    name: str
    bundles: int
    ordered: bool
    changes: Sequence[Change]
    differences: Sequence[Difference]
    far: Sequence[Far]
    more: int = 0

    @property
    def eventful(self) -> bool:
        return bool(self.changes or self.differences or self.far)


@dataclass(slots=True)
class _Told:
    """What is known of a host up to a bundle."""

    last: dict[str, tuple[str, Seen, str]] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    numbers: dict[str, tuple[array[float], list[tuple[Seen, str]]]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    more: int = 0

    def take(self, now: FleetHost) -> None:
        seen = Seen(now.path, now.recorded, now.page)
        for name, value in _values(now):
            before = self.last.get(name)
            if before and before[0] != value:
                change = Change(name, before[0], value, before[1], seen, name == VERDICT and before[2] != now.analysis)
                self._keep(change)
            self.last[name] = (value, seen, now.analysis)
            self.counts.setdefault(name, Counter())[value] += 1
        for kind, number in numbers_of(now):
            values, places = self.numbers.setdefault(kind.name, (array("d"), []))
            values.append(number)
            places.append((seen, window(now, kind)))

    def _keep(self, change: Change) -> None:
        if len(self.changes) < MOST:
            self.changes.append(change)
        else:
            self.more += 1

    def far(self) -> Iterator[Far]:
        for kind in NUMBERS:
            values, places = self.numbers.get(kind.name, (array("d"), []))
            if len(values) < LEAST:
                continue
            whole = numbers(values, kind)
            for value, (seen, of) in zip(values, places, strict=True):
                if found := apart(value, whole, kind):
                    yield Far(kind.name, kind.title, value, kind.unit or None, found.score, seen, whole, of)


def histories(store: Reading, page: Callable[[Row], str] = lambda row: "") -> Iterator[History]:
    """The hosts with several bundles, by name; those of which nothing is to be told too. `page` as for `hosts`."""
    for bundles in bundles_of_hosts(store):
        yield _history(store, bundles, page)


def _history(store: Reading, bundles: Bundles, page: Callable[[Row], str]) -> History:
    told = _Told()
    for number, record in enumerate(bundles.records, 1):
        bundle, place = record.place
        for row in store.of_bundle(bundle):
            if row["place"] == place:
                told.take(replace(host(number, row), page=page(row)))
    differences = [] if bundles.ordered else [d for name in told.counts if (d := _difference(name, told.counts[name]))]
    return History(
        name=bundles.name, bundles=len(bundles.records), ordered=bundles.ordered,
        changes=told.changes if bundles.ordered else (), differences=differences[:MOST], far=list(told.far()),
        more=told.more if bundles.ordered else max(len(differences) - MOST, 0),
    )  # fmt: skip


def _difference(name: str, counts: Counter[str]) -> Difference | None:
    found = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return Difference(name, tuple(found)) if len(found) > 1 else None


def _values(now: FleetHost) -> Iterator[tuple[str, str]]:
    if now.verdict == "found":
        yield VERDICT, ", ".join(filter(None, (now.mechanism, now.severity))) or "found"
    elif now.verdict not in _UNDECIDED:
        yield VERDICT, str(now.verdict).replace("_", " ")
    if now.kernel:
        yield KERNEL, now.kernel
    yield from values_of(now)
