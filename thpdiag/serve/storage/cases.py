"""Cases: what came of the analysis of a bundle, under an id that nobody can guess, and lists of them.

The same bundle analysed again in the same way (version of thpdiag, rules, options) has the same case. Lists are by
host, verdict, mechanism, rule and time, the latest first, page by page; of the versions of a case they have the latest.
A case with several hosts is found by any of them; all that is asked of a host must hold of the same one.
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
MAX_COUNTED: Final = 1_000  # cases of a search: to count on would take longer than to show them
VERDICT_COLUMNS: Final = ("verdict", "rule", "severity", "confidence")
_ANY_HOST: Final = host.alias("any_host")  # beside the one that leads
_LEADING_HOST: Final = (host.c.case == case.c.number) & (host.c.place == 0)
_ASCII_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@dataclass(frozen=True, slots=True)
class Case:
    """A case as lists show it: itself, and the host that leads. `recorded` is when the data was, as far as is known."""

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
    """What is empty or None is not asked for.

    `host` is a part of a host's name, in capitals or not (of ASCII letters); `same_host` is the whole name. `rule` is
    of any finding; `since` and `until` are of when the case was made. `versions`: superseded ones too. `state` and
    `assignee` are of the work on it. `words` are beginnings of words of the case or of its notes.
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
        """Of a case."""
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
        of_host = list(self._host_conditions())
        if of_host:  # the numbers are found once: a subquery per case would read an index anew for each
            numbers = select(_ANY_HOST.c.case).where(*of_host)
            if self.rule:
                same = (finding.c.case == _ANY_HOST.c.case) & (finding.c.host == _ANY_HOST.c.place)
                numbers = numbers.join(finding, same)
            yield case.c.number.in_(numbers)

    def _work_conditions(self) -> Iterator[ColumnElement[bool]]:
        if self.state == NEW:  # also of one that nobody has worked on
            yield case.c.thread.not_in(select(work.c.thread).where(work.c.state != NEW))
        elif self.state:
            yield case.c.thread.in_(select(work.c.thread).where(work.c.state == self.state))
        if self.assignee:
            yield case.c.thread.in_(select(work.c.thread).where(work.c.assignee == self.assignee))

    def _host_conditions(self) -> Iterator[ColumnElement[bool]]:
        if self.verdict:
            yield _ANY_HOST.c.verdict == self.verdict
        if self.mechanism:
            yield _ANY_HOST.c.mechanism == self.mechanism
        if self.same_host is not None:
            yield _ANY_HOST.c.name == self.same_host
        if self.host:
            part = shorten(self.host)[:MAX_SHORT_CHARS].translate(_ASCII_LOWER)
            yield func.lower(_ANY_HOST.c.name).contains(part, autoescape=True)
        if self.rule:
            yield finding.c.rule == self.rule


class CaseCount(NamedTuple):
    """How many cases fit a question; with `more` at least one more than that."""

    number: int
    more: bool = False


class Cases:
    """`receivers` are told of each new case; digests of the addresses of webhooks."""

    def __init__(self, engine: Engine, clock: Clock, receivers: Sequence[str] = ()) -> None:
        self._engine, self._clock, self._receivers = engine, clock, receivers

    def find(self, key: str) -> Case | None:
        row = fetch_row(self._engine, _select_cases().where(case.c.id == key)) if is_id(key) else None
        return None if row is None else Case(*row)

    def is_sent_by(self, key: str, owner: str) -> bool:
        """Whether a case is of something that this owner has sent."""
        theirs = exists().where(upload.c.job == job.c.number, upload.c.owner == owner)
        sent = select(case.c.number).join(job, job.c.case == case.c.number).where(case.c.id == key)
        sent = sent.where(or_(job.c.owner == owner, theirs))
        return is_id(key) and fetch_row(self._engine, sent) is not None

    def document(self, key: str) -> dict[str, Any] | None:
        """The result document as it was made; None for a case that is not there."""
        if not is_id(key):
            return None
        packed = select(document.c.packed).join(case, document.c.case == case.c.number).where(case.c.id == key)
        return _unpack(fetch_value(self._engine, packed))

    def documents(self) -> Iterator[tuple[Case, dict[str, Any]]]:
        """All of them in the order in which they were made, in memory that does not grow with their number."""
        last = 0
        whole = _select_cases().add_columns(document.c.packed).join(document, document.c.case == case.c.number)
        in_order = whole.order_by(case.c.number).limit(CASES_PER_QUERY)
        while rows := fetch_rows(self._engine, in_order.where(case.c.number > last)):
            yield from ((Case(*row[:-1]), _unpack(row[-1]) or {}) for row in rows)
            last = rows[-1][0]

    def page(
        self, question: CaseFilter, below: int | None = None, limit: int = CASES_PER_PAGE, above: int | None = None
    ) -> list[Case]:
        """The latest cases; the next page is that `below` the number of the last one of this.

        With `above` they are those that come just before that number in the list: the way back. Latest first too.
        """
        fitting = _select_fitting(question)
        if below is not None:
            fitting = fitting.where(case.c.number < below)
        if above is not None:
            fitting = fitting.where(case.c.number > above)
        in_order = case.c.number.desc() if above is None else case.c.number.asc()
        return self._of_numbers(fitting.order_by(in_order).limit(limit))

    def first_page(self, question: CaseFilter, limit: int = CASES_PER_PAGE) -> tuple[list[Case], CaseCount]:
        """The latest cases, and how many there are: of a search by words in one look."""
        if not question.words:
            shown = self.page(question, limit=limit)
            return shown, CaseCount(len(shown)) if len(shown) < limit else self.size(question)
        latest = _select_fitting(question).order_by(case.c.number.desc()).limit(MAX_COUNTED + 1)
        numbers = [row.number for row in fetch_rows(self._engine, latest)]
        return self._of_numbers(numbers[:limit]), _case_count(len(numbers))

    def _of_numbers(self, numbers: Select[tuple[int]] | list[int]) -> list[Case]:
        shown = _select_cases().where(case.c.number.in_(numbers)).order_by(case.c.number.desc())
        return [Case(*row) for row in fetch_rows(self._engine, shown)]

    def count(self, question: CaseFilter, most: int | None = None) -> int:
        """How many cases fit; none beyond `most` is counted."""
        fitting = _select_fitting(question).limit(most).subquery()
        return int(fetch_value(self._engine, select(func.count()).select_from(fitting)) or 0)

    def size(self, question: CaseFilter) -> CaseCount:
        """The size of a list; a search by words is counted up to MAX_COUNTED."""
        if not question.words:
            return CaseCount(self.count(question))
        return _case_count(self.count(question, MAX_COUNTED + 1))

    def counts(self) -> dict[str, int]:
        """How many cases there are by the verdict of the host that leads; empty where none is told."""
        by_verdict = select(host.c.verdict, func.count()).select_from(case.outerjoin(host, _LEADING_HOST))
        rows = fetch_rows(self._engine, by_verdict.group_by(host.c.verdict))
        return {verdict or "": int(number) for verdict, number in rows}

    def outdated_cases(self, analysis: Analysis) -> list[str]:
        """Ids of cases that were made by another version or other rules, the latest of each; earliest first."""
        other = (case.c.analysis != analysis_key(analysis)) & case.c.superseded.is_(False)
        return fetch_column(self._engine, select(case.c.id).where(other).order_by(case.c.number))

    def changed_by(self, analysis: Analysis, limit: int) -> list[tuple[Case, Case]]:
        """Cases with the version before them, where this analysis judges the same files otherwise; latest first."""
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
        whole = pairs.join(new, new.c.id == pairs.c[0]).join(old, old.c.number == pairs.c[1])
        whole = whole.outerjoin(last, (last.c.case == new.c.number) & (last.c.place == 0))
        whole = whole.outerjoin(first, (first.c.case == old.c.number) & (first.c.place == 0))
        wanted = select(old.c.id, new.c.id).select_from(whole).where(differs).order_by(new.c.number.desc()).limit(limit)
        found = ((self.find(a), self.find(b)) for a, b in fetch_rows(self._engine, wanted))
        return [(a, b) for a, b in found if a is not None and b is not None]

    def set_kept(self, key: str, *, kept: bool) -> bool:
        """Have retention spare it, and its bundle, or treat it as any other; False if it is not there."""
        if not is_id(key):
            return False
        with write_transaction(self._engine) as connection:
            return connection.execute(update(case).where(case.c.id == key).values(kept=kept)).rowcount > 0

    def complete(self, claim: Claim, result: PackedResult, analysis: Analysis) -> str | None:
        """Store what came of a job and end it, both or none; the id of the case.

        None if the job is no longer this claim's: it was claimed again, or its bundle was deleted meanwhile. A result
        without a document is no case: such a job fails.
        """
        if result.document is None:
            raise ValueError("no document: the job has failed")
        now, sha256 = self._clock(), claim.job.sha256
        with write_transaction(self._engine) as connection:
            lock_bundle(connection, sha256)  # first, as everybody does: two who hold and wait would wait for ever
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
        """Number and id of the case, which is added unless the same analysis has made it already."""
        sha256 = done.sha256
        made = {
            **{"id": new_id(), "sha256": sha256, "analysis": analysis_key(analysis), "name": done.name},
            **{"tool_version": analysis.tool_version, "rules_digest": analysis.rules_digest},
            **{"options": analysis.options_text, "status": result.status, "reason": result.reason},
            **{"made": self._clock(), "kept": False},
        }
        if thread is not None:  # what was kept stays so in its next version
            kept = select(case.c.kept).where(case.c.thread == thread, case.c.superseded.is_(False))
            made["kept"] = bool(connection.scalar(kept))
        add = upsert(connection, case).values(made).on_conflict_do_nothing(index_elements=["sha256", "analysis"])
        added = connection.execute(add.returning(case.c.number, case.c.id)).first()
        if added is None:
            row = connection.execute(_select_same_analysis(sha256, analysis)).one()
            return row.number, row.id
        own = added.number if thread is None else thread
        connection.execute(update(case).where(case.c.number == added.number).values(thread=own))
        settle_thread(connection, own)
        connection.execute(insert(document).values(case=added.number, packed=result.document))
        for receiver in self._receivers:
            news = {"id": new_id(), "receiver": receiver, "case": added.number, "attempts": 0, "due": self._clock()}
            connection.execute(insert(delivery).values(news))
        for place, (cells, findings) in enumerate(result.hosts):
            columns: dict[str, Any] = dict(zip(HOST_FIELDS, cells, strict=True))
            undecided = None if columns["undecided"] is None else int(columns["undecided"])
            columns |= {"case": added.number, "place": place, "undecided": undecided}
            connection.execute(insert(host).values(columns))
            rows = [dict(zip(FINDING_FIELDS, found, strict=True)) for found in findings]
            if rows:
                of_host = {"case": added.number, "host": place}
                connection.execute(insert(finding), [{**of_host, "place": at, **row} for at, row in enumerate(rows)])
        index_case(connection, own)
        return added.number, added.id


def settle_thread(connection: Connection, thread: int) -> None:
    """Of the versions of a case the latest counts; called whenever one came or went."""
    own = case.c.thread == thread
    latest = connection.scalar(select(func.max(case.c.number)).where(own))
    if latest is not None:
        connection.execute(update(case).where(own).values(superseded=case.c.number != latest))


def case_number(connection: Connection, sha256: str, analysis: Analysis) -> int | None:
    """The number of the case of a bundle, if this analysis has made one."""
    row = connection.execute(_select_same_analysis(sha256, analysis)).first()
    return None if row is None else int(row.number)


def analysis_key(analysis: Analysis) -> str:
    """One short text for all that changes a result but the bundle."""
    whole = compact({"": [analysis.tool_version, analysis.rules_digest, analysis.options_text]})
    return digest(whole.encode()).hexdigest()


def _select_cases() -> Select[Any]:
    """Cases with the host that leads, in the columns of `Case`."""
    columns: tuple[Any, ...] = (*(case.c[name] for name in _CASE_COLUMNS), *(host.c[name] for name in _HOST_COLUMNS))
    told = (func.coalesce(work.c.state, NEW), func.coalesce(work.c.assignee, ""), func.coalesce(work.c.ticket, ""))
    columns = (*columns, case.c.thread, case.c.superseded, *told)
    whole = case.outerjoin(host, _LEADING_HOST).outerjoin(work, work.c.thread == case.c.thread)
    return select(*columns).select_from(whole)


def _select_fitting(question: CaseFilter) -> Select[tuple[int]]:
    """The numbers alone: to sort and cut whole rows takes ten times as long."""
    return select(case.c.number).where(*question.conditions())


def _case_count(number: int) -> CaseCount:
    return CaseCount(min(number, MAX_COUNTED), number > MAX_COUNTED)


def _select_same_analysis(sha256: str, analysis: Analysis) -> Select[tuple[int, str]]:
    same = (case.c.sha256 == sha256) & (case.c.analysis == analysis_key(analysis))
    return select(case.c.number, case.c.id).where(same)


def _unpack(packed: bytes | None) -> dict[str, Any] | None:
    return None if packed is None else json.loads(zlib.decompress(packed))


MAX_DUE: Final = 100  # that are sent at a time


@dataclass(frozen=True, slots=True)
class Delivery:
    """`receiver` stands for an address, `case` is the id of the case, `attempts` how often it was sent in vain."""

    number: int
    id: str
    receiver: str
    case: str
    attempts: int


class Deliveries:
    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    def due(self, longest_wait: float) -> list[Delivery]:
        """The earliest first; also what would wait for longer than that, from before the clock was set back."""
        columns = (delivery.c.number, delivery.c.id, delivery.c.receiver, case.c.id, delivery.c.attempts)
        now = self._clock()
        is_due = (delivery.c.due <= now) | (delivery.c.due > now + longest_wait)
        wanted = select(*columns).join(case, delivery.c.case == case.c.number).where(is_due)
        return [Delivery(*row) for row in fetch_rows(self._engine, wanted.order_by(delivery.c.number).limit(MAX_DUE))]

    def postpone(self, one: Delivery, until: float) -> None:
        with write_transaction(self._engine) as connection:
            own = delivery.c.number == one.number
            connection.execute(update(delivery).where(own).values(attempts=one.attempts + 1, due=until))

    def remove(self, one: Delivery) -> None:
        with write_transaction(self._engine) as connection:
            connection.execute(delete(delivery).where(delivery.c.number == one.number))
