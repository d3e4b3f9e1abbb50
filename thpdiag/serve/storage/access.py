"""The tables of access: API tokens, of each a digest and never the token; and the audit log.

The audit log says who did what to what, and whether they were let. Rows are only added, but for those past their time.
`subject` is an id, a digest, the prefix of a token, or the path of a request that was refused: nothing of what a bundle
says, so that a case that is deleted is not told here. On a full disk a row becomes a line of the server's log instead:
what is done does not fail for want of its record, and who makes room or reads what is there is not stopped.
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
    """What happened at a time: `actor` is who it was as access knows them, `address` where from, `outcome` whether it
    was done or refused."""

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
        """The latest entries with their numbers; the next page is that `below` the last one of this."""
        columns = (audit.c.number, *(audit.c[name] for name in _AUDIT_COLUMNS))
        latest = select(*columns).order_by(audit.c.number.desc()).limit(limit)
        if subject:
            latest = latest.where(audit.c.subject == subject)
        if below is not None:
            latest = latest.where(audit.c.number < below)
        return [(number, AuditEntry(*cells)) for number, *cells in fetch_rows(self._engine, latest)]

    def prune(self, before: float) -> int:
        """Remove what is older; how many entries that were."""
        with write_transaction(self._engine) as connection:
            return connection.execute(delete(audit).where(audit.c.at < before)).rowcount


@dataclass(frozen=True, slots=True)
class TokenRow:
    """What is kept of a token; `expires` is None for never, `used` for not yet."""

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
        row = {name: getattr(new, name) for name in TokenRow.__dataclass_fields__}
        with write_transaction(self._engine) as connection:
            connection.execute(insert(token).values({**row, "scopes": " ".join(sorted(new.scopes))}))

    def find(self, prefix: str) -> TokenRow | None:
        """The token with this prefix, expired or not."""
        row = fetch_row(self._engine, select(token).where(token.c.prefix == prefix))
        return None if row is None else _token_row(row)

    def touch(self, prefix: str, at: float) -> None:
        """Note a use; a token that is gone by now is no mistake, and on a full disk one is used without a note."""
        with suppress(StoreFullError, StoreUnwritableError), write_transaction(self._engine) as connection:
            connection.execute(update(token).where(token.c.prefix == prefix).values(used=at))

    def remove(self, prefix: str) -> bool:
        """End a token from the next request on; whether there was one."""
        with write_transaction(self._engine) as connection:
            return connection.execute(delete(token).where(token.c.prefix == prefix)).rowcount > 0

    def all(self) -> list[TokenRow]:
        """Every token, expired ones too, oldest first."""
        return [
            _token_row(row) for row in fetch_rows(self._engine, select(token).order_by(token.c.created, token.c.prefix))
        ]


@dataclass(frozen=True, slots=True)
class LoginRow:
    """A session of somebody whom a provider knows: `subject` stands for them, the scopes hold as long as it."""

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
        """Keep a new one, and remove those whose time is over."""
        row = {name: getattr(new, name) for name in LoginRow.__dataclass_fields__}
        with write_transaction(self._engine) as connection:
            connection.execute(delete(login).where(login.c.expires <= new.begun))
            connection.execute(insert(login).values({**row, "scopes": " ".join(sorted(new.scopes))}))

    def find(self, key: str, now: float) -> LoginRow | None:
        """The one of this id, as long as it lasts."""
        row = fetch_row(self._engine, select(login).where(login.c.id == key, login.c.expires > now))
        return None if row is None else _login_row(row)

    def remove(self, key: str) -> bool:
        """End a session from the next request on; whether there was one."""
        with write_transaction(self._engine) as connection:
            return connection.execute(delete(login).where(login.c.id == key)).rowcount > 0

    def lasting(self, now: float) -> list[LoginRow]:
        """Those that last, the earliest first."""
        wanted = select(login).where(login.c.expires > now).order_by(login.c.begun, login.c.id)
        return list(map(_login_row, fetch_rows(self._engine, wanted)))


def _login_row(row: Any) -> LoginRow:
    return LoginRow(**{**row._mapping, "scopes": frozenset(row.scopes.split())})


def _token_row(row: Any) -> TokenRow:
    return TokenRow(**{**row._mapping, "scopes": frozenset(row.scopes.split())})
