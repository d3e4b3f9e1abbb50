"""Settings in plain words, for the text and the page: what was said elsewhere, what will hold, what disagrees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from thpdiag.reports import verdict
from thpdiag.reports.quantity import quantity

Setting = Mapping[str, Any]


def contradictions(settings: Mapping[str, Setting]) -> list[tuple[str, str]]:
    """Each contradiction with its setting and place, the policies for all programs first."""
    order = sorted(settings, key=lambda name: (name not in ("thp.enabled", "thp.defrag"), name))
    return [
        (f"{name}: {told['text']}", verdict.place(told)) for name in order for told in settings[name]["contradictions"]
    ]


def further(setting: Setting) -> Iterator[str]:
    """Lines below a setting; nothing where the input says no more than its value."""
    for told in setting["other_states"]:
        yield f"at another time: {quantity(told['value'])}{_at(told)}"
    for told in setting["said"]:
        yield f"{told['place']} says {quantity(told['value'])}{effect(told)}{_at(told)}"
    if boot := setting["next_boot"]:
        yield f"after the next boot: {next_boot(boot)}{_at(boot)}"
    for told in setting["contradictions"]:
        yield f"disagrees: {told['text']}{_at(told)}"


def effect(told: Setting) -> str:
    """Whether what a place says has an effect, where that is not plain."""
    if told["counts"]:
        return f", {told['why']}" if told["why"] else ""
    return f"; without effect: {told['why']}" if told["why"] else "; without effect"


def next_boot(boot: Setting) -> str:
    """What a setting will be, or why that cannot be told."""
    if boot["value"] is None:
        return f"cannot be told ({boot['from']})" if boot["from"] else "cannot be told"
    why = "nothing in the input sets it; assumed" if boot["assumed"] else f"from {boot['from']}"
    return f"{quantity(boot['value'])} ({why})"


def _at(told: Setting) -> str:
    place = verdict.place(told)
    return f" ({place})" if place else ""
