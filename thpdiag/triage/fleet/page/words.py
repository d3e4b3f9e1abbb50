"""Strings of a customer as letters of a page, and the words for verdicts.

Whatever a host calls itself passes `told` before it becomes part of the page: made visible, then escaped. Attributes
have our own words and numbers only; the one exception is the address of a host's page, which is quoted.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from markupsafe import escape

from thpdiag.reports.quantity import quantity
from thpdiag.reports.severities import SEVERITIES
from thpdiag.reports.visible import prose
from thpdiag.triage.fleet.distribution import Numbers

FOUND: Final = "found"
VERDICTS: Final = MappingProxyType(
    {
        FOUND: "found",
        "cannot_tell": "cannot tell",
        "nothing_found": "nothing found",
        "not_applicable": "not applicable",
    }
)  # in the order in which somebody looks at hosts
GRAVEST: Final = tuple(reversed(SEVERITIES))
CONFIDENCES: Final = ("confirmed", "likely", "possible")
UNKNOWN: Final = "unknown"
NONE: Final = "–"  # there can be none, which is not the same as unknown


@lru_cache(maxsize=512)
def shown(text: str | None) -> str:
    """A text on one line with nothing hidden in it; nothing for None. Kernels and mechanisms are the same all over."""
    return prose(text) if text else ""


def told(text: str | None) -> str:
    """The same as HTML."""
    return str(escape(shown(text)))


def verdict(status: str | None) -> str:
    """A verdict in words; one that this version does not know is unknown."""
    return VERDICTS.get(status or "", UNKNOWN)


def count(number: int, one: str, many: str = "") -> str:
    """`1 bundle`, `2,000 bundles`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def listed(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return ", ".join(words[:-1]) + f" and {words[-1]}" if len(words) > 1 else "".join(words)


def address(page: str) -> str:
    """The address of a file beside the page as an attribute: a name with a colon leads to no other scheme."""
    return quote(page.encode("utf-8", "surrogatepass"), safe="/")


def five_numbers(group: Numbers, unit: str | None) -> str:
    """How numbers lie."""
    five = (group.least, group.lower, group.median, group.upper, group.most)
    least, lower, median, upper, most = (quantity(number, unit) for number in five)
    return f"median {median}, half of them {lower} to {upper}, all {least} to {most}"
