"""Builds a server from its settings, runs it until a signal, and prunes expired data every hour and on request.

    SIGTERM, Ctrl-C   no new connections; requests have SHUTDOWN_SECONDS, analyses return to the queue
    the same again    ends at once

Completed uploads survive any end of the process, and the next start continues with the queue.
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
from typing import Final, Self

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
from thpdiag.serve.access.principals import AuthMethod, Principal, check_access
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
MAX_CLOCK_STEP_SECONDS: Final = 3600.0  # a larger step is not a correction of the clock
CHECK_SECONDS: Final = 10.0
SERVER_PRINCIPAL: Final = Principal("server", AuthMethod.LOCAL, frozenset())
COMMAND_PRINCIPAL: Final = Principal("command", AuthMethod.LOCAL, frozenset())  # a user of the command line


def prune(storage: Storage, terms: Terms, principal: Principal) -> Pruned:
    """Remove expired data and record that in the audit log. StoreError if the store cannot be trusted."""
    if problem := storage.problem():
        raise StoreError(f"{storage.folder}: {problem}; nothing was removed")
    pruned = storage.retention.prune(terms)
    if any((pruned.uploads, pruned.bundles, pruned.cases, pruned.stray_files, pruned.audit_entries)):
        entry = audit_event(storage.clock(), Action.PRUNE, Outcome.DONE, principal, "", describe_pruned(pruned))
        storage.audit.add(entry)
    return pruned


def describe_pruned(pruned: Pruned) -> str:
    counts = {
        "bundles": pruned.bundles,
        "cases": pruned.cases,
        "unfinished uploads": pruned.uploads,
        "stray files": pruned.stray_files,
        "audit entries": pruned.audit_entries,
    }
    removed = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return f"{removed or 'nothing'}; {pruned.freed} bytes of bundles"


class ClockWatch:
    """Detects forward jumps of the wall clock by a monotonic one: after a jump, new data may seem expired.

    A day after the jump the clock is trusted.
    """

    def __init__(self, clock: Callable[[], float], steady: Callable[[], float] = steady_seconds) -> None:
        self._clock, self._steady = clock, steady
        self._difference, self._jumped_at = clock() - steady(), 0.0

    def jump(self) -> float:
        """Return the seconds of a forward jump within the last day, 0 without one."""
        now = self._steady()
        difference = self._clock() - now
        ahead = difference - self._difference
        if ahead > MAX_CLOCK_STEP_SECONDS:
            self._jumped_at = self._jumped_at or now
            if now - self._jumped_at < DAY:
                return ahead
        if ahead >= -MAX_CLOCK_STEP_SECONDS:  # after a backward jump, the return to the right time is no jump
            self._difference = difference
        self._jumped_at = 0.0
        return 0.0


class Pruning:
    """A context manager with a thread that verifies the database and prunes, at the start and every hour.

    In between it calls `check`, the health check of the server. Nothing is pruned while the clock may be wrong.
    """

    def __init__(self, storage: Storage, terms: Terms, check: Callable[[], object]) -> None:
        self._storage, self._terms, self._check, self._stopping = storage, terms, check, Event()
        self._watch = ClockWatch(storage.clock)
        self._thread = Thread(target=self._run, name="prune")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopping.set()
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
                if self._stopping.wait(CHECK_SECONDS):
                    return
                self._check()


LOGGER: Final = logging.getLogger("thpdiag.serve")
RESTORE_ADVICE: Final = "see `thpdiag serve check`, or put a backup back with `thpdiag serve restore`"
SHUTDOWN_SECONDS: Final = 5
BACKLOG: Final = 1024
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run(settings: Settings, announce: Callable[[str], None]) -> None:
    """Serve until a signal; `announce` gets a line with the address once connections are accepted."""
    access = check_access(settings.to_access())
    rules = rule_set(settings.rules)
    receivers, provider = open_receivers(settings), open_oidc(settings)
    analysis = Analysis(__version__, digest(rules))
    with ExitStack() as undo:
        undo.enter_context(logging_to_stderr())
        storage = undo.enter_context(closing(open_storage(add_database_password(settings, os.environ))))
        if damage := storage.verify():
            raise StoreError(f"{storage.folder}: {DAMAGED} ({damage}); {RESTORE_ADVICE}")
        undo.enter_context(storage.claim_folder(analysis))
        listening = undo.enter_context(listen(settings.host, settings.port))
        address = str(listening.getsockname()[0])
        check_access(replace(access, host=address))  # the name may have been resolved to another address
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
        options = {**UVICORN_OPTIONS, "lifespan": "off", "log_level": "info"}
        loop = _Uvicorn(uvicorn.Config(application(server), **options, timeout_graceful_shutdown=SHUTDOWN_SECONDS))
        undo.enter_context(exit_on_signals(loop))
        undo.enter_context(Pruning(storage, settings.terms, server.health.check))
        undo.enter_context(Webhooks(storage, receivers, time.time))
        undo.enter_context(workers)
        announce(f"thpdiag serves {url_of_socket(listening)} and keeps its data in {storage.folder}; Ctrl-C stops it")
        loop.run([listening])


def add_database_password(settings: Settings, environment: MutableMapping[str, str]) -> Settings:
    """Move PGPASSWORD from the environment into the database URL: child processes must not inherit it."""
    password = environment.pop("PGPASSWORD", "")
    if not password or settings.database is None:
        return settings
    url = parse_database_url(settings.database)
    url = url if url.password else url.set(password=password)
    return replace(settings, database=url.render_as_string(hide_password=False))


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 selects a free port."""
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
    """Return the URL of a listening socket for a browser on this machine."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


class _Uvicorn(uvicorn.Server):
    """A uvicorn server without signal handlers: they would re-raise the signal before the workers have stopped."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def exit_on_signals(loop: uvicorn.Server) -> Iterator[None]:
    """Shut the server down on a signal, also if it arrives before the loop runs."""
    handlers = {number: signal.signal(number, loop.handle_exit) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def logging_to_stderr() -> Iterator[None]:
    """Log to stderr with secrets masked, including uncaught exceptions of threads."""
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


def _log_thread_error(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None:
        error = (args.exc_type, args.exc_value, args.exc_traceback)
        LOGGER.critical("a bug in thpdiag, please report it", exc_info=error)
