"""Words that the text and the page of a comparison have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thpdiag.reports.quantity import quantity

HEADINGS = {
    "moved": "Figures that changed beyond noise and load",
    "still": "Figures that did not change beyond noise and load",
}
_CHANGED = {"different": "What differs in the settings"}
_BECAME = {"different": "Which finding is on which side"}
_STATUS = {"cannot_tell": "cannot tell"}
_OF_TWO_HOSTS = {
    "fixed": "before only", "improved": "after less", "unchanged": "both", "worse": "after more", "new": "after only",
    "cannot_tell": "cannot tell",
}  # fmt: skip


def changed_heading(same: str) -> str:
    return _CHANGED.get(same, "What was changed")


def findings_heading(same: str) -> str:
    return _BECAME.get(same, "What became of each finding")


def status_word(status: str, same: str) -> str:
    """What became of a finding; of two hosts, on which side it is."""
    return _OF_TWO_HOSTS[status] if same == "different" else _STATUS.get(status, status)


def remains(host: Mapping[str, Any]) -> str:
    """What AFTER still or newly has beside the finding that the answer is about."""
    return "; ".join(_left(one, host["same"]) for one in host["answer"]["remains"])


def _left(one: Mapping[str, Any], same: str) -> str:
    weight = ", ".join(filter(None, [one["severity"], status_word(one["status"], same)]))
    return f"{one['title'] or one['rule']} ({weight})"


def effect(row: Mapping[str, Any]) -> str:
    """How much a figure changed: by which factor and by how much."""
    if row["difference"] == 0:
        return "the same"
    sign = "+" if row["difference"] > 0 else "-"
    apart = sign + quantity(abs(row["difference"]), row["unit"]).replace(" %", " percentage points")
    ratio = row["ratio"]
    if ratio is None:
        times = "from nothing"
    elif ratio == 0:
        times = "to nothing"
    else:
        times = f"{ratio:.3g} times" if ratio >= 0.01 else "less than 0.01 times"
    why = ", within the noise of its samples" if row["change"] == "noise" else ""
    if row["change"] == "same" and row.get("alone") in ("up", "down"):  # comparisons of older versions do not tell
        why = ", which the change of the load may explain"
    return f"{times}, {apart}{why}"


def sample_words(value: Mapping[str, Any], unit: str) -> str:
    """Of how many samples, and between which ends."""
    if value["samples"] is None:
        return ""
    told = f"{value['samples']} {'sample' if value['samples'] == 1 else 'samples'}"
    if value["min"] is None or value["max"] is None:
        return told
    return f"{told}, {quantity(value['min'], unit)} to {quantity(value['max'], unit)}"
