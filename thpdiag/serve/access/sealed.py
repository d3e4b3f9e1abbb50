"""Texts that only this server can have written: by HMAC-SHA256 under a key of its own, each for one purpose.

The key is a file of the data folder, so that sessions outlive a restart; without it all of them end.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from thpdiag.errors import UsageError

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 16


def kept_key(file: Path) -> bytes:
    """The key in a file that only its owner can read; made if there is none, by whoever is first."""
    with suppress(FileExistsError), tempfile.NamedTemporaryFile(dir=file.parent, prefix=".key-") as made:
        made.write(secrets.token_bytes(KEY_BYTES))  # mode 600 from the beginning
        made.flush()
        os.fsync(made.fileno())
        os.link(made.name, file)
    key = file.read_bytes()
    if len(key) < KEY_BYTES or file.stat().st_mode & 0o077:
        raise UsageError(f"{file} is no key that only its owner can read; without it a new one is made")
    return key


def seal(key: bytes, purpose: str, *parts: str) -> str:
    """The seal of some texts, hexadecimal. Their borders are under it too, and so is what it is for."""
    if len(key) < KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes or more")
    return hmac.digest(key, json.dumps([purpose, *parts]).encode(), "sha256").hex()


def holds(key: bytes, presented: str, purpose: str, *parts: str) -> bool:
    """Whether a seal is the one of these texts."""
    return hmac.compare_digest(presented.encode("utf-8", "surrogatepass"), seal(key, purpose, *parts).encode())


def nonce() -> str:
    """128 random bits."""
    return secrets.token_hex(NONCE_BYTES)
