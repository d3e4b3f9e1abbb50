"""Work on cases (state, assignee, ticket, notes, share links), and the search index.

All work belongs to the thread of a case, so that it stays with the case when files or rules make a new version of it.

A link is an address with 256 secret random bits; its sha256 is stored. `upload` accepts files for the case, `read`
shows its report, `redacted` the same without the customer's names. It ends at its expiry, with the case, or manually.

The search index has one row per word, looked up by prefix. It works the same on both databases and is updated in the
transaction of the indexed data. Indexed are hosts, systems, verdicts and findings (rule, mechanism, title, evidence) of
the latest version, and notes, ticket and assignee. A name with dots or hyphens is a word, and so is the rest of the
name after each of them.
"""

from __future__ import annotations

import json
import re
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, Select, delete, exists, func, insert, select, update

from thpdiag.serve.storage.database import (
    Clock,
    case,
    document,
    fetch_column,
    fetch_row,
    fetch_rows,
    finding,
    host,
    link,
    new_id,
    note,
    upsert,
    word,
    work,
    write_transaction,
)

CASE: Final = "case"
WORK: Final = "work"
MAX_WORDS: Final = 600  # indexed per case
MAX_QUERY_WORDS: Final = 8
MAX_WORD_CHARS: Final = 60
MAX_PARTS: Final = 12  # indexed per word
MAX_PACKED_BYTES: Final = 2 << 20  # of an indexed document; of a case with a larger one only the rows are indexed
CASES_PER_QUERY: Final = 200
_MAX_CHAR: Final = "\U0010ffff"
_WORD: Final = re.compile(r"\w+(?:[._-]\w+)*")
_PART: Final = re.compile(r"[^\W_]+")
_HOST_COLUMNS: Final = ("name", "title", "os", "kernel", "platform", "apps", "rule", "mechanism", "sentence")
_FINDING_COLUMNS: Final = ("rule", "mechanism", "entity")


def words_in(texts: Iterable[str | None]) -> set[str]:
    """Return the lower-case words of texts, up to MAX_WORDS."""
    words: set[str] = set()
    for text in texts:
        for name in _WORD.findall((text or "").lower()):
            suffixes = (name[part.start() :] for part in islice(_PART.finditer(name), MAX_PARTS))
            words |= {suffix[:MAX_WORD_CHARS] for suffix in (name, *suffixes)}
        if len(words) >= MAX_WORDS:
            return set(sorted(words)[:MAX_WORDS])
    return words


def search_conditions(query: str) -> Iterator[ColumnElement[bool]]:
    """Yield conditions on a case: each word of the query is a prefix of one of its words."""
    for name in _WORD.findall(query.lower())[:MAX_QUERY_WORDS]:
        prefix = name[:MAX_WORD_CHARS]
        yield case.c.thread.in_(select(word.c.thread).where(word.c.text >= prefix, word.c.text < prefix + _MAX_CHAR))


def index_case(connection: Connection, thread: int) -> None:
    """Index the latest version of a case, replacing the words of the previous one."""
    row = connection.execute(
        select(case.c.number, case.c.id, case.c.name, case.c.sha256, func.length(document.c.packed).label("size"))
        .join(document, document.c.case == case.c.number)
        .where(case.c.thread == thread, case.c.superseded.is_(False))
    ).first()
    if row is None:
        _write_words(connection, thread, CASE, ())
        return
    texts: list[str | None] = [row.id, row.name, row.sha256]
    for table, columns in ((host, _HOST_COLUMNS), (finding, _FINDING_COLUMNS)):
        for cells in connection.execute(select(*(table.c[name] for name in columns)).where(table.c.case == row.number)):
            texts += cells
    if row.size <= MAX_PACKED_BYTES:
        packed = connection.scalar(select(document.c.packed).where(document.c.case == row.number))
        texts += _document_texts(json.loads(zlib.decompress(packed or zlib.compress(b"{}"))))
    _write_words(connection, thread, CASE, texts)


def _document_texts(document: Any) -> Iterator[str]:
    """Yield titles of findings and texts of their evidence; malformed parts of the document are skipped."""
    hosts = document.get("cases") if isinstance(document, Mapping) else None
    for host_document in hosts if isinstance(hosts, list) else [document]:
        for entry in _mappings(host_document, "findings"):
            for text in (entry.get("title"), *(evidence.get("text") for evidence in _mappings(entry, "evidence"))):
                if isinstance(text, str):
                    yield text


def _mappings(parent: Any, key: str) -> list[Mapping[str, Any]]:
    """Return the mappings in a list that a mapping has under a key; none of other values."""
    items = parent.get(key) if isinstance(parent, Mapping) else None
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def index_work(connection: Connection, thread: int) -> None:
    """Index notes, ticket and assignee of a case."""
    notes = connection.scalars(select(note.c.text).where(note.c.thread == thread).order_by(note.c.number)).all()
    row = connection.execute(select(work.c.assignee, work.c.ticket).where(work.c.thread == thread)).first()
    _write_words(connection, thread, WORK, [*(row or ()), *notes])


def _write_words(connection: Connection, thread: int, source: str, texts: Iterable[str | None]) -> None:
    connection.execute(delete(word).where(word.c.thread == thread, word.c.source == source))
    rows = [{"text": text, "thread": thread, "source": source} for text in sorted(words_in(texts))]
    if rows:
        connection.execute(insert(word), rows)


def index_missing(engine: Engine) -> None:
    """Index cases that were made by an earlier version, in portions."""
    indexed = exists().where(word.c.thread == case.c.thread, word.c.source == CASE)
    left = select(case.c.thread).where(case.c.superseded.is_(False), ~indexed).limit(CASES_PER_QUERY)
    while rows := fetch_rows(engine, left):
        with write_transaction(engine) as connection:
            for row in rows:
                index_case(connection, row.thread)


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
    """`key` is the public beginning of the digest; `case` the id of the latest version of the case."""

    key: str
    kind: str
    created: float
    expires: float
    author: str
    used: float | None
    case: str


@dataclass(frozen=True, slots=True)
class Note:
    """A note on a case; `text` is Markdown, `owner` may delete it, like admins."""

    id: str
    at: float
    author: str
    owner: str
    text: str


class Work:
    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    def set(self, thread: int, state: str, assignee: str, ticket: str) -> None:
        """Replace state, assignee and ticket of a case."""
        row = {"state": state, "assignee": assignee, "ticket": ticket, "changed": self._clock()}
        with write_transaction(self._engine) as connection:
            add = upsert(connection, work).values(thread=thread, **row)
            connection.execute(add.on_conflict_do_update(index_elements=["thread"], set_=row))
            index_work(connection, thread)

    def customer_answered(self, thread: int) -> None:
        """Set a waiting case to new, since files of the customer arrived."""
        with write_transaction(self._engine) as connection:
            is_waiting = (work.c.thread == thread) & (work.c.state == WAITING)
            connection.execute(update(work).where(is_waiting).values(state=NEW, changed=self._clock()))

    def assignees(self) -> list[str]:
        """Return all assignees."""
        rows = select(work.c.assignee).where(work.c.assignee != "").distinct().order_by(work.c.assignee)
        return fetch_column(self._engine, rows)

    def add_note(self, thread: int, author: str, owner: str, text: str) -> str:
        """Add a note and return its id."""
        key = new_id()
        row = {"id": key, "thread": thread, "at": self._clock(), "author": author, "owner": owner, "text": text}
        with write_transaction(self._engine) as connection:
            connection.execute(insert(note).values(row))
            index_work(connection, thread)
        return key

    def notes(self, thread: int) -> list[Note]:
        """Return the notes of a case, the earliest first."""
        columns = (note.c.id, note.c.at, note.c.author, note.c.owner, note.c.text)
        rows = select(*columns).where(note.c.thread == thread).order_by(note.c.number)
        return [Note(*row) for row in fetch_rows(self._engine, rows)]

    def delete_note(self, thread: int, key: str, owner: str | None) -> bool:
        """Delete a note of a case, by any owner if None; return whether there was one."""
        is_note = (note.c.thread == thread) & (note.c.id == key)
        is_note = is_note if owner is None else is_note & (note.c.owner == owner)
        with write_transaction(self._engine) as connection:
            is_deleted = connection.execute(delete(note).where(is_note)).rowcount > 0
            index_work(connection, thread)
        return is_deleted


class Links:
    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    def add(self, thread: int, kind: str, seconds: float, author: str) -> tuple[str, float]:
        """Add a link; return its secret, which is not stored, and its expiry."""
        secret, now = secrets.token_urlsafe(32), self._clock()
        row = {"sha256": _digest(secret), "thread": thread, "kind": kind, "created": now, "expires": now + seconds}
        with write_transaction(self._engine) as connection:
            connection.execute(insert(link).values(row | {"author": author}))
        return secret, now + seconds

    def find(self, secret: str, *kinds: str) -> Link | None:
        """Return the valid link of a secret, of one of these kinds, and store the time of its use."""
        if not _SECRET.fullmatch(secret):
            return None
        digest = _digest(secret)
        valid = _select_links().where(link.c.sha256 == digest, link.c.kind.in_(kinds), link.c.expires > self._clock())
        row = fetch_row(self._engine, valid)
        if row is None:
            return None
        with write_transaction(self._engine) as connection:
            connection.execute(update(link).where(link.c.sha256 == digest).values(used=self._clock()))
        return _link(row)

    def list_active(self, thread: int) -> list[Link]:
        """Return the links of a case that have not expired, the latest first."""
        active = _select_links().where(link.c.thread == thread, link.c.expires > self._clock())
        return [_link(row) for row in fetch_rows(self._engine, active.order_by(link.c.created.desc()))]

    def end(self, thread: int, key: str) -> bool:
        """Delete a link of a case by its key; return whether there was one."""
        with write_transaction(self._engine) as connection:
            is_link = (link.c.thread == thread) & link.c.sha256.startswith(key, autoescape=True)
            return len(key) == KEY_CHARS and connection.execute(delete(link).where(is_link)).rowcount > 0

    def prune(self) -> None:
        """Remove expired links."""
        with write_transaction(self._engine) as connection:
            connection.execute(delete(link).where(link.c.expires <= self._clock()))


KEY_CHARS: Final = 16


def remove_work(connection: Connection, thread: int) -> None:
    """Remove the work on a thread whose last case was deleted."""
    if connection.execute(select(case.c.number).where(case.c.thread == thread).limit(1)).first() is None:
        for table in (link, note, work, word):
            connection.execute(delete(table).where(table.c.thread == thread))


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _select_links() -> Select[Any]:
    columns = (link.c.sha256, link.c.kind, link.c.created, link.c.expires, link.c.author, link.c.used, case.c.id)
    latest = (case.c.thread == link.c.thread) & case.c.superseded.is_(False)
    return select(*columns).select_from(link.join(case, latest))


def _link(row: tuple[str, str, float, float, str, float | None, str]) -> Link:
    return Link(row[0][:KEY_CHARS], *row[1:])
