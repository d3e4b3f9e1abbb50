"""The queue: who gets which job, what a restart takes up, and that a lost claim changes nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from serve_storage_fixtures import ANALYSIS, Hands, Opened, accepted, digest, done, result, sent
from small_results import document
from thpdiag.serve.storage.bundles import StorageLimits
from thpdiag.serve.storage.database import DAY
from thpdiag.serve.storage.jobs import MAX_ATTEMPTS, Claim
from thpdiag.serve.storage.storage import Storage


def claimed(storage: Storage) -> Claim:
    claim = storage.jobs.claim()
    assert claim is not None
    return claim


def test_the_first_that_came_is_the_first_that_is_claimed(storage: Storage, hands: Hands) -> None:
    """Each once, in order, until none waits; each knows how many are before it."""
    jobs = [accepted(storage, number).job for number in range(3)]
    assert [storage.jobs.count_ahead(job) for job in jobs] == [0, 1, 2]
    hands.now += 5

    claims = [claimed(storage) for _ in jobs]

    assert [claim.job.id for claim in claims] == jobs
    assert {(c.job.state, c.job.attempts, c.job.started) for c in claims} == {("running", 1, hands.now)}
    assert storage.jobs.claim() is None


def test_many_workers_claim_each_job_once(storage: Storage) -> None:
    """Eight at once for forty jobs: none is done twice, none is left."""
    jobs = {accepted(storage, number).job for number in range(40)}

    def _work(_: int) -> list[str]:
        found = []
        while claim := storage.jobs.claim():
            found.append(claim.job.id)
        return found

    with ThreadPoolExecutor(8) as workers:
        claims = [job for found in workers.map(_work, range(8)) for job in found]

    assert len(claims) == 40
    assert set(claims) == jobs


def test_a_done_job_has_its_case(storage: Storage, hands: Hands) -> None:
    """Job and case are stored together, and the claim has done its work."""
    made = accepted(storage, 1)
    claim = claimed(storage)
    assert storage.jobs.heartbeat(claim, "reading")
    running = storage.jobs.find(made.job)
    assert running is not None
    assert running.stage == "reading"
    hands.now += 7

    key = done(storage, claim, document(1))

    job = storage.jobs.find(made.job)
    assert job is not None
    assert (job.state, job.case, job.ended, job.stage) == ("done", key, hands.now, "")
    assert not storage.jobs.heartbeat(claim, "again")
    assert storage.cases.complete(claim, result(digest(1), document(2)), ANALYSIS) is None
    assert storage.cases.document(key) == document(1)


def test_a_failed_job_says_why(storage: Storage) -> None:
    """It is not done again by itself, and the same content may be sent again."""
    made = accepted(storage, 1)

    assert storage.jobs.fail(claimed(storage), "signal 9: \x00\udc80")

    job = storage.jobs.find(made.job)
    assert job is not None
    assert (job.state, job.reason, job.case) == ("failed", "signal 9: \\x00\\udc80", None)
    assert storage.jobs.claim() is None
    assert accepted(storage, 1).job != made.job
    assert storage.jobs.counts() == {"failed": 1, "queued": 1}


def test_a_restart_takes_up_what_was_running(opened: Opened) -> None:
    """The worker of the server before has lost its claim: neither its end nor its result counts any more."""
    storage = opened()
    accepted(storage, 1)
    lost = claimed(storage)

    restarted = opened()
    assert restarted.jobs.requeue_lost() == 1
    again = claimed(restarted)

    assert (again.job.id, again.job.attempts) == (lost.job.id, 2)
    assert not storage.jobs.heartbeat(lost, "still here")
    assert not storage.jobs.fail(lost, "late")
    assert not storage.jobs.requeue(lost)
    assert storage.cases.complete(lost, result(digest(1), document(5)), ANALYSIS) is None
    key = done(restarted, again, document(1))
    assert restarted.cases.document(key) == document(1)


@pytest.mark.parametrize(("silence", "taken"), [(119.0, 0), (121.0, 1)])
@pytest.mark.parametrize("jump", [-30 * DAY, 0.0, 30 * DAY])
def test_a_worker_that_is_silent_is_lost_whatever_the_clock_does(
    opened: Opened, hands: Hands, jump: float, silence: float, taken: int
) -> None:
    """Two minutes without a beat; the time of day may be set meanwhile."""
    steady = Hands()
    storage = opened(steady=steady)
    accepted(storage, 1)
    claimed(storage)
    hands.now += jump
    steady.now += silence
    assert storage.jobs.requeue_lost(120.0) == taken


def test_a_worker_of_another_process_has_its_time_too(opened: Opened, hands: Hands) -> None:
    """From when its claim is seen first."""
    accepted(opened(), 1)
    claimed(opened())
    storage = opened()
    hands.now += 500.0
    assert storage.jobs.requeue_lost(120.0) == 0
    hands.now += 121.0
    assert storage.jobs.requeue_lost(120.0) == 1


def test_a_job_that_ends_every_server_is_given_up(storage: Storage) -> None:
    """After its last attempt it fails with a reason; others are not blamed."""
    bad = accepted(storage, 1)
    for _ in range(MAX_ATTEMPTS):
        assert claimed(storage).job.id == bad.job
        storage.jobs.requeue_lost()
    good = accepted(storage, 2)

    assert claimed(storage).job.id == good.job
    job = storage.jobs.find(bad.job)
    assert job is not None
    assert job.state == "failed"
    assert f"begun {MAX_ATTEMPTS} times" in job.reason


def test_a_clean_stop_is_no_attempt(storage: Storage) -> None:
    """What is given back keeps its place and its attempts."""
    first, _ = accepted(storage, 1), accepted(storage, 2)
    for _ in range(MAX_ATTEMPTS + 1):
        claim = claimed(storage)
        assert (claim.job.id, claim.job.attempts) == (first.job, 1)
        assert storage.jobs.requeue(claim)


def test_only_a_silent_worker_loses_its_job(storage: Storage, hands: Hands) -> None:
    """While the server runs, a heartbeat keeps a claim."""
    accepted(storage, 1)
    accepted(storage, 2)
    silent, alive = claimed(storage), claimed(storage)
    hands.now += 60
    assert storage.jobs.heartbeat(alive, "matching")

    assert storage.jobs.requeue_lost(30) == 1

    assert not storage.jobs.heartbeat(silent, "late")
    assert storage.jobs.heartbeat(alive, "matching")
    assert claimed(storage).job.id == silent.job.id


def test_a_job_is_of_everybody_whose_upload_came_to_it(storage: Storage) -> None:
    """Two senders of the same content have one job, which is both's; that of another is not, nor one that is not.

    None of them is told by what name another sent it.
    """
    mine = storage.accept(sent(storage, 1, "anna", "anna.tar"), ANALYSIS)
    yours = storage.accept(sent(storage, 1, "bert", "bert.tar"), ANALYSIS)
    other = storage.accept(sent(storage, 2, "carl", "carl.tar"), ANALYSIS)

    assert mine.job == yours.job != other.job
    told = {(job, owner): found.name for job in (mine.job, other.job, "0" * 32) for owner in ("anna", "bert", "carl")
            if (found := storage.jobs.find_for_owner(job, owner))}  # fmt: skip
    assert told == {(mine.job, "anna"): "anna.tar", (mine.job, "bert"): "bert.tar", (other.job, "carl"): "carl.tar"}


def test_owners_take_turns(storage: Storage, hands: Hands) -> None:
    """Who sends much first waits for the others in between; each knows how many are before it."""
    many = [storage.accept(sent(storage, number, "many"), ANALYSIS).job for number in range(4)]
    few = [storage.accept(sent(storage, number, "few"), ANALYSIS).job for number in (4, 5)]
    last = storage.accept(sent(storage, 6, "last"), ANALYSIS).job
    order = [many[0], few[0], last, many[1], few[1], many[2], many[3]]
    assert [storage.jobs.count_ahead(job) for job in order] == list(range(7))

    for at, job in enumerate(order):
        hands.now += 1
        assert claimed(storage).job.id == job
        assert [storage.jobs.count_ahead(other) for other in order[at + 1 :]] == list(range(6 - at))


def test_running_jobs_of_an_owner(opened: Opened) -> None:
    """One who has as many as are allowed waits, and others go before; a job that ends makes room for the next."""
    storage = opened(bounds=StorageLimits(owner_jobs=1))
    one = [storage.accept(sent(storage, number, "one"), ANALYSIS).job for number in range(2)]
    other = storage.accept(sent(storage, 2, "other"), ANALYSIS).job
    first = claimed(storage)

    assert [first.job.id, claimed(storage).job.id, storage.jobs.claim()] == [one[0], other, None]
    storage.jobs.fail(first, "it is over")
    assert claimed(storage).job.id == one[1]
