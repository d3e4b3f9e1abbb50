"""Clients of a real server: clients that resume failed uploads, clients that stop half-way, and their answers."""

from __future__ import annotations

import json
import random
import select
import socket
import tarfile
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from http.client import HTTPConnection, HTTPException
from io import BytesIO
from pathlib import Path
from queue import SimpleQueue
from threading import Condition, Event
from typing import NamedTuple

from command_line import ROOT
from serve_process import LONG, Running

STORY = ROOT / "fixtures/stories/redis-shop-ubuntu/bundle/session.txt"
TUS = {"Tus-Resumable": "1.0.0"}
BYTES = {**TUS, "Content-Type": "application/offset+octet-stream"}
PIECE = 400_000


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Bundle:
    """A story of a unique host, with bytes after the end of the archive up to the wanted size."""

    number: int
    padding: int = 0

    @property
    def host(self) -> str:
        return f"shop{self.number:05}"

    @property
    def name(self) -> str:
        return f"{self.host}.tar"

    @cached_property
    def content(self) -> bytes:
        session = STORY.read_bytes().replace(b"shop1", self.host.encode())
        whole = BytesIO()
        with tarfile.open(fileobj=whole, mode="w") as tar:
            entry = tarfile.TarInfo("session.txt")
            entry.size = len(session)
            tar.addfile(entry, BytesIO(session))
        return whole.getvalue() + random.Random(self.number).randbytes(self.padding)

    @cached_property
    def sha256(self) -> str:
        return sha256(self.content).hexdigest()


def ask(port: int, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
    connection = HTTPConnection("127.0.0.1", port, timeout=LONG)
    try:
        connection.request(method, path, body or None, dict(headers or {}))
        answer = connection.getresponse()
        told = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, told, answer.read())
    finally:
        connection.close()


def creation(bundle: Bundle) -> dict[str, str]:
    """Return the headers that begin a resumable upload."""
    name = b64encode(bundle.name.encode()).decode()
    return {**TUS, "Upload-Length": str(len(bundle.content)), "Upload-Metadata": f"filename {name}"}


def begun(port: int, bundle: Bundle) -> str:
    """Return the address of a new resumable upload."""
    answer = ask(port, "POST", "/files", headers=creation(bundle))
    assert answer.status == 201, answer
    return answer.headers["location"]


def part_sent(
    port: int, method: str, path: str, size: int, part: bytes, headers: Mapping[str, str] | None = None
) -> socket.socket:
    """Open a connection that announces this many bytes and sends some of them."""
    told = {"Host": f"127.0.0.1:{port}", "Content-Length": str(size), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    sender = socket.create_connection(("127.0.0.1", port), timeout=LONG)
    sender.sendall(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + part)
    return sender


def dripped(senders: Sequence[socket.socket], seconds: float = 0.1) -> list[bytes]:
    """Send one byte on each from time to time until the server has closed all; return their answers."""
    told = dict.fromkeys(senders, b"")
    alive = set(senders)
    for _ in range(int(LONG / seconds)):
        for sender in select.select(list(alive), [], [], seconds)[0]:
            came = _received(sender)
            told[sender] += came
            if not came:
                alive.discard(sender)
        if not alive:
            return list(told.values())
        for sender in alive:
            with suppress(OSError):
                sender.send(b"x")
    raise AssertionError(f"{len(alive)} of {len(senders)} are still served")


def _received(sender: socket.socket) -> bytes:
    try:
        return sender.recv(4096)
    except ConnectionError:
        return b""


@dataclass
class Load:
    """Clients of a server that is killed from time to time.

    A client without an answer, or with one of the statuses `unready`, retries once the server is back.
    """

    server: Running
    unready: Collection[int] = ()
    jobs: dict[Bundle, str] = field(default_factory=dict)  # of each bundle whose upload was answered
    left: list[tuple[str, Bundle]] = field(default_factory=list)  # begun, and stopped half-way by who sent it
    _work: SimpleQueue[Bundle | None] = field(default_factory=SimpleQueue)
    _up: Event = field(default_factory=Event)
    _over: Event = field(default_factory=Event)
    _news: Condition = field(default_factory=Condition)
    _answers: int = 0

    @contextmanager
    def running(self, senders: int, readers: int) -> Iterator[None]:
        """Half of the senders use PUT and half tus. At the end all started requests are answered."""
        self._up.set()
        with ThreadPoolExecutor(senders + readers) as pool:
            sending = [pool.submit(self._send, self.put if n % 2 else self.tus) for n in range(senders)]
            reading = [pool.submit(self._read, random.Random(n)) for n in range(readers)]
            try:
                yield
                for _ in sending:
                    self._work.put(None)
                _raised(sending)
            finally:
                self._over.set()
                self._up.set()
                for _ in sending:
                    self._work.put(None)
            _raised(reading)

    def add(self, *bundles: Bundle) -> None:
        """Queue bundles for sending."""
        for bundle in bundles:
            self._work.put(bundle)

    def after(self, answers: int) -> None:
        """Wait for this many more answers."""
        with self._news:
            wanted = self._answers + answers
            assert self._news.wait_for(lambda: self._answers >= wanted, LONG), "no answers come any more"

    def killed(self) -> None:
        self._up.clear()
        self.server.end(9)

    def started(self) -> None:
        self.server.start()
        self._up.set()

    def put(self, bundle: Bundle) -> None:
        while not self._over.is_set():
            answer = self._ask("PUT", f"/api/v1/bundles/{bundle.name}", bundle.content)
            if answer is not None:
                assert answer.status == 201, answer
                self.jobs[bundle] = str(json.loads(answer.body)["job"])
                return

    def tus(self, bundle: Bundle) -> None:
        if (where := self._begun(bundle)) is not None:
            self.resume(where, bundle)

    def leave(self, bundle: Bundle) -> None:
        """Send half of it and stop."""
        if (where := self._begun(bundle)) is not None:
            self.left.append((where, bundle))
            self._ask("PATCH", where, bundle.content[: len(bundle.content) // 2], {**BYTES, "Upload-Offset": "0"})

    def resume(self, where: str, bundle: Bundle) -> None:
        """Ask for the offset and resume, as often as necessary."""
        while not self._over.is_set():
            told = self._ask("HEAD", where, headers=TUS)
            if told is None:
                continue
            assert told.status == 200, told
            offset = int(told.headers["upload-offset"])
            if offset == len(bundle.content):
                self.jobs[bundle] = told.headers["thpdiag-job"].rpartition("/")[2]
                return
            piece = bundle.content[offset : offset + PIECE]
            sent = self._ask("PATCH", where, piece, {**BYTES, "Upload-Offset": str(offset)})
            assert sent is None or sent.status == 204, sent

    def _begun(self, bundle: Bundle) -> str | None:
        while not self._over.is_set():
            answer = self._ask("POST", "/files", headers=creation(bundle))
            if answer is not None:
                assert answer.status == 201, answer
                return answer.headers["location"]
        return None

    def _send(self, way: object) -> None:
        assert callable(way)
        while (bundle := self._work.get()) is not None:
            way(bundle)

    def _read(self, chance: random.Random) -> None:
        known = [""]
        while not self._over.is_set():
            case = chance.choice(known)
            of_case = [f"/cases/{case}", f"/cases/{case}/page", f"/api/v1/cases/{case}/report.json"] if case else []
            answer = self._ask("GET", chance.choice(["/healthz", "/cases", "/metrics", *of_case]))
            assert answer is None or answer.status == 200, answer
            cases = self._ask("GET", "/api/v1/cases")
            if cases is not None:
                assert cases.status == 200, cases
                known = [case["id"] for case in json.loads(cases.body)["cases"]] or [""]

    def _ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer | None:
        """Return the answer, None if the connection broke."""
        self._up.wait(LONG)
        answer = None
        with suppress(OSError, HTTPException):
            answer = ask(self.server.port, method, path, body, headers)
        if answer is not None:
            with self._news:
                self._answers += 1
                self._news.notify_all()
        return None if answer and answer.status in self.unready else answer


def _raised(futures: list[Future[None]]) -> None:
    for future in futures:
        future.result(LONG)


def stored(folder: Path) -> dict[str, str]:
    """Return the digest of each bundle file of a data folder by name."""
    found = sorted(file for file in (folder / "bundles").glob("??/*"))
    return {file.parent.name + file.name: sha256(file.read_bytes()).hexdigest() for file in found}
