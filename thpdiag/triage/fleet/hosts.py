"""The hosts of a store as a fleet sees them, one after the other.

A bundle without a host (it was refused, or its analysis ran out of time) is in the fleet as well: it has a number, a
status and a reason, and is unknown in everything else. Nothing unknown is ever zero: a setting or a measure that the
bundle does not tell is not in the mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from thpdiag.accepted.baseline import NOBODY
from thpdiag.errors import StoreError
from thpdiag.triage.store.reading import Reading, Row

MEASURED = "measured"
OK = "ok"
_LARGEST = 1e300  # an integer beyond is no measurement, and no float


@dataclass(frozen=True, slots=True)
class Setting:
    """A value of the bundle, and how it is known: `measured`, or `assumed` (the default of its kernel)."""

    value: str | float
    provenance: str | None

    @property
    def measured(self) -> bool:
        return self.provenance == MEASURED


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of the bundle. A rate has the unit `1/s`; a share of something has `ratio` (0 to 1).

    `window` is the time that it is of, for people (`over 30 s`, `latest`), empty if that is not told.
    """

    value: float
    unit: str | None
    window: str = ""


@dataclass(frozen=True, slots=True)
class FleetHost:
    """One host of one bundle. `number` counts from 1 in the order of paths.

    `bundle` is the bundle's number in the store and `place` the host's place in it (None without a host), as in the
    rows of findings. `sha256`, `path`, `size`, `status`, `reason` and `attempts` are the bundle's. `name` is the host's
    own name, `title` that of its part of the bundle. `undecided` is the number of rules that could not be decided,
    `recorded` when its data was (ISO; UTC with a Z behind it, else local time of the host); `analysis` is one
    text of version, rules and options. `page` is the address of its page beside the index, empty if none is made;
    `accepted` tells that the finding of its verdict is suppressed or in the baseline.
    """

    number: int
    bundle: int
    place: int | None
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
    analysis: str = ""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    measures: Mapping[str, Measure] = field(default_factory=dict)
    page: str = ""
    accepted: bool = False

    @property
    def known(self) -> bool:
        """Whether there is a host at all, and not only a bundle that tells none."""
        return self.place is not None

    @property
    def label(self) -> str:
        """What it is called in lists: its name, else that of its part of the bundle, else the bundle's path."""
        return self.name or self.title or self.path

    @property
    def bare(self) -> FleetHost:
        """Without settings and measures, which are most of it: for lists that are kept."""
        return replace(self, settings={}, measures={})


def hosts(
    store: Reading,
    page: Callable[[Row], str] = lambda row: "",
    accepted: Callable[[Row], bool] = lambda row: False,
) -> Iterator[FleetHost]:
    """All hosts in the order of their bundles' paths, but for results that a younger one of the same bundle replaces.

    `page` and `accepted` are asked with the row of `Reading.fleet`.
    """
    for number, row in enumerate(store.fleet(), 1):
        try:
            found = host(number, row)
        except (AttributeError, TypeError) as error:  # a store of somebody else that was merged into this one
            raise StoreError(f"{store.file}: the row of {row['path']} is damaged ({error})") from error
        yield replace(found, page=page(row), accepted=accepted(row))


def host(number: int, row: Row) -> FleetHost:
    """The host of a row of `Reading.of_bundle`."""
    return FleetHost(
        number=number,
        **{name: row[name] for name in ("bundle", "place", "sha256", "path", "size", "status", "reason", "attempts")},
        name=_name(row["host"]),
        title=_name(row["case"]),
        **{name: row[name] for name in ("os", "kernel", "era", "platform")},
        apps=tuple(sorted(set(row["apps"] or ()))),
        **{name: row[name] for name in ("verdict", "rule", "mechanism", "severity", "confidence", "state", "sentence")},
        undecided=row["undecided"],
        recorded=row["recorded"],
        analysis=f"{row['tool_version']} {row['rules_digest']} {row['options']}",
        settings=_settings(row["settings"] or {}),
        measures=_measures(row["measures"] or {}),
    )


def _name(told: str | None) -> str | None:
    """None for the word that documents have for a host without a name."""
    return None if told == NOBODY else told


def _settings(told: Mapping[str, Mapping[str, Any]]) -> dict[str, Setting]:
    found = ((name, one.get("value"), one.get("provenance")) for name, one in told.items())
    return {name: Setting(value, provenance) for name, value, provenance in found if value is not None}


def _measures(told: Mapping[str, Mapping[str, Any]]) -> dict[str, Measure]:
    numbers = ((name, one.get("value"), one.get("unit"), one.get("window") or "") for name, one in told.items())
    return {
        name: Measure(value, unit, window)
        for name, value, unit, window in numbers
        if isinstance(value, int | float) and abs(value) < _LARGEST
    }
