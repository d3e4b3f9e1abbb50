"""The tables of access: digests of API tokens, OpenID Connect sessions, and the audit log.

The audit log records who did what and whether it was allowed. Rows are only added, and removed when they expire.
`subject` is an id, a digest, the prefix of a token, or the path of a refused request, never content of a bundle, so
that the log does not reveal deleted cases. On a full disk a row is written to the server log instead, so that actions,
including those that free space, do not fail.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from typing import Any, Final

from sqlalchemy import Engine, delete, insert, select, update

from thpdiag.errors import StoreFullError, StoreUnwritableError
from thpdiag.serve.storage.database import audit, fetch_row, fetch_rows, login, token, write_transaction

AUDIT_LOGGER: Final = logging.getLogger(__name__)
AUDIT_PAGE_ROWS: Final = 100


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A row of the audit log: `actor` is the formatted principal, `address` that of the client; `at`: s since 1970."""

    at: float
    action: str
    outcome: str
    actor: str
    address: str
    subject: str


_AUDIT_COLUMNS: Final = tuple(AuditEntry.__dataclass_fields__)


class AuditTable:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, entry: AuditEntry) -> None:
        cells: tuple[Any, ...] = astuple(entry)
        try:
            with write_transaction(self._engine) as connection:
                connection.execute(insert(audit).values(dict(zip(_AUDIT_COLUMNS, cells, strict=True))))
        except (StoreFullError, StoreUnwritableError):
            AUDIT_LOGGER.warning("no room in the audit log for this: %s", " ".join(map(str, cells)))

    def page(
        self, subject: str = "", below: int | None = None, limit: int = AUDIT_PAGE_ROWS
    ) -> list[tuple[int, AuditEntry]]:
        """Return the latest entries with their numbers; the next page is `below` the last number."""
        columns = (audit.c.number, *(audit.c[name] for name in _AUDIT_COLUMNS))
        latest = select(*columns).order_by(audit.c.number.desc()).limit(limit)
        if subject:
            latest = latest.where(audit.c.subject == subject)
        if below is not None:
            latest = latest.where(audit.c.number < below)
        return [(number, AuditEntry(*cells)) for number, *cells in fetch_rows(self._engine, latest)]

    def prune(self, before: float) -> int:
        """Remove older entries and return how many there were."""
        with write_transaction(self._engine) as connection:
            return connection.execute(delete(audit).where(audit.c.at < before)).rowcount


@dataclass(frozen=True, slots=True)
class TokenRow:
    """The stored part of a token; `expires` None: never, `used` None: not yet."""

    prefix: str
    sha256: str = field(repr=False)  # of the whole token, hexadecimal
    label: str
    scopes: Collection[str]
    created: float
    expires: float | None
    used: float | None


class TokenTable:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, new: TokenRow) -> None:
        with write_transaction(self._engine) as connection:
            connection.execute(insert(token).values(_column_values(new)))

    def find(self, prefix: str) -> TokenRow | None:
        """Return the token with this prefix, expired or not."""
        row = fetch_row(self._engine, select(token).where(token.c.prefix == prefix))
        return None if row is None else TokenRow(**_field_values(row))

    def touch(self, prefix: str, time: float) -> None:
        """Store the time of the last use. A missing token and a full disk are ignored."""
        with suppress(StoreFullError, StoreUnwritableError), write_transaction(self._engine) as connection:
            connection.execute(update(token).where(token.c.prefix == prefix).values(used=time))

    def remove(self, prefix: str) -> bool:
        """Revoke a token; return whether there was one."""
        with write_transaction(self._engine) as connection:
            return connection.execute(delete(token).where(token.c.prefix == prefix)).rowcount > 0

    def all(self) -> list[TokenRow]:
        """Return all tokens including expired ones, oldest first."""
        rows = fetch_rows(self._engine, select(token).order_by(token.c.created, token.c.prefix))
        return [TokenRow(**_field_values(row)) for row in rows]


@dataclass(frozen=True, slots=True)
class LoginRow:
    """A session of a user of an OpenID Connect provider: `subject` identifies the user."""

    id: str
    subject: str
    name: str
    scopes: Collection[str]
    begun: float
    expires: float


class LoginTable:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, new: LoginRow) -> None:
        """Add a session and remove expired ones."""
        with write_transaction(self._engine) as connection:
            connection.execute(delete(login).where(login.c.expires <= new.begun))
            connection.execute(insert(login).values(_column_values(new)))

    def find(self, key: str, now: float) -> LoginRow | None:
        """Return a session by its id until it expires."""
        row = fetch_row(self._engine, select(login).where(login.c.id == key, login.c.expires > now))
        return None if row is None else LoginRow(**_field_values(row))

    def remove(self, key: str) -> bool:
        """End a session; return whether there was one."""
        with write_transaction(self._engine) as connection:
            return connection.execute(delete(login).where(login.c.id == key)).rowcount > 0

    def list_active(self, now: float) -> list[LoginRow]:
        """Return sessions that have not expired, the earliest first."""
        active = select(login).where(login.c.expires > now).order_by(login.c.begun, login.c.id)
        return [LoginRow(**_field_values(row)) for row in fetch_rows(self._engine, active)]


def _column_values(row: TokenRow | LoginRow) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in row.__dataclass_fields__}
    return {**values, "scopes": " ".join(sorted(row.scopes))}


def _field_values(row: Any) -> dict[str, Any]:
    return {**row._mapping, "scopes": frozenset(row.scopes.split())}
