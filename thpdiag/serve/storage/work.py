"""Work on cases: their state, who works on them, their ticket; notes; links that lead to one without a login.

All of it belongs to the thread of a case, so that it stays with the case when files or rules make a new version of it.

A link is a secret of 256 random bits in an address; what is kept is its sha256. `upload` takes files for the case,
`read` shows its report, `redacted` the same without the customer's names. It ends at a time, with the case, or when
somebody ends it.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Connection, Engine, Select, delete, insert, select, update

from thpdiag.serve.storage.database import (
    Clock,
    case,
    fetch_column,
    fetch_row,
    fetch_rows,
    link,
    new_id,
    note,
    upsert,
    word,
    work,
    write_transaction,
)
from thpdiag.serve.storage.search import index_work

UPLOAD_LINK: Final = "upload"
READ_LINK: Final = "read"
REDACTED_LINK: Final = "redacted"
NEW: Final = "new"
WAITING: Final = "waiting"
SOLVED: Final = "solved"
STATES: Final = (NEW, WAITING, SOLVED)
_SECRET: Final = re.compile(r"[\w-]{43}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Link:
    """`key` is the begin of the digest, which is no secret; `case` the id of the version of the case that counts."""

    key: str
    kind: str
    created: float
    expires: float
    author: str
    used: float | None
    case: str


@dataclass(frozen=True, slots=True)
class Note:
    """What somebody wrote down at a time; `text` is Markdown, `owner` whoever may delete it beside admins."""

    id: str
    at: float
    author: str
    owner: str
    text: str


class Work:
    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    def set(self, thread: int, state: str, assignee: str, ticket: str) -> None:
        """Of a case; what it was before is replaced."""
        row = {"state": state, "assignee": assignee, "ticket": ticket, "changed": self._clock()}
        with write_transaction(self._engine) as connection:
            add = upsert(connection, work).values(thread=thread, **row)
            connection.execute(add.on_conflict_do_update(index_elements=["thread"], set_=row))
            index_work(connection, thread)

    def customer_answered(self, thread: int) -> None:
        """Files came: nobody waits for the customer any more."""
        with write_transaction(self._engine) as connection:
            waits = (work.c.thread == thread) & (work.c.state == WAITING)
            connection.execute(update(work).where(waits).values(state=NEW, changed=self._clock()))

    def assignees(self) -> list[str]:
        """Everybody who works on a case."""
        rows = select(work.c.assignee).where(work.c.assignee != "").distinct().order_by(work.c.assignee)
        return fetch_column(self._engine, rows)

    def add_note(self, thread: int, author: str, owner: str, text: str) -> str:
        """The id of a new note."""
        key = new_id()
        row = {"id": key, "thread": thread, "at": self._clock(), "author": author, "owner": owner, "text": text}
        with write_transaction(self._engine) as connection:
            connection.execute(insert(note).values(row))
            index_work(connection, thread)
        return key

    def notes(self, thread: int) -> list[Note]:
        """Of a case, the earliest first."""
        columns = (note.c.id, note.c.at, note.c.author, note.c.owner, note.c.text)
        wanted = select(*columns).where(note.c.thread == thread).order_by(note.c.number)
        return [Note(*row) for row in fetch_rows(self._engine, wanted)]

    def delete_note(self, thread: int, key: str, owner: str | None) -> bool:
        """Whether there was one of this case, by this owner unless None; a note is deleted once and for all."""
        own = (note.c.thread == thread) & (note.c.id == key)
        own = own if owner is None else own & (note.c.owner == owner)
        with write_transaction(self._engine) as connection:
            gone = connection.execute(delete(note).where(own)).rowcount > 0
            index_work(connection, thread)
        return gone


class Links:
    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    def add(self, thread: int, kind: str, seconds: float, author: str) -> tuple[str, float]:
        """The secret of a new link, which is told this once, and when it ends."""
        secret, now = secrets.token_urlsafe(32), self._clock()
        row = {"sha256": _digest(secret), "thread": thread, "kind": kind, "created": now, "expires": now + seconds}
        with write_transaction(self._engine) as connection:
            connection.execute(insert(link).values(row | {"author": author}))
        return secret, now + seconds

    def find(self, secret: str, *kinds: str) -> Link | None:
        """The link of these kinds that this secret is, as long as it and its case last. Its use is noted."""
        if not _SECRET.fullmatch(secret):
            return None
        digest = _digest(secret)
        wanted = _select().where(link.c.sha256 == digest, link.c.kind.in_(kinds), link.c.expires > self._clock())
        row = fetch_row(self._engine, wanted)
        if row is None:
            return None
        with write_transaction(self._engine) as connection:
            connection.execute(update(link).where(link.c.sha256 == digest).values(used=self._clock()))
        return _link(row)

    def of_thread(self, thread: int) -> list[Link]:
        """Those that last, the latest first."""
        lasting = _select().where(link.c.thread == thread, link.c.expires > self._clock())
        return [_link(row) for row in fetch_rows(self._engine, lasting.order_by(link.c.created.desc()))]

    def end(self, thread: int, key: str) -> bool:
        """Whether there was one of this case that begins so."""
        with write_transaction(self._engine) as connection:
            own = (link.c.thread == thread) & link.c.sha256.startswith(key, autoescape=True)
            return len(key) == KEY_CHARS and connection.execute(delete(link).where(own)).rowcount > 0

    def prune(self) -> None:
        """Remove what has ended."""
        with write_transaction(self._engine) as connection:
            connection.execute(delete(link).where(link.c.expires <= self._clock()))


KEY_CHARS: Final = 16


def remove_work(connection: Connection, thread: int) -> None:
    """Remove what belongs to a thread whose last case was deleted."""
    if connection.execute(select(case.c.number).where(case.c.thread == thread).limit(1)).first() is None:
        for table in (link, note, work, word):
            connection.execute(delete(table).where(table.c.thread == thread))


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _select() -> Select[Any]:
    columns = (link.c.sha256, link.c.kind, link.c.created, link.c.expires, link.c.author, link.c.used, case.c.id)
    latest = (case.c.thread == link.c.thread) & case.c.superseded.is_(False)
    return select(*columns).select_from(link.join(case, latest))


def _link(row: tuple[str, str, float, float, str, float | None, str]) -> Link:
    return Link(row[0][:KEY_CHARS], *row[1:])
