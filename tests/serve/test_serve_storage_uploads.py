"""Uploads on their way to a bundle: offsets, room, one writer, expiry, and that each content is there once."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from serve_storage_fixtures import ANALYSIS, OTHER, PLENTY, Hands, Opened, accepted, cased, content, digest, files, sent
from thpdiag.errors import StoreBusyError, StoreFullError
from thpdiag.serve.storage.bundles import StorageLimits
from thpdiag.serve.storage.database import DAY
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.storage.uploads import RESERVED_STEP_BYTES, GoneError, OffsetError


def test_an_upload_becomes_a_bundle(storage: Storage) -> None:
    """What came is there by its content, with a job, and nothing else is left of it."""
    made = accepted(storage, 1)

    assert (made.sha256, made.size, made.case) == (digest(1), 1_000, None)
    assert storage.content.path(made.sha256).read_bytes() == content(1)
    assert files(storage.folder / "uploads") == []
    job = storage.jobs.find(made.job)
    assert job is not None
    assert (job.state, job.name, job.owner, job.options) == ("queued", "1.tar", "ci", '{"since":"03:00"}')


def test_accepting_twice_is_accepting_once(storage: Storage) -> None:
    """A client that did not hear the answer asks again."""
    key = sent(storage, 1)

    assert storage.accept(key, ANALYSIS) == storage.accept(key, ANALYSIS)
    assert storage.jobs.counts() == {"queued": 1}


def test_an_upload_goes_on_after_a_restart(opened: Opened) -> None:
    """Another process knows the offset from the file and makes the hash again."""
    first = opened()
    key = first.uploads.begin("a", 1_000, "ci")
    first.uploads.append(key, 0, content(1)[:700])
    second = opened()
    found = second.uploads.find(key)
    assert found is not None
    assert (found.offset, found.size) == (700, 1_000)

    second.uploads.append(key, 700, content(1)[700:])

    assert second.accept(key, ANALYSIS).sha256 == digest(1)


def test_bytes_for_another_place_are_refused(storage: Storage) -> None:
    """Neither a gap nor an overlap, nor more than was announced, nor an end before it."""
    key = storage.uploads.begin("a", 1_000, "ci")
    storage.uploads.append(key, 0, b"x" * 500)

    for offset, size in ((0, 10), (499, 10), (501, 10), (500, 501)):
        with pytest.raises(OffsetError):
            storage.uploads.append(key, offset, b"y" * size)
    with pytest.raises(OffsetError):
        storage.accept(key, ANALYSIS)
    assert storage.uploads.append(key, 500, b"x" * 500) == 1_000
    assert storage.accept(key, ANALYSIS).sha256 == sha256(b"x" * 1_000).hexdigest()


def test_there_is_one_writer(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second request for the same upload is refused while the first writes; one for another is not."""
    key, other = (storage.uploads.begin(name, None, "ci") for name in "ab")
    write, refused = os.pwrite, []

    def _meanwhile(handle: int, block: bytes, offset: int) -> int:
        if not refused:
            refused.append(True)
            with pytest.raises(StoreBusyError):
                storage.uploads.append(key, 0, b"z")
            with pytest.raises(StoreBusyError):
                storage.uploads.abandon(key)
            assert storage.uploads.append(other, 0, b"z") == 1
        return write(handle, block, offset)

    monkeypatch.setattr(os, "pwrite", _meanwhile)

    assert storage.uploads.append(key, 0, b"y") == 1
    assert refused
    assert storage.uploads.append(key, 1, b"y") == 2


def test_a_name_is_no_path(storage: Storage, tmp_path: Path) -> None:
    """Whatever a sender calls a bundle, files have names of our own."""
    names = ("../../etc/passwd", "a/b\\c", "", "\x00\udc80", "x" * 5_000, ".", "NUL", "a\nb")
    for number, name in enumerate(names):
        before = {f for f in files(tmp_path) if "serve.sqlite" not in f}

        made = storage.accept(sent(storage, number, name=name), ANALYSIS)

        after = {f for f in files(tmp_path) if "serve.sqlite" not in f}
        assert after - before == {f"data/bundles/{digest(number)[:2]}/{digest(number)[2:]}"}
        assert storage.jobs.find(made.job) is not None


STRANGE = ("", "../x", "a" * 31, "A" * 32, "0" * 32, "0" * 33, "é" * 32, "\x00" * 32, "a" * 31 + "\n")


def test_a_strange_id_is_nobodys(storage: Storage) -> None:
    """Ids of strangers are not looked for on the disk."""
    sent(storage, 1)

    for key in STRANGE:
        assert storage.uploads.find(key) is None
        assert not storage.uploads.abandon(key)
        assert storage.find_accepted(key) is None
        assert storage.jobs.find(key) is None
        assert storage.cases.find(key) is None
        assert storage.cases.document(key) is None
        assert not storage.removal.delete_case(key)
        with pytest.raises(GoneError):
            storage.uploads.append(key, 0, b"x")
        with pytest.raises(GoneError):
            storage.accept(key, ANALYSIS)


def test_an_upload_expires(storage: Storage, hands: Hands) -> None:
    """A day after its last byte it is gone for its sender, and pruning removes it; a byte gives it another day."""
    slow, idle = (storage.uploads.begin(name, 10, "ci") for name in "ab")
    hands.now += DAY / 2
    storage.uploads.append(slow, 0, b"x")
    hands.now += DAY / 2

    assert storage.uploads.find(slow) is not None
    assert storage.uploads.find(idle) is None
    with pytest.raises(GoneError):
        storage.uploads.append(idle, 0, b"x")
    assert storage.uploads.list_expired() == [idle]
    assert files(storage.folder / "uploads") == sorted([f"{slow}", f"{idle}"])


def test_a_time_of_day_that_jumps_ends_no_upload(tmp_path: Path) -> None:
    """Ahead and back by days: a steady clock decides, and after a restart what the time of day was when bytes came."""
    day, steady = Hands(), Hands()
    with closing(Storage.open(tmp_path, clock=day, steady=steady, free=lambda _: PLENTY)) as storage:
        slow, idle, whole = (storage.uploads.begin(name, 2, "ci", held=name == "c") for name in "abc")
        day.now += 3 * DAY
        assert storage.uploads.append(slow, 0, b"x") == 1
        storage.uploads.append(whole, 0, b"xy")
        storage.uploads.arrive(whole, held=True)
        day.now -= 30 * DAY
        assert [one.id for one in storage.uploads.list_unfinished()] == sorted([slow, idle, whole])
        day.now += 60 * DAY
        assert storage.uploads.list_expired() == []
        steady.now += DAY / 2
        storage.uploads.append(slow, 1, b"y")
        steady.now += DAY / 2
        assert storage.uploads.list_expired() == sorted([idle, whole])
        assert storage.uploads.find(idle) is None
    with closing(Storage.open(tmp_path, clock=day, steady=steady, free=lambda _: PLENTY)) as storage:
        assert storage.uploads.find(slow) is not None
        assert storage.uploads.list_expired() == sorted([idle, whole])


def test_given_up_is_gone(storage: Storage) -> None:
    """File and row go; what has become a bundle is not given up."""
    key, whole = storage.uploads.begin("a", 10, "ci"), sent(storage, 1)
    storage.accept(whole, ANALYSIS)

    assert storage.uploads.abandon(key)
    assert not storage.uploads.abandon(key)
    assert not storage.uploads.abandon(whole)
    assert storage.uploads.find(key) is None
    assert files(storage.folder / "uploads") == []
    assert storage.content.has(digest(1))


def test_the_quota_counts_what_was_promised(opened: Opened) -> None:
    """Bundles and announced sizes count before a byte has come; what is given up does not."""
    storage = opened(bounds=StorageLimits(quota=2_500, spare=0))
    accepted(storage, 1)
    key = storage.uploads.begin("a", 1_500, "ci")

    with pytest.raises(StoreFullError):
        storage.uploads.begin("b", 1, "ci")
    storage.uploads.abandon(key)
    assert storage.uploads.begin("b", 1_500, "ci")
    assert len(files(storage.folder / "uploads")) == 1


def test_no_room_is_given_twice(opened: Opened) -> None:
    """Twelve ask at once for room that is enough for five."""
    storage = opened(bounds=StorageLimits(quota=5_000, spare=0))

    def _begin(number: int) -> bool:
        try:
            return bool(storage.uploads.begin(f"{number}", 1_000, "ci"))
        except StoreFullError:
            return False

    with ThreadPoolExecutor(12) as senders:
        assert sum(senders.map(_begin, range(12))) == 5


def test_nothing_is_an_upload_too(storage: Storage) -> None:
    """A file without bytes arrives as it is begun; what cannot be analysed is said later."""
    key = storage.uploads.begin("empty", 0, "ci")

    assert storage.accept(key, ANALYSIS).sha256 == sha256(b"").hexdigest()


def test_the_disk_is_never_filled(opened: Opened) -> None:
    """What others were promised and have not sent yet is not given away again; stray files count for nothing."""
    free = [10_000]
    storage = opened(bounds=StorageLimits(spare=1_000), free=lambda _: free[0])
    (storage.folder / "uploads" / ("a" * 32)).write_bytes(bytes(6_000))
    key = storage.uploads.begin("a", 6_000, "ci")

    with pytest.raises(StoreFullError):
        storage.uploads.begin("b", 3_001, "ci")
    storage.uploads.append(key, 0, b"x" * 6_000)
    free[0] -= 6_000
    assert storage.uploads.begin("b", 3_000, "ci")


def test_an_unknown_size_reserves_as_it_grows(opened: Opened) -> None:
    """A sender that does not say how much will come is stopped before the quota is passed, and keeps what came."""
    storage = opened(bounds=StorageLimits(quota=RESERVED_STEP_BYTES + 10, spare=0))
    key = storage.uploads.begin("a", None, "ci")
    with pytest.raises(StoreFullError):
        storage.uploads.begin("b", None, "ci")
    os.truncate(storage.uploads.file(key), RESERVED_STEP_BYTES)

    with pytest.raises(StoreFullError):
        storage.uploads.append(key, RESERVED_STEP_BYTES, b"x" * 11)

    found = storage.uploads.find(key)
    assert found is not None
    assert found.offset == RESERVED_STEP_BYTES


def test_a_disk_that_is_full_leaves_whole_blocks(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a block that was written goes away; the sender goes on when there is room."""
    key = storage.uploads.begin("a", 1_000, "ci")
    storage.uploads.append(key, 0, content(1)[:400])
    write = os.pwrite

    def _full(handle: int, block: memoryview, offset: int) -> int:
        if offset > 400:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, block[:100], offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", _full)
        with pytest.raises(StoreFullError):
            storage.uploads.append(key, 400, content(1)[400:])

    found = storage.uploads.find(key)
    assert found is not None
    assert found.offset == 400
    storage.uploads.append(key, 400, content(1)[400:])
    assert storage.accept(key, ANALYSIS).sha256 == digest(1)


def test_the_same_content_is_stored_once(storage: Storage) -> None:
    """Two senders of one content wait for the same job, and there is one file."""
    first, second = accepted(storage, 1), accepted(storage, 1)

    assert first == second
    assert storage.jobs.counts() == {"queued": 1}
    assert files(storage.folder / "bundles") == [f"{digest(1)[:2]}/{digest(1)[2:]}"]


def test_what_was_analysed_is_recognised(storage: Storage) -> None:
    """The same content and analysis has its case at once; another version of thpdiag analyses it again."""
    key = cased(storage, 1)

    again, newer = accepted(storage, 1), accepted(storage, 1, OTHER)

    assert again.case == key
    job = storage.jobs.find(again.job)
    assert job is not None
    assert (job.state, job.case) == ("done", key)
    assert newer.case is None
    assert storage.jobs.counts() == {"done": 2, "queued": 1}


def test_what_arrived_is_taken_up(opened: Opened) -> None:
    """An upload whose server ended after its last byte becomes a bundle at the next start, its file moved or not."""
    storage = opened()
    before, after = sent(storage, 1), sent(storage, 2)
    storage.uploads.arrive(before)
    storage.uploads.arrive(after)
    storage.content.put(storage.uploads.file(after), digest(2))

    second = opened()
    second.resume(ANALYSIS)

    assert {made.sha256 for key in (before, after) if (made := second.find_accepted(key))} == {digest(1), digest(2)}
    assert second.jobs.counts() == {"queued": 2}
    assert [second.content.path(digest(n)).read_bytes() for n in (1, 2)] == [content(1), content(2)]


def test_what_is_announced_takes_no_room(opened: Opened) -> None:
    """Thirty of 1 GiB without a byte leave room for others, in 8 GiB; what cannot fit at all is refused at once."""
    storage = opened(bounds=StorageLimits(quota=8 << 30, spare=0))
    for _ in range(30):
        storage.uploads.begin("a", 1 << 30, "token:greedy")

    assert storage.uploads.begin("b", 4 << 30, "token:other")
    with pytest.raises(StoreFullError):
        storage.uploads.begin("c", 8 << 30, "token:other")
    assert accepted(storage, 1).sha256 == digest(1)


def test_room_of_an_owner(opened: Opened) -> None:
    """Bytes of bundles and uploads of one; the same bundle again counts once, and others have room."""
    storage = opened(bounds=StorageLimits(quota=6_000, spare=0, owner_share=0.5))
    made = [storage.accept(sent(storage, number, "one"), ANALYSIS) for number in (1, 2, 1)]
    key = storage.uploads.begin("a", 1_000, "one")

    with pytest.raises(StoreFullError, match="this sender has 3000 of at most 3000 bytes"):
        storage.uploads.begin("b", 1, "one")
    storage.uploads.begin("b", 2_000, "other")
    storage.uploads.abandon(key)
    assert storage.uploads.begin("b", 1_000, "one")
    assert made[0].sha256 == made[2].sha256


def test_cases_and_uploads_of_an_owner(opened: Opened, hands: Hands) -> None:
    """As many as are allowed; an upload that has expired counts no more, and others are not concerned."""
    storage = opened(bounds=StorageLimits(spare=0, owner_cases=2, owner_uploads=3))
    for _ in range(3):
        storage.uploads.begin("a", 10, "one")
    with pytest.raises(StoreFullError, match="this sender already has 3 unfinished uploads"):
        storage.uploads.begin("a", 10, "one")
    hands.now += 2 * DAY
    for number in (1, 2):
        storage.accept(sent(storage, number, "one"), ANALYSIS)

    with pytest.raises(StoreFullError, match="this sender already has 2 cases"):
        storage.uploads.begin("a", 10, "one")
    assert storage.uploads.begin("a", 10, "other")


def test_unfinished_uploads_of_all(storage: Storage, hands: Hands) -> None:
    """Oldest first, with how far they are; neither finished nor expired ones."""
    storage.uploads.begin("expired", 10, "one")
    hands.now += DAY
    keys = [storage.uploads.begin("a", 10, "one")]
    hands.now += 1
    keys.append(storage.uploads.begin("b", None, "other"))
    storage.uploads.append(keys[1], 0, b"xyz")
    accepted(storage, 1)

    found = storage.uploads.list_unfinished()

    assert [one.id for one in found] == keys
    assert [(one.owner, one.size, one.offset) for one in found] == [("one", 10, 0), ("other", None, 3)]
