"""The workers of the upload page, on both databases: every job is done once, whatever became of an earlier worker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from serve_application import STORM, analysed, analysis, archive
from serve_storage_fixtures import Hands
from thpdiag.errors import StoreError
from thpdiag.host.reading import Step
from thpdiag.serve import workers
from thpdiag.serve.storage.jobs import DONE, FAILED, FILE_GONE, QUEUED, Job
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.work_order import STAGE_FILE, StageWriter, read_stage
from thpdiag.serve.workers import MAX_SILENT_SECONDS, SCRATCH_FOLDER, Workers


def sent(storage: Storage, content: bytes, name: str) -> str:
    """The job of a bundle."""
    key = storage.uploads.begin(name, len(content), "ci")
    storage.uploads.append(key, 0, content)
    return storage.accept(key, analysis()).job


def ended(storage: Storage, *keys: str) -> list[Job]:
    """Ask until all of them have."""
    while True:
        found = [job for key in keys if (job := storage.jobs.find(key)) is not None]
        if all(job.state in (DONE, FAILED) for job in found):
            return found
        threading.Event().wait(0.01)  # a query after the other would take the workers' CPU


@contextmanager
def working(storage: Storage, count: int = 2) -> Iterator[Workers]:
    with Workers(storage, analysis(), count) as workers:
        yield workers


def test_a_database_that_is_away_delays_a_job(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also between its claim and its start: the same worker goes on once the database is back."""
    failures = [StoreError("the database cannot be used"), StoreError("the database cannot be used")]
    parts = storage.bundles.parts

    def parts_at_last(key: str) -> object:
        if failures:
            raise failures.pop()
        return parts(key)

    monkeypatch.setattr(workers, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(storage.bundles, "parts", parts_at_last)
    with working(storage, 1) as only:
        key = sent(storage, archive(STORM), "shop one.tar")
        only.wake()
        (job,) = ended(storage, key)
    assert job.case
    assert not failures


def test_each_bundle_becomes_its_case(storage: Storage) -> None:
    """The document is that of the file with the uploaded name; what is no bundle is a case that says so."""
    with working(storage) as workers:
        keys = [sent(storage, archive(STORM), "shop one.tar"), sent(storage, b"nothing that is known", "-")]
        workers.wake()
        storm, nothing = ended(storage, *keys)

    assert storm.case
    assert nothing.case
    assert storage.cases.document(storm.case) == analysed(archive(STORM), "shop one.tar")
    found = storage.cases.find(nothing.case)
    assert found is not None
    assert (found.status, found.reason) == ("refused", "nothing in it was recognized")
    assert (storm.attempts, storage.bundles.total()) == (1, 2)


def test_what_waits_at_the_start_is_done(storage: Storage) -> None:
    """Nobody has to ring."""
    key = sent(storage, b"MemTotal: 1 kB\n", "meminfo")
    with working(storage, 1):
        assert ended(storage, key)[0].state == DONE
    assert not (storage.folder / SCRATCH_FOLDER).exists()


def test_a_silent_worker_is_replaced(storage: Storage, hands: Hands) -> None:
    """A claim whose holder has told nothing for a while is another's; the first can no longer end it."""
    key = sent(storage, b"MemTotal: 1 kB\n", "meminfo")
    dead = storage.jobs.claim()
    assert dead is not None
    hands.now += MAX_SILENT_SECONDS + 1
    with working(storage, 1):
        (job,) = ended(storage, key)

    assert (job.state, job.attempts) == (DONE, 2)
    assert not storage.jobs.fail(dead, "too late")


def test_a_bundle_without_its_file(storage: Storage) -> None:
    """The job fails and says why, and the next is done."""
    gone, whole = sent(storage, b"gone", "a.tar"), sent(storage, b"MemTotal: 1 kB\n", "meminfo")
    job = storage.jobs.find(gone)
    assert job
    storage.content.remove(job.sha256)
    with working(storage, 1):
        first, second = ended(storage, gone, whole)
    assert (first.state, first.reason, second.state) == (FAILED, FILE_GONE, DONE)


def test_at_the_end_nothing_is_left_half_done(storage: Storage) -> None:
    """What was under way waits again as if it had never been begun."""
    keys = [sent(storage, f"MemTotal: {number} kB\n".encode(), f"{number}.txt") for number in range(6)]
    with working(storage):
        ended(storage, keys[0])
    jobs = [storage.jobs.find(key) for key in keys]
    assert {(job.state, job.attempts) for job in jobs if job} <= {(DONE, 1), (QUEUED, 0)}
    assert len([job for job in jobs if job and job.state == QUEUED]) > 0
    with working(storage):
        assert {job.attempts for job in ended(storage, *keys)} == {1}


def test_words_of_a_child_are_shown_only_if_they_are_ours(tmp_path: Path) -> None:
    """A file of strange words, a link to another file, a folder and a pipe tell nothing."""
    stages = StageWriter(tmp_path)
    assert read_stage(tmp_path) == ""
    stages.count(Step("read", what="/etc/passwd", files=1))
    assert read_stage(tmp_path) == "reading file 1"
    with stages.stage("rules"):
        assert read_stage(tmp_path) == "evaluating the rules"

    place, secret = tmp_path / STAGE_FILE, tmp_path / "secret"
    place.write_bytes(b"<script>alert(1)</script>")
    assert read_stage(tmp_path) == ""
    secret.write_text("evaluating the rules")
    place.unlink()
    place.symlink_to(secret)
    assert read_stage(tmp_path) == ""
    place.unlink()
    place.mkdir()
    assert read_stage(tmp_path) == ""
    stages.write("it is no matter that this cannot be written")
