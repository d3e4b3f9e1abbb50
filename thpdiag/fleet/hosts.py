"""The hosts of a store as members of a fleet: their attributes, the bundles of one host, and groups for comparison.

A bundle without a host (it was refused, or its analysis ran out of time) is in the fleet as well: it has a number, a
status and a reason, and all other fields are None. Unknown values are never zero: a setting or measure that is not in
the bundle is not in the mapping.

Bundles with the same host name belong to one host. Default names of installers are excluded, and so are names that two
hosts of one bundle share: those are two machines, and it is unknown which of them another bundle belongs to. Other
machines with the same name count as one host, so reports state that only the name joins the bundles.

The narrowest group of hosts that are compared has the same applications on the same platform family (`el8`) with
kernels of the same era (the behaviour of the kernel's fault path; without an era the first two numbers of the release).
Where fewer than `MIN_HOSTS` of them have the value to compare, the group is all hosts with the same applications, then
all hosts. Kernel releases belong to a distribution: they are compared in the narrowest group and, where that is too
small, among all hosts on the same platform family. `MIN_HOSTS` is a judgment: a quarter of eight is two, so one unusual
host moves neither the median nor the quartiles far. Unknown attributes match nothing: such a host is in wider groups
only.
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
INTERNAL: Final = Field(exclude=True)  # marks a field that is not in the JSON document
_MAX_VALUE = 1e300  # a larger integer is not a measurement, and does not fit a float


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and its provenance: `measured`, or `assumed` (the default of the host's kernel)."""

    value: str | Number
    provenance: str | None

    @property
    def is_measured(self) -> bool:
        return self.provenance == MEASURED


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of the bundle. A rate has the unit `1/s`, a share has `ratio` (0 to 1).

    `window` is the time that it covers, as text (`over 30 s`, `latest`), empty if unknown.
    """

    value: Number
    unit: str | None
    window: str = ""


@dataclass(frozen=True, slots=True)
class FleetHost:
    """One host of one bundle, or a bundle without a host. `number` counts from 1 in the order of paths.

    `bundle` is the bundle's number in the store and `place` the host's index in it (None without a host), as in the
    rows of findings. `sha256`, `path`, `size`, `status`, `reason` and `attempts` describe the bundle. `name` is the
    host name, `title` the name of its part of the bundle. `undecided` is the number of rules that could not be decided,
    `recorded` the time of its data (ISO; UTC with a final Z, else local time of the host), `analysis` one text of
    version, rules and options. `page` is the address of its page relative to the index, empty if it has none.
    `accepted`: the finding of its verdict is suppressed or in the baseline.
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
        """Whether this is a host, not a bundle without one."""
        return self.place is not None

    @property
    def key(self) -> str:
        """The key of the host in spilled tables."""
        return f"{self.bundle}/{self.place}"

    @property
    def label(self) -> str:
        """The name in lists: the host name, else the title of its part of the bundle, else the bundle's path."""
        return self.name or self.title or self.path

    @property
    def summary(self) -> FleetHost:
        """A copy without settings and measures, which take most of the memory, for lists that are kept."""
        return replace(self, settings={}, measures={})


def hosts_of_store(
    store: StoreReader,
    page: Callable[[Row], str] = lambda row: "",
    accepted: Callable[[Row], bool] = lambda row: False,
) -> Iterator[FleetHost]:
    """Yield all hosts in the order of bundle paths, without results that a later one of the same bundle replaces.

    `page` and `accepted` get a row of `StoreReader.fleet` and return the field of this name.
    """
    for number, row in enumerate(store.fleet(), 1):
        try:
            host = host_of_row(number, row)
        except (AttributeError, TypeError) as error:  # possible in a foreign store that was merged into this one
            raise StoreError(f"{store.file}: the row of {row['path']} is damaged ({error})") from error
        yield replace(host, page=page(row), accepted=accepted(row))


def host_of_row(number: int, row: Row) -> FleetHost:
    """Return the host of a row of `StoreReader.fleet`."""
    settings = ((name, one.get("value"), one.get("provenance")) for name, one in (row["settings"] or {}).items())
    measures = ((name, one.get("value"), one) for name, one in (row["measures"] or {}).items())
    fields = {
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
    return FleetHost(**{name: row[name] for name in FleetHost.__slots__ if name in row} | fields)


MAX_UTC_OFFSET: Final = timedelta(hours=14)  # the largest offset of any time zone


class Record(NamedTuple):
    """A host in a bundle, with the time of its data; `key` is that of `FleetHost`."""

    bundle: int
    place: int
    recorded: str | None

    @property
    def key(self) -> str:
        return f"{self.bundle}/{self.place}"


class BundlesOfHost(NamedTuple):
    """The bundles of one host, at least two: in the order of recording if that is known, else in the order of paths."""

    name: str
    records: Sequence[Record]
    ordered: bool


def bundles_of_hosts(store: StoreReader) -> Iterator[BundlesOfHost]:
    """Yield all hosts with several bundles, by name; only the records of one name are in memory."""
    for name, rows in groupby(store.by_name(), key=lambda row: row["name"]):
        if is_default_hostname(name):
            continue
        records = [Record(row["bundle"], row["place"], row["recorded"]) for row in rows]
        if len(records) > 1 and len({record.bundle for record in records}) == len(records):
            records.sort(key=lambda record: record.recorded or "")  # without a time first, so never the latest
            yield BundlesOfHost(name, records, all(_is_earlier(left, right) for left, right in pairwise(records)))


def replaced_hosts(store: StoreReader) -> SpilledTexts:
    """Return the keys of hosts that a later bundle of the same host replaces (in unknown order: of a later path)."""
    keys = SpilledTexts(store.spill_file)
    for host in bundles_of_hosts(store):
        for record in host.records[:-1]:
            keys[record.key] = ""
    return keys


def _is_earlier(left: Record, right: Record) -> bool:
    """Whether the left record is certainly earlier; local times may differ from UTC by up to 14 h."""
    first, second = _parse_time(left.recorded), _parse_time(right.recorded)
    if first is None or second is None:
        return False
    same_clock = first[1] == second[1]
    return second[0] - first[0] > (timedelta(0) if same_clock else MAX_UTC_OFFSET)


def _parse_time(recorded: str | None) -> tuple[datetime, bool] | None:
    """Return the time, and whether it is UTC."""
    try:
        return datetime.fromisoformat((recorded or "").removesuffix("Z")), (recorded or "").endswith("Z")
    except ValueError:
        return None


MIN_HOSTS: Final = 8  # hosts of a group that have the value to compare
_MINOR: Final = re.compile(r"(el\d+)\.\d+", re.ASCII)
_MAJOR: Final = re.compile(r"(\d+\.\d+)\b", re.ASCII)


@dataclass(frozen=True, slots=True)
class Group:
    """A group of comparable hosts: `apps` None for any applications, `family` empty for all platforms and kernels."""

    apps: tuple[str, ...] | None = None
    family: str = ""
    kernels: str = ""

    @property
    def definition(self) -> str:
        """As text: `redis on el8 with kernels of era E6`, `java and redis on any platform`, `all hosts on el8`."""
        if self.apps is None:
            return f"all hosts on {self.family}" if self.family else "all hosts"
        apps = join_words(self.apps) or "no known application"
        if not self.family:
            return f"{apps} on any platform"
        return f"{apps} on {self.family} with {self.kernels}"

    @property
    def width(self) -> int:
        """0 for the narrowest kind of group, more for wider ones."""
        return (self.apps is None) + (not self.kernels)


ALL_HOSTS: Final = Group()


def platform_family(platform: str) -> str:
    """Return `el8` for `el8.6`; other platforms unchanged (`ubuntu22.04`)."""
    minor = _MINOR.fullmatch(platform)
    return minor[1] if minor else platform


def groups_of_host(host: FleetHost) -> Iterator[Group]:
    """Yield the groups that a host is compared in, the narrowest first."""
    yield from _narrowest_group(host)
    if host.apps:
        yield Group(host.apps)
    yield ALL_HOSTS


def groups_of_kernels(host: FleetHost) -> Iterator[Group]:
    """Yield the groups in which the kernel release of a host is compared, the narrowest first."""
    yield from _narrowest_group(host)
    if host.platform:
        yield Group(None, platform_family(host.platform))


def _narrowest_group(host: FleetHost) -> Iterator[Group]:
    major = _MAJOR.match(host.kernel or "")
    kernels = f"kernels of era {host.era}" if host.era else f"kernels {major[1]}" if major else ""
    if host.platform and kernels:
        yield Group(host.apps, platform_family(host.platform), kernels)


def join_words(words: Sequence[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
