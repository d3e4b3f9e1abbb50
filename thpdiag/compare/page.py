"""A comparison as one HTML page: nothing fetched, no script, the same bytes for the same document.

It has the looks and the pieces of the report's page; the comparison itself is embedded as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from thpdiag.compare.words import (
    HEADINGS,
    changed_heading,
    effect,
    findings_heading,
    remains,
    sample_words,
    status_word,
)
from thpdiag.reports.charts.panels import panels
from thpdiag.reports.charts.plots import drawable
from thpdiag.reports.html import environment
from thpdiag.reports.html.embedded import embedded
from thpdiag.reports.html.script import policy_for, style
from thpdiag.reports.presentation import PLAIN, Presentation
from thpdiag.reports.verdict import REDACTED

_COLOURS = {"fixed": "nothing_found", "improved": "low", "worse": "high", "new": "high"}
_SERIES = {"entity": "", "means": None, "unit": "", "source": "", "clock": None, "panel": None}
_ACTION = {"t": None, "clock": None, "member": None, "line": None}


def render(comparison: Mapping[str, Any], _presentation: Presentation = PLAIN) -> str:
    page = _environment().get_template("page.html")
    return page.render(
        hosts=comparison["hosts"],
        alone=comparison["alone"],
        redacted=REDACTED if comparison.get("redacted") else "",
        style=Markup(_looks()),
        policy=policy(),
        data=embedded(comparison),
    )


@cache
def policy() -> str:
    """The policy of a comparison's page, which has no script."""
    return policy_for(_looks())


def _panels(timelines: Mapping[str, Any], side: str, prefix: str) -> Markup:
    """The panels of one side in the scale of both; they need each key that a result document has."""
    timeline = timelines[side]
    series = [_SERIES | dict(one) for one in timeline["series"]]
    actions = [_ACTION | dict(one) for one in timeline["actions"]]
    return panels({"series": series, "episodes": [], "actions": actions}, prefix, _highs(timelines))


def _highs(timelines: Mapping[str, Any]) -> dict[str, float]:
    """The largest value of each metric on either side."""
    highs: dict[str, float] = {}
    for one in (one for side in ("before", "after") for one in timelines[side]["series"]):
        found = [row[2] for row in one["points"] if drawable(row[2])]
        highs[one["metric"]] = max([highs.get(one["metric"], 0.0), *found])
    return highs


@cache
def _looks() -> str:
    return style() + files(__package__).joinpath("page.css").read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    loader = ChoiceLoader([PackageLoader(__package__, "."), PackageLoader("thpdiag.reports.html", ".")])
    made = environment(loader)
    made.globals |= {
        "changed_heading": changed_heading,
        "colours": _COLOURS,
        "effect": effect,
        "findings_heading": findings_heading,
        "headings": HEADINGS,
        "panels": _panels,
        "remains": remains,
        "sample_words": sample_words,
        "status_word": status_word,
    }
    return made
