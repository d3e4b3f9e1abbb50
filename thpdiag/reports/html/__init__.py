"""The result document as one HTML page: nothing fetched, no script, the same bytes for the same document.

Every string of the document passes `visible` and then Jinja's escaping; in attributes stand our own words and numbers
only. The page carries the document itself, so that `from_page` gets it back.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from thpdiag.reports import confidence, recordings, verdict
from thpdiag.reports.html.embedded import embedded
from thpdiag.reports.html.rules import groups
from thpdiag.reports.html.sparkline import drawings
from thpdiag.reports.html.stacks import hottest
from thpdiag.reports.presentation import PLAIN, Presentation
from thpdiag.reports.quantity import duration, moment, percent, quantity
from thpdiag.reports.remedy_text import checked_before, restart
from thpdiag.reports.settings import effect, next_boot
from thpdiag.reports.visible import lines, prose

FORMAT = "html"


def render(document: Mapping[str, Any], _presentation: Presentation = PLAIN) -> str:
    style = files(__name__).joinpath("style.css").read_text(encoding="utf-8")
    return (
        _environment()
        .get_template("page.html")
        .render(
            hosts=verdict.hosts(document),
            style=Markup(style),
            policy=_policy(style),
            data=embedded(document),
        )
    )


def _policy(style: str) -> str:
    """A content security policy under which nothing but our own style has an effect."""
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


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
    environment = Environment(
        loader=PackageLoader(__name__, "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "command": _command, "duration": duration, "effect": effect, "next_boot": next_boot, "percent": percent,
        "quantity": quantity,
    }  # fmt: skip
    environment.globals |= {
        "confidence": confidence,
        "drawings": drawings,
        "groups": groups,
        "hottest": hottest,
        "moment": moment,
        "recordings": recordings,
        "restart": restart,
        "checked_before": checked_before,
        "verdict": verdict,
    }
    return environment
