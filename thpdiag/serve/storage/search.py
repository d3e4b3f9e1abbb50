"""Search in cases: the words of a case and of the work on it, a row each, looked up by their beginnings.

An index that both databases keep in the same way, in the transaction of what it is about. Words are those of hosts,
systems, verdicts and findings (rule, mechanism, title, evidence) of the version that counts, and of notes, ticket and
owner. A name with dots or hyphens is a word, and so is what stands behind each of them.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, delete, exists, func, insert, select

from thpdiag.serve.storage.database import (
    case,
    document,
    fetch_rows,
    finding,
    host,
    note,
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
