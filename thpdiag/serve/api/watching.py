"""Watches jobs for all who wait for one: however many they are, the database is asked once in a while for all of them.

It belongs to one event loop at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from starlette.concurrency import run_in_threadpool

from thpdiag.errors import StoreBusyError, StoreError, StoreFullError
from thpdiag.serve.storage.jobs import DONE, FAILED, Job, Jobs

STEP: Final = 0.4  # seconds between two looks
LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Seen:
    """What of a job is worth telling when it changes."""

    state: str
    stage: str
    ahead: int
    status: str
    reason: str
    case: str | None

    @property
    def ended(self) -> bool:
        return self.state in (DONE, FAILED)


@dataclass(slots=True)
class _Watched:
    """One job, and who waits for a change of it; `seen` is None before the first look and once it is deleted."""

    watchers: int = 0
    seen: Seen | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, seen: Seen | None) -> None:
        if seen != self.seen:
            self.seen = seen
            self.changed.set()
            self.changed = asyncio.Event()


class Watching:
    def __init__(self, jobs: Jobs, step: float = STEP) -> None:
        self._jobs, self._step = jobs, step
        self._watched: dict[str, _Watched] = {}
        self._looking: asyncio.Task[None] | None = None

    async def states(self, key: str, pause: float) -> AsyncGenerator[Seen | None, None]:
        """What a job is now, and what it becomes, until it ends or is deleted; None: no news for `pause` seconds."""
        with self._watcher(key) as watched:
            if watched.seen is None:
                watched.take((await run_in_threadpool(self._seen, [key])).get(key))
            told: Seen | None = None
            while (seen := watched.seen) is not None:
                changed = watched.changed
                if seen != told:
                    yield (told := seen)
                    if seen.ended:
                        return
                    continue
                try:
                    async with asyncio.timeout(pause):
                        await changed.wait()
                except TimeoutError:
                    yield None

    @contextmanager
    def _watcher(self, key: str) -> Iterator[_Watched]:
        watched = self._watched.setdefault(key, _Watched())
        watched.watchers += 1
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            yield watched
        finally:
            watched.watchers -= 1
            if not watched.watchers:
                del self._watched[key]

    async def _look(self) -> None:
        while self._watched:
            await asyncio.sleep(self._step)
            keys = list(self._watched)
            try:
                found = await run_in_threadpool(self._seen, keys)
            except (StoreError, StoreBusyError, StoreFullError) as error:
                LOG.warning("jobs cannot be watched at the moment: %s", error)
                continue
            for key in keys:
                watched = self._watched.get(key)
                if watched is not None and watched.seen is not None:  # else somebody's first look is under way
                    watched.take(found.get(key))

    def _seen(self, keys: Collection[str]) -> Mapping[str, Seen]:
        return {key: seen(job, ahead) for key, (job, ahead) in self._jobs.several(keys).items()}


def seen(job: Job, ahead: int) -> Seen:
    return Seen(job.state, job.stage, ahead, job.status, job.reason, job.case)
