"""The simplest upload server: streams to a file with its sha256; `plain_upload.py FOLDER`, the peer of `serve.py`."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

FOLDER = Path(sys.argv[1])


async def put(request: Request) -> Response:
    digest, size = hashlib.sha256(), 0
    with (FOLDER / request.path_params["name"]).open("wb") as out:
        async for block in request.stream():
            out.write(block)
            digest.update(block)
            size += len(block)
    return JSONResponse({"sha256": digest.hexdigest(), "size": size}, 201)


if __name__ == "__main__":
    listens = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listens.getsockname()[1]}/", flush=True)
    app = Starlette(routes=[Route("/api/v1/bundles/{name}", put, methods=["PUT"])])
    config = uvicorn.Config(app, http="httptools", log_level="warning", lifespan="off")
    asyncio.run(uvicorn.Server(config).serve([listens]))
