"""Puts a server together from its settings and runs it until it is told to end.

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
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from time import time
from typing import Any, Final

import uvicorn

from thpdiag import __version__
from thpdiag.engine.rule_set import rule_set
from thpdiag.errors import UsageError
from thpdiag.result.rule_packs import digest
from thpdiag.serve.access import modes
from thpdiag.serve.access.around import SERVER
from thpdiag.serve.access.attempts import Attempts
from thpdiag.serve.access.bearer import Bearer
from thpdiag.serve.access.log import handler
from thpdiag.serve.access.sealed import kept_key
from thpdiag.serve.app import application
from thpdiag.serve.pruning import Pruning
from thpdiag.serve.server import Server
from thpdiag.serve.settings import Settings, opened
from thpdiag.serve.storage import database
from thpdiag.serve.uploads.intake import Intake
from thpdiag.serve.work.workers import Workers
from thpdiag.triage.store.bundle import Analysis

LOGGER: Final = logging.getLogger("thpdiag.serve")
KEY: Final = "key"  # in the data folder
SECONDS_FOR_REQUESTS: Final = 5
BACKLOG: Final = 1024
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def run(settings: Settings, tell: Callable[[str], None]) -> None:
    """Serve until a signal; `tell` is given one line with the address once connections are taken."""
    access = modes.check(settings.who)
    rules = rule_set()
    analysis = Analysis(__version__, digest(rules))
    with ExitStack() as undo:
        undo.enter_context(logged())
        storage = undo.enter_context(closing(opened(with_password(settings, os.environ))))
        undo.enter_context(storage.served(analysis))
        listens = undo.enter_context(bound(settings.host, settings.port))
        modes.check(replace(access, host=str(listens.getsockname()[0])))  # a name may have changed what it stands for
        workers = Workers(storage, analysis, settings.count)
        bearer = Bearer(storage.tokens, Attempts(), storage.audit.add, time)
        server = Server(
            storage, access, kept_key(storage.folder / KEY), bearer, Intake(storage.uploads, settings.upload_limit),
            rules, analysis, settings.terms, settings.count, workers.wake, time,
        )  # fmt: skip
        loop = _Uvicorn(uvicorn.Config(application(server), **options()))
        undo.enter_context(ended_by_signals(loop))
        undo.enter_context(Pruning(storage, settings.terms))
        undo.enter_context(workers)
        tell(f"thpdiag serves {address(listens)} and keeps its data in {storage.folder}; Ctrl-C ends it")
        loop.run([listens])


def with_password(settings: Settings, environment: MutableMapping[str, str]) -> Settings:
    """The password that libpq would take from the environment goes into the address of the database.

    It leaves the environment, which every process that reads a customer's bytes would inherit.
    """
    password = environment.pop("PGPASSWORD", "")
    if not password or settings.database is None:
        return settings
    url = database.address(settings.database)
    told = url if url.password else url.set(password=password)
    return replace(settings, database=told.render_as_string(hide_password=False))


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 is one that is free."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, place = found[0]
        with ExitStack() as undo:
            listens = undo.enter_context(socket.socket(family, kind, protocol))
            listens.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listens.bind(place)
            listens.listen(BACKLOG)
            undo.pop_all()
            return listens
    except (OSError, UnicodeError) as error:
        raise UsageError(f"cannot listen at {host}, port {port}: {getattr(error, 'strerror', error)}") from error


def address(listens: socket.socket) -> str:
    """As one types it into a browser on this machine."""
    host, port = listens.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def options() -> dict[str, Any]:
    """Those of uvicorn."""
    return {**SERVER, "lifespan": "off", "log_level": "info", "timeout_graceful_shutdown": SECONDS_FOR_REQUESTS}


class _Uvicorn(uvicorn.Server):
    """Without signals of its own: it would send them again at its end, before the workers have come to theirs."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def ended_by_signals(loop: uvicorn.Server) -> Iterator[None]:
    """A signal ends the server in order; what comes before it runs does so too."""
    before = {number: signal.signal(number, loop.handle_exit) for number in SIGNALS}
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)


@contextmanager
def logged() -> Iterator[None]:
    """The log goes to stderr, without secrets; mistakes of ours in threads too."""
    root, writes, threads = logging.getLogger(), handler(sys.stderr), threading.excepthook
    level = root.level
    root.addHandler(writes)
    root.setLevel(logging.INFO)
    threading.excepthook = _mistake
    try:
        yield
    finally:
        threading.excepthook = threads
        root.setLevel(level)
        root.removeHandler(writes)


def _mistake(what: threading.ExceptHookArgs) -> None:
    if what.exc_value is not None:
        found = (what.exc_type, what.exc_value, what.exc_traceback)
        LOGGER.critical("a mistake of thpdiag itself, please report it", exc_info=found)
