"""Sizes and durations as people write them in settings: `2 GiB`, `14 d`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from thpdiag.errors import UsageError

BYTES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
        "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
    }
)  # fmt: skip
SECONDS: Final[Mapping[str, int]] = MappingProxyType({"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400})
SHAPE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*([A-Za-z]+)", re.ASCII)
MOST: Final = 1 << 62  # of bytes that any file system or database counts


def size(text: str) -> int:
    """Bytes; a unit is named, since `2` may be anything."""
    return int(_quantity(text, BYTES, "size", "2 GiB"))


def duration(text: str) -> float:
    """Seconds."""
    return _quantity(text, SECONDS, "time", "14 d")


def _quantity(text: str, units: Mapping[str, int], kind: str, like: str) -> float:
    shaped = SHAPE.fullmatch(text.strip())
    if shaped is None or shaped[2] not in units:
        raise UsageError(f"no {kind}: {text.strip()!r}; written like {like!r}, in {', '.join(units)}")
    found = float(shaped[1]) * units[shaped[2]]
    if not 0 < found <= MOST:
        raise UsageError(f"a {kind} of {text.strip()} makes no sense here")
    return found
