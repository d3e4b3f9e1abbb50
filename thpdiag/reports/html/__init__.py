"""The result document as one HTML page: nothing fetched, complete without script, the same bytes for the same document.

Every string of the document passes `visible` and then Jinja's escaping; in attributes stand our own words and numbers
only. The page carries the document itself, so that `from_page` gets it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import BaseLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from thpdiag.reports import confidence, recordings, verdict
from thpdiag.reports.charts.free_blocks import histogram, large
from thpdiag.reports.charts.panels import episodes, panels
from thpdiag.reports.html.embedded import embedded
from thpdiag.reports.html.rules import groups, tree
from thpdiag.reports.html.script import policy, script, style
from thpdiag.reports.html.stacks import hottest, shown
from thpdiag.reports.located import accepted
from thpdiag.reports.presentation import PLAIN, Presentation
from thpdiag.reports.quantity import duration, moment, percent, quantity, span
from thpdiag.reports.remedy_text import checked_before, restart
from thpdiag.reports.settings import effect, next_boot
from thpdiag.reports.visible import lines, prose

FORMAT = "html"


def render(document: Mapping[str, Any], _presentation: Presentation = PLAIN) -> str:
    return (
        _environment()
        .get_template("page.html")
        .render(
            hosts=verdict.hosts(document),
            style=Markup(style()),
            script=Markup(script()),
            policy=policy(),
            data=embedded(document),
        )
    )


def _shown(value: object) -> object:
    """What an expression of a template prints: strings made visible, nothing for None."""
    if isinstance(value, Markup):
        return value
    return prose(value) if isinstance(value, str) else "" if value is None else value


def _command(command: str) -> Markup:
    """A command with its line ends."""
    return escape("\n".join(lines(command)))


@cache
def _environment() -> Environment:
    return environment(PackageLoader(__name__, "."))


def environment(loader: BaseLoader) -> Environment:
    """What all our pages are made with: every string made visible and escaped, the words that templates need."""
    made = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {
        "command": _command, "duration": duration, "effect": effect, "next_boot": next_boot, "percent": percent,
        "quantity": quantity,
    }  # fmt: skip
    made.globals |= {
        "accepted": accepted,
        "confidence": confidence,
        "episodes": episodes,
        "groups": groups,
        "histogram": histogram,
        "hottest": hottest,
        "large": large,
        "moment": moment,
        "panels": panels,
        "recordings": recordings,
        "restart": restart,
        "shown": shown,
        "span": span,
        "tree": tree,
        "checked_before": checked_before,
        "verdict": verdict,
    }
    return made
