"""Commands as a user runs them: in a process of their own, at a terminal, or (fixture `run`) in this process."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests/support"  # programs started by tests
STORY = ROOT / "fixtures" / "stories" / "hadoop-centos62" / "bundle"
LEAK = ROOT / "fixtures" / "captures" / "true-leak" / "bundle"


@dataclass(frozen=True)
class Outcome:
    """The result of a command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.out)
        return loaded


Run = Callable[..., Outcome]


def apart(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "thpdiag", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, check=False)


def at_a_terminal(*arguments: str, program: Sequence[str] = ("-m", "thpdiag"), **environment: str) -> str:
    """Return the output of a command whose streams are all one terminal."""
    leader, follower = pty.openpty()
    command = [sys.executable, *program, *arguments]
    settings = {**os.environ, "TERM": "xterm-256color", **environment}
    with subprocess.Popen(command, cwd=ROOT, env=settings, stdin=follower, stdout=follower, stderr=follower):
        os.close(follower)
        written = b"".join(_until_closed(leader))
    os.close(leader)
    return written.decode()


def _until_closed(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(descriptor, 65536)
        except OSError:  # Linux answers EIO once the other side is closed
            return
        if not chunk:
            return
        yield chunk


def packed(folder: Path, path: Path) -> Path:
    with tarfile.open(path, "w:xz") as archive:
        archive.add(folder, arcname="bundle")
    return path
