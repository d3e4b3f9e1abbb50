"""Servers of this machine for tests of addresses: a web server that misbehaves on request, and one for S3."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer
from typing import Any

import pytest

KEY = "SECRETKEYOFTHEUSER"


class _Web(BaseHTTPRequestHandler):
    """The handler of the content under a path; some paths fail."""

    server: Web

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        path = self.path.partition("?")[0]
        if path in self.server.silent:
            self.close_connection = True
        elif path in self.server.statuses:
            self.send_error(self.server.statuses[path])
        elif path in self.server.files:
            self._give(self.server.files[path])
        elif path.startswith("/status/"):
            self.send_error(int(path.rpartition("/")[2]))
        elif path in self.server.cut:
            self._give(b"x" * 1000, length=5000)
        elif path == "/endless":
            self._endless()
        elif path in self.server.moved:
            self.send_response(302)
            self.send_header("Location", self.server.moved[path])
            self.end_headers()
        else:
            self.send_error(404)

    def _give(self, content: bytes, length: int = -1) -> None:
        listed = self.path.endswith("/")
        if self.server.packs and listed and "gzip" in self.headers["Accept-Encoding"]:
            content = gzip.compress(content)
        self.send_response(200)
        kind = "text/html; charset=utf-8" if listed else "application/octet-stream"
        self.send_header("Content-Type", self.server.types.get(self.path, kind))
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
        """Print nothing on stderr."""


class Web(ThreadingHTTPServer):
    """`files` by path, with `types` of some; `asked` are the requested paths.

    Other paths answer with one of `statuses`, are `moved` elsewhere, `cut` short or `silent`. With `packs` lists are
    sent with gzip to clients that accept it, as many servers do.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Web)
        self.files: dict[str, bytes] = {}
        self.types: dict[str, str] = {}
        self.statuses: dict[str, int] = {}
        self.moved = {"/moved": "/a.tar"}
        self.cut = {"/cut"}
        self.silent: set[str] = set()
        self.packs = False
        self.asked: list[str] = []
        self.given_up = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def run_server(server: BaseServer) -> Iterator[None]:
    """Run a server in a thread until the end of the context."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def web() -> Iterator[Web]:
    """Run a server until the end of the context."""
    server = Web()
    with run_server(server):
        yield server


class Bucket:
    """The bucket `bucket` of an S3 server, filled from this process."""

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

    def versions(self, key: str, *contents: bytes) -> list[str]:
        """Store several versions of an object; return their ids."""
        self._store.put_bucket_versioning("bucket", "Enabled")
        return [self._store.put_object("bucket", key, content).version_id for content in contents]


@contextmanager
def s3() -> Iterator[str]:
    """Run Moto's server; its address."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with s3() as address:
        yield address


@pytest.fixture
def asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bypass any proxy of the environment for servers of this machine."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1,localhost")


@pytest.fixture
def bucket(moto: str, asked_directly: None, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """Return the empty bucket of a server; the environment has the credentials of its user."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ENDPOINT_URL": moto, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": KEY,
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    return Bucket(moto)
