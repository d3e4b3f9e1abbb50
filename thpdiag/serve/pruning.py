"""Prune: what is past its time goes, once an hour as long as the server runs, and when somebody asks for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType
from typing import Final, Self

from thpdiag.errors import StoreBusyError, StoreError, StoreFullError
from thpdiag.serve.access.audit import Action, Outcome, audit_event
from thpdiag.serve.access.principals import Principal, Way
from thpdiag.serve.storage.retention import Pruned, Terms
from thpdiag.serve.storage.storage import Storage

LOG: Final = logging.getLogger("thpdiag.serve.prune")
PRUNE_SECONDS: Final = 3600.0
CHECK_SECONDS: Final = 10.0
SERVER_PRINCIPAL: Final = Principal("server", Way.LOCAL, frozenset())
COMMAND_PRINCIPAL: Final = Principal("command", Way.LOCAL, frozenset())  # whoever may write to the folder


def prune(storage: Storage, terms: Terms, who: Principal) -> Pruned:
    """What went; written down in the audit log if anything did. StoreError if what is kept cannot be believed."""
    if words := storage.problem():
        raise StoreError(f"{storage.folder}: {words}; nothing was removed")
    pruned = storage.retention.prune(terms)
    if any((pruned.uploads, pruned.bundles, pruned.cases, pruned.stray_files, pruned.audit_entries)):
        entry = audit_event(storage.clock(), Action.PRUNE, Outcome.DONE, who, "", describe_pruned(pruned))
        storage.audit.add(entry)
    return pruned


def describe_pruned(pruned: Pruned) -> str:
    """What went, in a line."""
    counts = {
        "bundles": pruned.bundles,
        "cases": pruned.cases,
        "unfinished uploads": pruned.uploads,
        "stray files": pruned.stray_files,
        "audit entries": pruned.audit_entries,
    }
    gone = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return f"{gone or 'nothing'}; {pruned.freed} bytes of bundles"


class Pruning:
    """A thread that looks through the database and prunes, at the start and every hour, and has the health of the
    server checked in between; to be used as a context."""

    def __init__(self, storage: Storage, terms: Terms, check: Callable[[], object]) -> None:
        self._storage, self._terms, self._check, self._over = storage, terms, check, Event()
        self._thread = Thread(target=self._run, name="prune")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._storage.verify()
            self._check()
            try:
                LOG.info("pruned: %s", describe_pruned(prune(self._storage, self._terms, SERVER_PRINCIPAL)))
            except (StoreError, StoreBusyError, StoreFullError) as error:
                LOG.warning("prune: %s", error)
            for _ in range(round(PRUNE_SECONDS / CHECK_SECONDS)):
                if self._over.wait(CHECK_SECONDS):
                    return
                self._check()
