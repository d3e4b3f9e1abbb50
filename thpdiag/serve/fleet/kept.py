"""What was made of the fleet: kept in the data folder, made again when somebody looks and other cases are there.

    fleet/STATE/     what was made of all cases, by what those were
    fleet/part-*/    what is being made

It is made once at a time, in a guarded child that reads nothing but the rows. What was made before is shown until then,
as long as all that it is made of is there: with a case that is deleted all of it goes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from threading import Lock, Thread
from typing import Final

from thpdiag import __version__
from thpdiag.errors import StoreBusyError, StoreError, StoreFullError
from thpdiag.guard.limits import MIB, Cell, Limits
from thpdiag.guard.outcome import Status
from thpdiag.guard.preloaded import Preloaded
from thpdiag.serve.fleet.latest import MOST, State, parts, state, whole
from thpdiag.serve.fleet.making import SPOOL, make
from thpdiag.serve.fleet.spool import write
from thpdiag.serve.storage.removal import DERIVED
from thpdiag.serve.storage.storage import Storage

MADE: Final = "made.json"
GUARD: Final = Limits(cpu_seconds=240, wall_seconds=300.0, memory=1024 * MIB, file_size=1024 * MIB, files=64)
PAUSE: Final = 60.0  # seconds until what failed is tried again without a change of the cases
FAILED: Final = "the fleet could not be put together: {}"
LOGGED: Final = "the log of the server says why"
LOG: Final = logging.getLogger(__name__)


class EndedError(Exception):
    """The child came to no end; its status says how."""


@dataclass(frozen=True, slots=True)
class Made:
    """What was made, in a folder; `cases` there were in all, of which the last `taken` are in it, with their hosts."""

    folder: Path
    state: State
    hosts: int
    current: bool = True

    @property
    def left_out(self) -> int:
        """Cases that are older than the last ones that are taken."""
        return max(0, self.state.cases - MOST)


@dataclass(frozen=True, slots=True)
class Look:
    """What there is to see of so many cases: what was made, if anything was; why it is not of now, if not for time."""

    cases: int
    made: Made | None
    mistake: str = ""

    @property
    def waits(self) -> bool:
        """Whether there will be something after a while."""
        return bool(self.cases) and self.made is None and not self.mistake


class Kept:
    """One per server. Its functions wait for disk and database: an event loop calls them in threads."""

    def __init__(self, storage: Storage, clock: Callable[[], float]) -> None:
        self._storage, self._clock = storage, clock
        self._folder = storage.folder / DERIVED
        self._lock = Lock()
        self._work: Thread | None = None
        self._failed: tuple[State, float, str] | None = None

    def look(self, patience: float) -> Look:
        """What was made of the cases as they are, now if need be; after `patience` seconds what was made before."""
        now = state(self._storage.engine)
        made = self._of(now)
        if made is not None or not now.cases:
            return Look(now.cases, made)
        if words := self._mistake(now):
            return Look(now.cases, self._before(), words)
        self._begun().join(patience)
        return Look(now.cases, self._of(now) or self._before(), self._mistake(now))

    def wait(self) -> None:
        """Until nothing is being made."""
        with self._lock:
            work = self._work
        if work is not None:
            work.join()

    def _begun(self) -> Thread:
        with self._lock:
            if self._work is None or not self._work.is_alive():
                self._work = Thread(target=self._make, name="fleet", daemon=True)
                self._work.start()
            return self._work

    def _mistake(self, now: State) -> str:
        """Why these cases cannot be put together, if that was tried a short while ago."""
        failed = self._failed
        if failed is None or failed[0] != now or self._clock() - failed[1] > PAUSE:
            return ""
        return failed[2]

    def _of(self, now: State) -> Made | None:
        return _read(self._folder / _name(now), current=True)

    def _before(self) -> Made | None:
        """The latest that was made and holds nothing of a case that is gone; what holds such is removed."""
        found: list[Made] = []
        for made in filter(None, (_read(folder, current=False) for folder in self._all())):
            if whole(self._storage.engine, made.state):
                found.append(made)
            else:
                rmtree(made.folder, ignore_errors=True)
        return max(found, key=lambda made: made.state.last, default=None)

    def _all(self) -> list[Path]:
        try:
            return list(self._folder.iterdir())
        except OSError:  # nothing was made yet, or it was removed with a case in this moment
            return []

    def _make(self) -> None:
        then, why = State(0, 0, 0, ""), LOGGED  # by the thread, if it is a mistake of ours
        try:
            then = state(self._storage.engine)
            self._made(then)
            why = ""
        except EndedError as error:
            why = str(error)
        except (StoreError, StoreBusyError, StoreFullError, OSError, BrokenExecutor) as error:
            LOG.warning("the fleet could not be put together: %s", error)
        finally:
            if why:
                self._failed = (then, self._clock(), FAILED.format(why))

    def _made(self, then: State) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for folder in self._all():
            if folder.name.startswith("part-"):  # of a server that was killed
                rmtree(folder, ignore_errors=True)
        part = Path(mkdtemp(prefix="part-", dir=self._folder))
        try:
            write(part / SPOOL, parts(self._storage.engine, then))
            with Preloaded() as process:
                outcome = process.submit(partial(make, part), GUARD, Cell(scratch=part)).result()
            if outcome.status is not Status.OK:
                raise EndedError(outcome.name)
            told = {"state": asdict(then), "hosts": int(outcome.content)}
            (part / MADE).write_text(json.dumps(told), encoding="ascii")
            self._placed(part, then)
        finally:
            rmtree(part, ignore_errors=True)

    def _placed(self, part: Path, then: State) -> None:
        """It takes the place of what was made before, unless a case of it was deleted meanwhile."""
        place = self._folder / _name(then)
        if not whole(self._storage.engine, then):
            return
        part.rename(place)
        for folder in self._all():
            if folder != place:
                rmtree(folder, ignore_errors=True)


def _name(then: State) -> str:
    """The folder of what is made of these cases by this version."""
    told = json.dumps([asdict(then), __version__, MOST])
    return sha256(told.encode()).hexdigest()[:32]


def _read(folder: Path, *, current: bool) -> Made | None:
    try:
        told = json.loads((folder / MADE).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return Made(folder, State(**told["state"]), told["hosts"], current)
