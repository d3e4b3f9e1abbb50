"""`thpdiag serve` as it is run: bundles by curl, kill -9, SIGTERM, hostile bundles; nothing is lost or done twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from command_line import ROOT
from serve_application import STORM, archive
from serve_process import LONG, all_end, below, grandchildren, mock, running
from thpdiag.serve.storage.bundles import StorageLimits
from thpdiag.serve.storage.storage import Storage

READING = "reading file"
MEMINFO = b"MemTotal:       65000000 kB\nMemFree:        9000 kB\nAnonHugePages:  2048 kB\n"


def test_curl_sends_a_bundle_and_gets_the_diagnosis(tmp_path: Path) -> None:
    """It is that of `thpdiag analyze`, and the server ends with 0 and leaves no process and no scratch."""
    file = tmp_path / "shop 1.tar"
    file.write_bytes(archive(STORM))
    with running(tmp_path / "data") as server:
        assert server.process
        address = f"{server.url}/api/v1/bundles/shop%201.tar?wait=1"
        done = subprocess.run(["curl", "-sS", "-f", "-T", file, address], capture_output=True, check=True)
        answer = json.loads(done.stdout)
        command = [sys.executable, "-m", "thpdiag", "analyze", file.name, "-f", "json"]
        alone = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, env={"PYTHONPATH": str(ROOT)})
        assert server.document(answer["case"]) == json.loads(alone.stdout)
        with all_end(below(server.process.pid)):
            assert server.end() == 0

    assert "Traceback" not in server.log.read_text()
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [
        "ballast", "bundles", "folder", "key", "lock", "serve.sqlite", "uploads"
    ]  # fmt: skip


def test_killed_in_the_midst_of_an_analysis(tmp_path: Path, database: str | None) -> None:
    """Its processes end with it; the next server does the job once, and the one that waited behind it."""
    options = ("--workers", "1", *(("--database", database) if database else ()))
    with running(tmp_path / "data", *options, mocked=600) as server:
        assert server.process
        first, second = server.sent(mock("waits_without_end"), "a.txt"), server.sent(MEMINFO, "meminfo")
        server.reached(first, READING)
        with all_end(below(server.process.pid)):
            server.end(signal.SIGKILL)
    with running(tmp_path / "data", *options) as server:
        assert [server.ended(job)["state"] for job in (first, second)] == ["done", "done"]
        server.end()
    with closing(Storage.open(tmp_path / "data", database, StorageLimits(spare=0))) as storage:
        jobs = [storage.jobs.find(job) for job in (first, second)]
        assert [job.attempts for job in jobs if job] == [2, 1]
        assert (storage.jobs.counts(), len(list(storage.cases.documents()))) == ({"done": 2}, 2)


@pytest.mark.parametrize(("send", "number"), [(os.kill, signal.SIGTERM), (os.killpg, signal.SIGINT)])
def test_ended_in_the_midst_of_an_analysis(tmp_path: Path, send: Callable[[int, int], None], number: int) -> None:
    """SIGTERM to the server, or Ctrl-C to all of a terminal: it leaves with 0, and nothing of it goes on.

    The job waits as if it had never been begun.
    """
    with running(tmp_path / "data", "--workers", "1", mocked=600) as server:
        assert server.process
        job = server.sent(mock("loops"), "a.txt")
        server.reached(job, READING)
        with all_end(below(server.process.pid)):
            send(server.process.pid, number)
            server.process.communicate(timeout=LONG)
            assert server.process.returncode == 0
    with closing(Storage.open(tmp_path / "data", bounds=StorageLimits(spare=0))) as storage:
        found = storage.jobs.find(job)
        assert found is not None
        assert (found.state, found.attempts, found.stage) == ("queued", 0, "")
    with running(tmp_path / "data") as server:
        assert server.ended(job)["state"] == "done"


def test_hostile_bundles_cost_themselves_only(tmp_path: Path) -> None:
    """Each fails with its reason, one after the other in the same worker, and the last one is diagnosed."""
    words = ("loops", "kills_itself", "aborts", "prints_without_end", "allocates", "kills_its_parent")
    with running(tmp_path / "data", "--workers", "1", mocked=4) as server:
        jobs = [server.sent(mock(word), f"{word}.txt") for word in words]
        good = server.sent(MEMINFO, "meminfo")
        ends = {word: server.ended(job) for word, job in zip(words, jobs, strict=True)}
        assert server.ended(good)["state"] == "done"

    reasons = {
        "loops": "took too long", "kills_itself": "signal 9", "aborts": "signal 6",
        "prints_without_end": "limit of output",
    }  # fmt: skip
    assert {ends[word]["state"] for word in reasons} == {"failed"}
    assert {word: end for word, end in ends.items() if reasons.get(word, "") not in end["reason"]} == {}


def test_a_process_that_is_killed_from_outside(tmp_path: Path) -> None:
    """A second one tries again; if that is killed too the job fails and says so, and the next is done."""
    with running(tmp_path / "data", "--workers", "1", mocked=600) as server:
        assert server.process
        job, next_one = server.sent(mock("loops"), "a.txt"), server.sent(MEMINFO, "meminfo")
        server.reached(job, READING)
        (first,) = grandchildren(server.process.pid)
        os.kill(first, signal.SIGKILL)
        while not (others := grandchildren(server.process.pid) - {first}):
            threading.Event().wait(0.01)
        os.kill(others.pop(), signal.SIGKILL)
        assert "killed from outside" in server.ended(job)["reason"]
        assert server.ended(next_one)["state"] == "done"


def test_a_job_that_was_taken_away(tmp_path: Path) -> None:
    """Its process is ended with the next beat; after three times it fails, and the next goes on."""
    with running(tmp_path / "data", "--workers", "1", mocked=600) as server:
        job, next_one = server.sent(mock("loops"), "a.txt"), server.sent(MEMINFO, "meminfo")
        with closing(Storage.open(tmp_path / "data", bounds=StorageLimits(spare=0))) as storage:
            for _ in range(3):
                server.reached(job, READING)
                storage.jobs.requeue_lost()
        assert "the analysis was begun 3 times" in server.ended(job)["reason"]
        assert server.ended(next_one)["state"] == "done"


def test_memory_of_the_server_stays_small(tmp_path: Path) -> None:
    """It loads no engine: what it has in memory is less than an analysis needs, also after some."""
    with running(tmp_path / "data") as server:
        assert server.process
        server.ended(server.sent(archive(STORM), "shop.tar"))
        assert b"pandas" not in Path(f"/proc/{server.process.pid}/maps").read_bytes()
