"""What was changed between two documents: settings with how they are known, kernel, what the next boot will bring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thpdiag.compare.sides import SWITCHES, Pair
from thpdiag.reports.quantity import duration

_FACTS = (("kernel", "kernel"), ("os", "operating system"), ("platform", "platform"), ("apps", "applications"))


def settings(pair: Pair) -> list[dict[str, Any]]:
    """Settings that differ, those of huge pages first; also what only one side knows of the two policies."""
    differing = {name for name, _, _ in pair.differing}
    before, after = (one["host"]["settings"] for one in (pair.before, pair.after))
    return [
        {
            "name": name,
            "before": _value(before.get(name)),
            "after": _value(after.get(name)),
            "lasting": _lasting(after.get(name)),
        }
        for name in sorted({*before, *after}, key=lambda name: (not name.startswith("thp."), name))
        if name in differing or (name in SWITCHES and _said(before, name) != _said(after, name))
    ]


def _said(settings: Mapping[str, Any], name: str) -> object:
    """The value, be it known or assumed."""
    return settings[name]["value"] if name in settings else None


def _value(setting: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if setting is None:
        return None
    return {key: setting[key] for key in ("value", "provenance", "member", "line")}


def _lasting(setting: Mapping[str, Any] | None) -> str:
    """What the next boot will make of the value; empty if nothing tells."""
    boot = setting["next_boot"] if setting else None
    if not setting or not boot or boot["value"] is None:
        return ""
    if boot["value"] == setting["value"]:
        return "also after the next boot" if not boot["assumed"] else ""
    why = "the default, as nothing in the input sets it" if boot["assumed"] else f"from {boot['from']}"
    return f"lost at the next boot: {boot['value']} then ({why})"


def facts(pair: Pair) -> list[dict[str, Any]]:
    """What the host is, where it differs; the uptimes on both sides if known."""
    rows: list[dict[str, Any]] = []
    for key, name in _FACTS:
        old, new = (_words(one["host"][key]) for one in (pair.before, pair.after))
        if not pair.alike(old, new):
            rows.append({"name": name, "before": old or None, "after": new or None})
    uptimes = [one["host"]["uptime"] for one in (pair.before, pair.after)]
    if any(value is not None for value in uptimes):
        lasted = [None if value is None else duration(float(value)) for value in uptimes]
        if lasted[0] != lasted[1]:
            rows.append({"name": "up for", "before": lasted[0], "after": lasted[1]})
    return rows


def _words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")
