"""The queue of analyses. A job is claimed by one worker at a time and survives crashes, on both databases.

    queued    waits; owners take turns, jobs of one owner are claimed in order
    running   a worker has claimed it and sends heartbeats
    done      its case is stored
    failed    `status` names how it ended, `reason` describes why there is no case

Each claim has a secret: a worker that counted as dead and lost its claim can no longer end the job.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, Select, func, insert, select, update

from thpdiag.model.document import compact
from thpdiag.serve.storage.database import (
    Clock,
    advisory_lock,
    case,
    fetch_column,
    fetch_row,
    fetch_rows,
    fetch_value,
    is_id,
    job,
    new_id,
    upload,
    write_transaction,
)

QUEUED: Final = "queued"
RUNNING: Final = "running"
DONE: Final = "done"
FAILED: Final = "failed"
LIVE_STATES: Final = (QUEUED, RUNNING)
MAX_ATTEMPTS: Final = 3
JOBS_PER_QUERY: Final = 500
_CLAIM_LOCK: Final = 0x54687051  # advisory lock of PostgreSQL for claims: "ThpQ"
SERVER_ENDED: Final = "the analysis was begun {} times, and each time the server ended before it did"
FILE_GONE: Final = "the file of the bundle is gone"
_QUEUED_VALUES: Final[Mapping[str, Any]] = {
    **{"state": QUEUED, "claim": None, "started": None, "heartbeat": None, "stage": ""},
}


@dataclass(frozen=True, slots=True)
class Job:
    """`options` is the JSON of the options of the analysis, `case` the id of the resulting case.

    `status` is how a failed analysis ended (`timeout`, `limit (cpu)`, `signal 9`), empty if unknown and in all other
    states; `refused` if the job is done and nothing was recognised.
    """

    id: str
    sha256: str
    options: str
    name: str
    owner: str
    state: str
    attempts: int
    queued: float
    started: float | None
    heartbeat: float | None
    ended: float | None
    stage: str
    status: str
    reason: str
    case: str | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A running job with the secret of its claim."""

    job: Job
    secret: str


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A requested analysis; `name` is that of the upload, for display."""

    sha256: str
    name: str
    owner: str
    options: Mapping[str, Any]
    thread: int | None = None  # of the case that gets a new version


class Jobs:
    """`per_owner` is the number of concurrent jobs of one owner; None: no limit."""

    def __init__(
        self, engine: Engine, clock: Clock, steady: Clock, attempts: int = MAX_ATTEMPTS, per_owner: int | None = None
    ) -> None:
        self._engine, self._clock, self._steady = engine, clock, steady
        self._attempts, self._per_owner = attempts, per_owner
        self._heartbeats: dict[str, float] = {}  # the last one of each claim, by the monotonic clock

    def find(self, key: str) -> Job | None:
        row = fetch_row(self._engine, _select_jobs().where(job.c.id == key)) if is_id(key) else None
        return None if row is None else Job(*row)

    def find_for_owner(self, key: str, owner: str) -> Job | None:
        """Return a job of an upload of this owner, with the name of that upload; None if there is none.

        The same content of two senders is one job, and a sender must not see the name that the other one used.
        """
        found = self.find(key)
        if found is None:
            return None
        sent = select(upload.c.name).join(job, upload.c.job == job.c.number).order_by(upload.c.begun.desc()).limit(1)
        name = fetch_value(self._engine, sent.where(job.c.id == key, upload.c.owner == owner))
        if name is None:
            return found if found.owner == owner else None
        return replace(found, name=str(name))

    def counts(self) -> dict[str, int]:
        """Return the number of jobs by state, without empty states."""
        rows = fetch_rows(self._engine, select(job.c.state, func.count()).group_by(job.c.state))
        return {state: int(number) for state, number in rows}

    def count_ahead(self, key: str) -> int:
        """Return how many jobs are before this one in the queue."""
        return self.find_many([key]).get(key, (None, 0))[1]

    def find_many(self, keys: Collection[str]) -> dict[str, tuple[Job, int]]:
        """Return existing jobs by id, each with the number of jobs before it in the queue."""
        turn = func.row_number().over(partition_by=job.c.owner, order_by=job.c.number)
        served = _last_served(job.c.owner)
        turns = select(job.c.number, turn.label("turn"), served.label("served")).where(job.c.state == QUEUED).subquery()
        place = func.row_number().over(order_by=(turns.c.turn, turns.c.served, turns.c.number)) - 1
        queue = select(turns.c.number, place.label("ahead")).subquery()
        with_position = _select_jobs().add_columns(func.coalesce(queue.c.ahead, 0))
        with_position = with_position.outerjoin(queue, queue.c.number == job.c.number)
        ids = [key for key in keys if is_id(key)]
        found: dict[str, tuple[Job, int]] = {}
        for start in range(0, len(ids), JOBS_PER_QUERY):
            rows = fetch_rows(self._engine, with_position.where(job.c.id.in_(ids[start : start + JOBS_PER_QUERY])))
            found |= {row[0]: (Job(*row[:-1]), int(row[-1])) for row in rows}
        return found

    def claim(self) -> Claim | None:
        """Claim the first job of the owner who has waited longest for a turn.

        None if no job is queued whose owner may run another one.
        """
        secret, now = secrets.token_hex(16), self._clock()
        queued = select(job.c.owner, func.min(job.c.number).label("number")).where(job.c.state == QUEUED)
        owners = queued.group_by(job.c.owner).subquery()
        next_one = select(owners.c.number).order_by(_last_served(owners.c.owner), owners.c.number).limit(1)
        if self._per_owner is not None:
            others = job.alias("others")
            running = select(func.count()).where(others.c.state == RUNNING, others.c.owner == owners.c.owner)
            next_one = next_one.where(running.scalar_subquery() < self._per_owner)
        first = next_one.scalar_subquery()
        values = {"state": RUNNING, "claim": secret, "attempts": job.c.attempts + 1, "started": now, "heartbeat": now}
        taken = update(job).where(job.c.number == first, job.c.state == QUEUED).values({**values, "stage": ""})
        with write_transaction(self._engine) as connection:
            advisory_lock(connection, _CLAIM_LOCK)
            number = connection.execute(taken.returning(job.c.number)).scalar()
            row = None if number is None else connection.execute(_select_jobs().where(job.c.number == number)).first()
        if row is None:
            return None
        self._heartbeats[secret] = self._steady()
        return Claim(Job(*row), secret)

    def heartbeat(self, claim: Claim, stage: str) -> bool:
        """Store a sign of life with the current stage; False if the claim was lost."""
        is_ours = self._change(claim, {"heartbeat": self._clock(), "stage": stage})
        if is_ours:
            self._heartbeats[claim.secret] = self._steady()
        return is_ours

    def fail(self, claim: Claim, reason: str, status: str = "") -> bool:
        """End a job without a case; False if the claim was lost."""
        ended = {"state": FAILED, "status": status, "reason": reason, "claim": None, "ended": self._clock()}
        return self._change(claim, ended)

    def requeue(self, claim: Claim) -> bool:
        """Return a job to the queue at a clean shutdown, without counting the attempt; False if the claim was lost."""
        return self._change(claim, {**_QUEUED_VALUES, "attempts": job.c.attempts - 1})

    def requeue_lost(self, silent_seconds: float | None = None) -> int:
        """Requeue the jobs of a server that has ended, and return how many there were.

        With `silent_seconds`: only jobs without a heartbeat for so long in this process, whose worker thread has died.
        A job without attempts left fails.
        """
        lost = job.c.state == RUNNING
        if silent_seconds is not None:
            if not (silent := self._list_silent(silent_seconds)):
                return 0
            lost &= job.c.claim.in_(silent)
        reason = {"status": "lost", "reason": SERVER_ENDED.format(self._attempts)}
        failed = {"state": FAILED, "claim": None, "ended": self._clock(), **reason}
        with write_transaction(self._engine) as connection:
            connection.execute(update(job).where(lost, job.c.attempts >= self._attempts).values(failed))
            return connection.execute(update(job).where(lost).values(_QUEUED_VALUES)).rowcount

    def _list_silent(self, seconds: float) -> list[str]:
        """Return the secrets of silent claims; the silence of an unknown claim is measured from this call."""
        claims, now = fetch_column(self._engine, select(job.c.claim).where(job.c.state == RUNNING)), self._steady()
        for secret in set(self._heartbeats) - set(claims):
            self._heartbeats.pop(secret, None)
        return [secret for secret in claims if now - self._heartbeats.setdefault(secret, now) >= seconds]

    def _change(self, claim: Claim, values: Mapping[str, Any]) -> bool:
        with write_transaction(self._engine) as connection:
            return connection.execute(update(job).where(is_claimed_by(claim)).values(values)).rowcount > 0


def _last_served(owner: ColumnElement[str]) -> ColumnElement[float]:
    """The start of the last job of an owner; 0 without one."""
    served = job.alias("served")
    return func.coalesce(select(func.max(served.c.started)).where(served.c.owner == owner).scalar_subquery(), 0.0)


def is_claimed_by(claim: Claim) -> ColumnElement[bool]:
    """Condition on a job: the claim holds it."""
    return (job.c.id == claim.job.id) & (job.c.state == RUNNING) & (job.c.claim == claim.secret)


def add_job(connection: Connection, request: JobRequest, now: float, case_number: int | None) -> int:
    """Add a job and return its number; with the number of an existing case it is done at once."""
    row = {
        **{"id": new_id(), "sha256": request.sha256, "options": compact(request.options), "name": request.name},
        **{"owner": request.owner, "attempts": 0, "queued": now, "stage": "", "status": "", "reason": ""},
        **{"thread": request.thread},
        **({"state": QUEUED} if case_number is None else {"state": DONE, "ended": now, "case": case_number}),
    }
    return int(connection.execute(insert(job).values(row).returning(job.c.number)).scalar_one())


def find_live_job(connection: Connection, request: JobRequest) -> int | None:
    """Return the number of a queued or running job for the same analysis."""
    same = (job.c.sha256 == request.sha256) & (job.c.options == compact(request.options))
    same &= job.c.state.in_(LIVE_STATES)
    return connection.scalar(select(job.c.number).where(same).order_by(job.c.number).limit(1))


def _select_jobs() -> Select[Any]:
    columns = [job.c[name] for name in Job.__dataclass_fields__ if name != "case"]
    return select(*columns, case.c.id).select_from(job.outerjoin(case, job.c.case == case.c.number))
