"""The result document inside a page: compressed JSON in a script element that no browser runs.

Compressed it is a quarter of its size, and nothing in it can end the element. Pages of the first version carry it
as plain JSON; they are read too.
"""

from __future__ import annotations

import binascii
import gzip
import json
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from thpdiag.errors import InputError
from thpdiag.json_text import compact

_BEGIN = '<script type="application/gzip+base64" id="result">'
_PLAIN = '<script type="application/json" id="result">'
_END = "</script>"
_HEADER = bytes.fromhex("1f8b08000000000002ff")  # RFC 1952: deflate, no name, no time, unknown system
MOST = 256 << 20  # bytes of JSON


def embedded(document: Mapping[str, Any]) -> Markup:
    """The element; the same bytes for the same document."""
    packed = gzip.compress(compact(document).encode("ascii"), 6, mtime=0)  # 9 takes seven times as long for 5 % less
    return Markup(_BEGIN + b64encode(_HEADER + packed[len(_HEADER) :]).decode("ascii") + _END)


def from_page(page: str) -> dict[str, Any]:
    """The result document that a page carries; a page without one is a mistake of the user."""
    found = re.search(f"({re.escape(_BEGIN)}|{re.escape(_PLAIN)})", page)
    data, ended, _ = page[found.end() :].partition(_END) if found else ("", "", "")
    if not found or not ended:
        raise InputError("this page carries no thpdiag result")
    try:
        document = json.loads(data if found[1] == _PLAIN else _unpacked(data))
    except (ValueError, binascii.Error, zlib.error) as error:
        raise InputError(f"the thpdiag result in this page is damaged: {error}") from None
    if not isinstance(document, dict):
        raise InputError("the thpdiag result in this page is damaged: it is no object")
    return document


def _unpacked(data: str) -> bytes:
    """No more than `MOST` bytes: a page comes from anywhere."""
    inflating = zlib.decompressobj(16 + zlib.MAX_WBITS)
    text = inflating.decompress(b64decode(data, validate=True), MOST)
    if not inflating.eof:
        raise ValueError("it is cut short" if len(text) < MOST else "it is too large")
    return text
