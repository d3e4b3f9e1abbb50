"""The script of a page: its parts joined in one function, and the policy under which nothing else runs.

What it adds is convenience: values under the pointer, a closer look, search. Without it everything is visible.
"""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files

PARTS = ("result.js", "words.js", "panels.js", "icicle.js")


@cache
def script() -> str:
    """All parts, in an order in which each finds what it needs, in a scope of their own."""
    texts = (files(__package__).joinpath("script", part).read_text(encoding="utf-8") for part in PARTS)
    return '(function () {\n"use strict";\n' + "".join(texts) + "})();\n"


@cache
def style() -> str:
    return files(__package__).joinpath("style.css").read_text(encoding="utf-8")


@cache
def policy() -> str:
    """A content security policy under which only our own style and script have an effect."""
    return (
        f"default-src 'none'; script-src '{digest(script())}'; style-src '{digest(style())}'; "
        "base-uri 'none'; form-action 'none'"
    )


def digest(text: str) -> str:
    """A text as a policy names it."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
