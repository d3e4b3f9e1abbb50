"""A real PostgreSQL server for tests: its own folder, its own Unix socket, no port, an ordinary user, gone at the end.

Texts of this server are ordered as in English, not by their bytes: what works here does so because thpdiag asks for it.
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
    """The folder of the newest installed server, of version 15 at least."""
    found = [p.parent for p in PROGRAMS.glob("*/bin/postgres") if p.parent.parent.name.isdigit()]
    newest = max(found, key=lambda folder: int(folder.parent.name), default=None)
    return newest if newest and int(newest.parent.name) >= 15 else None


@dataclass
class PostgresServer:
    """Databases that nobody else uses, by their addresses. `command` starts the server on its folder."""

    folder: Path
    user: str
    command: Sequence[str | Path]
    process: subprocess.Popen[str] | None = None
    log: Thread | None = None

    def address(self, schema: str) -> str:
        search = f"options=-csearch_path%3D{schema}"
        return f"postgresql+psycopg://{self.user}@/postgres?host={self.folder}&{search}"

    def fresh(self) -> str:
        """The address of an empty schema, which stands for a database: it is made ten times faster."""
        schema = f"s{uuid4().hex}"
        self.run(f"CREATE SCHEMA {schema}")
        return self.address(schema)

    def run(self, statement: str) -> None:
        with psycopg.connect(f"host={self.folder} user={self.user} dbname=postgres", autocommit=True) as connection:
            connection.execute(statement.encode())

    def start(self) -> None:
        """Until it takes connections; as often as it takes until what a killed one left behind has ended."""
        said = ""
        for _ in range(200):
            self.process = subprocess.Popen(self.command, cwd="/", stderr=subprocess.PIPE, text=True)
            assert self.process.stderr
            said = ""
            for line in self.process.stderr:
                said += line
                if "ready to accept connections" in line:
                    # A log that nobody reads fills its pipe, and then every connection waits for ever.
                    self.log = Thread(target=deque, args=(self.process.stderr, 0), daemon=True)
                    self.log.start()
                    return
            self.process.wait()
        raise AssertionError(f"the server did not start: {said}")

    def end(self, signal: int) -> None:
        """Send a signal and wait for its end."""
        assert self.process
        assert self.process.stderr
        assert self.log
        self.process.send_signal(signal)
        self.process.wait()
        self.log.join()
        self.process.stderr.close()


@contextmanager
def running(home: Path, settings: Sequence[str] = FAST) -> Iterator[PostgresServer]:
    """A server that runs; the programs refuse to be root's."""
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
            server.end(SIGINT)  # fast: whoever is connected is thrown out
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ordinary() -> str:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
