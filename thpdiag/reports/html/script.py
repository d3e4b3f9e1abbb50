"""The script of a page: its parts joined in one function, and the policy under which nothing else runs.

What it adds is convenience: values under the pointer, a closer look, search. Without it everything is visible.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from importlib.resources import files

PARTS = ("result.js", "words.js", "panels.js", "icicle.js")


@cache
def script() -> str:
    """All parts, in an order in which each finds what it needs, in a scope of their own."""
    return joined(files(__package__).joinpath("script", part).read_text(encoding="utf-8") for part in PARTS)


def joined(parts: Iterable[str]) -> str:
    """Parts of a script in one function, so that they share a scope and leave nothing outside of it."""
    return '(function () {\n"use strict";\n' + "".join(parts) + "})();\n"


@cache
def style() -> str:
    return files(__package__).joinpath("style.css").read_text(encoding="utf-8")


@cache
def policy() -> str:
    """The policy of a report's page."""
    return policy_for(style(), script())


def policy_for(looks: str, program: str = "") -> str:
    """A content security policy under which only this style, and this script if there is one, have an effect."""
    scripts = f"script-src '{digest(program)}'; " if program else ""
    return f"default-src 'none'; {scripts}style-src '{digest(looks)}'; base-uri 'none'; form-action 'none'"


def digest(text: str) -> str:
    """A text as a policy names it."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
