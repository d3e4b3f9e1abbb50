"""The rows of hosts and findings of a result document: what a fleet is grouped, counted and filtered by.

The document comes from a process that read what strangers sent. What does not have the form of the schema is left out
of the rows (the document is kept as it is), never a reason to lose the bundle.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from thpdiag.json_text import compact
from thpdiag.triage.store import free_memory
from thpdiag.triage.store.recorded import recorded

HOST: Final = (
    "name", "title", "os", "kernel", "era", "platform", "apps", "settings", "measures", "verdict", "rule", "mechanism",
    "severity", "confidence", "state", "sentence", "undecided", "recorded",
)  # fmt: skip
FINDING: Final = (
    "rule", "mechanism", "severity", "confidence", "role", "state", "entity", "fingerprint",
)  # fmt: skip

Cells = tuple[str | None, ...]
LONGEST_WINDOW: Final = 60


def hosts(document: Mapping[str, Any]) -> Iterator[tuple[Cells, list[Cells]]]:
    """Of each host its row (HOST) and those of its findings (FINDING); the host of the verdict on top comes first."""
    for one in _mappings(document.get("cases")) or [document]:
        yield _host(one), [_finding(finding) for finding in _mappings(one.get("findings"))]


def _host(document: Mapping[str, Any]) -> Cells:
    host, verdict = _mapping(document.get("host")), _mapping(document.get("verdict"))
    apps, undecided = host.get("apps"), document.get("unknown")
    said = (verdict.get(key) for key in ("status", "rule", "mechanism", "severity", "confidence", "state", "sentence"))
    return (
        _text(host.get("name")),
        _text(document.get("case")),
        *(_text(host.get(key)) for key in ("os", "kernel", "era", "platform")),
        compact_list([app for app in apps if isinstance(app, str)] if isinstance(apps, list) else []),
        compact({name: _valued(one, "provenance") for name, one in _mapping(host.get("settings")).items()}),
        compact(_measures(host)),
        *map(_text, said),
        str(len(undecided)) if isinstance(undecided, list | tuple) else None,
        recorded(document),
    )


def _measures(host: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the document, and what a fleet compares beside them."""
    found = {name: _measured(one) for name, one in _mapping(host.get("measures")).items()}
    unusable = free_memory.unusable(_mappings(host.get("free_blocks")))
    return found if unusable is None else {**found, free_memory.NAME: {"value": unusable, "unit": "ratio"}}


def _measured(one: object) -> dict[str, str | float | None]:
    """With the time that it is of, if the document tells it: `over 30 s`, `latest`."""
    window = _text(_mapping(one).get("window"))
    return _valued(one, "unit") | ({"window": window[:LONGEST_WINDOW]} if window else {})


def _finding(finding: Mapping[str, Any]) -> Cells:
    return tuple(_text(finding.get(key)) for key in FINDING)


def compact_list(items: list[str]) -> str:
    """A list of texts as a JSON text, whatever is in them."""
    return compact({"": items})[4:-1]


def _valued(one: object, beside: str) -> dict[str, str | float | None]:
    """A value with its unit, or with how it is known: an assumed setting is no measured one."""
    value = _mapping(one).get("value")
    if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
        value = None
    return {"value": value, beside: _text(_mapping(one).get(beside))}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []
