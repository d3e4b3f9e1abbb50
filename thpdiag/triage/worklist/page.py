"""What a list at an address tells, one page at a time."""

from __future__ import annotations

from typing import NamedTuple


class Found(NamedTuple):
    """An address and its size, 0 if it is not known; `refused` says why a folder there was not listed."""

    address: str
    size: int = 0
    refused: str = ""


Page = list[Found]
