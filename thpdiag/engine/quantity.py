"""Quantities with units as written in rules: `30 %`, `2 /s`, `64 MiB`, `30 s`, `1 min`, `0.5`.

Also the durations of `for:` in checks: how long a condition must hold.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

UNITS: dict[str, float] = {
    "": 1.0, "%": 0.01, "/s": 1.0, "/min": 1 / 60, "/h": 1 / 3600,
    "s": 1.0, "ms": 0.001, "min": 60.0, "h": 3600.0, "d": 86400.0,
    "B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40,
    "MiB/s": 2.0**20, "KiB/s": 2.0**10, "GiB/s": 2.0**30, "MiB/min": 2.0**20 / 60, "MiB/h": 2.0**20 / 3600,
    "samples": 1.0, "pages": 1.0, "blocks": 1.0,
}  # fmt: skip
_KINDS = (("%",), ("/s", "/min", "/h"), ("s", "ms", "min", "h", "d"), ("B", "KiB", "MiB", "GiB", "TiB"),
          ("KiB/s", "MiB/s", "GiB/s", "MiB/min", "MiB/h"))  # fmt: skip
MILLION = 1e6  # from here on written as a word
MAX_SCALED = 1e18  # above every counter or memory of a host: printed unscaled
_QUANTITY = re.compile(r"(?P<number>[-+]?\d+(?:\.\d+)?)\s*(?P<unit>[%A-Za-z/]*)", re.ASCII)


def parse_quantity(text: str | float) -> float:
    """Return the value in base units (ratio, seconds, bytes, per second). Raise ValueError for any other text."""
    if isinstance(text, (int, float)):
        return float(text)
    match = _QUANTITY.fullmatch(text.strip())
    if not match or match["unit"] not in UNITS:
        raise ValueError(f"'{text}' is not a quantity; write a number with one of {', '.join(u for u in UNITS if u)}")
    return float(match["number"]) * UNITS[match["unit"]]


def split_unit(text: str | float) -> tuple[float, str]:
    """Return the value in base units and the unit as written. Raise ValueError if the text is not a quantity."""
    match = None if isinstance(text, int | float) else _QUANTITY.fullmatch(text.strip())
    return parse_quantity(text), match["unit"] if match else ""


def format_bound(text: str | float) -> str:
    """Return a quantity of a rule in the format of measured values: `51,200/s` for `51200 /s`."""
    match = None if isinstance(text, int | float) else _QUANTITY.fullmatch(text.strip())
    number, unit = (match["number"], match["unit"]) if match else (text, "")
    return f"{float(number):,.12g}{'' if unit.startswith('/') else ' '}{unit}".rstrip()


def units_like(unit: str) -> tuple[str, ...]:
    """Return the units of the same kind, including the unit itself. A number without a unit is never a percentage."""
    return next((kind for kind in _KINDS if unit in kind), (unit,))


def format_quantity(value: float, unit: str) -> str:
    """Return a value in a unit of the vocabulary as text for people."""
    if not math.isfinite(value):
        return "unbounded"
    if abs(value) >= MAX_SCALED:
        return f"{value:.3g} {unit}".rstrip()
    if unit == "ratio":
        return _percent(100 * value)
    if unit.startswith("bytes"):
        return _bytes(value) + unit.removeprefix("bytes")
    if unit == "seconds":
        return _seconds(value)
    if unit == "1/s":
        return f"{_number_in_words(value) if abs(value) >= MILLION else _scale_number(value)}/s"
    return f"{_scale_number(value)} {unit}" if unit not in ("", "1") else _scale_number(value)


def _percent(value: float) -> str:
    """Enough digits that a positive value is not shown as 0 % and a value below one not as 100 %."""
    if 0 < value < 0.05:
        return f"{value:.2f} %" if value >= 0.005 else "less than 0.01 %"
    return "100 %" if (text := f"{value:.1f}") == "100.0" else f"{text} %"


def _bytes(value: float) -> str:
    for name in ("TiB", "GiB", "MiB", "KiB"):
        if abs(value) >= UNITS[name]:
            return f"{value / UNITS[name]:.1f} {name}"
    return f"{value:.0f} B"


def _seconds(value: float) -> str:
    if abs(value) >= 2 * 86400:
        return f"{value / 86400:.0f} days"
    if abs(value) >= 7200:
        return f"{value / 3600:.1f} h"
    return f"{value:.0f} s" if abs(value) >= 10 else f"{value:.2g} s"


def _scale_number(value: float) -> str:
    """Counts below ten million have all digits; other numbers have three or four significant digits."""
    if abs(value) >= (10 * MILLION if value == int(value) else MILLION):
        return _number_in_words(value)
    if value == int(value):
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _number_in_words(value: float) -> str:
    """68.8 million, 1.35 million."""
    step, word = next(((s, w) for s, w in ((1e12, "trillion"), (1e9, "billion")) if abs(value) >= s), (1e6, "million"))
    return f"{value / step:,.{2 if abs(value) < 10 * step else 1 if abs(value) < 100 * step else 0}f} {word}"


_DURATION = re.compile(r"(?P<samples>\d+) samples?|(?P<share>\d+(?:\.\d+)?) ?% of samples|(?P<time>.+)")


class Duration(NamedTuple):
    """How long a condition must hold: `seconds`, `samples` or `share` of all samples."""

    seconds: float | None = None
    samples: int | None = None
    share: float | None = None


def parse_duration(text: str | None) -> Duration:
    """Parse `30 s`, `3 samples` or `50 % of samples`; None means one sample."""
    if text is None:
        return Duration(samples=1)
    match = _DURATION.fullmatch(text.strip())
    if match and match["samples"]:
        return Duration(samples=int(match["samples"]))
    if match and match["share"]:
        return Duration(share=float(match["share"]) / 100)
    return Duration(seconds=parse_quantity(text))
