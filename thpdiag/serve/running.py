"""Puts a server together from its settings and runs it until it is told to end; prunes what is past its time, once an
hour as long as it runs, and when somebody asks for it.

    SIGTERM, Ctrl-C   no new connection; requests have a few seconds, analyses are given back to the queue
    the same again    at once

However it ends, what was uploaded is whole, and the next start goes on with the queue.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from threading import Event, Thread
from types import TracebackType
from typing import Any, Final, Self

import uvicorn

from thpdiag import __version__
from thpdiag.engine.load import digest, rule_set
from thpdiag.errors import StorageError, StoreError, UsageError
from thpdiag.sandbox.outcome import Limits
from thpdiag.sandbox.preload import check_layers
from thpdiag.serve.access.audit import Action, Outcome, audit_event, log_handler
from thpdiag.serve.access.credentials import Attempts, Bearer, load_key
from thpdiag.serve.access.http import UVICORN_OPTIONS
from thpdiag.serve.access.oidc import OidcClient
from thpdiag.serve.access.principals import Principal, Way, check_access
from thpdiag.serve.routes import application
from thpdiag.serve.server import Server
from thpdiag.serve.settings import Settings, open_oidc, open_receivers, open_storage
from thpdiag.serve.storage.backup import KEY_FILE
from thpdiag.serve.storage.database import DAY, parse_database_url, steady_seconds
from thpdiag.serve.storage.retention import Pruned, Terms
from thpdiag.serve.storage.storage import DAMAGED, Storage
from thpdiag.serve.uploads.intake import Intake
from thpdiag.serve.webhooks import Webhooks
from thpdiag.serve.workers import Workers
from thpdiag.store.results import Analysis

LOG: Final = logging.getLogger("thpdiag.serve.prune")
PRUNE_SECONDS: Final = 3600.0
JUMP_SECONDS: Final = 3600.0  # of the clock, more than a correction
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


class ClockWatch:
    """Whether the clock jumped ahead, by one that only runs: what seems past its time then may be new.

    A day after the jump the clock is believed.
    """

    def __init__(self, clock: Callable[[], float], steady: Callable[[], float] = steady_seconds) -> None:
        self._clock, self._steady = clock, steady
        self._difference, self._since = clock() - steady(), 0.0

    def jump(self) -> float:
        """The seconds it jumped ahead lately, 0 without a jump."""
        now = self._steady()
        difference = self._clock() - now
        ahead = difference - self._difference
        if ahead > JUMP_SECONDS:
            self._since = self._since or now
            if now - self._since < DAY:
                return ahead
        if ahead >= -JUMP_SECONDS:  # of one that went back the way forward is no jump
            self._difference = difference
        self._since = 0.0
        return 0.0


class Pruning:
    """A thread that looks through the database and prunes, at the start and every hour, and has the health of the
    server checked in between; to be used as a context. While the clock may be wrong nothing is pruned."""

    def __init__(self, storage: Storage, terms: Terms, check: Callable[[], object]) -> None:
        self._storage, self._terms, self._check, self._over = storage, terms, check, Event()
        self._watch = ClockWatch(storage.clock)
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
                if jump := self._watch.jump():
                    LOG.warning("prune: the clock jumped %.0f s ahead; nothing is pruned for a day", jump)
                else:
                    LOG.info("pruned: %s", describe_pruned(prune(self._storage, self._terms, SERVER_PRINCIPAL)))
            except StorageError as error:
                LOG.warning("prune: %s", error)
            for _ in range(round(PRUNE_SECONDS / CHECK_SECONDS)):
                if self._over.wait(CHECK_SECONDS):
                    return
                self._check()


LOGGER: Final = logging.getLogger("thpdiag.serve")
RESTORE_ADVICE: Final = "see `thpdiag serve check`, or put a backup back with `thpdiag serve restore`"
SHUTDOWN_SECONDS: Final = 5
BACKLOG: Final = 1024
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run(settings: Settings, tell: Callable[[str], None]) -> None:
    """Serve until a signal; `tell` is given one line with the address once connections are taken."""
    access = check_access(settings.to_access())
    rules = rule_set(settings.rules)
    receivers, provider = open_receivers(settings), open_oidc(settings)
    analysis = Analysis(__version__, digest(rules))
    with ExitStack() as undo:
        undo.enter_context(logging_to_stderr())
        storage = undo.enter_context(closing(open_storage(with_password(settings, os.environ))))
        if found := storage.verify():
            raise StoreError(f"{storage.folder}: {DAMAGED} ({found}); {RESTORE_ADVICE}")
        undo.enter_context(storage.own_folder(analysis))
        listening = undo.enter_context(listen(settings.host, settings.port))
        address = str(listening.getsockname()[0])
        check_access(replace(access, host=address))  # a name may have changed what it stands for
        if settings.require_sandbox:
            check_layers()
        limits = Limits(every_layer=settings.require_sandbox)
        workers = Workers(storage, analysis, settings.worker_count, limits, rules=settings.rules)
        bearer = Bearer(storage.tokens, Attempts(), storage.audit.add, time.time, storage.logins)
        key, intake = load_key(storage.folder / KEY_FILE), Intake(storage.uploads, settings.upload_limit)
        server = Server(
            *(storage, access, key, bearer, intake, rules, analysis, settings.terms),
            workers=settings.worker_count,
            wake=workers.wake,
            clock=time.time,
            oidc=OidcClient(provider, time.time) if provider else None,
        )
        loop = _Uvicorn(uvicorn.Config(application(server), **uvicorn_options()))
        undo.enter_context(exit_on_signals(loop))
        undo.enter_context(Pruning(storage, settings.terms, server.health.check))
        undo.enter_context(Webhooks(storage, receivers, time.time))
        undo.enter_context(workers)
        tell(f"thpdiag serves {url_of_socket(listening)} and keeps its data in {storage.folder}; Ctrl-C stops it")
        loop.run([listening])


def with_password(settings: Settings, environment: MutableMapping[str, str]) -> Settings:
    """The password that libpq would take from the environment goes into the address of the database.

    It leaves the environment, which every process that reads a customer's bytes would inherit.
    """
    password = environment.pop("PGPASSWORD", "")
    if not password or settings.database is None:
        return settings
    url = parse_database_url(settings.database)
    url = url if url.password else url.set(password=password)
    return replace(settings, database=url.render_as_string(hide_password=False))


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is one that is free."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = addresses[0]
        with ExitStack() as undo:
            listening = undo.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
            undo.pop_all()
            return listening
    except (OSError, UnicodeError) as error:
        raise UsageError(f"cannot listen at {host}, port {port}: {getattr(error, 'strerror', error)}") from error


def url_of_socket(listening: socket.socket) -> str:
    """As one types it into a browser on this machine."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def uvicorn_options() -> dict[str, Any]:
    return {**UVICORN_OPTIONS, "lifespan": "off", "log_level": "info", "timeout_graceful_shutdown": SHUTDOWN_SECONDS}


class _Uvicorn(uvicorn.Server):
    """Without signals of its own: it would send them again at its end, before the workers have come to theirs."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def exit_on_signals(loop: uvicorn.Server) -> Iterator[None]:
    """A signal ends the server in order; what comes before it runs does so too."""
    before = {number: signal.signal(number, loop.handle_exit) for number in SIGNALS}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


@contextmanager
def logging_to_stderr() -> Iterator[None]:
    """The log goes to stderr, without secrets; mistakes of ours in threads too."""
    root, handler, excepthook = logging.getLogger(), log_handler(sys.stderr), threading.excepthook
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    threading.excepthook = _log_thread_error
    try:
        yield
    finally:
        threading.excepthook = excepthook
        root.setLevel(level)
        root.removeHandler(handler)


def _log_thread_error(what: threading.ExceptHookArgs) -> None:
    if what.exc_value is not None:
        error = (what.exc_type, what.exc_value, what.exc_traceback)
        LOGGER.critical("a bug in thpdiag, please report it", exc_info=error)
