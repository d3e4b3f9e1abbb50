"""Bearer tokens: 256 random bits, shown once; what is kept is their sha256, found by a prefix that is no secret.

    thpdiag_6f0c1b2a9d3e4f58_<64 hexadecimal digits>
            prefix           secret

A digest without salt and stretching is enough here: nobody guesses 256 random bits, and a list of digests gives none
away. The word in front lets scanners of repositories, and the log of this server, recognise a token.

Times are seconds since 1970 in UTC.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Protocol

from thpdiag.errors import UsageError
from thpdiag.serve.access.scopes import Scope

MARK: Final = "thpdiag_"
SHAPE: Final = re.compile(rf"{MARK}([0-9a-f]{{16}})_[0-9a-f]{{64}}", re.ASCII)
NOBODYS: Final = sha256(b"").hexdigest()  # compared with where no token has the prefix; no token is empty
TOUCHED_EVERY: Final = 60.0  # seconds; how exact the last use is: not every request shall write


class KeptToken(Protocol):
    """What is kept of a token; scopes are names of `Scope`."""

    @property
    def prefix(self) -> str: ...
    @property
    def sha256(self) -> str:
        """Of the whole token, hexadecimal."""

    @property
    def label(self) -> str: ...
    @property
    def scopes(self) -> Collection[str]: ...
    @property
    def expires(self) -> float | None:
        """None: never."""

    @property
    def used(self) -> float | None:
        """None: not yet."""


class Tokens(Protocol):
    """Where tokens are kept. The functions may wait for a disk: they are called in threads, several at a time."""

    def find(self, prefix: str) -> KeptToken | None:
        """The token with this prefix, expired or not."""

    def touch(self, prefix: str, at: float) -> None:
        """Notes a use; a token that is gone by now is no mistake."""


@dataclass(frozen=True, slots=True)
class Token:
    """A new token as it is kept."""

    prefix: str
    sha256: str = field(repr=False)
    label: str
    scopes: frozenset[Scope]
    created: float
    expires: float | None = None
    used: float | None = None


def mint(label: str, scopes: frozenset[Scope], now: float, expires: float | None = None) -> tuple[str, Token]:
    """A new token as its owner gets to see it, this once, and as it is kept."""
    if not label.strip() or not label.isprintable():
        raise UsageError("a token needs a name that can be printed, to know it by when it has to go")
    if not scopes:
        raise UsageError(f"a token needs a scope: {', '.join(Scope)}")
    if expires is not None and not expires > now:
        raise UsageError("a token that has expired already would be of no use")
    prefix = secrets.token_hex(8)
    secret = f"{MARK}{prefix}_{secrets.token_hex(32)}"
    return secret, Token(prefix, digest(secret), label.strip(), scopes, now, expires)


def digest(secret: str) -> str:
    """What is kept of a token."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def identify(presented: str, tokens: Tokens, now: float) -> KeptToken | None:
    """The token that this text is, if there is one and it has not expired.

    The digests are compared whatever was found, and in a time that tells nothing of where they differ.
    """
    shaped = SHAPE.fullmatch(presented)
    known = tokens.find(shaped[1]) if shaped else None
    same = hmac.compare_digest(digest(presented), known.sha256 if known else NOBODYS)
    return known if known and same and alive(known, now) else None


def alive(token: KeptToken, now: float) -> bool:
    """Whether a token has not expired."""
    return token.expires is None or now < token.expires


def note_use(token: KeptToken, tokens: Tokens, now: float) -> None:
    """Writes the last use down, at most once a minute."""
    if token.used is None or now - token.used >= TOUCHED_EVERY:
        tokens.touch(token.prefix, now)
