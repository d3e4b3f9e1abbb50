"""Work on cases (their state, who works on them, their ticket, notes, links) and the words by which cases are found.

All work belongs to the thread of a case, so that it stays with the case when files or rules make a new version of it.

A link is a secret of 256 random bits in an address; what is kept is its sha256. `upload` takes files for the case,
`read` shows its report, `redacted` the same without the customer's names. It ends at a time, with the case, or when
somebody ends it.

The words of a case and of the work on it are an index, a row each, looked up by their beginnings: one that both
databases keep in the same way, in the transaction of what it is about. Words are those of hosts, systems, verdicts and
findings (rule, mechanism, title, evidence) of the version that counts, and of notes, ticket and owner. A name with dots
or hyphens is a word, and so is what stands behind each of them.
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
MAX_WORDS: Final = 600  # of a case
MAX_ASKED_WORDS: Final = 8
MAX_WORD_CHARS: Final = 60
MAX_PARTS: Final = 12  # of a word
MAX_PACKED_BYTES: Final = 2 << 20  # of a document that is read for its words; of a larger one the rows have to do
CASES_AT_ONCE: Final = 200
_LAST: Final = "\U0010ffff"
_WORD: Final = re.compile(r"\w+(?:[._-]\w+)*")
_PART: Final = re.compile(r"[^\W_]+")
_HOST_COLUMNS: Final = ("name", "title", "os", "kernel", "platform", "apps", "rule", "mechanism", "sentence")
_FINDING_COLUMNS: Final = ("rule", "mechanism", "entity")


def words_in(texts: Iterable[str | None]) -> set[str]:
    """The words of some texts, in small letters; of very many only the first ones."""
    found: set[str] = set()
    for text in texts:
        for whole in _WORD.findall((text or "").lower()):
            ends = (whole[part.start() :] for part in islice(_PART.finditer(whole), MAX_PARTS))
            found |= {end[:MAX_WORD_CHARS] for end in (whole, *ends)}
        if len(found) >= MAX_WORDS:
            return set(sorted(found)[:MAX_WORDS])
    return found


def search_conditions(query: str) -> Iterator[ColumnElement[bool]]:
    """Of a case: that each of these words is the beginning of one of its own."""
    for asked in _WORD.findall(query.lower())[:MAX_ASKED_WORDS]:
        begin = asked[:MAX_WORD_CHARS]
        yield case.c.thread.in_(select(word.c.thread).where(word.c.text >= begin, word.c.text < begin + _LAST))


def index_case(connection: Connection, thread: int) -> None:
    """Write down the words of the version of a case that counts, in place of those of another."""
    row = connection.execute(
        select(case.c.number, case.c.id, case.c.name, case.c.sha256, func.length(document.c.packed).label("size"))
        .join(document, document.c.case == case.c.number)
        .where(case.c.thread == thread, case.c.superseded.is_(False))
    ).first()
    if row is None:
        _write(connection, thread, CASE, ())
        return
    texts: list[str | None] = [row.id, row.name, row.sha256]
    for table, columns in ((host, _HOST_COLUMNS), (finding, _FINDING_COLUMNS)):
        for cells in connection.execute(select(*(table.c[name] for name in columns)).where(table.c.case == row.number)):
            texts += cells
    if row.size <= MAX_PACKED_BYTES:
        packed = connection.scalar(select(document.c.packed).where(document.c.case == row.number))
        texts += _texts_of_document(json.loads(zlib.decompress(packed or zlib.compress(b"{}"))))
    _write(connection, thread, CASE, texts)


def _texts_of_document(whole: Any) -> Iterator[str | None]:
    """Titles of findings and what their evidence says, as far as the document has a form."""
    hosts = whole.get("cases") if isinstance(whole, Mapping) else None
    for one in hosts if isinstance(hosts, list) else [whole]:
        findings = one.get("findings") if isinstance(one, Mapping) else None
        for told in findings if isinstance(findings, list) else ():
            if isinstance(told, Mapping):
                evidence = told.get("evidence")
                proofs = (
                    [proof for proof in evidence if isinstance(proof, Mapping)] if isinstance(evidence, list) else []
                )
                for text in (told.get("title"), *(proof.get("text") for proof in proofs)):
                    yield text if isinstance(text, str) else None


def index_work(connection: Connection, thread: int) -> None:
    """The same of notes, ticket and owner."""
    notes = connection.scalars(select(note.c.text).where(note.c.thread == thread).order_by(note.c.number)).all()
    row = connection.execute(select(work.c.assignee, work.c.ticket).where(work.c.thread == thread)).first()
    _write(connection, thread, WORK, [*(row or ()), *notes])


def _write(connection: Connection, thread: int, source: str, texts: Iterable[str | None]) -> None:
    connection.execute(delete(word).where(word.c.thread == thread, word.c.source == source))
    rows = [{"text": text, "thread": thread, "source": source} for text in sorted(words_in(texts))]
    if rows:
        connection.execute(insert(word), rows)


def index_missing(engine: Engine) -> None:
    """Write down the words of cases that an earlier version made, some at a time."""
    indexed = exists().where(word.c.thread == case.c.thread, word.c.source == CASE)
    left = select(case.c.thread).where(case.c.superseded.is_(False), ~indexed).limit(CASES_AT_ONCE)
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
