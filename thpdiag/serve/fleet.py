"""The cache of fleet files, which show all cases together as `thpdiag triage` does.

Files are built in the background (`fleet_files`), kept in the data folder and rebuilt when cases have changed.
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
    has_all_cases,
    make_fleet,
    write_spool,
)
from thpdiag.serve.storage.retention import FLEET_FOLDER
from thpdiag.serve.storage.storage import Storage

METADATA_FILE: Final = "made.json"
CHILD_LIMITS: Final = Limits(cpu_seconds=600, wall_seconds=900.0, memory=1024 * MIB, file_size=1024 * MIB, files=64)
RETRY_SECONDS: Final = 60.0  # after a failed build; doubled with each further failure
MAX_RETRY_SECONDS: Final = 3_600.0
FLEET_FAILED: Final = "the fleet could not be built: {}"
SEE_LOG: Final = "see the server log"
LOG: Final = logging.getLogger(__name__)


class ChildFailedError(Exception):
    """The child failed; the message is its status."""


@dataclass(frozen=True, slots=True)
class FleetFiles:
    """A folder with built files. They contain the last MAX_CASES cases of `state`."""

    folder: Path
    state: CaseState
    hosts: int
    current: bool = True

    @property
    def left_out(self) -> int:
        """The number of older cases that are not included."""
        return max(0, self.state.cases - MAX_CASES)


@dataclass(frozen=True, slots=True)
class FleetView:
    """The number of current cases and the latest built files, if there are any.

    If these are not current, a build runs since `since` and ends by `until`, or it failed with `mistake` and is not
    retried before `until`. Times are seconds since 1970.
    """

    cases: int
    made: FleetFiles | None
    mistake: str = ""
    since: float | None = None
    until: float | None = None

    @property
    def waits(self) -> bool:
        """Whether the first files are being built."""
        return bool(self.cases) and self.made is None and not self.mistake


class FleetCache:
    """One per server. Its functions block: an event loop calls them in threads."""

    def __init__(self, storage: Storage, clock: Callable[[], float]) -> None:
        self._storage, self._clock = storage, clock
        self._folder = storage.folder / FLEET_FOLDER
        self._lock = Lock()
        self._thread: Thread | None = None
        self._begun = 0.0
        self._failures, self._retry, self._mistake = 0, 0.0, ""  # consecutive ones; time of the next attempt; reason

    def view(self, timeout: float) -> FleetView:
        """Return files of the current cases, built if necessary; after `timeout` seconds the latest older ones.

        A failed build is not repeated by each call, nor with each new case.
        """
        state = case_state(self._storage.engine)
        files = self._files_of_state(state)
        if files is not None or not state.cases:
            return FleetView(state.cases, files)
        with self._lock:
            pause = self._retry - self._clock()  # over the maximum if the clock was set back
            if (self._thread is None or not self._thread.is_alive()) and not 0 < pause <= MAX_RETRY_SECONDS:
                self._begun = self._clock()
                self._thread = Thread(target=self._build, name="fleet", daemon=True)
                self._thread.start()
            thread = self._thread
        if thread is not None:
            thread.join(timeout)
        mistake = "" if thread is not None and thread.is_alive() else self._mistake
        until = self._retry if mistake else self._begun + CHILD_LIMITS.wall_seconds
        return FleetView(state.cases, self._files_of_state(state) or self._older_files(), mistake, self._begun, until)

    def wait(self) -> None:
        """Wait for the end of a running build."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _files_of_state(self, state: CaseState) -> FleetFiles | None:
        return _read_files(self._folder / _folder_name(state), current=True)

    def _older_files(self) -> FleetFiles | None:
        """Return the latest files whose cases all exist; remove files with data of deleted cases."""
        valid: list[FleetFiles] = []
        for files in filter(None, (_read_files(folder, current=False) for folder in self._folders())):
            if has_all_cases(self._storage.engine, files.state):
                valid.append(files)
            else:
                rmtree(files.folder, ignore_errors=True)
        return max(valid, key=lambda files: files.state.last, default=None)

    def _folders(self) -> list[Path]:
        try:
            return list(self._folder.iterdir())
        except OSError:  # nothing was built yet, or a concurrent deletion of a case removed it
            return []

    def _build(self) -> None:
        reason = SEE_LOG  # for a bug, whose traceback is logged
        try:
            state = case_state(self._storage.engine)
            LOG.info("the fleet of %d cases is being built", state.cases)
            self._build_files(state)
            LOG.info("the fleet of %d cases was built in %.1f s", state.cases, self._clock() - self._begun)
            reason = ""
        except ChildFailedError as error:
            reason = str(error)
        except (StorageError, WorkersError, WorkerDiedError, OSError) as error:
            LOG.warning("the fleet could not be built: %s", error)
            if isinstance(error, OSError) and error.strerror:  # without the path, which is for administrators only
                reason = f'the data folder answers "{error.strerror}"'
        finally:
            self._failures = self._failures + 1 if reason else 0
            pause = min(MAX_RETRY_SECONDS, RETRY_SECONDS * 2 ** (self._failures - 1)) if reason else 0.0
            self._retry, self._mistake = self._clock() + pause, FLEET_FAILED.format(reason) if reason else ""

    def _build_files(self, state: CaseState) -> None:
        """Build the files and replace older ones, unless a case was deleted meanwhile."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for folder in self._folders():
            if folder.name.startswith("part-"):  # left by a killed server
                rmtree(folder, ignore_errors=True)
        with TemporaryDirectory(prefix="part-", dir=self._folder, ignore_cleanup_errors=True) as temporary:
            part = Path(temporary)
            write_spool(part / SPOOL_FILE, fleet_cases(self._storage.engine, state))
            outcome = run_in_child_of_worker(partial(make_fleet, part), CHILD_LIMITS, Allowed(scratch=part))
            if outcome.status is not Status.OK:
                LOG.warning("the fleet could not be built: %s", outcome.sentence)
                raise ChildFailedError(outcome.name)
            metadata = {"state": asdict(state), "hosts": int(outcome.content)}
            (part / METADATA_FILE).write_text(json.dumps(metadata), encoding="ascii")
            if not has_all_cases(self._storage.engine, state):
                return
            target = self._folder / _folder_name(state)
            part.rename(target)
        for folder in self._folders():
            if folder != target:
                rmtree(folder, ignore_errors=True)


def _folder_name(state: CaseState) -> str:
    """Return the name of the folder for the files that this version builds from a state."""
    return sha256(json.dumps([asdict(state), __version__, MAX_CASES]).encode()).hexdigest()[:32]


def _read_files(folder: Path, *, current: bool) -> FleetFiles | None:
    try:
        metadata = json.loads((folder / METADATA_FILE).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return FleetFiles(folder, CaseState(**metadata["state"]), metadata["hosts"], current)
