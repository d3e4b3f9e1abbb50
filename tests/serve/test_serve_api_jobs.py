"""Jobs: who sees them, what is told of one, and its changes as they happen, to however many watch."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from serve_application import BEFORE, Whole, served
from serve_requests import finish
from thpdiag.serve.access.principals import Mode
from thpdiag.serve.server import JobState, JobWatcher
from thpdiag.serve.storage.database import job as jobs
from thpdiag.serve.storage.database import write_transaction

JOBS = "/api/v1/jobs"
BEGAN = json.loads(BEFORE.read_bytes())


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Whole]:
    with served(tmp_path, Mode.TOKENS) as made:
        yield made


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Whole]:
    with served(tmp_path) as made:
        yield made


def told(stream: bytes) -> list[dict[str, Any]]:
    """The data of each event."""
    return [json.loads(line[6:]) for line in stream.decode().splitlines() if line.startswith("data: ")]


def test_a_job_is_its_senders(whole: Whole) -> None:
    """With upload alone that of others does not exist, nor do its events; with read all are seen."""
    mine, other, read, admin = (whole.token(scope) for scope in ("upload", "upload", "read", "admin"))
    job = whole.ask("PUT", "/api/v1/bundles/b.json", mine, body=BEFORE.read_bytes()).told["job"]
    whole.done(whole.claimed(), BEGAN)
    places = [f"{JOBS}/{job}", f"{JOBS}/{job}/events"]

    assert [whole.ask("GET", p, who).status for p in places for who in (mine, read, admin)] == [200] * 6
    strange = [whole.ask("GET", p, other) for p in places]
    nothing = [whole.ask("GET", p.replace(job, "0" * 32), other) for p in places]
    assert [(a.status, a.body) for a in strange] == [(a.status, a.body) for a in nothing]
    assert {a.status for a in strange} == {404}
    assert {whole.ask("GET", p).status for p in places} == {401}


def test_who_sends_the_same_sees_the_same_job(whole: Whole) -> None:
    """It is of both senders, since it is given to both."""
    mine, other = whole.token("upload"), whole.token("upload")
    jobs = [whole.ask("PUT", "/api/v1/bundles/b", who, body=b"abc").told["job"] for who in (mine, other)]

    assert jobs[0] == jobs[1]
    assert [whole.ask("GET", f"{JOBS}/{jobs[0]}", who).status for who in (mine, other)] == [200, 200]


def test_a_job_tells_how_far_it_is(whole: Whole) -> None:
    """How many are before it, what is done now, why there is no case."""
    read = whole.token("read")
    first, second, third = (whole.uploaded(f"{n}".encode(), f"{n}.tar").job for n in range(3))

    assert [whole.ask("GET", f"{JOBS}/{key}", read).told["ahead"] for key in (first, second, third)] == [0, 1, 2]
    claim = whole.claimed()
    whole.storage.jobs.heartbeat(claim, "reading perf.data")
    job = whole.ask("GET", f"{JOBS}/{first}", read).told
    assert (job["state"], job["stage"], job["started"]) == ("running", "reading perf.data", "2027-01-15T08:00:00.000Z")
    whole.storage.jobs.fail(claim, "it is no bundle")
    job = whole.ask("GET", f"{JOBS}/{first}", read).told
    assert (job["state"], job["reason"], job["case"]) == ("failed", "it is no bundle", None)
    assert whole.storage.jobs.find_many([first, third, "nobody", "0" * 32]) == {
        key: (whole.storage.jobs.find(key), whole.storage.jobs.count_ahead(key) if key == third else 0)
        for key in (first, third)
    }  # fmt: skip


def test_a_job_that_has_ended_is_one_event(local: Whole) -> None:
    """Who comes again after it is told to come no more."""
    job = local.uploaded(BEFORE.read_bytes(), "b.json").job
    case = local.done(local.claimed(), BEGAN)

    with local.listening() as url, urllib.request.urlopen(f"{url}{JOBS}/{job}/events", timeout=30) as answer:
        stream, headers = answer.read(), answer.headers
    again = local.ask("GET", f"{JOBS}/{job}/events", ("last-event-id", "end"))

    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (headers["x-accel-buffering"], headers["cache-control"]) == ("no", "no-store")
    assert told(stream) == [
        {"id": job, "state": "done", "stage": "", "ahead": 0, "reason": "", "case": case, "page": f"/cases/{case}"}
    ]
    assert b"id: end\n" in stream
    assert (again.status, again.body) == (204, b"")


def test_changes_are_told_as_they_happen(local: Whole) -> None:
    """Waiting behind another, running, each stage, done; then the answer ends."""
    first, job = (local.uploaded(name, "b").job for name in (b"first", BEFORE.read_bytes()))
    seen = []

    with local.listening() as url, urllib.request.urlopen(f"{url}{JOBS}/{job}/events", timeout=30) as answer:
        for line in answer:
            if not line.startswith(b"data: "):
                continue
            seen.append(tuple(json.loads(line[6:])[key] for key in ("state", "stage", "ahead")))
            if seen[-1] == ("queued", "", 1):
                local.storage.jobs.fail(local.claimed(), "no bundle")
            elif seen[-1] == ("queued", "", 0):
                claim = local.claimed()
                local.storage.jobs.heartbeat(claim, "reading")
            elif seen[-1] == ("running", "reading", 0):
                local.storage.jobs.heartbeat(claim, "rules")
            elif seen[-1] == ("running", "rules", 0):
                local.done(claim, BEGAN)

    assert first != job
    assert seen == [
        ("queued", "", 1), ("queued", "", 0), ("running", "reading", 0), ("running", "rules", 0), ("done", "", 0),
    ]  # fmt: skip


def test_a_job_that_is_deleted_ends_its_events(local: Whole) -> None:
    """With an event of its own, and no more after it."""
    job = local.uploaded(b"abc", "b").job
    seen = b""

    with local.listening() as url, urllib.request.urlopen(f"{url}{JOBS}/{job}/events", timeout=30) as answer:
        for line in answer:
            seen += line
            if b"queued" in line:
                with write_transaction(local.storage.engine) as connection:
                    connection.execute(delete(jobs).where(jobs.c.id == job))

    assert seen.endswith(b"id: end\nevent: gone\ndata: {}\n\n")


def test_many_watch_and_the_database_is_asked_once(local: Whole) -> None:
    """A hundred who watch one job cost one question per look; each hears of its end, and then nobody looks."""
    job = local.uploaded(BEFORE.read_bytes(), "b.json").job
    watching, asked = JobWatcher(local.storage.jobs, poll_seconds=0.01), []
    several = watching._read
    watching._read = lambda keys: asked.append(list(keys)) or several(keys)  # type: ignore[method-assign,func-returns-value]

    async def watch(begun: asyncio.Event) -> list[str]:
        heard = []
        async with aclosing(watching.states(job, 60)) as states:
            async for seen in states:
                assert seen is not None
                heard.append(seen.state)
                begun.set()
        return heard

    async def work() -> None:
        begun = [asyncio.Event() for _ in range(100)]
        watchers = [asyncio.create_task(watch(one)) for one in begun]
        await asyncio.gather(*(one.wait() for one in begun))
        first = len(asked)
        await asyncio.to_thread(lambda: local.done(local.claimed(), BEGAN))
        for heard in await asyncio.gather(*watchers):
            assert (heard[0], heard[-1]) == ("queued", "done")
        assert first <= 100 + 10
        assert all(keys == [job] for keys in asked)
        assert watching._watched == {}

    finish(work())


def test_silence_is_told_too(local: Whole) -> None:
    """So that a connection of which nothing is heard can be told from one that broke."""
    job = local.uploaded(b"abc", "b").job
    heard: list[JobState | None] = []

    async def work() -> None:
        async with aclosing(JobWatcher(local.storage.jobs).states(job, 0.01)) as states:
            async for seen in states:
                heard.append(seen)
                if len(heard) == 3:
                    return

    finish(work())
    assert [seen and seen.state for seen in heard] == ["queued", None, None]


def test_watchers_hold_no_thread(local: Whole) -> None:
    """More who watch than the server has threads: others are answered."""
    job = local.uploaded(b"abc", "b").job

    with local.listening() as url, ThreadPoolExecutor(60) as pool:
        open_ = list(pool.map(lambda _: urllib.request.urlopen(f"{url}{JOBS}/{job}/events", timeout=30), range(60)))
        with urllib.request.urlopen(f"{url}{JOBS}/{job}", timeout=30) as answer:
            state = json.load(answer)["state"]
        for one in open_:
            one.close()

    assert state == "queued"
