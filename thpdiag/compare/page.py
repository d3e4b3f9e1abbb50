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
from thpdiag.reports.html import environment
from thpdiag.reports.html.embedded import embedded
from thpdiag.reports.html.script import digest, style
from thpdiag.reports.presentation import PLAIN, Presentation

_COLOURS = {"fixed": "nothing_found", "improved": "low", "worse": "high", "new": "high"}
_SERIES = {"entity": "", "means": None, "unit": "", "source": "", "clock": None, "panel": None}
_ACTION = {"t": None, "clock": None, "member": None, "line": None}


def render(comparison: Mapping[str, Any], _presentation: Presentation = PLAIN) -> str:
    looks = style() + _own_style()
    page = _environment().get_template("page.html")
    return page.render(
        hosts=comparison["hosts"],
        alone=comparison["alone"],
        style=Markup(looks),
        policy=f"default-src 'none'; style-src '{digest(looks)}'; base-uri 'none'; form-action 'none'",
        data=embedded(comparison),
    )


def _panels(timeline: Mapping[str, Any], prefix: str) -> Markup:
    """The panels of one side; they need each key that a result document has."""
    series = [_SERIES | dict(one) for one in timeline["series"]]
    actions = [_ACTION | dict(one) for one in timeline["actions"]]
    return panels({"series": series, "episodes": [], "actions": actions}, prefix)


@cache
def _own_style() -> str:
    return files(__package__).joinpath("page.css").read_text(encoding="utf-8")


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
