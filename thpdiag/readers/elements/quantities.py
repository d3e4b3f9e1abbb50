"""Numbers as command line tools print them: decimal comma, unit suffixes, truncation.

What a tool printed rounded or cut carries the size of the last printed digit (`resolution`), so that a rule can ask
for an effect that is larger than it. Negative, huge and broken numbers are None: the caller says so in a Problem.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

LARGEST = 2.0**60  # base units; more than any host has bytes
LONGEST = 32  # characters of a number
RECENT = 4096  # texts of numbers that are kept
BINARY = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50, "e": 2**60}
DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}

_NUMBER = re.compile(r"(\d{1,18})(?:[.,](\d{1,9}))?", re.ASCII)
_SUFFIXED = re.compile(r"(\d{1,18})(?:[.,](\d{1,9}))?(?:([A-Za-z])(?:i[Bb]?|[Bb])?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in base units and the quantum it was printed in."""

    value: float
    resolution: float


def number(text: str) -> float | None:
    """A plain number that is not negative, with decimal point or comma."""
    found = _NUMBER.fullmatch(text)
    if not found:
        return None
    value = float(f"{found[1]}.{found[2] or 0}")
    return value if value <= LARGEST else None


@lru_cache(RECENT)
def _in_units(text: str, unit: float) -> Quantity | None:
    """With binary suffixes; lists say the same sizes again and again."""
    return _read(text, unit, BINARY)


def quantity(text: str, unit: float = 1, suffixes: dict[str, int] = BINARY) -> Quantity | None:
    """A number with an optional suffix (`1.2g`, `12,3m`, `564K`); without one it is in `unit`.

    A suffix is absolute: `1.2g` is 1.2 GiB whatever `unit` is.
    """
    if len(text) > LONGEST:
        return None
    return _in_units(text, unit) if suffixes is BINARY else _read(text, unit, suffixes)


def _read(text: str, unit: float, suffixes: dict[str, int]) -> Quantity | None:
    found = _SUFFIXED.fullmatch(text)
    if not found:
        return None
    suffix = (found[3] or "").lower()
    scale = suffixes.get(suffix) if suffix else unit
    if scale is None:
        return None
    value = float(f"{found[1]}.{found[2] or 0}") * scale
    return Quantity(value, scale / 10 ** len(found[2] or "")) if value <= LARGEST else None


def share(text: str) -> float | None:
    """A percentage as a ratio; a little above 100 is rounding of the tool and becomes 1."""
    return _share(text) if len(text) <= LONGEST else None


@lru_cache(4 * RECENT)  # there are ten thousand with two decimals
def _share(text: str) -> float | None:
    value = number(text.rstrip("%"))
    return None if value is None or value > 101 else min(value / 100, 1.0)
