"""Names that nobody can guess: 128 random bits, in hexadecimal. Only these, and digests, are parts of paths."""

from __future__ import annotations

import re
import secrets
from typing import Final

_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def new_id() -> str:
    return secrets.token_hex(16)


def is_id(text: str) -> bool:
    """Whether it has the form of `new_id`; what has not is no name of anything here."""
    return _ID.fullmatch(text) is not None


def is_sha256(text: str) -> bool:
    return _SHA256.fullmatch(text) is not None
