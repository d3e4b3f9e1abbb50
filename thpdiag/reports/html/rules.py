"""All rules, grouped by what they said, and their conditions as trees, which are a third of a page: written tersely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from thpdiag.reports import verdict
from thpdiag.reports.quantity import quantity
from thpdiag.reports.visible import prose

_GROUPS = (
    ("Matched", ("fires",)),
    ("Unknown: data is missing", ("unknown",)),
    ("Not matched", ("silent", "excluded")),
)
_EXTRA = (("findings", "fires"), ("unknown", "unknown"), ("ruled_out", "silent"))


@dataclass(frozen=True, slots=True)
class Group:
    """Rules with the same kind of outcome. `open` groups are unfolded in the page, trees of `matched` ones on paper."""

    title: str
    rules: tuple[Mapping[str, Any], ...]
    open: bool
    matched: bool


def groups(document: Mapping[str, Any]) -> list[Group]:
    """The three groups; a rule that only a finding or an unknown names is in them too."""
    rules = [*document["rules"], *_unlisted(document)]
    unknown = {entry["rule"]: entry for entry in document["unknown"]}
    told = [{**rule, "needs": unknown.get(rule["id"])} for rule in rules]
    return [
        Group(
            title, tuple(rule for rule in told if rule["outcome"] in outcomes), "silent" not in outcomes,
            "fires" in outcomes,
        )
        for title, outcomes in _GROUPS
    ]  # fmt: skip


def _unlisted(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = {rule["id"] for rule in document["rules"]}
    more: dict[str, dict[str, Any]] = {}
    for key, outcome in _EXTRA:
        for entry in document[key]:
            rule = entry["rule"]
            if rule not in listed and rule not in more:
                more[rule] = {"id": rule, "outcome": outcome, "title": verdict.title(document, rule), "tree": None}
    return list(more.values())


def tree(node: Mapping[str, Any]) -> Markup:
    """A condition with its value and what it would have needed, and its parts below it."""
    return Markup(_tree(node))


def _tree(node: Mapping[str, Any]) -> str:
    value = escape(prose(node["value"] or "unknown"))
    text = f" {escape(prose(node['text']))}" if node["text"] else ""
    needed = node["needed"]
    wanted = "" if needed is None or needed == "" else f" <em>(needed: {escape(prose(quantity(needed)))})</em>"
    parts = "".join(map(_tree, node["children"]))
    below = f"<ul>{parts}</ul>" if parts else ""
    check = escape(prose(node["expr"] or ""))
    return f'<li><i class="{value}">{value}</i> <code>{check}</code>{text}{wanted}{below}</li>\n'
