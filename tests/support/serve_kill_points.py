"""The life of a bundle, and of a case of several files, ended by kill -9 at each line of the storage code, with checks.

`python serve_kill_points.py FOLDER DATABASE FIRST STRIDE` forks a child for every STRIDE-th line from FIRST on until
one finishes, and prints how many were killed. `-` is the database in the folder.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import closing, suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from time import time
from types import FrameType
from typing import Any

from sqlalchemy import func, select

import thpdiag.serve.storage.storage
from serve_storage_fixtures import ANALYSIS, Hands, accepted, content, digest, done, files, sent
from small_results import document
from thpdiag.serve.storage.bundles import Part, distinct_parts, manifest_digest, read_manifest
from thpdiag.serve.storage.cases import Case, CaseFilter
from thpdiag.serve.storage.database import DAY, TABLES, job, read_transaction, upload
from thpdiag.serve.storage.retention import Terms
from thpdiag.serve.storage.storage import Storage

ROOM = str(Path(thpdiag.serve.storage.storage.__file__).parent)


class Killer:
    """Ends this process at a line of the storage code."""

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
    """Send, analyze, delete; print each finished step."""

    def say(word: str) -> None:
        os.write(told, json.dumps([word, number]).encode() + b"\n")

    accepted(storage, number)
    say("accepted")
    key = judge(storage, number)
    say("cased")
    say("deleting")
    storage.removal.delete_case(key)
    say("deleted")
    first, second, third = pieces(number)
    storage.accept_together([sent(storage, first), sent(storage, second)], ANALYSIS)
    say("together")
    key = judge(storage, number)
    say("judged")
    storage.accept_together([sent(storage, third)], ANALYSIS, key)
    say("added")
    later = judge(storage, number)
    say("judged again")
    say("clearing")
    storage.removal.delete_case(key)
    storage.removal.delete_case(later)
    say("cleared")


def judge(storage: Storage, number: int) -> str:
    """End the waiting job with a document; return the key of its case."""
    claim = storage.jobs.claim()
    assert claim is not None
    return done(storage, claim, document(number))


def pieces(number: int) -> tuple[int, int, int]:
    """Return the contents of the files of a case: two sent together, and one added later."""
    return 100_000 + 3 * number, 100_001 + 3 * number, 100_002 + 3 * number


def set_of(*numbers: int) -> tuple[Part, ...]:
    return distinct_parts(Part(digest(number), f"{number}.tar") for number in numbers)


def child(folder: Path, database: str | None, number: int, told: int) -> None:
    storage = Storage.open(folder, database)
    while claim := storage.jobs.claim():  # left by the previous child
        storage.jobs.fail(claim, "left")
    sys.settrace(Killer(number))
    live(storage, number, told)
    sys.settrace(None)
    os._exit(0)


def lived(folder: Path, database: str | None, number: int) -> tuple[bool, list[str]]:
    """Return whether the child finished, and what it printed."""
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
    """Assert what must hold after a restart."""
    own = digest(number)
    known, has = storage.bundles.find(own), storage.content.has(own)
    assert (known is not None and known.removed is None) == has, f"row {known}, file {has}"
    assert not has or storage.content.path(own).read_bytes() == content(number)
    if "accepted" in words and "deleting" not in words:
        assert has, "an accepted bundle is lost"
    if "deleted" in words:
        assert known is None, "a deleted bundle is there"
    cases = [case.id for case in storage.cases.page(CaseFilter(sha256=own))]
    assert len(cases) <= 1
    assert all(storage.cases.document(case) == document(number) for case in cases)
    if "cased" in words and "deleting" not in words:
        assert cases, "a case is lost"
    with read_transaction(storage.engine) as connection:
        jobs = list(connection.execute(select(job.c.state, job.c.case).where(job.c.sha256 == own)))
        arrived = connection.scalar(select(func.count()).select_from(upload).where(upload.c.state == "arrived"))
    assert len(jobs) == (known is not None), f"{len(jobs)} jobs"
    assert not has or jobs[0].state in ("queued", "done"), jobs
    assert not arrived


def check_set(storage: Storage, number: int, words: list[str]) -> None:
    """Assert the same of the case of several files: a set exists with its list and all files, or not at all."""
    all_of_them = pieces(number)
    for numbers, since in ((all_of_them[:2], "together"), (all_of_them, "added")):
        parts = set_of(*numbers)
        whole = manifest_digest(parts)
        known = storage.bundles.find(whole)
        if since in words and "clearing" not in words:
            assert known is not None, f"the set of {since} is lost"
        if "cleared" in words:
            assert known is None, "a set is there whose case was deleted"
        if known is None:
            continue
        if "clearing" in words:  # the file was removed before its row was marked as gone
            for one, row in storage.bundles.files(whole):
                assert (row.removed is None) == storage.content.has(one.sha256)
            continue
        assert known.removed is None
        assert read_manifest(storage.content.path(whole)) == storage.bundles.parts(whole) == parts
        for one, of_part in storage.bundles.files(whole):
            assert of_part.removed is None
            assert digest_of(storage.content.path(one.sha256)) == one.sha256
        with read_transaction(storage.engine) as connection:
            jobs = list(connection.scalars(select(job.c.state).where(job.c.sha256 == whole)))
        assert len(jobs) == 1, jobs
        assert jobs[0] in ("queued", "done"), jobs
    if "cleared" in words:
        assert not any(storage.content.has(digest(one)) for one in all_of_them), "a file of a deleted case is there"
    cases = [case for one in all_of_them[1:] for case in _cases_of(storage, one, all_of_them)]
    if "judged" in words and "clearing" not in words:
        assert cases, "the case of a set is lost"
    assert sum(not case.superseded for case in cases) <= 1, "two versions of a case count"


def _cases_of(storage: Storage, last: int, numbers: tuple[int, ...]) -> list[Case]:
    """Return the cases of the files up to one of them."""
    whole = manifest_digest(set_of(*numbers[: numbers.index(last) + 1]))
    return storage.cases.page(CaseFilter(sha256=whole))


def digest_of(file: Path) -> str:
    return sha256(file.read_bytes()).hexdigest()


def tidied(storage: Storage) -> None:
    """Drop unfinished work, so that the work of the next child does not grow."""
    with read_transaction(storage.engine) as connection:
        unfinished = list(connection.scalars(select(upload.c.id).where(upload.c.state == "receiving")))
    for key in unfinished:
        assert storage.uploads.abandon(key)


def emptied(folder: Path, database: str | None) -> None:
    """Assert that pruning years later leaves nothing: no crash leaves data that is never removed."""
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
        with closing(Storage.open(folder, database)) as storage, storage.claim_folder(ANALYSIS):
            check(storage, number, words)
            check_set(storage, number, words)
            tidied(storage)
        if ended:
            break
        killed += 1
    emptied(folder, database)
    print(killed)


if __name__ == "__main__":
    place, address, begin, step = sys.argv[1:]
    main(Path(place), None if address == "-" else address, int(begin), int(step))
