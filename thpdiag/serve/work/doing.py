"""One job from its claim to its end: a process is watched, its stage told, and what comes of it is stored.

Whatever happens to the machine meanwhile, the job is done, failed, given back, or somebody else's. A bundle that is
deleted while it is analysed ends its process with the next beat.
"""

from __future__ import annotations

import errno
import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from time import monotonic
from typing import Final

from thpdiag.errors import StoreBusyError, StoreError, StoreFullError
from thpdiag.guard.limits import Limits
from thpdiag.guard.outcome import Status
from thpdiag.serve.storage.bundles import GONE
from thpdiag.serve.storage.jobs import Claim, Jobs
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.work.order import Order, prepared
from thpdiag.serve.work.process import Working
from thpdiag.serve.work.stages import told
from thpdiag.triage.store.bundle import Analysis
from thpdiag.triage.store.packed import Packed
from thpdiag.triage.store.trouble import NO_ROOM

LOGGER: Final = logging.getLogger("thpdiag.serve.work")
LOOK: Final = 0.25  # seconds between two looks at a process
BEAT: Final = 5.0  # seconds between two beats of the same stage
PAUSE: Final = 5.0  # seconds until something is tried again that the machine did not allow
SLACK: Final = 300.0  # seconds beyond the limit of the child: to pack what came of it
TRIES: Final = 2
STORE: Final = (StoreError, StoreBusyError, StoreFullError)
PASSES: Final = (*NO_ROOM, errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
BEGINNING: Final = "beginning"
KILLED: Final = "the process that worked on it was ended from outside, and so was a second one"
LATE: Final = "nothing came of it within {:.1f} hours"
NOT_BEGUN: Final = "the analysis could not be begun ({})"


class LeftError(Exception):
    """The job is not this worker's any more: it was given back, or lost."""


@dataclass(frozen=True, slots=True)
class Doing:
    """What is the same for all jobs. `over` is set when the server ends."""

    storage: Storage
    analysis: Analysis
    limits: Limits
    scratch: Path
    over: Event

    def do(self, claim: Claim) -> None:
        """Nothing is raised but a mistake of ours."""
        begun, ended = monotonic(), "left to others"
        with suppress(LeftError):
            result = self._result(claim)
            self._until_stored(claim, result)
            ended = result.status
        LOGGER.info("job %s: %s after %.1f s", claim.job.id, ended, monotonic() - begun)

    def _result(self, claim: Claim) -> Packed:
        """What came of it, without a document where nothing did."""
        for _ in range(TRIES):
            if not self.storage.content.has(claim.job.sha256):
                return _nothing(claim, "gone", GONE)
            try:
                found = self._tried(claim)
            except OSError as error:
                found = self._not_begun(claim, error)
            if found is not None:
                return found
        return _nothing(claim, "killed", KILLED)

    def _tried(self, claim: Claim) -> Packed | None:
        """None if its process died, which is not the bundle's doing."""
        content = self.storage.content.path(claim.job.sha256)
        with TemporaryDirectory(prefix="job-", dir=self.scratch, ignore_cleanup_errors=True) as folder:
            order = prepared(claim.job, content, Path(folder), self.limits)
            with Working(order) as working:
                return self._watched(claim, order, working)

    def _watched(self, claim: Claim, order: Order, working: Working) -> Packed | None:
        late = monotonic() + self.limits.wall_seconds + SLACK
        beats = _Beats(self.storage.jobs, claim)
        while not working.ended(LOOK):
            if self.over.is_set():
                self._give_back(claim)
                raise LeftError
            beats.beat(told(order.room) or BEGINNING)
            if monotonic() > late:
                return _nothing(claim, str(Status.TIMEOUT), LATE.format(self.limits.wall_seconds / 3600))
        return working.result()

    def _not_begun(self, claim: Claim, error: OSError) -> Packed:
        """The machine has no room or no processes: later it may. What else is wrong is told to who uploaded it."""
        LOGGER.warning("job %s could not be begun: %s", claim.job.id, error.strerror)
        if error.errno not in PASSES:
            return _nothing(claim, "not begun", NOT_BEGUN.format(error.strerror))
        self._give_back(claim)
        self.over.wait(PAUSE)
        raise LeftError

    def _give_back(self, claim: Claim) -> None:
        try:
            self.storage.jobs.give_back(claim)
        except STORE as error:
            LOGGER.warning("job %s is taken up at the next start: %s", claim.job.id, error)

    def _until_stored(self, claim: Claim, result: Packed) -> None:
        """As long as the database is away or full, the result waits for it; at the end of the server it is lost."""
        while True:
            try:
                stored = self._stored(claim, result)
            except STORE as error:
                LOGGER.warning("the result of job %s cannot be stored yet: %s", claim.job.id, error)
                if self.over.wait(PAUSE):
                    raise LeftError from error
            else:
                if not stored:
                    raise LeftError
                return

    def _stored(self, claim: Claim, result: Packed) -> bool:
        """False if the job is no longer this claim's."""
        if result.document is None:
            return self.storage.jobs.fail(claim, result.reason, result.status)
        return self.storage.cases.complete(claim, result, self.analysis) is not None


@dataclass(slots=True)
class _Beats:
    """Says that a job is being done: at once when its stage changes, and now and then as long as it does not."""

    jobs: Jobs
    claim: Claim
    _last: float = 0.0
    _stage: str = ""

    def beat(self, stage: str) -> None:
        """LeftError if the job is no longer ours."""
        now = monotonic()
        if stage == self._stage and now - self._last < BEAT:
            return
        self._last, self._stage = now, stage
        try:
            ours = self.jobs.beat(self.claim, stage)
        except STORE as error:
            LOGGER.warning("job %s: %s", self.claim.job.id, error)
        else:
            if not ours:
                raise LeftError


def _nothing(claim: Claim, status: str, why: str) -> Packed:
    return Packed(claim.job.sha256, claim.job.name, 0, status, why)
