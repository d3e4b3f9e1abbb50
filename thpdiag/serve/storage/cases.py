"""Cases: results of analyses under random ids, and lists of them.

The same bundle analysed again in the same way (version of thpdiag, rules, options) has the same case. Lists filter by
host, verdict, mechanism, rule and time and are paginated, the latest first; they contain the latest version of a case.
A case matches if any of its hosts fulfils all conditions on a host.
"""

from __future__ import annotations

import json
import string
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256 as digest
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, Select, delete, exists, func, insert, or_, select, update

from thpdiag.model.document import compact
from thpdiag.serve.storage.database import (
    MAX_SHORT_CHARS,
    Clock,
    case,
    delivery,
    document,
    fetch_column,
    fetch_row,
    fetch_rows,
    fetch_value,
    finding,
    host,
    is_id,
    job,
    lock_bundle,
    new_id,
    shorten,
    upload,
    upsert,
    work,
    write_transaction,
)
from thpdiag.serve.storage.jobs import DONE, Claim, Job, is_claimed_by
from thpdiag.serve.storage.work import NEW, index_case, search_conditions
from thpdiag.store.results import FINDING_FIELDS, HOST_FIELDS, REFUSED, Analysis, PackedResult

CASES_PER_QUERY: Final = 100
CASES_PER_PAGE: Final = 50
MAX_COUNTED: Final = 1_000  # matches of a search by words; counting more would take longer than showing them
VERDICT_COLUMNS: Final = ("verdict", "rule", "severity", "confidence")
_FILTERED_HOST: Final = host.alias("any_host")  # any host of a case, for filters
_LEADING_HOST: Final = (host.c.case == case.c.number) & (host.c.place == 0)
_ASCII_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@dataclass(frozen=True, slots=True)
class Case:
    """A case with its leading host, as shown in lists. `recorded` is the time of the data, if known."""

    number: int
    id: str
    sha256: str
    name: str
    status: str
    reason: str
    made: float
    kept: bool
    tool_version: str
    rules_digest: str
    options: str
    host: str | None
    title: str | None
    kernel: str | None
    verdict: str | None
    rule: str | None
    mechanism: str | None
    severity: str | None
    confidence: str | None
    sentence: str | None
    undecided: int | None
    recorded: str | None
    thread: int
    superseded: bool
    state: str
    assignee: str
    ticket: str


_CASE_COLUMNS: Final = tuple(Case.__dataclass_fields__)[:11]
_HOST_COLUMNS: Final = ("name", *tuple(Case.__dataclass_fields__)[12:-5])


@dataclass(frozen=True, slots=True)
class CaseFilter:
    """Conditions on a case; empty ones and None are ignored.

    `host` is a part of a host name, case-insensitive for ASCII; `same_host` is the exact name. `rule` is that of any
    finding; `since` and `until` limit the creation of the case. `versions` includes superseded ones. `state` and
    `assignee` refer to the work on the case. `words` are prefixes of words of the case or of its notes.
    """

    host: str = ""
    same_host: str | None = None
    verdict: str = ""
    mechanism: str = ""
    rule: str = ""
    sha256: str = ""
    since: float | None = None
    until: float | None = None
    thread: int | None = None
    versions: bool = False
    words: str = ""
    state: str = ""
    assignee: str = ""

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        if self.thread is not None:
            yield case.c.thread == self.thread
        elif not (self.versions or self.sha256):
            yield case.c.superseded.is_(False)
        yield from self._work_conditions()
        yield from search_conditions(self.words)
        if self.sha256:
            yield case.c.sha256 == self.sha256
        if self.since is not None:
            yield case.c.made >= self.since
        if self.until is not None:
            yield case.c.made < self.until
        host_conditions = list(self._host_conditions())
        if host_conditions:  # one subquery for all cases: a correlated one would read an index for each case
            numbers = select(_FILTERED_HOST.c.case).where(*host_conditions)
            if self.rule:
                same = (finding.c.case == _FILTERED_HOST.c.case) & (finding.c.host == _FILTERED_HOST.c.place)
                numbers = numbers.join(finding, same)
            yield case.c.number.in_(numbers)

    def _work_conditions(self) -> Iterator[ColumnElement[bool]]:
        if self.state == NEW:  # includes cases without a row in `work`
            yield case.c.thread.not_in(select(work.c.thread).where(work.c.state != NEW))
        elif self.state:
            yield case.c.thread.in_(select(work.c.thread).where(work.c.state == self.state))
        if self.assignee:
            yield case.c.thread.in_(select(work.c.thread).where(work.c.assignee == self.assignee))

    def _host_conditions(self) -> Iterator[ColumnElement[bool]]:
        if self.verdict:
            yield _FILTERED_HOST.c.verdict == self.verdict
        if self.mechanism:
            yield _FILTERED_HOST.c.mechanism == self.mechanism
        if self.same_host is not None:
            yield _FILTERED_HOST.c.name == self.same_host
        if self.host:
            part = shorten(self.host)[:MAX_SHORT_CHARS].translate(_ASCII_LOWER)
            yield func.lower(_FILTERED_HOST.c.name).contains(part, autoescape=True)
        if self.rule:
            yield finding.c.rule == self.rule


class CaseCount(NamedTuple):
    """The number of matching cases; with `more` there are further ones that were not counted."""

    number: int
    more: bool = False


class Cases:
    """`receivers` are the keys of the receivers that are notified of each new case."""

    def __init__(self, engine: Engine, clock: Clock, receivers: Sequence[str] = ()) -> None:
        self._engine, self._clock, self._receivers = engine, clock, receivers

    def find(self, key: str) -> Case | None:
        row = fetch_row(self._engine, _select_cases().where(case.c.id == key)) if is_id(key) else None
        return None if row is None else Case(*row)

    def is_sent_by(self, key: str, owner: str) -> bool:
        """Whether a case is the result of an upload of this owner."""
        has_upload = exists().where(upload.c.job == job.c.number, upload.c.owner == owner)
        sent = select(case.c.number).join(job, job.c.case == case.c.number).where(case.c.id == key)
        sent = sent.where(or_(job.c.owner == owner, has_upload))
        return is_id(key) and fetch_row(self._engine, sent) is not None

    def document(self, key: str) -> dict[str, Any] | None:
        """Return the result document; None if there is no such case."""
        if not is_id(key):
            return None
        packed = select(document.c.packed).join(case, document.c.case == case.c.number).where(case.c.id == key)
        return _unpack(fetch_value(self._engine, packed))

    def documents(self) -> Iterator[tuple[Case, dict[str, Any]]]:
        """Yield all cases with documents in order of creation, in constant memory."""
        last = 0
        joined = _select_cases().add_columns(document.c.packed).join(document, document.c.case == case.c.number)
        ordered = joined.order_by(case.c.number).limit(CASES_PER_QUERY)
        while rows := fetch_rows(self._engine, ordered.where(case.c.number > last)):
            yield from ((Case(*row[:-1]), _unpack(row[-1]) or {}) for row in rows)
            last = rows[-1][0]

    def page(
        self, question: CaseFilter, below: int | None = None, limit: int = CASES_PER_PAGE, above: int | None = None
    ) -> list[Case]:
        """Return the latest matching cases; the next page is `below` the number of the last one.

        With `above` it is the page before: the cases just above that number, also latest first.
        """
        matches = _select_matches(question)
        if below is not None:
            matches = matches.where(case.c.number < below)
        if above is not None:
            matches = matches.where(case.c.number > above)
        order = case.c.number.desc() if above is None else case.c.number.asc()
        return self._fetch_cases(matches.order_by(order).limit(limit))

    def first_page(self, question: CaseFilter, limit: int = CASES_PER_PAGE) -> tuple[list[Case], CaseCount]:
        """Return the latest cases and their number; a search by words runs one query for both."""
        if not question.words:
            cases = self.page(question, limit=limit)
            return cases, CaseCount(len(cases)) if len(cases) < limit else self.size(question)
        latest = _select_matches(question).order_by(case.c.number.desc()).limit(MAX_COUNTED + 1)
        numbers = [row.number for row in fetch_rows(self._engine, latest)]
        return self._fetch_cases(numbers[:limit]), _case_count(len(numbers))

    def _fetch_cases(self, numbers: Select[tuple[int]] | list[int]) -> list[Case]:
        rows = _select_cases().where(case.c.number.in_(numbers)).order_by(case.c.number.desc())
        return [Case(*row) for row in fetch_rows(self._engine, rows)]

    def count(self, question: CaseFilter, limit: int | None = None) -> int:
        """Count matching cases, up to `limit`."""
        matches = _select_matches(question).limit(limit).subquery()
        return int(fetch_value(self._engine, select(func.count()).select_from(matches)) or 0)

    def size(self, question: CaseFilter) -> CaseCount:
        """Return the size of a list; a search by words is counted up to MAX_COUNTED."""
        if not question.words:
            return CaseCount(self.count(question))
        return _case_count(self.count(question, MAX_COUNTED + 1))

    def counts(self) -> dict[str, int]:
        """Return the number of cases by the verdict of the leading host; the key is empty without a verdict."""
        by_verdict = select(host.c.verdict, func.count()).select_from(case.outerjoin(host, _LEADING_HOST))
        rows = fetch_rows(self._engine, by_verdict.group_by(host.c.verdict))
        return {verdict or "": int(number) for verdict, number in rows}

    def outdated_cases(self, analysis: Analysis) -> list[str]:
        """Return ids of latest versions that were made by another version or other rules, earliest first."""
        outdated = (case.c.analysis != analysis_key(analysis)) & case.c.superseded.is_(False)
        return fetch_column(self._engine, select(case.c.id).where(outdated).order_by(case.c.number))

    def changed_cases(self, analysis: Analysis, limit: int) -> list[tuple[Case, Case]]:
        """Return pairs of the previous and the latest version of a case, for the latest cases that changed.

        Both have the same files, the latest was made by `analysis`, and the verdict of the leading host differs.
        """
        before = case.alias("before")
        same = (before.c.thread == case.c.thread) & (before.c.sha256 == case.c.sha256)
        same &= (before.c.number < case.c.number) & (before.c.analysis != case.c.analysis)
        first, last = host.alias("first"), host.alias("last")
        differs = or_(*(first.c[name].is_distinct_from(last.c[name]) for name in VERDICT_COLUMNS))
        pairs = (
            select(case.c.id, func.max(before.c.number))
            .select_from(case.join(before, same))
            .where(case.c.analysis == analysis_key(analysis), case.c.superseded.is_(False))
            .group_by(case.c.id, case.c.number)
        ).subquery()
        old, new = case.alias("old"), case.alias("new")
        joined = pairs.join(new, new.c.id == pairs.c[0]).join(old, old.c.number == pairs.c[1])
        joined = joined.outerjoin(last, (last.c.case == new.c.number) & (last.c.place == 0))
        joined = joined.outerjoin(first, (first.c.case == old.c.number) & (first.c.place == 0))
        changed = select(old.c.id, new.c.id).select_from(joined).where(differs).order_by(new.c.number.desc())
        cases = ((self.find(a), self.find(b)) for a, b in fetch_rows(self._engine, changed.limit(limit)))
        return [(a, b) for a, b in cases if a is not None and b is not None]

    def set_kept(self, key: str, *, kept: bool) -> bool:
        """Exclude a case and its bundle from retention, or include them again; False if there is no such case."""
        if not is_id(key):
            return False
        with write_transaction(self._engine) as connection:
            return connection.execute(update(case).where(case.c.id == key).values(kept=kept)).rowcount > 0

    def complete(self, claim: Claim, result: PackedResult, analysis: Analysis) -> str | None:
        """Store the result of a job and end the job in one transaction; return the id of the case.

        None if the claim was lost: the job was claimed again, or its bundle was deleted. ValueError for a result
        without a document, which is for `Jobs.fail`.
        """
        if result.document is None:
            raise ValueError("no document: the job has failed")
        now, sha256 = self._clock(), claim.job.sha256
        with write_transaction(self._engine) as connection:
            lock_bundle(connection, sha256)  # always the first lock, to prevent deadlocks
            claimed = select(job.c.number, job.c.name, job.c.thread).where(is_claimed_by(claim)).with_for_update()
            row = connection.execute(claimed).first()
            if row is None:
                return None
            number, key = self._add(connection, claim.job, row.thread, result, analysis)
            ended = {"state": DONE, "case": number, "claim": None, "ended": now, "reason": result.reason, "stage": ""}
            ended |= {"status": result.status if result.status == REFUSED else ""}
            connection.execute(update(job).where(job.c.number == row.number).values(ended))
        return key

    def _add(
        self, connection: Connection, done: Job, thread: int | None, result: PackedResult, analysis: Analysis
    ) -> tuple[int, str]:
        """Return number and id of the case of a finished job; add it unless the same analysis has made it already."""
        sha256 = done.sha256
        values = {
            **{"id": new_id(), "sha256": sha256, "analysis": analysis_key(analysis), "name": done.name},
            **{"tool_version": analysis.tool_version, "rules_digest": analysis.rules_digest},
            **{"options": analysis.options_text, "status": result.status, "reason": result.reason},
            **{"made": self._clock(), "kept": False},
        }
        if thread is not None:  # a new version inherits `kept`
            kept = select(case.c.kept).where(case.c.thread == thread, case.c.superseded.is_(False))
            values["kept"] = bool(connection.scalar(kept))
        add = upsert(connection, case).values(values).on_conflict_do_nothing(index_elements=["sha256", "analysis"])
        added = connection.execute(add.returning(case.c.number, case.c.id)).first()
        if added is None:
            existing = connection.execute(_select_same_analysis(sha256, analysis)).one()
            return existing.number, existing.id
        thread = added.number if thread is None else thread
        connection.execute(update(case).where(case.c.number == added.number).values(thread=thread))
        update_superseded(connection, thread)
        connection.execute(insert(document).values(case=added.number, packed=result.document))
        for receiver in self._receivers:
            pending = {"id": new_id(), "receiver": receiver, "case": added.number, "attempts": 0, "due": self._clock()}
            connection.execute(insert(delivery).values(pending))
        for place, (cells, findings) in enumerate(result.hosts):
            columns: dict[str, Any] = dict(zip(HOST_FIELDS, cells, strict=True))
            undecided = None if columns["undecided"] is None else int(columns["undecided"])
            columns |= {"case": added.number, "place": place, "undecided": undecided}
            connection.execute(insert(host).values(columns))
            rows = [
                {"case": added.number, "host": place, "place": i, **dict(zip(FINDING_FIELDS, found, strict=True))}
                for i, found in enumerate(findings)
            ]
            if rows:
                connection.execute(insert(finding), rows)
        index_case(connection, thread)
        return added.number, added.id


def update_superseded(connection: Connection, thread: int) -> None:
    """Mark all versions of a case but the latest as superseded, after one was added or deleted."""
    versions = case.c.thread == thread
    latest = connection.scalar(select(func.max(case.c.number)).where(versions))
    if latest is not None:
        connection.execute(update(case).where(versions).values(superseded=case.c.number != latest))


def case_number(connection: Connection, sha256: str, analysis: Analysis) -> int | None:
    """Return the number of the case that an analysis has made of a bundle, if there is one."""
    row = connection.execute(_select_same_analysis(sha256, analysis)).first()
    return None if row is None else int(row.number)


def analysis_key(analysis: Analysis) -> str:
    """Return a digest of everything that determines the result of a bundle."""
    text = compact({"": [analysis.tool_version, analysis.rules_digest, analysis.options_text]})
    return digest(text.encode()).hexdigest()


def _select_cases() -> Select[Any]:
    """Select cases with their leading host, in the columns of `Case`."""
    columns: tuple[Any, ...] = (*(case.c[name] for name in _CASE_COLUMNS), *(host.c[name] for name in _HOST_COLUMNS))
    work_columns = (work.c.state, NEW), (work.c.assignee, ""), (work.c.ticket, "")
    columns = (*columns, case.c.thread, case.c.superseded, *(func.coalesce(*pair) for pair in work_columns))
    joined = case.outerjoin(host, _LEADING_HOST).outerjoin(work, work.c.thread == case.c.thread)
    return select(*columns).select_from(joined)


def _select_matches(question: CaseFilter) -> Select[tuple[int]]:
    """Select only the numbers of matching cases: sorting complete rows takes ten times as long."""
    return select(case.c.number).where(*question.conditions())


def _case_count(number: int) -> CaseCount:
    return CaseCount(min(number, MAX_COUNTED), number > MAX_COUNTED)


def _select_same_analysis(sha256: str, analysis: Analysis) -> Select[tuple[int, str]]:
    same = (case.c.sha256 == sha256) & (case.c.analysis == analysis_key(analysis))
    return select(case.c.number, case.c.id).where(same)


def _unpack(packed: bytes | None) -> dict[str, Any] | None:
    return None if packed is None else json.loads(zlib.decompress(packed))


MAX_DUE: Final = 100  # deliveries per query


@dataclass(frozen=True, slots=True)
class Delivery:
    """`receiver` is the key of an address, `case` the id of the case, `attempts` the number of failed attempts."""

    number: int
    id: str
    receiver: str
    case: str
    attempts: int


class Deliveries:
    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    def due(self, max_wait: float) -> list[Delivery]:
        """Return due deliveries, the earliest first.

        A delivery due later than `max_wait` seconds from now was scheduled before the clock was set back; it is due.
        """
        columns = (delivery.c.number, delivery.c.id, delivery.c.receiver, case.c.id, delivery.c.attempts)
        now = self._clock()
        is_due = (delivery.c.due <= now) | (delivery.c.due > now + max_wait)
        rows = select(*columns).join(case, delivery.c.case == case.c.number).where(is_due)
        return [Delivery(*row) for row in fetch_rows(self._engine, rows.order_by(delivery.c.number).limit(MAX_DUE))]

    def postpone(self, failed: Delivery, until: float) -> None:
        with write_transaction(self._engine) as connection:
            row = delivery.c.number == failed.number
            connection.execute(update(delivery).where(row).values(attempts=failed.attempts + 1, due=until))

    def remove(self, ended: Delivery) -> None:
        with write_transaction(self._engine) as connection:
            connection.execute(delete(delivery).where(delivery.c.number == ended.number))
