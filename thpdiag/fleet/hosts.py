"""The hosts of a store as a fleet sees them: what is known of each, which bundles are of one host, who is compared.

A bundle without a host (it was refused, or its analysis ran out of time) is in the fleet as well: it has a number, a
status and a reason, and is unknown in everything else. Nothing unknown is ever zero: a setting or a measure that the
bundle does not tell is not in the mapping.

Bundles are of one host if they name it the same. A name that installers give joins nothing, nor does one that two hosts
of one bundle have: those are two machines, so it is not known which of them another bundle is of. Other machines of the
same name are taken for one, which is why whoever shows this says that the name is all that joins them.

The narrowest group of hosts that are compared has the same applications on the same platform family (`el8`) with
kernels of the same era (what the fault path of the kernel does; without an era its first two numbers). Where fewer than
`MIN_HOSTS` of them have what is to be compared, the group is all hosts with the same applications, and then all hosts.
Kernel releases belong to a distribution: they are compared in the narrowest group and, where that is too small, with
all hosts on the same platform family. `MIN_HOSTS` is a judgment: a quarter of eight is two, so that one strange host
moves neither the median nor the quartiles far. What is unknown of a host is no match for anything: such a host is in
wider groups only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from thpdiag.errors import StoreError
from thpdiag.knowledge.paths import is_default_hostname
from thpdiag.model.document import Number
from thpdiag.report.baseline import UNKNOWN_NAME
from thpdiag.store.reading import Row, StoreReader
from thpdiag.store.spill import SpilledTexts

MEASURED = "measured"
OK = "ok"
INTERNAL: Final = Field(exclude=True)  # of a field that JSON does not have
_MAX_VALUE = 1e300  # an integer beyond is no measurement, and no float


@dataclass(frozen=True, slots=True)
class Setting:
    """A value of the bundle, and how it is known: `measured`, or `assumed` (the default of its kernel)."""

    value: str | Number
    provenance: str | None

    @property
    def is_measured(self) -> bool:
        return self.provenance == MEASURED


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of the bundle. A rate has the unit `1/s`; a share of something has `ratio` (0 to 1).

    `window` is the time that it is of, for people (`over 30 s`, `latest`), empty if that is not told.
    """

    value: Number
    unit: str | None
    window: str = ""


@dataclass(frozen=True, slots=True)
class FleetHost:
    """One host of one bundle, or a bundle without a host. `number` counts from 1 in the order of paths.

    `bundle` is the bundle's number in the store and `place` the host's place in it (None without a host), as in the
    rows of findings. `sha256`, `path`, `size`, `status`, `reason` and `attempts` are the bundle's. `name` is the host's
    own name, `title` that of its part of the bundle. `undecided` is the number of rules that could not be decided,
    `recorded` when its data was (ISO; UTC with a Z behind it, else local time of the host); `analysis` is one
    text of version, rules and options. `page` is the address of its page beside the index, empty if none is made;
    `accepted` tells that the finding of its verdict is suppressed or in the baseline.
    """

    number: int
    bundle: Annotated[int, INTERNAL]
    place: Annotated[int | None, INTERNAL]
    sha256: str
    path: str
    size: int
    status: str
    reason: str = ""
    attempts: int = 1
    name: str | None = None
    title: str | None = None
    os: str | None = None
    kernel: str | None = None
    era: str | None = None
    platform: str | None = None
    apps: tuple[str, ...] = ()
    verdict: str | None = None
    rule: str | None = None
    mechanism: str | None = None
    severity: str | None = None
    confidence: str | None = None
    state: str | None = None
    sentence: str | None = None
    undecided: int | None = None
    recorded: str | None = None
    analysis: Annotated[str, INTERNAL] = ""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    measures: Mapping[str, Measure] = field(default_factory=dict)
    page: str = ""
    accepted: bool = False

    @property
    def known(self) -> bool:
        """Whether there is a host at all, and not only a bundle that tells none."""
        return self.place is not None

    @property
    def key(self) -> str:
        """The host of this bundle, as texts beside the store are kept by it."""
        return f"{self.bundle}/{self.place}"

    @property
    def label(self) -> str:
        """What it is called in lists: its name, else that of its part of the bundle, else the bundle's path."""
        return self.name or self.title or self.path

    @property
    def bare(self) -> FleetHost:
        """Without settings and measures, which are most of it: for lists that are kept."""
        return replace(self, settings={}, measures={})


def hosts_of_store(
    store: StoreReader,
    page: Callable[[Row], str] = lambda row: "",
    accepted: Callable[[Row], bool] = lambda row: False,
) -> Iterator[FleetHost]:
    """All hosts in the order of their bundles' paths, but for results that a younger one of the same bundle replaces.

    `page` and `accepted` are asked with the row of `Reading.fleet`.
    """
    for number, row in enumerate(store.fleet(), 1):
        try:
            found = host_of_row(number, row)
        except (AttributeError, TypeError) as error:  # a store of somebody else that was merged into this one
            raise StoreError(f"{store.file}: the row of {row['path']} is damaged ({error})") from error
        yield replace(found, page=page(row), accepted=accepted(row))


def host_of_row(number: int, row: Row) -> FleetHost:
    """The host of a row of `StoreReader.of_bundles`."""
    settings = ((name, one.get("value"), one.get("provenance")) for name, one in (row["settings"] or {}).items())
    measures = ((name, one.get("value"), one) for name, one in (row["measures"] or {}).items())
    made = {
        "number": number,
        "name": None if row["host"] == UNKNOWN_NAME else row["host"],
        "title": None if row["case"] == UNKNOWN_NAME else row["case"],
        "apps": tuple(sorted(set(row["apps"] or ()))),
        "analysis": f"{row['tool_version']} {row['rules_digest']} {row['options']}",
        "settings": {name: Setting(value, provenance) for name, value, provenance in settings if value is not None},
        "measures": {
            name: Measure(value, one.get("unit"), one.get("window") or "")
            for name, value, one in measures
            if isinstance(value, int | float) and abs(value) < _MAX_VALUE
        },
    }
    return FleetHost(**{name: row[name] for name in FleetHost.__slots__ if name in row} | made)


MAX_UTC_OFFSET: Final = timedelta(hours=14)  # no local time is further from UTC


class Record(NamedTuple):
    """The row of a host in a bundle, and when its data was recorded; its `key` as that of a `FleetHost`."""

    bundle: int
    place: int
    recorded: str | None

    @property
    def key(self) -> str:
        return f"{self.bundle}/{self.place}"


class BundlesOfHost(NamedTuple):
    """Of one host at least two, in the order of their data if that is known, else in the order of paths."""

    name: str
    records: Sequence[Record]
    ordered: bool


def bundles_of_hosts(store: StoreReader) -> Iterator[BundlesOfHost]:
    """All hosts with several bundles, by name; in memory are those of one name."""
    for name, rows in groupby(store.by_name(), key=lambda row: row["name"]):
        if is_default_hostname(name):
            continue
        records = [Record(row["bundle"], row["place"], row["recorded"]) for row in rows]
        if len(records) > 1 and len({record.bundle for record in records}) == len(records):
            records.sort(key=lambda record: record.recorded or "")  # those without a time do not stand for later
            yield BundlesOfHost(name, records, all(_surely_before(one, other) for one, other in pairwise(records)))


def replaced_hosts(store: StoreReader) -> SpilledTexts:
    """The keys of hosts for which a later bundle of the same host stands; of unknown order, that of a later path."""
    found = SpilledTexts(store.aside)
    for host in bundles_of_hosts(store):
        for record in host.records[:-1]:
            found[record.key] = ""
    return found


def _surely_before(one: Record, other: Record) -> bool:
    """Whether it is sure that one was recorded before the other."""
    first, second = _parse_time(one.recorded), _parse_time(other.recorded)
    if first is None or second is None:
        return False
    same_clock = first[1] == second[1]
    return second[0] - first[0] > (timedelta(0) if same_clock else MAX_UTC_OFFSET)


def _parse_time(recorded: str | None) -> tuple[datetime, bool] | None:
    """The time, and whether it is UTC."""
    try:
        return datetime.fromisoformat((recorded or "").removesuffix("Z")), (recorded or "").endswith("Z")
    except ValueError:
        return None


MIN_HOSTS: Final = 8  # hosts that have what is compared
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
        apps = join_words(self.apps) or "no known application"
        if not self.family:
            return f"{apps} on any platform"
        return f"{apps} on {self.family} with {self.kernels}"

    @property
    def width(self) -> int:
        """0 of the narrowest kind, and more of wider ones."""
        return (self.apps is None) + (not self.kernels)


ALL_HOSTS: Final = Group()


def platform_family(platform: str) -> str:
    """`el8` of `el8.6`; other platforms stand for themselves (`ubuntu22.04`)."""
    minor = _MINOR.fullmatch(platform)
    return minor[1] if minor else platform


def groups_of_host(host: FleetHost) -> Iterator[Group]:
    """Those that a host is compared in, the narrowest first."""
    yield from _narrowest_group(host)
    if host.apps:
        yield Group(host.apps)
    yield ALL_HOSTS


def groups_of_kernels(host: FleetHost) -> Iterator[Group]:
    """The same for the release of its kernel."""
    yield from _narrowest_group(host)
    if host.platform:
        yield Group(None, platform_family(host.platform))


def _narrowest_group(host: FleetHost) -> Iterator[Group]:
    major = _MAJOR.match(host.kernel or "")
    kernels = f"kernels of era {host.era}" if host.era else f"kernels {major[1]}" if major else ""
    if host.platform and kernels:
        yield Group(host.apps, platform_family(host.platform), kernels)


def join_words(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
