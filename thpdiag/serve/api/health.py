"""`GET /healthz`: whether this server can do its work: the database answers, and the disk takes a file. 200 or 503."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from thpdiag.errors import StoreBusyError, StoreError, StoreFullError
from thpdiag.serve.api.endpoint import asked, data, endpoint
from thpdiag.serve.server import Server
from thpdiag.serve.storage.storage import Storage

LASTS: Final = 2.0  # seconds in which the disk is not tried again: anybody may ask
PROBE: Final = ".healthz"


class Health:
    def __init__(self, storage: Storage, clock: Callable[[], float] = monotonic) -> None:
        self._storage, self._clock = storage, clock
        self._lock, self._until, self._told = Lock(), float("-inf"), {"database": False, "disk": False}

    def told(self) -> dict[str, bool]:
        with self._lock:
            if self._clock() >= self._until:
                self._told = {"database": _answers(self._storage), "disk": _writable(self._storage.folder)}
                self._until = self._clock() + LASTS
            return self._told


def routes(server: Server) -> list[BaseRoute]:
    health = Health(server.storage)

    def answer(request: Request, _server: Server) -> Response:
        asked(request)
        told = health.told()
        well = all(told.values())
        return data({"status": "ok" if well else "failing", **told}, 200 if well else 503)

    return [Route("/healthz", endpoint(server, answer), methods=["GET"])]


def _answers(storage: Storage) -> bool:
    try:
        storage.jobs.found("0" * 32)
    except (StoreError, StoreBusyError, StoreFullError):
        return False
    return True


def _writable(folder: Path) -> bool:
    """Whether a file with bytes in it can be made there; nothing stays."""
    probe = folder / PROBE
    try:
        with probe.open("wb") as file:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
        probe.unlink()
    except OSError:
        return False
    return True
