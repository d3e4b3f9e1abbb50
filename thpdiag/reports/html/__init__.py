"""The result document as one HTML page: nothing fetched, no script, the same bytes for the same document.

Every string of the document passes `visible` and then Jinja's escaping; in attributes stand our own words and numbers
only. The page carries the document itself as JSON, so that `from_page` gets it back.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from thpdiag.errors import InputError
from thpdiag.reports import confidence, recordings, verdict
from thpdiag.reports.html.rules import groups
from thpdiag.reports.html.sparkline import drawings
from thpdiag.reports.html.stacks import hottest
from thpdiag.reports.json import compact
from thpdiag.reports.quantity import duration, moment, percent, quantity
from thpdiag.reports.remedy_text import checked_before, restart
from thpdiag.reports.settings import effect, next_boot
from thpdiag.reports.visible import lines, prose

FORMAT = "html"
_DATA_BEGIN = '<script type="application/json" id="result">'
_DATA_END = "</script>"


def render(document: Mapping[str, Any]) -> str:
    style = files(__name__).joinpath("style.css").read_text(encoding="utf-8")
    return (
        _environment()
        .get_template("page.html")
        .render(
            hosts=verdict.hosts(document),
            style=Markup(style),
            policy=_policy(style),
            data=_data(document),
        )
    )


def from_page(page: str) -> dict[str, Any]:
    """The result document that a page of `render` carries; a page without one is a mistake of the user."""
    data, found, _ = page.partition(_DATA_BEGIN)[2].partition(_DATA_END)
    if not found:
        raise InputError("this page carries no thpdiag result")
    try:
        document = json.loads(data)
    except ValueError as error:
        raise InputError(f"the thpdiag result in this page is damaged: {error}") from None
    if not isinstance(document, dict):
        raise InputError("the thpdiag result in this page is damaged: it is no object")
    return document


def _policy(style: str) -> str:
    """A content security policy under which nothing but our own style has an effect."""
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _data(document: Mapping[str, Any]) -> Markup:
    text = compact(document).replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")
    return Markup(_DATA_BEGIN + text + _DATA_END)


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
