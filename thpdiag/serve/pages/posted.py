"""What a plain form sends: its fields, by name. Bodies of such routes are small and have been read already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request

KIND: Final = "application/x-www-form-urlencoded"
MOST: Final = 32  # fields

Fields = Mapping[str, list[str]]


async def posted(request: Request) -> Fields:
    """All values of each field, empty ones too; none of what is not such a form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != KIND:
        return {}
    body = await request.body()
    try:
        return parse_qs(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST)
    except ValueError:  # not ASCII, not UTF-8 behind the escapes, or too many fields
        return {}


def one(fields: Fields, name: str) -> str:
    """The value of a field; empty if it is missing or there are several."""
    found = fields.get(name, [])
    return found[0] if len(found) == 1 else ""
