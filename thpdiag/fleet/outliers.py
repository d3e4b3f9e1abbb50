"""Outliers among the hosts of a group, and among the bundles of one host over time.

Settings and kernels are compared as values, rates and shares as numbers. There are two passes over the hosts: the first
collects the numbers of each group (8 bytes each, in at most three groups) and counts values, the second tests each host
against its groups. A host counts once, with its latest bundle. It is compared in the narrowest group in which enough
hosts (`MIN_HOSTS`) have the value; hosts without it are in no distribution.

Numbers: the modified z-score of Iglewicz and Hoaglin, 0.6745 * (x - median) / MAD, above 3.5 ("How to Detect and Handle
Outliers", ASQC Basic References in Quality Control 16, 1993). MAD is the median of the distances from the median;
0.6745 is the third quartile of the normal distribution, so for normal data the score is close to the number of standard
deviations from the mean, both of which outliers themselves would move. The MAD of a small group is often small by
chance: of eight normal values 2 in 100 score above 3.5. A value must therefore also be beyond the outer fences of Tukey
("Exploratory Data Analysis", 1977), three times the interquartile range below the lower or above the upper quartile:
of eight normal values 6 in 1,000 meet both, of twenty 1 in 1,000, of a hundred hardly any.

Numbers that span orders of magnitude (rates) must be outliers on both scales, linear and logarithmic; the score is the
smaller of the two. On the linear scale alone 4 in 100 of exponential values would be outliers, on the logarithmic scale
values near 0. The unit of their distance is at least the significant difference; otherwise, among hosts that hardly
stall, every host that does would be an outlier.

Where more than half of the values are equal, MAD is 0: then the interquartile range / 1.349 replaces it (the standard
deviation of normal data). Where that is 0 too, a value that differs is an outlier if at most `RARE_SHARE` of the group,
or a single host, differs; a rate also if it is `OUTLIER_FACTOR` times what all but `RARE_SHARE` of the group do not
exceed. Example: of 80 hosts without a stall, 19 with three a second and one with 5,000, the last is the outlier.

A setting is an outlier if at most `RARE_SHARE` of the group, or a single host, has its value, while `COMMON_SHARE` have
another one.

One host over time: settings and kernels that changed, verdicts that changed, and numbers far from the host's history.
A value is compared with the last bundle that has it: a missing value is no change, nor is a verdict that cannot tell.
Where the order of the bundles is unknown, only differences are reported, not what changed to what.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
MAX_SETTINGS: Final = 2_000  # setting names per group, so that hostile documents cannot fill the memory
MAX_SCORE: Final = 3.5
MAD_OF_NORMAL: Final = 0.6745
IQR_OF_NORMAL: Final = 1.349
OUTER_FENCE: Final = 3.0
RARE_SHARE: Final = 0.1
OUTLIER_FACTOR: Final = 10.0
COMMON_SHARE: Final = 0.6
SHOWN_VALUES: Final = 5  # values of a distribution that are listed, the most frequent ones
_COMPARED_SETTINGS: Final = (
    "thp.",
    "sysctl.vm.",
    "sysctl.kernel.numa_balancing",
    "boot.transparent_hugepage",
    "tuned.profile",
)
# The kernel derives these from the size of memory: two hosts rarely have equal values.
_MEMORY_SCALED_SETTINGS: Final = (
    "sysctl.vm.min_free_kbytes",
    "sysctl.vm.user_reserve_kbytes",
    "sysctl.vm.admin_reserve_kbytes",
)
_DISPLAY_ORDER: Final = ("thp.", KERNEL, "node_", "AnonHugePages", "sysctl.")


class Metric(NamedTuple):
    """A number that is compared: the measure or setting `name`, or the quotient of the measures `part` and `whole`.

    `floor` is the smallest significant difference from the median in its unit, `factor` the smallest ratio to it: a
    difference without practical meaning is no outlier, however similar the other hosts are. These are judgments: one
    stall a second and twice as many, a tenth of the memory, a fifth of the free memory. `skewed` numbers span orders of
    magnitude: they are compared on a linear scale and by the logarithm of value + floor.
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
        """Return the number of a host, or None if its bundle does not have it or it is out of range.

        A rate must be measured per second over a window: for a total since boot it is unknown when the events happened.
        A measure of one of several states of a host (`... [enabled always]`) is not compared, since it is unknown to
        which state the measures of other hosts belong.
        """
        if self.name in _MEMORY_SCALED_SETTINGS:
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
        """Whether the difference has practical meaning."""
        lower, upper = sorted((value, median))
        return upper - lower >= self.floor and upper >= self.factor * lower

    def scales(self, value: float) -> tuple[float, ...]:
        """Return the value on each scale of comparison: linear, and logarithmic if it is skewed."""
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
    *(Metric(name, name, "", 1024.0, 2.0, skewed=True) for name in _MEMORY_SCALED_SETTINGS),
)  # fmt: skip


def metrics_of_host(host: FleetHost) -> Iterator[tuple[Metric, float]]:
    """Yield the metrics of a host with their numbers."""
    for metric in METRICS:
        if (value := metric.value(host)) is not None:
            yield metric, value


def settings_of_host(host: FleetHost) -> Iterator[tuple[str, str]]:
    """Yield the measured settings to compare, with their values as text; 511 and 511.0 are one value."""
    for name, setting in host.settings.items():
        is_compared = name.startswith(_COMPARED_SETTINGS) and name not in _MEMORY_SCALED_SETTINGS
        if setting.is_measured and is_compared and len(name) <= MAX_NAME_CHARS:
            value = setting.value
            yield name, str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def rate_window(host: FleetHost, metric: Metric) -> str:
    """Return the time that a rate covers, which may be a day for one host and seconds for another."""
    measure = host.measures.get(metric.name) if metric.unit == RATE else None
    return measure.window if measure else ""


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, MAD and quartiles on one scale: of the values, or of their logarithms."""

    median: float
    mad: float
    lower: float
    upper: float
    min_deviation: float = 0.0

    def score(self, value: float) -> float:
        """Return the modified z-score of a value beyond Tukey's outer fences, else 0."""
        fence = OUTER_FENCE * (self.upper - self.lower)
        if self.lower - fence <= value <= self.upper + fence:
            return 0.0
        deviation = self.mad / MAD_OF_NORMAL or (self.upper - self.lower) / IQR_OF_NORMAL
        return (value - self.median) / max(deviation, self.min_deviation)


@dataclass(frozen=True, slots=True)
class NumberDistribution:
    """The five-number summary of `n` values, in their unit: minimum, quartiles, median, maximum.

    `distant` is how many values differ significantly from the median, `common` the number that all but `RARE_SHARE` of
    the values do not exceed; these two decide where MAD and interquartile range are 0. `spreads` has one entry for each
    scale of comparison.
    """

    n: int
    least: Number
    lower: Number
    median: Number
    upper: Number
    most: Number
    distant: Annotated[int, INTERNAL]
    spreads: Annotated[tuple[Spread, ...], INTERNAL]
    common: Annotated[float, INTERNAL] = 0.0


Counts = tuple[tuple[str, int], ...]


def most_frequent(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def counts_as(name: str) -> PlainSerializer:
    """Return a serializer of counts: a list of objects with `value` and the given name."""
    return PlainSerializer(
        lambda counts: [{"value": value, name: number} for value, number in counts], list[dict[str, str | int]]
    )


@dataclass(frozen=True, slots=True)
class ValueDistribution:
    """How many hosts have each of the most frequent values; `others` is the number of hosts with other values."""

    n: int
    counts: Annotated[Counts, counts_as("hosts")]
    others: int


class OutlierScore(NamedTuple):
    """The modified z-score of an outlier; None where at least half of the values are equal."""

    score: float | None


def number_distribution(numbers: Iterable[float], metric: Metric) -> NumberDistribution:
    """Return the distribution of the numbers, of which there is at least one."""
    values = array("d", sorted(numbers))
    lower, median, upper = quartiles(values)
    # The deviation of skewed values is at least the significant difference, so that half a stall is no unit.
    steps = zip(metric.scales(median + metric.floor), metric.scales(median), strict=True)
    spreads = []
    for index, (above, centre) in enumerate(steps):
        scale = array("d", (metric.scales(value)[index] for value in values))
        low, middle, high = quartiles(scale)
        mad = quantile(sorted(abs(value - middle) for value in scale), 0.5)
        spreads.append(Spread(middle, mad, low, high, above - centre if metric.skewed else 0.0))
    distant = sum(metric.is_significant(value, median) for value in values)
    common = quantile(values, 1 - RARE_SHARE)
    return NumberDistribution(len(values), values[0], lower, median, upper, values[-1], distant, tuple(spreads), common)


def outlier_score(value: float, group: NumberDistribution, metric: Metric) -> OutlierScore | None:
    """Return the score of a number that is an outlier of its group, else None. The group includes the number."""
    if not metric.is_significant(value, group.median):
        return None
    if group.spreads[0].lower == group.spreads[0].upper:  # at least the middle half of the values are equal
        exceeds = metric.skewed and value >= OUTLIER_FACTOR * max(group.common, metric.floor)
        return OutlierScore(None) if exceeds or is_rare(group.distant, group.n) else None
    scores = [spread.score(number) for spread, number in zip(group.spreads, metric.scales(value), strict=True)]
    score = min(scores, key=abs)
    return OutlierScore(score) if abs(score) > MAX_SCORE else None


def quartiles(ordered: Sequence[float]) -> tuple[float, float, float]:
    return quantile(ordered, 0.25), quantile(ordered, 0.5), quantile(ordered, 0.75)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return a quantile with linear interpolation, as in spreadsheets and numpy."""
    position = share * (len(ordered) - 1)
    below, above = ordered[math.floor(position)], ordered[math.ceil(position)]
    return below + (above - below) * (position - math.floor(position))


def is_rare(count: int, n: int) -> bool:
    """Whether `count` of `n` hosts are few enough to be exceptions."""
    return count <= max(1, math.floor(RARE_SHARE * n))


@dataclass(frozen=True, slots=True)
class Outlier:
    """One value or number in which a host differs from its group. `host` is without its settings and measures.

    `name` is the metric or setting, `title` its name in reports. `score` is the modified z-score of a number; None for
    a value, and for a number where at least half of the group are equal. `hosts` is the size of the group, of which
    `distribution.n` have the value; `same` is how many share this value, this host included (None for numbers).
    `window` is the time that a rate covers.
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
        """The sort key of reports: stalls, THP settings, kernels, memory, other settings; narrow groups first."""
        weight = self.score if self.score is not None else math.inf
        if self.same is not None:
            weight = self.distribution.n / self.same
        kind = next((place for place, name in enumerate(_DISPLAY_ORDER, 1) if self.name.startswith(name)), 3)
        return 0 if self.unit == RATE else kind, self.group.width, -abs(weight)


@dataclass(slots=True)
class _GroupValues:
    """The numbers and values of the hosts of a group; distributions are computed on first use and cached."""

    size: int = 0
    numbers: defaultdict[str, array[float]] = field(default_factory=lambda: defaultdict(lambda: array("d")))
    values: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    cache: dict[str, NumberDistribution | ValueDistribution] = field(default_factory=dict)

    def add(self, numbers: Iterable[tuple[Metric, float]], values: Iterable[tuple[str, str]]) -> None:
        self.size += 1
        for metric, number in numbers:
            self.numbers[metric.name].append(number)
        for name, value in values:
            if name in self.values or len(self.values) < MAX_SETTINGS:
                self.values[name][value] += 1

    def number_distribution(self, metric: Metric) -> NumberDistribution | None:
        """Return the distribution of a metric; None if too few hosts have it."""
        if len(self.numbers.get(metric.name, ())) < MIN_HOSTS:
            return None
        distribution = self.cache.get(metric.name) or number_distribution(self.numbers[metric.name], metric)
        self.cache[metric.name] = distribution
        return distribution if isinstance(distribution, NumberDistribution) else None

    def value_distribution(self, name: str) -> ValueDistribution | None:
        """Return the distribution of a setting; None if too few hosts have it."""
        counts = self.values.get(name, Counter[str]())
        total = counts.total()
        if total < MIN_HOSTS:
            return None
        if (distribution := self.cache.get(f"={name}")) is None:
            first = most_frequent(counts)[:SHOWN_VALUES]
            distribution = ValueDistribution(total, tuple(first), total - sum(count for _, count in first))
            self.cache[f"={name}"] = distribution
        return distribution if isinstance(distribution, ValueDistribution) else None


class Survey:
    """The distributions of a fleet. `counts` is false for a host that a later bundle of it replaces."""

    def __init__(self, hosts: Iterable[FleetHost], counts: Callable[[FleetHost], bool] = lambda host: True) -> None:
        self._groups: defaultdict[Group, _GroupValues] = defaultdict(_GroupValues)
        self._kernels: defaultdict[Group, _GroupValues] = defaultdict(_GroupValues)
        self._counts = counts
        for host in hosts:
            if host.known and counts(host):
                numbers, values = list(metrics_of_host(host)), list(settings_of_host(host))
                for group in groups_of_host(host):
                    self._groups[group].add(numbers, values)
                for group in groups_of_kernels(host) if host.kernel else ():
                    self._kernels[group].add([], [(KERNEL, str(host.kernel))])

    @property
    def groups(self) -> dict[Group, int]:
        """All groups with their number of hosts, the largest first."""
        sizes = ((group, values.size) for group, values in self._groups.items())
        return dict(sorted(sizes, key=lambda pair: (-pair[1], pair[0].definition)))

    def outliers(self, host: FleetHost) -> Iterator[Outlier]:
        """Yield the outliers of a host of this fleet."""
        if not host.known or not self._counts(host):
            return
        groups = [(group, self._groups[group]) for group in groups_of_host(host)]
        for metric, number in metrics_of_host(host):
            yield from _number_outlier(host, groups, metric, number)
        for name, value in settings_of_host(host):
            yield from _value_outlier(host, groups, name, name, value)
        if host.kernel:
            kernels = [(group, self._kernels[group]) for group in groups_of_kernels(host)]
            yield from _value_outlier(host, kernels, KERNEL, "kernel release", host.kernel)


_Groups = Sequence[tuple[Group, _GroupValues]]  # the groups of a host, the narrowest first


def _number_outlier(host: FleetHost, groups: _Groups, metric: Metric, number: float) -> Iterator[Outlier]:
    for group, values in groups:
        if (distribution := values.number_distribution(metric)) is not None:
            if outlier := outlier_score(number, distribution, metric):
                yield Outlier(
                    host.summary, metric.name, metric.title, number, metric.unit or None, outlier.score, group,
                    values.size, distribution, window=rate_window(host, metric),
                )  # fmt: skip
            return


def _value_outlier(host: FleetHost, groups: _Groups, name: str, title: str, value: str) -> Iterator[Outlier]:
    for group, values in groups:
        if (distribution := values.value_distribution(name)) is not None:
            same, n = values.values[name][value], distribution.n
            if is_rare(same, n) and distribution.counts[0][1] >= COMMON_SHARE * n:
                yield Outlier(host.summary, name, title, value, None, None, group, values.size, distribution, same)
            return


def survey(store: StoreReader) -> Survey:
    """Return the distributions of the hosts of a store, each with its latest bundle."""
    replaced = replaced_hosts(store)
    return Survey(hosts_of_store(store), lambda host: host.key not in replaced)


VERDICT: Final = "verdict"
MAX_EVENTS: Final = 200  # changes, and also differences, that are kept for one host
_UNDECIDED: Final = (None, "cannot_tell")


@dataclass(frozen=True, slots=True)
class Sighting:
    """A bundle in which a value was seen."""

    path: str
    recorded: str | None
    page: str


@dataclass(frozen=True, slots=True)
class Change:
    """A change between the bundles `last` and `first`. `name` is `verdict`, `kernel` or a setting.

    `other_rules`: the two verdicts come from different rules, options or versions.
    """

    name: str
    before: str
    after: str
    last: Sighting
    first: Sighting
    other_rules: bool


@dataclass(frozen=True, slots=True)
class Difference:
    """Different values in bundles of unknown order, each with the number of bundles."""

    name: str
    counts: Annotated[Counts, counts_as("bundles")]


@dataclass(frozen=True, slots=True)
class FarValue:
    """A number that is an outlier among the bundles of its host; `distribution` covers all of these."""

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
    """The changes of a host over its bundles; `more` is the number of changes and differences that were not kept."""

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
class _HistoryBuilder:
    """The values of a host in the bundles so far."""

    last: dict[str, tuple[str, Sighting, str]] = field(default_factory=dict)  # value, bundle, analysis
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    numbers: dict[str, tuple[array[float], list[tuple[Sighting, str]]]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    more: int = 0

    def add(self, host: FleetHost) -> None:
        seen = Sighting(host.path, host.recorded, host.page)
        for name, value in _compared_values(host):
            before = self.last.get(name)
            if before and before[0] != value:
                other_rules = name == VERDICT and before[2] != host.analysis
                if len(self.changes) < MAX_EVENTS:
                    self.changes.append(Change(name, before[0], value, before[1], seen, other_rules))
                else:
                    self.more += 1
            self.last[name] = (value, seen, host.analysis)
            self.counts.setdefault(name, Counter())[value] += 1
        for metric, number in metrics_of_host(host):
            values, places = self.numbers.setdefault(metric.name, (array("d"), []))
            values.append(number)
            places.append((seen, rate_window(host, metric)))

    def outliers(self) -> Iterator[FarValue]:
        for metric in METRICS:
            values, places = self.numbers.get(metric.name, (array("d"), []))
            if len(values) < MIN_HOSTS:
                continue
            whole = number_distribution(values, metric)
            for value, (seen, window) in zip(values, places, strict=True):
                if outlier := outlier_score(value, whole, metric):
                    unit = metric.unit or None
                    yield FarValue(metric.name, metric.title, value, unit, outlier.score, seen, whole, window)


def histories(store: StoreReader, page: Callable[[Row], str] = lambda row: "") -> Iterator[History]:
    """Yield the histories of all hosts with several bundles, by name; for `page` see `hosts_of_store`."""
    return (_history(store, bundles, page) for bundles in bundles_of_hosts(store))


def _history(store: StoreReader, bundles: BundlesOfHost, page: Callable[[Row], str]) -> History:
    builder = _HistoryBuilder()
    for number, record in enumerate(bundles.records, 1):
        for row in store.rows_of_bundles(record.bundle):
            if row["place"] == record.place:
                builder.add(replace(host_of_row(number, row), page=page(row)))
    compared = {} if bundles.ordered else builder.counts
    differences = [Difference(name, tuple(most_frequent(c))) for name, c in compared.items() if len(c) > 1]
    return History(
        name=bundles.name, bundles=len(bundles.records), ordered=bundles.ordered,
        changes=builder.changes if bundles.ordered else (), differences=differences[:MAX_EVENTS],
        far=list(builder.outliers()),
        more=builder.more if bundles.ordered else max(len(differences) - MAX_EVENTS, 0),
    )  # fmt: skip


def _compared_values(host: FleetHost) -> Iterator[tuple[str, str]]:
    if host.verdict == "found":
        yield VERDICT, ", ".join(filter(None, (host.mechanism, host.severity))) or "found"
    elif host.verdict not in _UNDECIDED:
        yield VERDICT, str(host.verdict).replace("_", " ")
    if host.kernel:
        yield KERNEL, host.kernel
    yield from settings_of_host(host)
