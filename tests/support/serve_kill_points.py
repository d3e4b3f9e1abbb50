"""The whole life of a bundle, ended by kill -9 at one line after the other of what stores it; looked at after each.

`python serve_kill_points.py FOLDER DATABASE FIRST STRIDE` forks a child for every STRIDE-th line from FIRST on until
one comes to its end, and says how many were killed. `-` is the database in the folder.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import closing, suppress
from itertools import count
from pathlib import Path
from time import time
from types import FrameType
from typing import Any

from sqlalchemy import func, select

import thpdiag.serve.storage.storage
from serve_storage_fixtures import ANALYSIS, Hands, accepted, content, digest, done, files
from small_results import document
from thpdiag.serve.storage.cases import CaseFilter
from thpdiag.serve.storage.database import DAY, TABLES, job, read_transaction, upload
from thpdiag.serve.storage.retention import Terms
from thpdiag.serve.storage.storage import Storage

ROOM = str(Path(thpdiag.serve.storage.storage.__file__).parent)


class Killer:
    """Ends this process at a line of the room."""

    def __init__(self, line: int) -> None:
        self._left = line

    def __call__(self, frame: FrameType, event: str, _: Any) -> Killer | None:
        if not frame.f_code.co_filename.startswith(ROOM):
            return None
        if event == "line":
            self._left -= 1
            if self._left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return self


def live(storage: Storage, number: int, told: int) -> None:
    """Send, analyse, delete; after each step say that it is done."""

    def say(word: str) -> None:
        os.write(told, json.dumps([word, number]).encode() + b"\n")

    accepted(storage, number)
    say("accepted")
    claim = storage.jobs.claim()
    assert claim is not None
    key = done(storage, claim, document(number))
    say("cased")
    say("deleting")
    storage.removal.delete_case(key)
    say("deleted")


def child(folder: Path, database: str | None, number: int, told: int) -> None:
    storage = Storage.open(folder, database)
    while claim := storage.jobs.claim():  # what the one before has left
        storage.jobs.fail(claim, "left")
    sys.settrace(Killer(number))
    live(storage, number, told)
    sys.settrace(None)
    os._exit(0)


def lived(folder: Path, database: str | None, number: int) -> tuple[bool, list[str]]:
    """Whether the child came to its end, and what it said."""
    reads, writes = os.pipe()
    if not (pid := os.fork()):
        with suppress(SystemExit):
            child(folder, database, number, writes)
        os._exit(3)
    os.close(writes)
    with os.fdopen(reads) as said:
        words = [json.loads(line)[0] for line in said]
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"point {number}: {status}"
    return not os.WIFSIGNALED(status), words


def check(storage: Storage, number: int, words: list[str]) -> None:
    """What has to hold after a restart."""
    sha256 = digest(number)
    known, has = storage.bundles.find(sha256), storage.content.has(sha256)
    assert (known is not None and known.removed is None) == has, f"row {known}, file {has}"
    assert not has or storage.content.path(sha256).read_bytes() == content(number)
    if "accepted" in words and "deleting" not in words:
        assert has, "an accepted bundle is lost"
    if "deleted" in words:
        assert known is None, "a deleted bundle is there"
    cases = [case.id for case in storage.cases.page(CaseFilter(sha256=sha256))]
    assert len(cases) <= 1
    assert all(storage.cases.document(case) == document(number) for case in cases)
    if "cased" in words and "deleting" not in words:
        assert cases, "a case is lost"
    with read_transaction(storage.engine) as connection:
        jobs = list(connection.execute(select(job.c.state, job.c.case).where(job.c.sha256 == sha256)))
        arrived = connection.scalar(select(func.count()).select_from(upload).where(upload.c.state == "arrived"))
    assert len(jobs) == (known is not None), f"{len(jobs)} jobs"
    assert not has or jobs[0].state in ("queued", "done"), jobs
    assert not arrived


def tidied(storage: Storage) -> None:
    """Give up what nobody goes on with: the work of the next child is not to grow with it."""
    with read_transaction(storage.engine) as connection:
        unfinished = list(connection.scalars(select(upload.c.id).where(upload.c.state == "receiving")))
    for key in unfinished:
        assert storage.uploads.abandon(key)


def emptied(folder: Path, database: str | None) -> None:
    """Years later pruning leaves nothing: no crash made something that nobody cleans up."""
    hands = Hands(time() + 1_000 * DAY)
    with closing(Storage.open(folder, database, clock=hands)) as storage:
        while claim := storage.jobs.claim():
            storage.jobs.fail(claim, "left")
        hands.now += 1_000 * DAY
        storage.retention.prune(Terms())
        with read_transaction(storage.engine) as connection:
            rows = {t.name: connection.scalar(select(func.count()).select_from(t)) for t in TABLES.sorted_tables}
    assert {name for name, number in rows.items() if number} == {"thpdiag_serve"}, rows
    left = [f for f in files(folder) if f.startswith(("bundles", "uploads"))]
    assert left == [], left


def main(folder: Path, database: str | None, first: int, stride: int) -> None:
    with closing(Storage.open(folder, database)):
        pass
    killed = 0
    for number in count(first, stride):
        ended, words = lived(folder, database, number)
        with closing(Storage.open(folder, database)) as storage, storage.served(ANALYSIS):
            check(storage, number, words)
            tidied(storage)
        if ended:
            break
        killed += 1
    emptied(folder, database)
    print(killed)


if __name__ == "__main__":
    place, address, begin, step = sys.argv[1:]
    main(Path(place), None if address == "-" else address, int(begin), int(step))
