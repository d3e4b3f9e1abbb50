"""A real PostgreSQL server for tests: in its own folder, on a Unix socket, without a port, as an ordinary user.

Texts in this server are sorted as in English, not by bytes, which shows that thpdiag requests the order it needs.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT
from threading import Thread
from uuid import uuid4

import psycopg

PROGRAMS = Path("/usr/lib/postgresql")
SMALL = ("listen_addresses=", "shared_buffers=16MB")
FAST = ("fsync=off", "full_page_writes=off", "synchronous_commit=off", *SMALL)


def programs() -> Path | None:
    """Return the folder of the newest installed server, at least version 15."""
    found = [p.parent for p in PROGRAMS.glob("*/bin/postgres") if p.parent.parent.name.isdigit()]
    newest = max(found, key=lambda folder: int(folder.parent.name), default=None)
    return newest if newest and int(newest.parent.name) >= 15 else None


@dataclass
class PostgresServer:
    """Empty databases, by their addresses. `command` starts the server on its folder."""

    folder: Path
    user: str
    command: Sequence[str | Path]
    process: subprocess.Popen[str] | None = None
    log: Thread | None = None

    def address(self, schema: str) -> str:
        search = f"options=-csearch_path%3D{schema}"
        return f"postgresql+psycopg://{self.user}@/postgres?host={self.folder}&{search}"

    def fresh(self) -> str:
        """Return the address of an empty schema, used as a database: it is created ten times faster."""
        schema = f"s{uuid4().hex}"
        self.run(f"CREATE SCHEMA {schema}")
        return self.address(schema)

    def run(self, statement: str) -> None:
        with psycopg.connect(f"host={self.folder} user={self.user} dbname=postgres", autocommit=True) as connection:
            connection.execute(statement.encode())

    def start(self) -> None:
        """Wait for connections; retry until processes of a killed server have ended."""
        said = ""
        for _ in range(200):
            self.process = subprocess.Popen(self.command, cwd="/", stderr=subprocess.PIPE, text=True)
            assert self.process.stderr
            said = ""
            for line in self.process.stderr:
                said += line
                if "ready to accept connections" in line:
                    # An unread log fills its pipe, and then every connection blocks.
                    self.log = Thread(target=deque, args=(self.process.stderr, 0), daemon=True)
                    self.log.start()
                    return
            self.process.wait()
        raise AssertionError(f"the server did not start: {said}")

    def end(self, signal: int) -> None:
        """Send a signal and wait for the end."""
        assert self.process
        assert self.process.stderr
        assert self.log
        self.process.send_signal(signal)
        self.process.wait()
        self.log.join()
        self.process.stderr.close()


@contextmanager
def running(home: Path, settings: Sequence[str] = FAST) -> Iterator[PostgresServer]:
    """Run a server; its programs refuse to run as root."""
    user = _ordinary() if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    as_user = ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"]
    started = as_user if os.geteuid() == 0 else ["setpriv"]
    folder = Path(tempfile.mkdtemp(prefix="thpdiag-pg-"))  # the path of a socket has 107 characters at most
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, user)
        data = folder / "data"
        language = ("--encoding=UTF8", "--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US")
        make = [home / "initdb", "-D", data, "-U", user, "-A", "trust", "--no-sync", "--no-instructions", *language]
        prefix = as_user if os.geteuid() == 0 else []
        subprocess.run([*prefix, *make], cwd="/", check=True, capture_output=True)
        chosen = [part for setting in settings for part in ("-c", setting)]
        serve = [*started, "--pdeathsig=INT", home / "postgres", "-D", data, "-k", folder, *chosen]
        server = PostgresServer(folder, user, serve)
        server.start()
        try:
            yield server
        finally:
            server.end(SIGINT)  # fast shutdown: open connections are closed
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ordinary() -> str:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
