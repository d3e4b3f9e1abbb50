"""Numbers with units as people write them in rules: `30 %`, `2 /s`, `64 MiB`, `30 s`, `1 min`, `0.5`.

`for:` of a check: for how long a condition must hold.
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
MILLION = 1e6  # from here on people write the word, not the digits
HUGE = 1e18  # more than any counter or memory of a host: shown as it is, without a unit of its own
_QUANTITY = re.compile(r"(?P<number>[-+]?\d+(?:\.\d+)?)\s*(?P<unit>[%A-Za-z/]*)", re.ASCII)


def parse_quantity(text: str | float) -> float:
    """The value in base units (ratio, seconds, bytes, per second). ValueError if it is none."""
    if isinstance(text, (int, float)):
        return float(text)
    found = _QUANTITY.fullmatch(text.strip())
    if not found or found["unit"] not in UNITS:
        raise ValueError(f"'{text}' is not a quantity; write a number with one of {', '.join(u for u in UNITS if u)}")
    return float(found["number"]) * UNITS[found["unit"]]


def split_unit(text: str | float) -> tuple[float, str]:
    """The value in base units, and the unit as it is written. ValueError if it is none."""
    found = None if isinstance(text, int | float) else _QUANTITY.fullmatch(text.strip())
    return parse_quantity(text), found["unit"] if found else ""


def format_bound(text: str | float) -> str:
    """A quantity of a rule as the figures beside it are written: `51,200/s` for `51200 /s`."""
    found = None if isinstance(text, int | float) else _QUANTITY.fullmatch(text.strip())
    number, unit = (found["number"], found["unit"]) if found else (text, "")
    return f"{float(number):,.12g}{'' if unit.startswith('/') else ' '}{unit}".rstrip()


def units_like(unit: str) -> tuple[str, ...]:
    """The units of the same kind, this one among them: a share is no number of pages, and 30 is not 30 %."""
    return next((kind for kind in _KINDS if unit in kind), (unit,))


def format_quantity(value: float, unit: str) -> str:
    """A value of the vocabulary's unit as people read it."""
    if not math.isfinite(value):
        return "unbounded"
    if abs(value) >= HUGE:
        return f"{value:.3g} {unit}".rstrip()
    if unit == "ratio":
        return _percent(100 * value)
    if unit.startswith("bytes"):
        return _bytes(value) + unit.removeprefix("bytes")
    if unit == "seconds":
        return _seconds(value)
    if unit == "1/s":
        return f"{_millions(value) if abs(value) >= MILLION else _format_number(value)}/s"
    return f"{_format_number(value)} {unit}" if unit not in ("", "1") else _format_number(value)


def _percent(value: float) -> str:
    """With as many digits as it takes that what is there is not 0 %, and what is not all is not 100 %."""
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


def _format_number(value: float) -> str:
    """A count is told to the last digit up to ten million; of a figure that is none three or four digits tell."""
    if abs(value) >= (10 * MILLION if value == int(value) else MILLION):
        return _millions(value)
    if value == int(value):
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"


def _millions(value: float) -> str:
    """68.8 million, 1.35 million."""
    step, word = next(((s, w) for s, w in ((1e12, "trillion"), (1e9, "billion")) if abs(value) >= s), (1e6, "million"))
    return f"{value / step:,.{2 if abs(value) < 10 * step else 1 if abs(value) < 100 * step else 0}f} {word}"


_FOR = re.compile(r"(?P<samples>\d+) samples?|(?P<share>\d+(?:\.\d+)?) ?% of samples|(?P<time>.+)")


class Duration(NamedTuple):
    """How long a condition must hold: `seconds`, `samples` or `share` of all samples."""

    seconds: float | None = None
    samples: int | None = None
    share: float | None = None


def parse_duration(text: str | None) -> Duration:
    """Read `30 s`, `3 samples`, `50 % of samples`; nothing means one sample."""
    if text is None:
        return Duration(samples=1)
    found = _FOR.fullmatch(text.strip())
    if found and found["samples"]:
        return Duration(samples=int(found["samples"]))
    if found and found["share"]:
        return Duration(share=float(found["share"]) / 100)
    return Duration(seconds=parse_quantity(text))
