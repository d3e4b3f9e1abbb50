"""A real server of uploads as tests see it: started, killed, started again at the same address."""

from __future__ import annotations

import socket
import subprocess
import sys
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path

from command_line import ROOT

TUS = {"Tus-Resumable": "1.0.0"}
BYTES = {**TUS, "Content-Type": "application/offset+octet-stream"}


@dataclass
class Serving:
    folder: Path
    log: Path
    limit: int = 1 << 40
    idle: float = 60.0
    listening: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0), backlog=512))
    process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        return int(self.listening.getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Requests that come before it listens wait in the socket."""
        descriptor = self.listening.fileno()
        script = ROOT / "tests" / "upload_server.py"
        command = [sys.executable, script, self.folder, descriptor, self.limit, self.idle]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(part) for part in command], cwd=ROOT, stderr=log, stdout=log, pass_fds=[descriptor]
            )

    def kill(self) -> None:
        assert self.process
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        assert self.process
        self.process.terminate()
        self.process.wait(30)
        self.listening.close()

    def asked(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str]]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body or None, TUS | {k.replace("_", "-"): v for k, v in headers.items()})
            answer = connection.getresponse()
            answer.read()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}
        finally:
            connection.close()

    def begun(self, size: int) -> str:
        status, headers = self.asked("POST", "/files", Upload_Length=str(size))
        assert status == 201
        return headers["location"]

    def offset(self, where: str) -> int:
        status, headers = self.asked("HEAD", where)
        while status == 423:  # all of it came in this moment
            status, headers = self.asked("HEAD", where)
        assert status == 200, status
        return int(headers["upload-offset"])

    def reached(self, where: str, offset: int) -> int:
        """Ask until an upload is so far; where it is then."""
        for _ in range(20_000):
            if (at := self.offset(where)) >= offset:
                return at
        raise AssertionError(f"the upload stays at {at}, {offset} were sent")

    def half_sent(self, method: str, where: str, size: int, data: bytes, **headers: str) -> socket.socket:
        """A connection on which `size` bytes were announced and some of them sent."""
        sender = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        told = (
            BYTES | {"Host": "demo", "Content-Length": str(size)} | {k.replace("_", "-"): v for k, v in headers.items()}
        )
        head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        sender.sendall(f"{method} {where} HTTP/1.1\r\n{head}\r\n".encode() + data)
        return sender

    def memory(self) -> int:
        """The most memory that the server has had, in kB."""
        assert self.process
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0])

    def kept(self) -> list[Path]:
        """The bundles that the storage has."""
        return sorted(file for file in (self.folder / "bundles").rglob("*") if file.is_file())
