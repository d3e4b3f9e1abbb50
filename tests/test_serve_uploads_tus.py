"""Resumable uploads request by request: what a client of tus 1.0.0 is told, and what is refused."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from email.utils import formatdate
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request

from thpdiag.serve.uploads.body import BLOCK
from thpdiag.serve.uploads.pace import Pace
from thpdiag.serve.uploads.sink import Arrived
from thpdiag.serve.uploads.tus import tus_routes
from uploading import GONE, LIMIT, FolderSink, Page, by_header

NOW = 1_000_000_000.0
UNKNOWN = "/files/" + "0" * 32


@pytest.fixture
def page(tmp_path: Path) -> Page:
    return Page(FolderSink(tmp_path))


def named(name: str) -> str:
    return f"filename {b64encode(name.encode()).decode()}"


def offset(page: Page, where: str) -> int:
    return int(page.tus("HEAD", where).headers["upload-offset"])


def test_options_say_what_is_spoken(page: Page) -> None:
    """Version, extensions and the largest upload, without a version in the question."""
    answer = page.call("OPTIONS", "/files")

    assert answer.status == 204
    assert answer.headers["tus-version"] == answer.headers["tus-resumable"] == "1.0.0"
    assert answer.headers["tus-extension"] == "creation,expiration,termination"
    assert answer.headers["tus-max-size"] == str(LIMIT)


def test_an_upload_in_two_parts(page: Page) -> None:
    """Begun, sent up to a point, asked where it is, sent to its end: one bundle with the digest of the whole."""
    data = bytes(range(256)) * 20_000
    where = page.begun(len(data), upload_metadata=f"{named('sos.tar.xz')},filetype YXBw")

    first = page.tus("PATCH", where, data[:3_000_000], upload_offset="0")
    asked = page.tus("HEAD", where)
    last = page.tus("PATCH", where, data[3_000_000:], upload_offset="3000000")

    assert (first.status, first.headers["upload-offset"]) == (204, "3000000")
    assert (asked.headers["upload-offset"], asked.headers["upload-length"]) == ("3000000", str(len(data)))
    assert (asked.headers["cache-control"], asked.headers["upload-metadata"]) == ("no-store", named("sos.tar.xz"))
    assert (last.status, last.headers["upload-offset"]) == (204, str(len(data)))
    assert last.headers["thpdiag-sha256"] == hashlib.sha256(data).hexdigest()
    assert [(a.name, a.size, a.owner) for a in page.arrived] == [("sos.tar.xz", len(data), "anna")]


def test_an_empty_upload_is_whole_once_begun(page: Page) -> None:
    """Nothing is to be sent, so clients send nothing."""
    page.begun(0)

    assert [a.size for a in page.arrived] == [0]


def test_what_came_before_a_break_stays(page: Page) -> None:
    """Also what was not yet a block; the sender goes on from there."""
    where = page.begun(5_000_000)

    page.tus("PATCH", where, b"x" * (BLOCK + 10), b"y" * 7, GONE, upload_offset="0", content_length="5000000")

    assert offset(page, where) == BLOCK + 17
    assert page.arrived == []


def test_what_came_before_silence_stays(tmp_path: Path) -> None:
    """A sender who became too slow is refused and may go on from where they are."""
    clock = iter(range(0, 10_000, 60))
    page = Page(FolderSink(tmp_path), pace=Pace(clock=lambda: float(next(clock))))
    where = page.begun(1000)

    assert page.tus("PATCH", where, b"x" * 5, b"x" * 5, b"x", upload_offset="0", content_length="1000").status == 408
    assert offset(page, where) == 5


def test_after_the_last_byte_nothing_more_is_needed(page: Page) -> None:
    """Whoever missed the last answer asks, is told that all is there, and gets the answer again."""
    where = page.begun(3)
    page.tus("PATCH", where, b"abc", upload_offset="0")

    asked = page.tus("HEAD", where)
    again = page.tus("PATCH", where, upload_offset="3", content_length="0")

    assert (asked.headers["upload-offset"], "upload-expires" in asked.headers) == ("3", False)
    assert (again.status, len(page.arrived)) == (204, 1)


def test_a_case_that_could_not_be_made_is_made_when_asked_again(page: Page) -> None:
    """All bytes came, the storage had no room for the case: they are not sent twice."""
    where = page.begun(3)
    page.failing = 1

    assert page.tus("PATCH", where, b"abc", upload_offset="0").status == 507
    assert page.tus("PATCH", where, upload_offset="3", content_length="0").status == 204
    assert len(page.arrived) == 1


def test_after_a_crash_behind_the_last_byte_asking_makes_the_case(page: Page) -> None:
    """Who hears that all of it came sends nothing more, so it is said only of what is a case."""
    where = page.begun(3)
    page.sink.append(where.rpartition("/")[2], 0, b"abc")
    page.failing = 1

    assert page.tus("HEAD", where).status == 507
    assert (offset(page, where), offset(page, where)) == (3, 3)
    assert len(page.arrived) == 1


def test_while_a_case_is_being_made_asking_waits(page: Page) -> None:
    """That all came is not said before it is sure."""
    where = page.begun(3)
    asked = []

    async def slow(request: Request, arrived: Arrived) -> dict[str, str]:
        asked.append(page.tus("HEAD", where).status)
        return dict(await page.complete(request, arrived))

    page.app = Starlette(routes=tus_routes("/files", page.intake, by_header, slow))

    assert page.tus("PATCH", where, b"abc", upload_offset="0").status == 204
    assert asked == [423]


@pytest.mark.parametrize("begins", ["0", "2", "4", "999999"])
def test_bytes_for_another_place_are_refused(page: Page, begins: str) -> None:
    """409, and where the upload is; nothing is written."""
    where = page.begun(10)
    page.tus("PATCH", where, b"abc", upload_offset="0")

    answer = page.tus("PATCH", where, b"defg", upload_offset=begins)

    assert (answer.status, answer.headers["upload-offset"]) == (409, "3")
    assert offset(page, where) == 3


def test_more_than_was_announced_is_refused(page: Page) -> None:
    """With a length before a byte, without one before the block that is too much."""
    where = page.begun(10)

    told = page.tus("PATCH", where, b"x" * 11, upload_offset="0", content_length="11", expect="100-continue")
    found = page.tus("PATCH", where, b"x" * 11, upload_offset="0")

    assert (told.status, told.received, found.status, offset(page, where)) == (413, 0, 413, 0)


def test_one_request_writes_at_a_time(page: Page) -> None:
    """A second writer, and a deletion meanwhile, are told to come again; the first goes on."""
    where = page.begun(6)
    others = []

    def meanwhile() -> bytes:
        with_bytes = {"upload_offset": "0", "content_length": "6"}
        others.append(page.tus("PATCH", where, b"zzzzzz", **with_bytes).status)
        others.append(page.tus("DELETE", where).status)
        return b"def"

    first = page.tus("PATCH", where, b"abc", meanwhile, upload_offset="0")

    assert (first.status, others) == (204, [423, 423])
    assert page.arrived[0].sha256 == hashlib.sha256(b"abcdef").hexdigest()


def test_an_upload_that_nobody_goes_on_with_expires(tmp_path: Path) -> None:
    """Every answer says when; then it is gone, and a new one has to be begun."""
    now = [NOW]
    page = Page(FolderSink(tmp_path, patience=3600, clock=lambda: now[0]))
    begun = page.tus("POST", "/files", upload_length="10")
    where = begun.headers["location"]
    sent = page.tus("PATCH", where, b"abc", upload_offset="0")
    now[0] += 3600

    assert begun.headers["upload-expires"] == sent.headers["upload-expires"] == formatdate(NOW + 3600, usegmt=True)
    assert page.tus("HEAD", where).status == 410
    assert page.tus("PATCH", where, b"x", upload_offset="3").status == 410


def test_an_upload_is_given_up(page: Page) -> None:
    """Its bytes go, and its address with them."""
    where = page.begun(10)
    page.tus("PATCH", where, b"abc", upload_offset="0")

    assert page.tus("DELETE", where).status == 204
    assert page.sink.names() == []
    assert page.tus("HEAD", where).status == 410


def test_a_finished_upload_is_not_given_up(page: Page) -> None:
    """It is a case by then, which others may read."""
    where = page.begun(1)
    page.tus("PATCH", where, b"a", upload_offset="0")

    assert page.tus("DELETE", where).status == 409


@pytest.mark.parametrize(
    ("method", "headers"), [("HEAD", {}), ("PATCH", {"upload_offset": "0"}), ("DELETE", {})], ids=lambda v: str(v)[:6]
)
def test_an_upload_of_others_is_answered_like_none(page: Page, method: str, headers: dict[str, str]) -> None:
    """Nothing tells an id that exists from one that does not."""
    where = page.begun(10, who="berta")

    others, none = (page.tus(method, w, **headers) for w in (where, UNKNOWN))

    assert (others.status, others.headers, others.body) == (none.status, none.headers, none.body)
    assert others.status == 410
    assert page.tus("HEAD", where, who="berta").status == 200


@pytest.mark.parametrize("key", ["..", "x", "0" * 31, "0" * 33, "A" * 32, "٠" * 32, "0" * 31 + "\x00", ".." + "0" * 30])
def test_an_id_is_no_path(page: Page, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no id is not even looked for."""
    monkeypatch.setattr(page.sink, "found", None)

    assert page.tus("HEAD", f"/files/{key}").status == 404


@pytest.mark.parametrize("version", ["0.2.2", "", "1.0.0, 0.2.2"])
@pytest.mark.parametrize(("method", "where"), [("POST", "/files"), ("HEAD", UNKNOWN), ("PATCH", UNKNOWN)])
def test_another_version_is_not_spoken(page: Page, method: str, where: str, version: str) -> None:
    """412 with the version that is."""
    answer = page.call(method, where, tus_resumable=version, upload_length="1")

    assert (answer.status, answer.headers["tus-version"]) == (412, "1.0.0")
    assert page.sink.names() == []


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (400, {}),
        (400, {"upload_defer_length": "1"}),
        (400, {"upload_length": "-1"}),
        (400, {"upload_length": "1_0"}),
        (400, {"upload_length": "9" * 19}),
        (413, {"upload_length": str(LIMIT + 1)}),
        (507, {"upload_length": str(LIMIT)}),
        (400, {"upload_length": "1", "content_length": "1"}),
        (400, {"upload_length": "1", "transfer_encoding": "chunked"}),
        (400, {"upload_length": "1", "upload_metadata": named("../x")}),
        (400, {"upload_length": "1", "upload_metadata": "filename !"}),
        (400, {"upload_length": "1", "upload_metadata": "filename /w=="}),
        (400, {"upload_length": "1", "upload_metadata": "filename eA==,filename eQ=="}),
        (401, {"upload_length": "1", "who": "stranger"}),
    ],
)
def test_what_is_not_begun(tmp_path: Path, status: int, headers: dict[str, str]) -> None:
    """Lengths that are none or too large, names that are none, strangers: nothing is kept of them."""
    page = Page(FolderSink(tmp_path, room=LIMIT - 1))

    assert page.tus("POST", "/files", **headers).status == status
    assert page.sink.names() == []


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (415, {"content_type": "text/plain", "upload_offset": "0"}),
        (400, {}),
        (400, {"upload_offset": "-0"}),
        (400, {"upload_offset": "²"}),
        (401, {"upload_offset": "0", "who": "stranger"}),
    ],
)
def test_what_is_not_written(page: Page, status: int, headers: dict[str, str]) -> None:
    """Bytes of another kind, or for no place."""
    where = page.begun(3)

    assert page.tus("PATCH", where, b"abc", **headers).status == status
    assert offset(page, where) == 0


def test_a_disk_that_fills_up_keeps_what_came(tmp_path: Path) -> None:
    """507; once there is room again, the sender goes on."""
    page = Page(FolderSink(tmp_path, room=3 * BLOCK))
    where = page.begun(3 * BLOCK)
    page.sink.room = BLOCK

    assert page.tus("PATCH", where, b"x" * BLOCK, b"y" * BLOCK, upload_offset="0").status == 507
    assert offset(page, where) == BLOCK


def test_an_upload_that_is_deleted_on_the_way_is_gone(page: Page) -> None:
    """Retention may take it away; the sender learns to begin anew."""
    where = page.begun(3 * BLOCK)

    def pruned() -> bytes:
        page.sink.abandon(where.rpartition("/")[2])
        return b"x"

    assert page.tus("PATCH", where, b"x" * BLOCK, pruned, upload_offset="0").status == 410


def test_the_method_may_stand_in_a_header(page: Page) -> None:
    """For senders behind something that lets no PATCH through; a POST by itself is none."""
    where = page.begun(3)
    headers = {"upload_offset": "0", "content_type": "application/offset+octet-stream"}

    assert page.tus("POST", where, b"abc", **headers).status == 405
    assert page.tus("POST", where, b"abc", x_http_method_override="PATCH", **headers).status == 204
    assert len(page.arrived) == 1
