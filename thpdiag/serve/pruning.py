"""Prune: what is past its time goes, once an hour as long as the server runs, and when somebody asks for it."""

from __future__ import annotations

import logging
from threading import Event, Thread
from types import TracebackType
from typing import Final, Self

from thpdiag.errors import StoreBusyError, StoreError, StoreFullError
from thpdiag.serve.access.audit import Action, Outcome, event
from thpdiag.serve.access.principal import Principal, Way
from thpdiag.serve.storage.retention import Pruned, Terms
from thpdiag.serve.storage.storage import Storage

LOGGER: Final = logging.getLogger("thpdiag.serve.prune")
EVERY: Final = 3600.0  # seconds
ITSELF: Final = Principal("server", Way.LOCAL, frozenset())
COMMAND: Final = Principal("command", Way.LOCAL, frozenset())  # whoever may write to the folder


def pruned(storage: Storage, terms: Terms, who: Principal) -> Pruned:
    """What went; written down in the audit log if anything did."""
    done = storage.retention.prune(terms)
    if any((done.uploads, done.bundles, done.cases, done.stray_files, done.audit_entries)):
        line = event(storage.clock(), Action.PRUNE, Outcome.DONE, who, "", told(done))
        storage.audit.add(line)
    return done


def told(done: Pruned) -> str:
    """What went, in a line."""
    counts = {
        "bundles": done.bundles, "cases": done.cases, "unfinished uploads": done.uploads,
        "stray files": done.stray_files, "audit entries": done.audit_entries,
    }  # fmt: skip
    gone = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return f"{gone or 'nothing'}; {done.freed} bytes of bundles"


class Pruning:
    """A thread that prunes at the start and every hour; to be used as a context."""

    def __init__(self, storage: Storage, terms: Terms) -> None:
        self._storage, self._terms, self._over = storage, terms, Event()
        self._thread = Thread(target=self._run, name="prune")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                LOGGER.info("pruned: %s", told(pruned(self._storage, self._terms, ITSELF)))
            except (StoreError, StoreBusyError, StoreFullError) as error:
                LOGGER.warning("prune: %s", error)
            if self._over.wait(EVERY):
                return
