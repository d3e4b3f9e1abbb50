"""Outliers in each group of hosts, each with the distribution and the number of hosts; and in one host over time.

Compared are settings and kernels as values, rates and shares as numbers. Two passes over the hosts: the first takes the
numbers of all groups together (8 bytes each, in at most three groups) and how many hosts have which value, the second
asks of each host what of it lies apart. A host counts once, with its latest bundle. It is compared in the narrowest
group in which enough hosts (`MIN_HOSTS`) have what is compared; those that do not tell it are in no distribution.

Numbers: the modified z-score of Iglewicz and Hoaglin, 0.6745 * (x - median) / MAD, above 3.5 ("How to Detect and Handle
Outliers", ASQC Basic References in Quality Control 16, 1993). MAD is the median of the distances from the median;
0.6745 is the third quartile of the normal distribution, so that of normal data the score is about that of the mean and
the standard deviation, which outliers themselves would move. The MAD of a small group is often small by chance: of
eight normal values 2 in 100 score above 3.5. A value must therefore also lie beyond the outer fences of Tukey
("Exploratory Data Analysis", 1977), three times the interquartile range below the lower or above the upper quartile:
of eight normal values 6 in 1,000 do both, of twenty 1 in 1,000, of a hundred hardly any.

Numbers that span orders of magnitude (rates) must lie apart on both scales, plain and logarithmic; the score is the
smaller of the two. On the plain one alone 4 in 100 of exponential values would, on the other those near 0. The unit of
their distance is at least the difference that counts: of hosts that hardly stall, all that do would lie apart.

Where more than half of the values are the same, MAD is 0: then the interquartile range / 1.349 takes its place (what
it is of normal data, in standard deviations). Where that is 0 too, what differs lies apart if at most `RARE_SHARE` of
the group, or a single host, does; of rates also what is `FAR_FACTOR` times what all but `RARE_SHARE` of the group have,
however many differ a little: of 80 hosts without a stall, 19 with three a second and one with 5,000 that is the one.

Values: one lies apart that at most `RARE_SHARE` of the group, or a single host, have, while `COMMON_SHARE` have
another.

One host over time: settings and kernels that changed, verdicts that came and went, numbers far from its own history.
Values are compared with the last bundle that tells them: what a bundle does not tell did not change, as far as anybody
knows, and a verdict that cannot tell neither comes nor goes. Where the order of the bundles is not known, it is told
that they differ, and not what changed to what.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Final, NamedTuple

from pydantic import PlainSerializer

from thpdiag.fleet.hosts import (
    INTERNAL,
    MIN_HOSTS,
    BundlesOfHost,
    FleetHost,
    Group,
    bundles_of_hosts,
    groups_of_host,
    groups_of_kernels,
    host_of_row,
    hosts_of_store,
    replaced_hosts,
)
from thpdiag.model.document import Number
from thpdiag.store.reading import Row, StoreReader
from thpdiag.store.results import UNUSABLE_FREE

KERNEL: Final = "kernel"
RATE: Final = "1/s"
MAX_NAME_CHARS: Final = 200
MAX_SETTINGS: Final = 2_000  # in a group: a document that lies cannot fill the memory
MAX_SCORE: Final = 3.5
MAD_OF_NORMAL: Final = 0.6745
IQR_OF_NORMAL: Final = 1.349
OUTER_FENCE: Final = 3.0
RARE_SHARE: Final = 0.1
FAR_FACTOR: Final = 10.0
COMMON_SHARE: Final = 0.6
SHOWN_VALUES: Final = 5  # of a distribution, the most frequent
_SETTINGS: Final = ("thp.", "sysctl.vm.", "sysctl.kernel.numa_balancing", "boot.transparent_hugepage", "tuned.profile")
# The kernel derives these from the size of memory: two hosts rarely have the same.
_SCALED: Final = ("sysctl.vm.min_free_kbytes", "sysctl.vm.user_reserve_kbytes", "sysctl.vm.admin_reserve_kbytes")
_ORDER: Final = ("thp.", KERNEL, "node_", "AnonHugePages", "sysctl.")  # for people


class Metric(NamedTuple):
    """A number that is compared: the measure or setting `name`, or its share of the measure `whole`.

    `floor` is the least difference from the median in its unit, `factor` the least ratio to it, so that a difference
    nobody would act upon is no outlier, however alike the others are. These are judgments: one stall a second and
    twice as many, a tenth of the memory, a fifth of the free memory. `skewed` is what spans orders of magnitude: it is
    compared as it is and by the logarithm of value + floor.
    """

    name: str
    title: str
    unit: str
    floor: float
    factor: float = 1.0
    skewed: bool = False
    part: str = ""
    whole: str = ""

    def value(self, host: FleetHost) -> float | None:
        """The number of a host, if its bundle tells it and it can be.

        A rate is per second while somebody looked: of a total since boot nobody knows when it came about. A measure of
        one of several states of a host (`... [enabled always]`) is not compared: which of them the others' measures
        belong to is unknown.
        """
        if self.name in _SCALED:
            setting = host.settings.get(self.name)
            number = setting.value if setting and setting.is_measured else None
            return float(number) if isinstance(number, int | float) and 0 <= number < 1e300 else None
        measure = host.measures.get(self.part or self.name)
        if measure is None:
            return None
        if self.unit == RATE:
            return measure.value if measure.unit == RATE and measure.value >= 0 else None
        if not self.whole:
            return measure.value if 0 <= measure.value <= 1 else None
        whole = host.measures.get(self.whole)
        return measure.value / whole.value if whole and 0 <= measure.value <= whole.value > 0 else None

    def is_significant(self, value: float, median: float) -> bool:
        """Whether the difference is one that anybody would act upon."""
        near, far = sorted((value, median))
        return far - near >= self.floor and far >= self.factor * near

    def scales(self, value: float) -> tuple[float, ...]:
        """Skewed numbers are compared on both: on one alone either the long tail or what is near 0 lies apart."""
        return (value, math.log(value + self.floor)) if self.skewed else (value,)


METRICS: Final = (
    Metric("node_vmstat_compact_stall", "direct compactions", RATE, 1.0, 2.0, skewed=True),
    Metric("node_vmstat_compact_fail", "failed compactions", RATE, 1.0, 2.0, skewed=True),
    Metric("node_allocstall_total", "direct reclaims", RATE, 1.0, 2.0, skewed=True),
    Metric("node_vmstat_thp_fault_fallback", "page faults that got no huge page", RATE, 1.0, 2.0, skewed=True),
    Metric(UNUSABLE_FREE, "share of free memory in blocks too small for a huge page", "ratio", 0.2),
    Metric(
        "AnonHugePages/MemTotal", "AnonHugePages as share of memory", "ratio", 0.1,
        part="node_memory_AnonHugePages_bytes", whole="node_memory_MemTotal_bytes",
    ),
    *(Metric(name, name, "", 1024.0, 2.0, skewed=True) for name in _SCALED),
)  # fmt: skip


def metrics_of_host(host: FleetHost) -> Iterator[tuple[Metric, float]]:
    """The numbers that the bundle of a host tells."""
    for metric in METRICS:
        value = metric.value(host)
        if value is not None:
            yield metric, value


def settings_of_host(host: FleetHost) -> Iterator[tuple[str, str]]:
    """Settings that were measured; an assumed one says nothing of the host. 511 and 511.0 are one value."""
    for name, setting in host.settings.items():
        if setting.is_measured and name.startswith(_SETTINGS) and name not in _SCALED and len(name) <= MAX_NAME_CHARS:
            value = setting.value
            yield name, str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def rate_window(host: FleetHost, metric: Metric) -> str:
    """The time that a rate of a host is of: those of other hosts may be of a day or of seconds."""
    measure = host.measures.get(metric.name) if metric.unit == RATE else None
    return measure.window if measure else ""


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, MAD and quartiles on one scale: of the values, or of their logarithms. `least` is a deviation."""

    median: float
    mad: float
    lower: float
    upper: float
    least: float = 0.0

    def score(self, value: float) -> float:
        """The modified z-score of a value that lies beyond Tukey's outer fences, else 0."""
        reach = OUTER_FENCE * (self.upper - self.lower)
        if self.lower - reach <= value <= self.upper + reach:
            return 0.0
        deviation = self.mad / MAD_OF_NORMAL or (self.upper - self.lower) / IQR_OF_NORMAL
        return (value - self.median) / max(deviation, self.least)


@dataclass(frozen=True, slots=True)
class NumberDistribution:
    """The five numbers of a distribution with the number of its values, in the unit of the values.

    `away` is how many values are further from the median than counts, `common` what all but `RARE_SHARE` of them do not
    exceed; these decide where MAD and quartiles say that all are the same. `spreads` are what scores go by, one for
    each scale on which values are compared.
    """

    n: int
    least: Number
    lower: Number
    median: Number
    upper: Number
    most: Number
    away: Annotated[int, INTERNAL]
    spreads: Annotated[tuple[Spread, ...], INTERNAL]
    common: Annotated[float, INTERNAL] = 0.0


Counts = tuple[tuple[str, int], ...]


def counts_as(name: str) -> PlainSerializer:
    """How JSON has values with their numbers."""
    return PlainSerializer(
        lambda counts: [{"value": value, name: number} for value, number in counts], list[dict[str, str | int]]
    )


@dataclass(frozen=True, slots=True)
class ValueDistribution:
    """How many hosts have each value: the most frequent; `others` is how many have none of these."""

    n: int
    counts: Annotated[Counts, counts_as("hosts")]
    others: int


class OutlierScore(NamedTuple):
    """That a number lies apart. `score` is its modified z-score, None where half of the others or more are the same."""

    score: float | None


def number_distribution(numbers: Iterable[float], metric: Metric) -> NumberDistribution:
    """Of at least one value."""
    values = array("d", sorted(numbers))
    lower, median, upper = quartiles(values)
    # A deviation of skewed values is at least what counts, so that half a stall is no unit.
    steps = zip(metric.scales(median + metric.floor), metric.scales(median), strict=True)
    spreads = []
    for number, (above, at) in enumerate(steps):
        scale = array("d", (metric.scales(value)[number] for value in values))
        low, middle, high = quartiles(scale)
        mad = quantile(sorted(abs(value - middle) for value in scale), 0.5)
        spreads.append(Spread(middle, mad, low, high, above - at if metric.skewed else 0.0))
    away = sum(metric.is_significant(value, median) for value in values)
    common = quantile(values, 1 - RARE_SHARE)
    return NumberDistribution(len(values), values[0], lower, median, upper, values[-1], away, tuple(spreads), common)


def outlier_score(value: float, group: NumberDistribution, metric: Metric) -> OutlierScore | None:
    """Whether a number lies apart from its group, of which it is one."""
    if not metric.is_significant(value, group.median):
        return None
    if group.spreads[0].lower == group.spreads[0].upper:  # at least the middle half are the same
        far = metric.skewed and value >= FAR_FACTOR * max(group.common, metric.floor)
        return OutlierScore(None) if far or is_rare(group.away, group.n) else None
    scores = [spread.score(on) for spread, on in zip(group.spreads, metric.scales(value), strict=True)]
    least = min(scores, key=abs)
    return OutlierScore(least) if abs(least) > MAX_SCORE else None


def quartiles(ordered: Sequence[float]) -> tuple[float, float, float]:
    return quantile(ordered, 0.25), quantile(ordered, 0.5), quantile(ordered, 0.75)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Between the two nearest values in proportion, as spreadsheets and numpy do."""
    at = share * (len(ordered) - 1)
    below, above = ordered[math.floor(at)], ordered[math.ceil(at)]
    return below + (above - below) * (at - math.floor(at))


def is_rare(count: int, n: int) -> bool:
    """Whether so few of a group are exceptions."""
    return count <= max(1, math.floor(RARE_SHARE * n))


@dataclass(frozen=True, slots=True)
class Outlier:
    """That a host differs in one thing. `host` is without its settings and measures.

    `name` is the metric or setting, `title` the same for people. `score` is the modified z-score of a number, None of a
    value, and of a number where half of the others or more are the same. `hosts` is their number in the group, of
    which `distribution.n` tell what is compared; `same` is how many have the same value, this one included (None of
    numbers). `window` is the time that a rate is of, as the host's result tells it.
    """

    host: Annotated[FleetHost, INTERNAL]
    name: str
    title: str
    value: str | Number
    unit: str | None
    score: float | None
    group: Annotated[Group, PlainSerializer(lambda group: group.definition, str)]
    hosts: int
    distribution: NumberDistribution | ValueDistribution
    same: Annotated[int | None, INTERNAL] = None
    window: str = ""

    @property
    def rank(self) -> tuple[int, int, float]:
        """The order for people: stalls, THP settings, kernels, memory, other settings; narrow groups first."""
        weight = self.score if self.score is not None else math.inf
        if self.same is not None:
            weight = self.distribution.n / self.same
        kind = next((at for at, name in enumerate(_ORDER, 1) if self.name.startswith(name)), 3)
        return 0 if self.unit == RATE else kind, self.group.width, -abs(weight)


@dataclass(slots=True)
class _GroupValues:
    """What the hosts of a group have; a distribution is made of it when it is first asked for."""

    size: int = 0
    numbers: defaultdict[str, array[float]] = field(default_factory=lambda: defaultdict(lambda: array("d")))
    values: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    made: dict[str, NumberDistribution | ValueDistribution] = field(default_factory=dict)

    def take(self, numbers: Iterable[tuple[Metric, float]], values: Iterable[tuple[str, str]]) -> None:
        self.size += 1
        for metric, number in numbers:
            self.numbers[metric.name].append(number)
        for name, value in values:
            if name in self.values or len(self.values) < MAX_SETTINGS:
                self.values[name][value] += 1

    def number_distribution(self, metric: Metric) -> NumberDistribution | None:
        """None if too few hosts tell it."""
        if len(self.numbers.get(metric.name, ())) < MIN_HOSTS:
            return None
        found = self.made.get(metric.name) or number_distribution(self.numbers[metric.name], metric)
        self.made[metric.name] = found
        return found if isinstance(found, NumberDistribution) else None

    def value_distribution(self, name: str) -> ValueDistribution | None:
        """The same."""
        counts = self.values.get(name, Counter[str]())
        if counts.total() < MIN_HOSTS:
            return None
        if (found := self.made.get(f"={name}")) is None:
            first = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:SHOWN_VALUES]
            found = ValueDistribution(counts.total(), tuple(first), counts.total() - sum(count for _, count in first))
            self.made[f"={name}"] = found
        return found if isinstance(found, ValueDistribution) else None


class Survey:
    """The distributions of a fleet. `counts` says whether a host stands for itself, or an older bundle of it."""

    def __init__(self, hosts: Iterable[FleetHost], counts: Callable[[FleetHost], bool] = lambda host: True) -> None:
        self._groups: defaultdict[Group, _GroupValues] = defaultdict(_GroupValues)
        self._kernels: defaultdict[Group, _GroupValues] = defaultdict(_GroupValues)
        self._counts = counts
        for host in hosts:
            if host.known and counts(host):
                numbers, values = list(metrics_of_host(host)), list(settings_of_host(host))
                for group in groups_of_host(host):
                    self._groups[group].take(numbers, values)
                for group in groups_of_kernels(host) if host.kernel else ():
                    self._kernels[group].take([], [(KERNEL, str(host.kernel))])

    @property
    def groups(self) -> dict[Group, int]:
        """All groups with the number of their hosts, the largest first."""
        sizes = ((group, taken.size) for group, taken in self._groups.items())
        return dict(sorted(sizes, key=lambda pair: (-pair[1], pair[0].definition)))

    def outliers(self, host: FleetHost) -> Iterator[Outlier]:
        """What of a host of this fleet lies apart."""
        if not host.known or not self._counts(host):
            return
        own = [(group, self._groups[group]) for group in groups_of_host(host)]
        for metric, number in metrics_of_host(host):
            yield from _number_outlier(host, own, metric, number)
        for name, value in settings_of_host(host):
            yield from _value_outlier(host, own, name, name, value)
        if host.kernel:
            kernels = [(group, self._kernels[group]) for group in groups_of_kernels(host)]
            yield from _value_outlier(host, kernels, KERNEL, "kernel release", host.kernel)


_Own = Sequence[tuple[Group, _GroupValues]]  # the groups of a host, the narrowest first


def _number_outlier(host: FleetHost, own: _Own, metric: Metric, number: float) -> Iterator[Outlier]:
    for group, taken in own:
        if (known := taken.number_distribution(metric)) is not None:
            if found := outlier_score(number, known, metric):
                yield Outlier(
                    host.bare, metric.name, metric.title, number, metric.unit or None, found.score, group, taken.size,
                    known, window=rate_window(host, metric),
                )  # fmt: skip
            return


def _value_outlier(host: FleetHost, own: _Own, name: str, title: str, value: str) -> Iterator[Outlier]:
    for group, taken in own:
        if (known := taken.value_distribution(name)) is not None:
            same = taken.values[name][value]
            if is_rare(same, known.n) and known.counts[0][1] >= COMMON_SHARE * known.n:
                yield Outlier(host.bare, name, title, value, None, None, group, taken.size, known, same)
            return


def survey(store: StoreReader) -> Survey:
    """The distributions of the hosts of a store, each with its latest bundle."""
    replaced = replaced_hosts(store)
    return Survey(hosts_of_store(store), lambda host: host.key not in replaced)


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
