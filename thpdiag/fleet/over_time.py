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
from typing import Annotated, Final

from thpdiag.fleet.hosts import MIN_HOSTS, BundlesOfHost, FleetHost, bundles_of_hosts, host_of_row
from thpdiag.fleet.outliers import (
    KERNEL,
    METRICS,
    Counts,
    NumberDistribution,
    counts_as,
    metrics_of_host,
    number_distribution,
    outlier_score,
    rate_window,
    settings_of_host,
)
from thpdiag.model.document import Number
from thpdiag.store.reading import Row, StoreReader

VERDICT: Final = "verdict"
MAX_EVENTS: Final = 200  # changes of one host, and names in which its bundles differ, that are kept
_UNDECIDED: Final = (None, "cannot_tell")


@dataclass(frozen=True, slots=True)
class Sighting:
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
    last: Sighting
    first: Sighting
    other_rules: bool


@dataclass(frozen=True, slots=True)
class Difference:
    """The values in bundles whose order is not known, each with the number of bundles."""

    name: str
    counts: Annotated[Counts, counts_as("bundles")]


@dataclass(frozen=True, slots=True)
class FarValue:
    """A number far from those of the host's other bundles, of which the distribution is."""

    name: str
    title: str
    value: Number
    unit: str | None
    score: float | None
    seen: Sighting
    distribution: NumberDistribution
    window: str = ""


@dataclass(frozen=True, slots=True)
class History:
    """What happened to a host in its bundles; `more` is how many changes and differences are not kept."""

    name: str
    bundles: int
    ordered: bool
    changes: Sequence[Change]
    differences: Sequence[Difference]
    far: Sequence[FarValue]
    more: int = 0

    @property
    def eventful(self) -> bool:
        return bool(self.changes or self.differences or self.far)


@dataclass(slots=True)
class _Told:
    """What is known of a host up to a bundle."""

    last: dict[str, tuple[str, Sighting, str]] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    numbers: dict[str, tuple[array[float], list[tuple[Sighting, str]]]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    more: int = 0

    def take(self, now: FleetHost) -> None:
        seen = Sighting(now.path, now.recorded, now.page)
        for name, value in _compared_values(now):
            before = self.last.get(name)
            if before and before[0] != value:
                other_rules = name == VERDICT and before[2] != now.analysis
                if len(self.changes) < MAX_EVENTS:
                    self.changes.append(Change(name, before[0], value, before[1], seen, other_rules))
                else:
                    self.more += 1
            self.last[name] = (value, seen, now.analysis)
            self.counts.setdefault(name, Counter())[value] += 1
        for kind, number in metrics_of_host(now):
            values, places = self.numbers.setdefault(kind.name, (array("d"), []))
            values.append(number)
            places.append((seen, rate_window(now, kind)))

    def far(self) -> Iterator[FarValue]:
        for kind in METRICS:
            values, places = self.numbers.get(kind.name, (array("d"), []))
            if len(values) < MIN_HOSTS:
                continue
            whole = number_distribution(values, kind)
            for value, (seen, of) in zip(values, places, strict=True):
                if found := outlier_score(value, whole, kind):
                    yield FarValue(kind.name, kind.title, value, kind.unit or None, found.score, seen, whole, of)


def histories(store: StoreReader, page: Callable[[Row], str] = lambda row: "") -> Iterator[History]:
    """The hosts with several bundles, by name; those of which nothing is to be told too. `page` as for `hosts`."""
    return (_history(store, bundles, page) for bundles in bundles_of_hosts(store))


def _history(store: StoreReader, bundles: BundlesOfHost, page: Callable[[Row], str]) -> History:
    told = _Told()
    for number, record in enumerate(bundles.records, 1):
        for row in store.of_bundles(record.bundle):
            if row["place"] == record.place:
                told.take(replace(host_of_row(number, row), page=page(row)))
    differences = [
        Difference(name, tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))))
        for name, counts in told.counts.items()
        if not bundles.ordered and len(counts) > 1
    ]
    return History(
        name=bundles.name, bundles=len(bundles.records), ordered=bundles.ordered,
        changes=told.changes if bundles.ordered else (), differences=differences[:MAX_EVENTS], far=list(told.far()),
        more=told.more if bundles.ordered else max(len(differences) - MAX_EVENTS, 0),
    )  # fmt: skip


def _compared_values(now: FleetHost) -> Iterator[tuple[str, str]]:
    if now.verdict == "found":
        yield VERDICT, ", ".join(filter(None, (now.mechanism, now.severity))) or "found"
    elif now.verdict not in _UNDECIDED:
        yield VERDICT, str(now.verdict).replace("_", " ")
    if now.kernel:
        yield KERNEL, now.kernel
    yield from settings_of_host(now)
