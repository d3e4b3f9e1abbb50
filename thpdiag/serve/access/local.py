"""Addresses on this server that come with a request: a path and a query, nothing that leads anywhere else."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

START: Final = "/"
MOST: Final = 2_000  # characters
# One slash, and no second one behind it, also not one of those that browsers read as a slash or skip on the way to it.
_LOCAL: Final = re.compile(r"/(?![/\\])[!-\[\]-~]*", re.ASCII)


def local(address: str, *, but: str = "") -> str:
    """The address if it is one here and not the page `but`; otherwise that of the start page."""
    is_local = len(address) <= MOST and _LOCAL.fullmatch(address) is not None
    return address if is_local and address.partition("?")[0] != but else START


def with_onward(page: str, address: str) -> str:
    """The address of a page that gets to know where to go on from it; to the start page it goes anyway."""
    return page if local(address, but=page) == START else f"{page}?to={quote(address, safe='/')}"
