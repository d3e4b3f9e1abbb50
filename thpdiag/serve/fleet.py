"""The fleet: what all cases have in common, as `thpdiag triage` shows it.

rows    which hosts of which cases it consists of, by the database
files   what is made of them in a child: the page of triage, its files for programs, a list
cache   what was made, kept in the data folder and made again when other cases are there
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import Final

from thpdiag import __version__
from thpdiag.errors import StorageError, WorkersError
from thpdiag.sandbox.outcome import MIB, Allowed, Limits, Status
from thpdiag.sandbox.preload import WorkerDiedError, run_in_child_of_worker
from thpdiag.serve.fleet_files import (
    MAX_CASES,
    SPOOL_FILE,
    CaseState,
    case_state,
    fleet_cases,
    is_complete,
    make_fleet,
    write_spool,
)
from thpdiag.serve.storage.retention import FLEET_FOLDER
from thpdiag.serve.storage.storage import Storage

MADE_FILE: Final = "made.json"
CHILD_LIMITS: Final = Limits(cpu_seconds=600, wall_seconds=900.0, memory=1024 * MIB, file_size=1024 * MIB, files=64)
RETRY_SECONDS: Final = 60.0  # until what failed is tried again; with each failure in a row twice as long
MAX_RETRY_SECONDS: Final = 3_600.0
FLEET_FAILED: Final = "the fleet could not be built: {}"
SEE_LOG: Final = "see the server log"
LOG: Final = logging.getLogger(__name__)


class ChildFailedError(Exception):
    """The child came to no end; its status says how."""


@dataclass(frozen=True, slots=True)
class FleetFiles:
    """What was made, in a folder: of the cases of a state, of which the last MAX_CASES are in it."""

    folder: Path
    state: CaseState
    hosts: int
    current: bool = True

    @property
    def left_out(self) -> int:
        """Cases that are older than the last ones that are taken."""
        return max(0, self.state.cases - MAX_CASES)


@dataclass(frozen=True, slots=True)
class FleetView:
    """What there is to see of so many cases: what was made, if anything was.

    Why it is not of now: it is being made since `since`, until `until` at the latest; or that failed, and is not tried
    again before `until`. Seconds since 1970.
    """

    cases: int
    made: FleetFiles | None
    mistake: str = ""
    since: float | None = None
    until: float | None = None

    @property
    def waits(self) -> bool:
        """Whether there will be something after a while."""
        return bool(self.cases) and self.made is None and not self.mistake


class FleetCache:
    """One per server. Its functions wait for disk and database: an event loop calls them in threads."""

    def __init__(self, storage: Storage, clock: Callable[[], float]) -> None:
        self._storage, self._clock = storage, clock
        self._folder = storage.folder / FLEET_FOLDER
        self._lock = Lock()
        self._work: Thread | None = None
        self._begun = 0.0
        self._failures, self._retry, self._mistake = 0, 0.0, ""  # in a row; when it is tried again, and why it failed

    def look(self, patience: float) -> FleetView:
        """What was made of the cases as they are, now if need be; after `patience` seconds what was made before.

        What failed is not tried again at each look, nor with each new case.
        """
        now = case_state(self._storage.engine)
        made = self._made_of(now)
        if made is not None or not now.cases:
            return FleetView(now.cases, made)
        with self._lock:
            pause = self._retry - self._clock()  # longer than any if the clock was set back
            if (self._work is None or not self._work.is_alive()) and not 0 < pause <= MAX_RETRY_SECONDS:
                self._begun = self._clock()
                self._work = Thread(target=self._make, name="fleet", daemon=True)
                self._work.start()
            work = self._work
        if work is not None:
            work.join(patience)
        mistake = "" if work is not None and work.is_alive() else self._mistake
        until = self._retry if mistake else self._begun + CHILD_LIMITS.wall_seconds
        return FleetView(now.cases, self._made_of(now) or self._made_before(), mistake, self._begun, until)

    def wait(self) -> None:
        """Until nothing is being made."""
        with self._lock:
            work = self._work
        if work is not None:
            work.join()

    def _made_of(self, now: CaseState) -> FleetFiles | None:
        return _read_files(self._folder / _folder_name(now), current=True)

    def _made_before(self) -> FleetFiles | None:
        """The latest that was made and holds nothing of a case that is gone; what holds such is removed."""
        whole: list[FleetFiles] = []
        for made in filter(None, (_read_files(folder, current=False) for folder in self._folders())):
            if is_complete(self._storage.engine, made.state):
                whole.append(made)
            else:
                rmtree(made.folder, ignore_errors=True)
        return max(whole, key=lambda made: made.state.last, default=None)

    def _folders(self) -> list[Path]:
        try:
            return list(self._folder.iterdir())
        except OSError:  # nothing was made yet, or it was removed with a case in this moment
            return []

    def _make(self) -> None:
        why = SEE_LOG  # by the thread, if it is a mistake of ours
        try:
            then = case_state(self._storage.engine)
            LOG.info("the fleet of %d cases is being built", then.cases)
            self._make_files(then)
            LOG.info("the fleet of %d cases was built in %.1f s", then.cases, self._clock() - self._begun)
            why = ""
        except ChildFailedError as error:
            why = str(error)
        except (StorageError, WorkersError, WorkerDiedError, OSError) as error:
            LOG.warning("the fleet could not be built: %s", error)
            if isinstance(error, OSError) and error.strerror:  # without the path, which is the administrator's
                why = f'the data folder answers "{error.strerror}"'
        finally:
            self._failures = self._failures + 1 if why else 0
            pause = min(MAX_RETRY_SECONDS, RETRY_SECONDS * 2 ** (self._failures - 1)) if why else 0.0
            self._retry, self._mistake = self._clock() + pause, FLEET_FAILED.format(why) if why else ""

    def _make_files(self, then: CaseState) -> None:
        """They take the place of what was made before, unless a case of it was deleted meanwhile."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for folder in self._folders():
            if folder.name.startswith("part-"):  # of a server that was killed
                rmtree(folder, ignore_errors=True)
        with TemporaryDirectory(prefix="part-", dir=self._folder, ignore_cleanup_errors=True) as temporary:
            part = Path(temporary)
            write_spool(part / SPOOL_FILE, fleet_cases(self._storage.engine, then))
            outcome = run_in_child_of_worker(partial(make_fleet, part), CHILD_LIMITS, Allowed(scratch=part))
            if outcome.status is not Status.OK:
                LOG.warning("the fleet could not be built: %s", outcome.sentence)
                raise ChildFailedError(outcome.name)
            made = {"state": asdict(then), "hosts": int(outcome.content)}
            (part / MADE_FILE).write_text(json.dumps(made), encoding="ascii")
            if not is_complete(self._storage.engine, then):
                return
            place = self._folder / _folder_name(then)
            part.rename(place)
        for folder in self._folders():
            if folder != place:
                rmtree(folder, ignore_errors=True)


def _folder_name(then: CaseState) -> str:
    """The folder of what is made of these cases by this version."""
    told = json.dumps([asdict(then), __version__, MAX_CASES])
    return sha256(told.encode()).hexdigest()[:32]


def _read_files(folder: Path, *, current: bool) -> FleetFiles | None:
    try:
        made = json.loads((folder / MADE_FILE).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return FleetFiles(folder, CaseState(**made["state"]), made["hosts"], current)
