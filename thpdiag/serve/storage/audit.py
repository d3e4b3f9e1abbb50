"""The audit log: who did what to what, and whether they were let. Rows are only added, but for those past their time.

`subject` is an id, a digest, the prefix of a token, or the path of a request that was refused: nothing of what a bundle
says, so that a case that is deleted is not told here. On a full disk a row becomes a line of the server's log instead:
what is done does not fail for want of its record, and who makes room or reads what is there is not stopped.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sqlalchemy import Engine, delete, insert, select

from thpdiag.errors import StoreFullError
from thpdiag.serve.storage.database import reading, writing
from thpdiag.serve.storage.form import audit

LOG: Final = logging.getLogger(__name__)
PAGE: Final = 100


class Noted(Protocol):
    """What happened, as whoever saw it tells it."""

    @property
    def at(self) -> float: ...
    @property
    def action(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def actor(self) -> str: ...
    @property
    def address(self) -> str: ...
    @property
    def subject(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """`actor` is who it was as access knows them; `address` where from; `outcome` whether it was done or refused."""

    at: float
    action: str
    outcome: str
    actor: str
    address: str
    subject: str


class AuditTable:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, event: Noted) -> None:
        row = {name: getattr(event, name) for name in Entry.__dataclass_fields__}
        try:
            with writing(self._engine) as connection:
                connection.execute(insert(audit).values(row))
        except StoreFullError:
            LOG.warning("no room in the audit log for this: %s", " ".join(map(str, row.values())))

    def page(self, subject: str = "", below: int | None = None, limit: int = PAGE) -> list[tuple[int, Entry]]:
        """The latest entries with their numbers; the next page is that `below` the last one of this."""
        wanted = select(audit).order_by(audit.c.number.desc()).limit(limit)
        if subject:
            wanted = wanted.where(audit.c.subject == subject)
        if below is not None:
            wanted = wanted.where(audit.c.number < below)
        with reading(self._engine) as connection:
            return [(row["number"], _entry(row)) for row in connection.execute(wanted).mappings()]

    def prune(self, before: float) -> int:
        """Remove what is older; how many entries that were."""
        with writing(self._engine) as connection:
            return connection.execute(delete(audit).where(audit.c.at < before)).rowcount


def _entry(row: Any) -> Entry:
    return Entry(*(row[name] for name in Entry.__dataclass_fields__))
