"""A server of uploads in a process of its own, which tests may kill: `upload_server.py FOLDER DESCRIPTOR LIMIT IDLE`.

It listens on a socket that the test holds open, so that its address outlives it.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from thpdiag.serve.storage.room import Bounds
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.uploads.form import form_route
from thpdiag.serve.uploads.intake import Intake
from thpdiag.serve.uploads.pace import Pace
from thpdiag.serve.uploads.put import put_route
from thpdiag.serve.uploads.sink import Arrived
from thpdiag.serve.uploads.tus import tus_routes
from thpdiag.triage.store.bundle import Analysis

ANALYSIS = Analysis("1.0", "0123456789abcdef")


class Anna:
    owner = "anna"

    def may_touch(self, owner: str) -> bool:
        return owner == self.owner


def application(storage: Storage, limit: int, idle: float) -> Starlette:
    intake = Intake(storage.uploads, limit, Pace(idle=idle))

    async def admit(_request: Request, _fields: Mapping[str, str] | None = None) -> Anna:
        return Anna()

    async def complete(_request: Request, arrived: Arrived) -> Mapping[str, str]:
        accepted = await run_in_threadpool(storage.accept, arrived.id, ANALYSIS)
        return {"thpdiag-job": accepted.job}

    async def accept(request: Request, arrived: Arrived) -> Response:
        headers = await complete(request, arrived)
        return JSONResponse({"sha256": arrived.sha256, "size": arrived.size}, 201, headers)

    return Starlette(
        routes=[
            put_route("/api/v1/bundles", intake, admit, accept),
            form_route("/upload", intake, admit, accept),
            *tus_routes("/files", intake, admit, complete),
        ]
    )


def main(folder: str, descriptor: str, limit: str, idle: str) -> None:
    listening = socket.socket(fileno=int(descriptor))
    storage = Storage.open(Path(folder), bounds=Bounds(spare=0))
    with storage.served(ANALYSIS):
        app = application(storage, int(limit), float(idle))
        config = uvicorn.Config(app, http="httptools", loop="asyncio", lifespan="off", log_level="warning")
        uvicorn.Server(config).run(sockets=[listening])
    storage.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
