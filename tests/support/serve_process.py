"""The real command `thpdiag serve` in a process of its own: start, requests, kill, restart."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

from command_line import ROOT
from thpdiag.sandbox.supervise import parent_of, running_processes

TESTS = ROOT / "tests/support"
LONG = 120.0  # seconds; a test waits this long only if something is broken


@dataclass
class Running:
    """A server on a folder. With `mocked` seconds its analyses misbehave as bundles order, and have that much time."""

    folder: Path
    options: tuple[str, ...] = ()
    mocked: float | None = None
    process: subprocess.Popen[str] | None = None
    port: int = 0
    said: str = field(default="", repr=False)

    @property
    def log(self) -> Path:
        return self.folder.with_suffix(".log")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        program = ["-m", "thpdiag"] if self.mocked is None else [str(TESTS / "serve_misbehaving.py"), str(self.mocked)]
        return [sys.executable, *program, "serve", "--data", str(self.folder), "--port", "0", *self.options]

    def start(self) -> None:
        """Start it and wait for its address."""
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                self.command(), cwd=TESTS, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        assert self.process.stdout
        self.said = self.process.stdout.readline()
        assert "http://" in self.said, self.log.read_text()
        self.port = int(self.said.split("http://")[1].split("/")[0].rpartition(":")[2])

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; return the exit code."""
        assert self.process
        self.process.send_signal(number)
        code = self.process.wait(LONG)
        if self.process.stdout:
            self.process.stdout.close()
        return code

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Run it until the end of the context."""
        self.start()
        try:
            yield
        finally:
            if self.process and self.process.poll() is None:
                self.end(signal.SIGKILL)

    def asked(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=LONG)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def sent(self, content: bytes, name: str) -> str:
        """Return the job of an uploaded bundle."""
        status, body = self.asked("PUT", f"/api/v1/bundles/{quote(name)}", content)
        assert status == 201, body
        return str(json.loads(body)["job"])

    def events(self, job: str) -> Iterator[dict[str, Any]]:
        """Yield the events of a job as they happen."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=LONG)
        try:
            connection.request("GET", f"/api/v1/jobs/{job}/events")
            for line in connection.getresponse():
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])
        finally:
            connection.close()

    def reached(self, job: str, stage: str) -> None:
        """Wait until a job is at this stage."""
        assert any(event["stage"].startswith(stage) for event in self.events(job))

    def ended(self, job: str) -> dict[str, Any]:
        """Return the outcome of a job."""
        return list(self.events(job))[-1]

    def document(self, case: str) -> dict[str, Any]:
        status, body = self.asked("GET", f"/api/v1/cases/{case}/report.json")
        assert status == 200, body
        whole: dict[str, Any] = json.loads(body)
        return whole


@contextmanager
def running(folder: Path, *options: str, mocked: float | None = None) -> Iterator[Running]:
    """Run a server until the end of the context."""
    server = Running(folder, options, mocked)
    with server.serving():
        yield server


def below(pid: int) -> set[int]:
    """Return all descendants of a process."""
    parents = {one: parent_of(one) for one in running_processes()}
    found, more = set[int](), {pid}
    while more:
        more = {one for one, parent in parents.items() if parent in more}
        found |= more
    return found


def grandchildren(pid: int) -> set[int]:
    """Return the processes of jobs, which the fork server, a child of the server, has started."""
    return {one for one in below(pid) if parent_of(parent_of(one)) == pid}


@contextmanager
def all_end(pids: set[int]) -> Iterator[None]:
    """Assert that each of these processes ends within a while after the block."""
    with ExitStack() as undo:
        handles = {pid: os.pidfd_open(pid) for pid in pids}
        for handle in handles.values():
            undo.callback(os.close, handle)
        yield
        alive = [pid for pid, handle in handles.items() if not select.select([handle], [], [], LONG / 4)[0]]
        assert alive == []


def mock(word: str) -> bytes:
    """Return a bundle whose parser does what the word names (`misbehaving_calls`), if the server is mocked."""
    return f"thpdiag_mock {word}\n".encode()
