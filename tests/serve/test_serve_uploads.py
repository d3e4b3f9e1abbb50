"""A bundle as the body of a PUT: whole or not at all, within limits of size, room and pace."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from serve_requests import request
from thpdiag.errors import StoreError, StoreFullError
from thpdiag.serve.access.http import RefusedError
from thpdiag.serve.storage.uploads import Uploads
from thpdiag.serve.uploads.intake import BLOCK_BYTES, LimitedReceiver, SendLimits, check_file_name
from upload_requests import GONE, Sending, ran, sending

BUNDLES = "/api/v1/bundles"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Sending]:
    with sending(tmp_path) as made:
        yield made


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def after(self, seconds: float, piece: bytes) -> bytes:
        self.now += seconds
        return piece


def test_a_put_is_one_bundle(page: Sending) -> None:
    """The pieces of the body are one file, whose digest and size are told."""
    data = [bytes([n]) * 300_000 for n in range(12)]
    digest = hashlib.sha256(b"".join(data)).hexdigest()

    answer = page.call("PUT", f"{BUNDLES}/sos.tar.xz", *data)
    told = json.loads(answer.body)

    assert (answer.status, told["sha256"], told["size"]) == (201, digest, 3_600_000)
    assert page.storage.content.path(digest).read_bytes() == b"".join(data)
    assert page.bundles() == [digest]


def test_a_folder_that_became_read_only_is_no_mistake_of_the_server(
    page: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a file system does after errors of its disk; later the same bundle is taken."""

    def refuse(*_arguments: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        answer = page.call("PUT", f"{BUNDLES}/sos.tar.xz", b"x")
    assert answer.status == 503
    assert json.loads(answer.body)["detail"] == "the upload cannot be stored at the moment"
    assert page.call("PUT", f"{BUNDLES}/sos.tar.xz", b"x").status == 201


def test_an_empty_put_is_an_empty_bundle(page: Sending) -> None:
    """No bytes are a content like another; what it is worth is for the analysis to say."""
    assert page.call("PUT", f"{BUNDLES}/empty", content_length="0").status == 201
    assert page.bundles() == [hashlib.sha256(b"").hexdigest()]


def test_bytes_are_written_in_large_blocks(page: Sending, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pieces of the network are put together: never more than a block and a piece is held."""
    written, append = [], Uploads.append
    monkeypatch.setattr(Uploads, "append", lambda u, k, o, block: written.append(len(block)) or append(u, k, o, block))

    page.call("PUT", f"{BUNDLES}/x", *[b"x" * 65_536] * 40)

    assert written == [BLOCK_BYTES, BLOCK_BYTES, 8 * 65_536]


def test_too_large_is_refused_before_a_byte(page: Sending) -> None:
    """The announced length is enough to refuse; nobody who waits for `100 Continue` sends anything."""
    answer = page.call("PUT", f"{BUNDLES}/x", b"x", content_length=str((64 << 20) + 1), expect="100-continue")

    assert (answer.status, answer.received, answer.headers["connection"]) == (413, 0, "close")
    assert page.unfinished() == []


def test_too_large_without_a_length_is_refused_on_the_way(tmp_path: Path) -> None:
    """A body of no announced length ends at the limit, and nothing of it stays."""
    with sending(tmp_path, limit=3 * BLOCK_BYTES) as page:
        assert page.call("PUT", f"{BUNDLES}/x", *[b"x" * BLOCK_BYTES] * 3).status == 201
        assert page.call("PUT", f"{BUNDLES}/x", *[b"x" * BLOCK_BYTES] * 4, b"").status == 413
        assert (len(page.bundles()), page.unfinished()) == (1, [])


def test_no_room_is_told_before_a_byte(tmp_path: Path) -> None:
    """Room is asked for with the announced length."""
    with sending(tmp_path, quota=1000) as page:
        answer = page.call("PUT", f"{BUNDLES}/x", b"x" * 2000, content_length="2000", expect="100-continue")

    assert (answer.status, answer.received) == (507, 0)


def test_a_disk_that_fills_up_leaves_nothing_half_stored(page: Sending, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an announced length the room ends on the way: 507, and what came is removed."""
    append = Uploads.append

    def full(uploads: Uploads, key: str, offset: int, block: bytes) -> int:
        if offset >= 2 * BLOCK_BYTES:
            raise StoreFullError("no room")
        return append(uploads, key, offset, block)

    monkeypatch.setattr(Uploads, "append", full)

    assert page.call("PUT", f"{BUNDLES}/x", *[b"x" * BLOCK_BYTES] * 3).status == 507
    assert (page.bundles(), page.unfinished()) == ([], [])


def test_a_put_that_breaks_leaves_nothing(page: Sending) -> None:
    """Nobody can take it up again, so its bytes go."""
    page.call("PUT", f"{BUNDLES}/x", b"x" * 2 * BLOCK_BYTES, GONE, content_length="4000000")

    assert (page.bundles(), page.unfinished()) == ([], [])


@pytest.mark.parametrize(("error", "status"), [(StoreFullError("no room"), 507), (StoreError("secret is away"), 503)])
def test_a_put_that_makes_no_case_leaves_nothing(
    page: Sending, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception, status: int
) -> None:
    """What the storage cannot take after all is not kept for nobody; of one that is away the log has the reason."""

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(type(page.storage), "accept", fail)

    answer = page.call("PUT", f"{BUNDLES}/x", b"x")

    assert (answer.status, "secret" in answer.text) == (status, False)
    assert ("secret is away" in caplog.text) == (status == 503)
    assert page.unfinished() == []


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [("content_range", "bytes 5-9/10", 400), ("content_encoding", "gzip", 415), ("content_length", "-1", 400)],
)
def test_a_part_or_another_form_is_no_bundle(page: Sending, header: str, value: str, status: int) -> None:
    """`curl -C` with PUT sends the rest of a file; stored as the whole, it would be a damaged bundle."""
    assert page.call("PUT", f"{BUNDLES}/x", b"x", **{header: value}).status == status
    assert page.unfinished() == []


def test_what_is_on_its_way_is_read_away_after_a_refusal(page: Sending) -> None:
    """Closed on unread bytes, the connection would lose the answer."""
    answer = page.call("PUT", f"{BUNDLES}/x", *[b"x" * BLOCK_BYTES] * 3, content_encoding="gzip")

    assert (answer.status, answer.received) == (415, 3)


@pytest.mark.parametrize(
    "name", ["../../x", "..", "a/b", "/etc/passwd", "a\\b", "a\0b", "a\nb", "\x1b[2Jx", " ", "x" * 256, "a\u202eb"]
)
def test_a_name_is_no_path(page: Sending, name: str) -> None:
    """What looks like a path, or shows as something else, is refused, however it is written."""
    for written in (quote(name, safe="/."), quote(name, safe="")):
        assert page.call("PUT", f"{BUNDLES}/{written}", b"x").status in (400, 404)
    assert (page.bundles(), page.unfinished()) == ([], [])


@pytest.mark.parametrize("name", ["sosreport-demo-2024.tar.xz", "<b>.tar", "Überlast №1.zip", "x" * 255, "...", "-rf"])
def test_a_plain_name_stays_as_it_was(name: str) -> None:
    """Nothing is mended: a name is shown as it was given, or refused; half a character is no name."""
    assert check_file_name(name) == name
    with pytest.raises(RefusedError):
        check_file_name(f"{name}\udc80")


def test_silence_ends_an_upload(tmp_path: Path) -> None:
    """No byte for as long as the pace allows: 408, and nothing of a PUT stays."""

    async def silent(page: Sending) -> int:
        statuses = []

        async def receive() -> dict[str, object]:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: dict[str, object]) -> None:
            statuses.append(message.get("status"))

        scope = request("PUT", f"{BUNDLES}/x", [("host", "localhost"), ("expect", "100-continue")], "127.0.0.1")
        await page.whole.app(scope, receive, send)
        return statuses[0]

    with sending(tmp_path, pace=SendLimits(idle=0)) as page:
        assert ran(silent(page)) == 408
        assert page.unfinished() == []


def test_a_trickle_ends_an_upload(tmp_path: Path) -> None:
    """A byte a second is too slow after ten seconds, however fast the beginning was; who keeps to the rate may last."""
    clock = Clock()
    fast = [b"x" * 10_000_000, lambda: clock.after(10, b"x")]
    slow = [lambda: clock.after(1, b"x")] * 30
    with sending(tmp_path, pace=SendLimits(rate=1000, clock=clock)) as page:
        answer = page.call("PUT", f"{BUNDLES}/x", *fast, *slow)
        steady = page.call("PUT", f"{BUNDLES}/x", *[lambda: clock.after(1, b"x" * 1000)] * 1000)

    assert (answer.status, "1000 bytes per second" in answer.text, steady.status) == (408, True, 201)
    assert clock.now == pytest.approx(10 + 30 + 1000)  # ten until it was seen, the others read away


def test_only_waiting_for_the_sender_counts() -> None:
    """The time that our disk takes between two pieces is not the sender's."""
    clock = Clock()

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def pieces() -> int:
        waiting, count = LimitedReceiver(receive, SendLimits(rate=1000, clock=clock)), 0
        for _ in range(100):
            clock.now += 60  # busy with writing
            count += len((await waiting.message())["body"])
        return count

    assert ran(pieces()) == 100
