"""The JSON Schema of the comparison document, `comparison.schema.json` beside this file (draft 2020-12)."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def schema() -> dict[str, Any]:
    """The schema as a fresh dict."""
    text = files("thpdiag.compare").joinpath("comparison.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded
