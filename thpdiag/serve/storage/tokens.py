"""The table of API tokens: of each a digest, never the token."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import Engine, delete, insert, select, update

from thpdiag.errors import StoreFullError
from thpdiag.serve.storage.database import reading, writing
from thpdiag.serve.storage.form import token


class Minted(Protocol):
    """A new token, as whoever makes it gives it: all but the token itself."""

    @property
    def prefix(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def scopes(self) -> Collection[str]: ...
    @property
    def created(self) -> float: ...
    @property
    def expires(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of a token; `expires` is None for never, `used` for not yet."""

    prefix: str
    sha256: str = field(repr=False)
    label: str
    scopes: frozenset[str]
    created: float
    expires: float | None
    used: float | None


class TokenTable:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, new: Minted) -> None:
        row = {
            "prefix": new.prefix, "sha256": new.sha256, "label": new.label, "scopes": " ".join(sorted(new.scopes)),
            "created": new.created, "expires": new.expires, "used": None,
        }  # fmt: skip
        with writing(self._engine) as connection:
            connection.execute(insert(token).values(row))

    def find(self, prefix: str) -> Token | None:
        """The token with this prefix, expired or not."""
        with reading(self._engine) as connection:
            row = connection.execute(select(token).where(token.c.prefix == prefix)).mappings().first()
        return None if row is None else _token(row)

    def touch(self, prefix: str, at: float) -> None:
        """Note a use; a token that is gone by now is no mistake, and on a full disk one is used without a note."""
        with suppress(StoreFullError), writing(self._engine) as connection:
            connection.execute(update(token).where(token.c.prefix == prefix).values(used=at))

    def remove(self, prefix: str) -> bool:
        """End a token from the next request on; whether there was one."""
        with writing(self._engine) as connection:
            return connection.execute(delete(token).where(token.c.prefix == prefix)).rowcount > 0

    def all(self) -> list[Token]:
        """Every token, expired ones too, oldest first."""
        with reading(self._engine) as connection:
            rows = connection.execute(select(token).order_by(token.c.created, token.c.prefix)).mappings().all()
        return [_token(row) for row in rows]


def _token(row: Any) -> Token:
    return Token(**{**row, "scopes": frozenset(row["scopes"].split())})
