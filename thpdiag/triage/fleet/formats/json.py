"""The fleet for programs (`thpdiag/fleet/1`, fleet.schema.json beside this file), written host by host.

A line per host, sorted keys, ASCII, the same bytes for the same store. What comes first is small: counts, the gate, the
groups. `hosts` are all of them, in the order of paths, each with its outliers; `over_time` are hosts with several
bundles of which something is to be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from json import loads
from typing import Any, Final, TextIO

from thpdiag.json_text import compact
from thpdiag.triage.fleet.distribution import Counts, Numbers
from thpdiag.triage.fleet.hosts import FleetHost
from thpdiag.triage.fleet.outliers import Outlier
from thpdiag.triage.fleet.over_time import Far, History
from thpdiag.triage.fleet.overview import Fleet, Overview

SCHEMA: Final = "thpdiag/fleet/1"
_VERDICT: Final = ("verdict", "mechanism", "severity", "confidence")
_HOST: Final = (
    "number", "name", "title", "sha256", "path", "size", "status", "reason", "attempts", "os", "kernel", "era",
    "platform", "verdict", "rule", "mechanism", "severity", "confidence", "state", "sentence", "undecided", "recorded",
    "page", "accepted",
)  # fmt: skip


def write(fleet: Fleet, out: TextIO) -> None:
    head = compact({"schema": SCHEMA, **_head(fleet, fleet.overview)})
    out.write(f'{head.removesuffix("}")},\n"hosts":[')
    out.writelines(_listed(_host(host, fleet.survey.outliers(host)) for host in fleet.hosts()))
    out.write('],\n"over_time":[')
    out.writelines(_listed(map(_history, fleet.histories())))
    out.write("]}\n")


@cache
def schema() -> dict[str, Any]:
    """The JSON Schema of it (draft 2020-12)."""
    found: dict[str, Any] = loads(files(__package__).joinpath("fleet.schema.json").read_text(encoding="utf-8"))
    return found


def _listed(items: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    between = "\n"
    for item in items:
        yield f"{between}{compact(item)}"
        between = ",\n"


def _head(fleet: Fleet, told: Overview) -> dict[str, Any]:
    verdicts = sorted(told.verdicts.items(), key=lambda pair: (-pair[1], [part or "" for part in pair[0]]))
    return {
        "bundles": told.statuses.total(),
        "statuses": dict(told.statuses),
        "verdicts": [{**dict(zip(_VERDICT, said, strict=True)), "hosts": hosts} for said, hosts in verdicts],
        "gate": asdict(told.gate),
        "groups": [
            {"definition": group.definition, "apps": group.apps, "hosts": hosts}
            for group, hosts in fleet.survey.groups.items()
        ],
    }


def _host(host: FleetHost, outliers: Iterable[Outlier]) -> dict[str, Any]:
    return {
        **{name: getattr(host, name) for name in _HOST},
        "apps": host.apps,
        "settings": {name: asdict(setting) for name, setting in host.settings.items()},
        "measures": {name: asdict(measure) for name, measure in host.measures.items()},
        "outliers": list(map(_outlier, outliers)),
    }


def _outlier(one: Outlier) -> dict[str, Any]:
    return {
        "name": one.name, "title": one.title, "value": one.value, "unit": one.unit, "window": one.window,
        "score": one.score, "group": one.group.definition, "hosts": one.size,
        "distribution": _distribution(one.distribution),
    }  # fmt: skip


def _distribution(group: Numbers | Counts) -> dict[str, Any]:
    if isinstance(group, Counts):
        counts = [{"value": value, "hosts": hosts} for value, hosts in group.counts]
        return {"n": group.n, "counts": counts, "others": group.others}
    return {name: getattr(group, name) for name in ("n", "least", "lower", "median", "upper", "most")}


def _history(one: History) -> dict[str, Any]:
    return {
        "name": one.name, "bundles": one.bundles, "ordered": one.ordered, "more": one.more,
        "changes": [asdict(change) for change in one.changes],
        "differences": [
            {"name": d.name, "counts": [{"value": value, "bundles": count} for value, count in d.counts]}
            for d in one.differences
        ],
        "far": list(map(_far, one.far)),
    }  # fmt: skip


def _far(one: Far) -> dict[str, Any]:
    return {
        "name": one.name, "title": one.title, "value": one.value, "unit": one.unit, "window": one.window,
        "score": one.score, "seen": asdict(one.seen), "distribution": _distribution(one.distribution),
    }  # fmt: skip
