"""Servers of this machine for tests of addresses: one of the web that misbehaves as asked, and one that speaks S3."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "SECRETKEYOFTHEUSER"


class _Web(BaseHTTPRequestHandler):
    """What its server has under a path; some paths end badly."""

    server: Web

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        path = self.path.partition("?")[0]
        if path in self.server.files:
            self._give(self.server.files[path])
        elif path.startswith("/status/"):
            self.send_error(int(path.rpartition("/")[2]))
        elif path in self.server.cut:
            self._give(b"x" * 1000, length=5000)
        elif path == "/endless":
            self._endless()
        elif path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/a.tar")
            self.end_headers()
        else:
            self.send_error(404)

    def _give(self, content: bytes, length: int = -1) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if self.path.endswith("/") else "application/octet-stream")
        self.send_header("Content-Length", str(len(content) if length < 0 else length))
        if content.startswith(b"\x1f\x8b"):
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(content)

    def _endless(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            while True:
                self.wfile.write(bytes(1 << 16))
        except OSError:
            self.server.given_up.set()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""


class Web(ThreadingHTTPServer):
    """`files` by path; what is in `cut` ends too early; `asked` are the paths that were asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Web)
        self.files: dict[str, bytes] = {}
        self.cut = {"/cut"}
        self.asked: list[str] = []
        self.given_up = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def web() -> Iterator[Web]:
    """A server that ends with the context."""
    with Web() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class Bucket:
    """The bucket `bucket` of a server that speaks S3, filled from within this process."""

    def __init__(self, address: str) -> None:
        from moto.core import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        self.address = address
        self._store = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
        self._store.reset()
        self._store.create_bucket("bucket", "us-east-1")

    def put(self, objects: Mapping[str, bytes]) -> None:
        for key, content in objects.items():
            self._store.put_object("bucket", key, content)


@contextmanager
def s3() -> Iterator[str]:
    """Moto's server; its address."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()
