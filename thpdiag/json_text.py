"""A document as JSON in one line: sorted keys, ASCII only, the same bytes for the same document.

NaN and the infinities are no JSON and become null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def compact(document: Mapping[str, Any]) -> str:
    """Without white space, for what is stored or embedded."""
    try:
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):  # a mapping that is no dict, a value that is no number
        return json.dumps(plain(document), sort_keys=True, separators=(",", ":"), allow_nan=False)


def plain(value: object) -> object:
    """The same of nothing but what JSON has."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
