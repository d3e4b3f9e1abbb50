"""A bundle as the body of a PUT: whole or not at all, within limits of size, room and pace."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path

import pytest

from thpdiag.serve.uploads.body import BLOCK
from thpdiag.serve.uploads.names import plain
from thpdiag.serve.uploads.pace import Pace, Waiting
from thpdiag.serve.uploads.refused import RefusedError
from uploading import GONE, FolderSink, Page, ran

BUNDLES = "/api/v1/bundles"


@pytest.fixture
def page(tmp_path: Path) -> Page:
    return Page(FolderSink(tmp_path))


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def after(self, seconds: float, piece: bytes) -> bytes:
        self.now += seconds
        return piece


def test_a_put_is_one_bundle(page: Page) -> None:
    """The pieces of the body are one file, whose digest and size are told."""
    data = [bytes([n]) * 300_000 for n in range(12)]

    answer = page.call("PUT", f"{BUNDLES}/sos.tar.xz", *data)

    assert answer.status == 201
    assert json.loads(answer.body) == {
        "sha256": hashlib.sha256(b"".join(data)).hexdigest(), "name": "sos.tar.xz", "size": 3_600_000,
    }  # fmt: skip
    assert page.sink.file(page.arrived[0].id).read_bytes() == b"".join(data)


def test_an_empty_put_is_an_empty_bundle(page: Page) -> None:
    """No bytes are a content like another; what it is worth is for the analysis to say."""
    assert page.call("PUT", f"{BUNDLES}/empty", content_length="0").status == 201
    assert page.arrived[0].size == 0


def test_bytes_are_written_in_large_blocks(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pieces of the network are put together: never more than a block and a piece is held."""
    written = []
    append = page.sink.append
    monkeypatch.setattr(page.sink, "append", lambda k, o, block: written.append(len(block)) or append(k, o, block))

    page.call("PUT", f"{BUNDLES}/x", *[b"x" * 65_536] * 40)

    assert written == [BLOCK, BLOCK, 8 * 65_536]


def test_too_large_is_refused_before_a_byte(page: Page) -> None:
    """The announced length is enough to refuse; nobody who waits for `100 Continue` sends anything."""
    answer = page.call("PUT", f"{BUNDLES}/x", b"x", content_length=str((64 << 20) + 1), expect="100-continue")

    assert (answer.status, answer.received, answer.headers["connection"]) == (413, 0, "close")
    assert page.sink.names() == []


def test_too_large_without_a_length_is_refused_on_the_way(tmp_path: Path) -> None:
    """A body of no announced length ends at the limit, and nothing of it stays."""
    page = Page(FolderSink(tmp_path), limit=3 * BLOCK)

    assert page.call("PUT", f"{BUNDLES}/x", *[b"x" * BLOCK] * 3).status == 201
    assert page.call("PUT", f"{BUNDLES}/x", *[b"x" * BLOCK] * 4, b"").status == 413
    assert len(page.arrived) == 1
    assert len(page.sink.names()) == 3


def test_no_room_is_told_before_a_byte(tmp_path: Path) -> None:
    """Room is asked for with the announced length."""
    page = Page(FolderSink(tmp_path, room=1000))

    answer = page.call("PUT", f"{BUNDLES}/x", b"x" * 2000, content_length="2000", expect="100-continue")

    assert (answer.status, answer.received) == (507, 0)


def test_a_disk_that_fills_up_leaves_nothing_half_stored(tmp_path: Path) -> None:
    """Without an announced length the room ends on the way: 507, and what came is removed."""
    page = Page(FolderSink(tmp_path, room=2 * BLOCK))

    assert page.call("PUT", f"{BUNDLES}/x", *[b"x" * BLOCK] * 3).status == 507
    assert page.sink.names() == []


def test_a_put_that_breaks_leaves_nothing(page: Page) -> None:
    """Nobody can take it up again, so its bytes go."""
    page.call("PUT", f"{BUNDLES}/x", b"x" * 2 * BLOCK, GONE, content_length="4000000")

    assert (page.arrived, page.sink.names()) == ([], [])


def test_a_put_that_makes_no_case_leaves_nothing(page: Page) -> None:
    """What the storage cannot take after all is not kept for nobody."""
    page.failing = 1

    assert page.call("PUT", f"{BUNDLES}/x", b"x").status == 507
    assert page.sink.names() == []


def test_a_storage_that_is_away_is_said_without_its_words(page: Page, caplog: pytest.LogCaptureFixture) -> None:
    """The sender learns that it is not their fault; the log has the reason."""
    page.sink.broken = True

    answer = page.call("PUT", f"{BUNDLES}/x", b"x")

    assert (answer.status, "database" in answer.text) == (503, False)
    assert "the database is away" in caplog.text


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [("content_range", "bytes 5-9/10", 400), ("content_encoding", "gzip", 415), ("content_length", "-1", 400)],
)
def test_a_part_or_another_form_is_no_bundle(page: Page, header: str, value: str, status: int) -> None:
    """`curl -C` with PUT sends the rest of a file; stored as the whole, it would be a damaged bundle."""
    assert page.call("PUT", f"{BUNDLES}/x", b"x", **{header: value}).status == status
    assert page.sink.names() == []


def test_a_stranger_sends_nothing(page: Page) -> None:
    """Who may not send is refused before a byte is asked for, as those say who know them."""
    answer = page.call("PUT", f"{BUNDLES}/x", b"x", who="stranger", expect="100-continue")

    assert (answer.status, answer.received, answer.headers["www-authenticate"]) == (401, 0, "Bearer")


def test_what_is_on_its_way_is_read_away_after_a_refusal(page: Page) -> None:
    """Closed on unread bytes, the connection would lose the answer."""
    answer = page.call("PUT", f"{BUNDLES}/x", *[b"x" * BLOCK] * 3, who="stranger")

    assert (answer.status, answer.received) == (401, 3)


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/cron.d/x",
        "..",
        "a/b",
        "/etc/passwd",
        "a\\b",
        "a\x00b",
        "a\nb",
        "\x1b[2Jx",
        " ",
        "x" * 256,
        "a\u202eb",
    ],
)
def test_a_name_is_no_path(page: Page, name: str) -> None:
    """What looks like a path, or shows as something else, is refused; a name of two lines fits no route."""
    assert page.call("PUT", f"{BUNDLES}/{name}", b"x").status == (404 if "\n" in name else 400)
    assert page.sink.names() == []


@pytest.mark.parametrize("name", ["sosreport-demo-2024.tar.xz", "<b>.tar", "Überlast №1.zip", "x" * 255, "...", "-rf"])
def test_a_plain_name_stays_as_it_was(name: str) -> None:
    """Nothing is mended: a name is shown as it was given, or refused."""
    assert plain(name) == name


def test_half_a_character_is_no_name() -> None:
    """A lone surrogate is nothing that can be written down."""
    with pytest.raises(RefusedError):
        plain("a\udc80")


def test_silence_ends_an_upload(tmp_path: Path) -> None:
    """No byte for as long as the pace allows: 408, and nothing of a PUT stays."""
    page = Page(FolderSink(tmp_path), pace=Pace(idle=0))

    async def silent() -> int:
        statuses = []

        async def receive() -> dict[str, object]:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: dict[str, object]) -> None:
            statuses.append(message.get("status"))

        scope = {"type": "http", "method": "PUT", "path": f"{BUNDLES}/x", "headers": [(b"expect", b"100-continue")]}
        await page.app({**scope, "query_string": b"", "root_path": ""}, receive, send)
        return statuses[0]

    assert ran(silent()) == 408
    assert page.sink.names() == []


def test_a_trickle_ends_an_upload(tmp_path: Path) -> None:
    """A byte a second is too slow after ten seconds, however fast the beginning was."""
    clock = Clock()
    page = Page(FolderSink(tmp_path), pace=Pace(rate=1000, clock=clock))
    fast = [b"x" * 10_000_000, lambda: clock.after(10, b"x")]
    slow = [lambda: clock.after(1, b"x")] * 30

    answer = page.call("PUT", f"{BUNDLES}/x", *fast, *slow)

    assert (answer.status, "1000 bytes a second" in answer.text) == (408, True)
    assert clock.now == pytest.approx(10 + 30)  # ten until it was seen, the others read away


def test_slow_enough_is_fast_enough(tmp_path: Path) -> None:
    """Whoever keeps to the rate may take all day."""
    clock = Clock()
    page = Page(FolderSink(tmp_path), pace=Pace(rate=1000, clock=clock))

    assert page.call("PUT", f"{BUNDLES}/x", *[lambda: clock.after(1, b"x" * 1000)] * 1000).status == 201


def test_only_waiting_for_the_sender_counts() -> None:
    """The time that our disk takes between two pieces is not the sender's."""
    clock = Clock()

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"x", "more_body": True}

    async def pieces() -> int:
        waiting, count = Waiting(receive, Pace(rate=1000, clock=clock)), 0
        for _ in range(100):
            clock.now += 60  # busy with writing
            count += len((await waiting.message())["body"])
        return count

    assert ran(pieces()) == 100
