"""The queue of analyses. Each is claimed by one worker at a time, on both databases, and outlives any crash.

    queued    waits; owners take turns, of each the first that came is the first that is claimed
    running   a worker has claimed it, and says so by a heartbeat
    done      its case is there
    failed    `status` names how it ended, `reason` says why there is no case

A claim has a secret of its own. Who was thought dead and has lost its claim to another can no longer end the job.
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
_CLAIM_LOCK: Final = 0x54687051  # the lock of PostgreSQL under which jobs are claimed: "ThpQ"
SERVER_ENDED: Final = "the analysis was begun {} times, and each time the server ended before it did"
FILE_GONE: Final = "the file of the bundle is gone"
_QUEUED_VALUES: Final[Mapping[str, Any]] = {
    **{"state": QUEUED, "claim": None, "started": None, "heartbeat": None, "stage": ""},
}


@dataclass(frozen=True, slots=True)
class Job:
    """`options` is the JSON of the options of the analysis; `case` the id of what came of it.

    `status` is how an analysis ended that has failed (`timeout`, `limit (cpu)`, `signal 9`), empty where nobody
    knows and in all other states; `refused` of one that is done and recognised nothing.
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
    """A job that is the holder's to do."""

    job: Job
    secret: str


@dataclass(frozen=True, slots=True)
class JobRequest:
    """An analysis that somebody asks for; the name is that of the upload, for people."""

    sha256: str
    name: str
    owner: str
    options: Mapping[str, Any]
    thread: int | None = None  # of the case that becomes a new version


class Jobs:
    """`per_owner` is how many jobs of one owner may run at a time; None for as many as there are workers."""

    def __init__(
        self, engine: Engine, clock: Clock, steady: Clock, attempts: int = MAX_ATTEMPTS, per_owner: int | None = None
    ) -> None:
        self._engine, self._clock, self._steady = engine, clock, steady
        self._attempts, self._per_owner = attempts, per_owner
        self._beats: dict[str, float] = {}  # the last of each claim, by a clock that nobody sets

    def find(self, key: str) -> Job | None:
        row = fetch_row(self._engine, _select_jobs().where(job.c.id == key)) if is_id(key) else None
        return None if row is None else Job(*row)

    def sent_by(self, key: str, owner: str) -> Job | None:
        """A job that an upload of theirs came to, by the name that they gave it; None if none of theirs did.

        The same content of two senders is one job, and what the other has called it is nobody's business.
        """
        known = self.find(key)
        if known is None:
            return None
        sent = select(upload.c.name).join(job, upload.c.job == job.c.number).order_by(upload.c.begun.desc()).limit(1)
        name = fetch_value(self._engine, sent.where(job.c.id == key, upload.c.owner == owner))
        if name is None:
            return known if known.owner == owner else None
        return replace(known, name=str(name))

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state; states without any are left out."""
        rows = fetch_rows(self._engine, select(job.c.state, func.count()).group_by(job.c.state))
        return {state: int(number) for state, number in rows}

    def count_ahead(self, key: str) -> int:
        """How many are claimed before this one, if it waits."""
        return self.several([key]).get(key, (None, 0))[1]

    def several(self, keys: Collection[str]) -> dict[str, tuple[Job, int]]:
        """Those of these ids that are there, each with how many are claimed before it."""
        turn = func.row_number().over(partition_by=job.c.owner, order_by=job.c.number)
        served = _last_served(job.c.owner)
        turns = select(job.c.number, turn.label("turn"), served.label("served")).where(job.c.state == QUEUED).subquery()
        place = func.row_number().over(order_by=(turns.c.turn, turns.c.served, turns.c.number)) - 1
        queue = select(turns.c.number, place.label("ahead")).subquery()
        wanted = [key for key in keys if is_id(key)]
        found: dict[str, tuple[Job, int]] = {}
        for at in range(0, len(wanted), JOBS_PER_QUERY):
            portion = _select_jobs().add_columns(func.coalesce(queue.c.ahead, 0))
            portion = portion.outerjoin(queue, queue.c.number == job.c.number)
            portion = portion.where(job.c.id.in_(wanted[at : at + JOBS_PER_QUERY]))
            found |= {row[0]: (Job(*row[:-1]), int(row[-1])) for row in fetch_rows(self._engine, portion)}
        return found

    def claim(self) -> Claim | None:
        """The first job of the owner who has waited longest for a turn, which is this caller's from now on.

        None if none waits whose owner may have another one run.
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
        self._beats[secret] = self._steady()
        return Claim(Job(*row), secret)

    def beat(self, claim: Claim, stage: str) -> bool:
        """Say that the work goes on, and what is being done; False if the job is no longer this claim's."""
        ours = self._change(claim, {"heartbeat": self._clock(), "stage": stage})
        if ours:
            self._beats[claim.secret] = self._steady()
        return ours

    def fail(self, claim: Claim, reason: str, status: str = "") -> bool:
        """There will be no case; False if the job is no longer this claim's."""
        ended = {"state": FAILED, "status": status, "reason": reason, "claim": None, "ended": self._clock()}
        return self._change(claim, ended)

    def give_back(self, claim: Claim) -> bool:
        """Let another do it, at a clean stop: it does not count as an attempt."""
        return self._change(claim, {**_QUEUED_VALUES, "attempts": job.c.attempts - 1})

    def take_up(self, silent_seconds: float | None = None) -> int:
        """Queue again what was running when the server ended; how many jobs that were.

        With `silent_seconds` only those that had no heartbeat for so long in this process, whose worker alone has
        ended. A job that has taken all its attempts with it fails.
        """
        lost = job.c.state == RUNNING
        if silent_seconds is not None:
            if not (silent := self._list_silent(silent_seconds)):
                return 0
            lost &= job.c.claim.in_(silent)
        why = {"status": "lost", "reason": SERVER_ENDED.format(self._attempts)}
        spent = {"state": FAILED, "claim": None, "ended": self._clock(), **why}
        with write_transaction(self._engine) as connection:
            connection.execute(update(job).where(lost, job.c.attempts >= self._attempts).values(spent))
            return connection.execute(update(job).where(lost).values(_QUEUED_VALUES)).rowcount

    def _list_silent(self, seconds: float) -> list[str]:
        """Secrets of claims; one that this process has not seen is silent from now on."""
        claims, now = fetch_column(self._engine, select(job.c.claim).where(job.c.state == RUNNING)), self._steady()
        for secret in set(self._beats) - set(claims):
            self._beats.pop(secret, None)
        return [secret for secret in claims if now - self._beats.setdefault(secret, now) >= seconds]

    def _change(self, claim: Claim, values: Mapping[str, Any]) -> bool:
        with write_transaction(self._engine) as connection:
            return connection.execute(update(job).where(is_claimed_by(claim)).values(values)).rowcount > 0


def _last_served(owner: ColumnElement[str]) -> ColumnElement[float]:
    """When a job of theirs was begun last; 0 if none was."""
    served = job.alias("served")
    return func.coalesce(select(func.max(served.c.started)).where(served.c.owner == owner).scalar_subquery(), 0.0)


def is_claimed_by(claim: Claim) -> ColumnElement[bool]:
    """The job of a claim, as long as it is its own."""
    return (job.c.id == claim.job.id) & (job.c.state == RUNNING) & (job.c.claim == claim.secret)


def add_job(connection: Connection, wanted: JobRequest, now: float, number: int | None) -> int:
    """Add a job, which is done at once if the case is there (by its number); the number of the job."""
    row = {
        **{"id": new_id(), "sha256": wanted.sha256, "options": compact(wanted.options), "name": wanted.name},
        **{"owner": wanted.owner, "attempts": 0, "queued": now, "stage": "", "status": "", "reason": ""},
        **{"thread": wanted.thread},
        **({"state": QUEUED} if number is None else {"state": DONE, "ended": now, "case": number}),
    }
    return int(connection.execute(insert(job).values(row).returning(job.c.number)).scalar_one())


def find_live_job(connection: Connection, wanted: JobRequest) -> int | None:
    """The number of a job that is to do the same."""
    same = (job.c.sha256 == wanted.sha256) & (job.c.options == compact(wanted.options)) & job.c.state.in_(LIVE_STATES)
    return connection.scalar(select(job.c.number).where(same).order_by(job.c.number).limit(1))


def _select_jobs() -> Select[Any]:
    columns = [job.c[name] for name in Job.__dataclass_fields__ if name != "case"]
    return select(*columns, case.c.id).select_from(job.outerjoin(case, job.c.case == case.c.number))
