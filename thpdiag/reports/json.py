"""The result document as JSON: sorted keys, ASCII only, the same bytes for the same document.

Whatever is not printable ASCII is written as \\uXXXX, so that no hostile name acts on a terminal. NaN and the
infinities are no JSON and become null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from thpdiag.reports.presentation import PLAIN, Presentation

FORMAT = "json"


def render(document: Mapping[str, Any], _presentation: Presentation = PLAIN) -> str:
    return written(document)


def written(value: object) -> str:
    """Any value in this form, for the formats that are JSON of another shape."""
    return json.dumps(_plain(value), sort_keys=True, indent=1, allow_nan=False) + "\n"


def compact(document: Mapping[str, Any]) -> str:
    """The same without white space, for embedding."""
    try:
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):  # a mapping that is no dict, a value that is no number
        return json.dumps(_plain(document), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
