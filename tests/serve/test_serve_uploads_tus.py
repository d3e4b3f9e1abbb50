"""Resumable uploads request by request: what a client of tus 1.0.0 is told, and what is refused."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from command_line import Run
from serve_application import LIMIT, served
from serve_requests import ORIGIN
from thpdiag.errors import StoreFullError
from thpdiag.serve.access.principals import Mode
from thpdiag.serve.storage.database import DAY
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.storage.uploads import Uploads
from thpdiag.serve.uploads.intake import BLOCK_BYTES, SendLimits
from upload_requests import GONE, Sending, sending

UNKNOWN = "/files/" + "0" * 32


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Sending]:
    with sending(tmp_path) as made:
        yield made


def named(name: str) -> str:
    return f"filename {b64encode(name.encode()).decode()}"


def offset(page: Sending, where: str) -> int:
    return int(page.tus("HEAD", where).headers["upload-offset"])


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """As often as there is something in it, no case can be made of what is whole."""
    fails, accept = list[bool](), Storage.accept

    def accept_or_fail(storage: Storage, *told: object) -> object:
        if fails:
            raise StoreFullError(f"no room for a case {fails.pop()}")
        return accept(storage, *told)  # type: ignore[arg-type]

    monkeypatch.setattr(Storage, "accept", accept_or_fail)
    return fails


def test_options_say_what_is_spoken(page: Sending) -> None:
    """Version, extensions and the largest upload, without a version in the question."""
    answer = page.call("OPTIONS", "/files")

    assert answer.status == 204
    assert answer.headers["tus-version"] == answer.headers["tus-resumable"] == "1.0.0"
    assert answer.headers["tus-extension"] == "creation,expiration,termination"
    assert answer.headers["tus-max-size"] == str(LIMIT)


def test_an_upload_in_two_parts(page: Sending) -> None:
    """Begun, sent up to a point, asked where it is, sent to its end: one bundle with the digest of the whole."""
    data = bytes(range(256)) * 20_000
    where = page.begin(len(data), upload_metadata=f"{named('sos.tar.xz')},filetype YXBw")

    first = page.tus("PATCH", where, data[:3_000_000], upload_offset="0")
    asked = page.tus("HEAD", where)
    last = page.tus("PATCH", where, data[3_000_000:], upload_offset="3000000")

    assert (first.status, first.headers["upload-offset"]) == (204, "3000000")
    assert (asked.headers["upload-offset"], asked.headers["upload-length"]) == ("3000000", str(len(data)))
    assert (asked.headers["cache-control"], asked.headers["upload-metadata"]) == ("no-store", named("sos.tar.xz"))
    assert (last.status, last.headers["upload-offset"]) == (204, str(len(data)))
    assert "thpdiag-job" in last.headers
    assert page.bundles() == [digest(data)]
    job = page.whole.claimed().job
    assert (job.name, job.owner) == ("sos.tar.xz", "local:local")


def test_an_empty_upload_is_whole_once_begun(page: Sending) -> None:
    """Nothing is to be sent, so clients send nothing."""
    page.begin(0)

    assert page.bundles() == [digest(b"")]


def test_what_came_before_a_break_stays(page: Sending) -> None:
    """Also what was not yet a block; the sender goes on from there."""
    where = page.begin(5_000_000)

    page.tus("PATCH", where, b"x" * (BLOCK_BYTES + 10), b"y" * 7, GONE, upload_offset="0", content_length="5000000")

    assert offset(page, where) == BLOCK_BYTES + 17
    assert page.bundles() == []


def test_what_came_before_silence_stays(tmp_path: Path) -> None:
    """A sender who became too slow is refused and may go on from where they are."""
    clock = iter(range(0, 10_000, 60))
    with sending(tmp_path, pace=SendLimits(clock=lambda: float(next(clock)))) as page:
        where = page.begin(1000)
        sent = page.tus("PATCH", where, b"x" * 5, b"x" * 5, b"x", upload_offset="0", content_length="1000")
        assert (sent.status, offset(page, where)) == (408, 5)


def test_after_the_last_byte_nothing_more_is_needed(page: Sending) -> None:
    """Whoever missed the last answer asks, is told that all is there, and gets the answer again."""
    where = page.begin(3)
    last = page.tus("PATCH", where, b"abc", upload_offset="0")

    asked = page.tus("HEAD", where)
    again = page.tus("PATCH", where, upload_offset="3", content_length="0")

    assert (asked.headers["upload-offset"], "upload-expires" in asked.headers) == ("3", False)
    assert (again.status, again.headers["thpdiag-job"]) == (204, last.headers["thpdiag-job"])
    assert page.storage.jobs.counts() == {"queued": 1}


def test_a_case_that_could_not_be_made_is_made_when_asked_again(page: Sending, failing: list[bool]) -> None:
    """All bytes came, the storage had no room for the case: they are not sent twice."""
    where = page.begin(3)
    failing.append(True)

    assert page.tus("PATCH", where, b"abc", upload_offset="0").status == 507
    assert page.tus("PATCH", where, upload_offset="3", content_length="0").status == 204
    assert page.bundles() == [digest(b"abc")]


def test_after_a_crash_behind_the_last_byte_asking_makes_the_case(page: Sending, failing: list[bool]) -> None:
    """Who hears that all of it came sends nothing more, so it is said only of what is a case."""
    where = page.begin(3)
    page.storage.uploads.append(where.rpartition("/")[2], 0, b"abc")
    failing.append(True)

    assert page.tus("HEAD", where).status == 507
    assert (offset(page, where), offset(page, where)) == (3, 3)
    assert page.bundles() == [digest(b"abc")]


def test_while_a_case_is_being_made_asking_waits(page: Sending, monkeypatch: pytest.MonkeyPatch) -> None:
    """That all came is not said before it is sure."""
    where = page.begin(3)
    asked, accept = [], Storage.accept

    def slow(storage: Storage, *told: object) -> object:
        asked.append(page.tus("HEAD", where).status)
        return accept(storage, *told)  # type: ignore[arg-type]

    monkeypatch.setattr(Storage, "accept", slow)

    assert page.tus("PATCH", where, b"abc", upload_offset="0").status == 204
    assert asked == [423]


@pytest.mark.parametrize("begins", ["0", "2", "4", "999999"])
def test_bytes_for_another_place_are_refused(page: Sending, begins: str) -> None:
    """409, and where the upload is; nothing is written."""
    where = page.begin(10)
    page.tus("PATCH", where, b"abc", upload_offset="0")

    answer = page.tus("PATCH", where, b"defg", upload_offset=begins)

    assert (answer.status, answer.headers["upload-offset"]) == (409, "3")
    assert offset(page, where) == 3


def test_more_than_was_announced_is_refused(page: Sending) -> None:
    """With a length before a byte, without one before the block that is too much."""
    where = page.begin(10)

    told = page.tus("PATCH", where, b"x" * 11, upload_offset="0", content_length="11", expect="100-continue")
    found = page.tus("PATCH", where, b"x" * 11, upload_offset="0")

    assert (told.status, told.received, found.status, offset(page, where)) == (413, 0, 413, 0)


def test_one_request_writes_at_a_time(page: Sending) -> None:
    """A second writer, and a deletion meanwhile, are told to come again; the first goes on."""
    where = page.begin(6)
    others = []

    def meanwhile() -> bytes:
        with_bytes = {"upload_offset": "0", "content_length": "6"}
        others.append(page.tus("PATCH", where, b"zzzzzz", **with_bytes).status)
        others.append(page.tus("DELETE", where).status)
        return b"def"

    first = page.tus("PATCH", where, b"abc", meanwhile, upload_offset="0")

    assert (first.status, others) == (204, [423, 423])
    assert page.bundles() == [digest(b"abcdef")]


def test_an_upload_that_nobody_goes_on_with_expires(page: Sending) -> None:
    """Every answer says when; then it is gone, and a new one has to be begun."""
    begun = page.tus("POST", "/files", upload_length="10")
    where = begun.headers["location"]
    sent = page.tus("PATCH", where, b"abc", upload_offset="0")
    ends = formatdate(page.whole.hands.now + DAY, usegmt=True)
    page.whole.hands.now += DAY

    assert begun.headers["upload-expires"] == sent.headers["upload-expires"] == ends
    assert page.tus("HEAD", where).status == 410
    assert page.tus("PATCH", where, b"x", upload_offset="3").status == 410


def test_an_upload_is_given_up(page: Sending) -> None:
    """Its bytes go, and its address with them; a finished one is a case by then, which others may read."""
    where, done = page.begin(10), page.begin(1)
    page.tus("PATCH", where, b"abc", upload_offset="0")
    page.tus("PATCH", done, b"a", upload_offset="0")

    assert page.tus("DELETE", where).status == 204
    assert page.unfinished() == []
    assert page.tus("HEAD", where).status == 410
    assert page.tus("DELETE", done).status == 409


@pytest.mark.parametrize("key", ["..", "x", "0" * 31, "0" * 33, "A" * 32, "%D9%A0" * 32, "0" * 31 + "%00"])
def test_an_id_is_no_path(page: Sending, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no id is not even looked for."""
    monkeypatch.setattr(Uploads, "find", None)

    assert page.tus("HEAD", f"/files/{key}").status in (400, 404)


@pytest.mark.parametrize("version", ["0.2.2", "", "1.0.0, 0.2.2"])
@pytest.mark.parametrize(("method", "where"), [("POST", "/files"), ("HEAD", UNKNOWN), ("PATCH", UNKNOWN)])
def test_another_version_is_not_spoken(page: Sending, method: str, where: str, version: str) -> None:
    """412 with the version that is."""
    answer = page.call(method, where, tus_resumable=version, upload_length="1")

    assert (answer.status, answer.headers["tus-version"]) == (412, "1.0.0")
    assert page.unfinished() == []


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
    ],
)
def test_what_is_not_begun(tmp_path: Path, status: int, headers: dict[str, str]) -> None:
    """Lengths that are none or too large, names that are none: nothing is kept of them."""
    with sending(tmp_path, quota=LIMIT - 1) as page:
        assert page.tus("POST", "/files", **headers).status == status
        assert page.unfinished() == []


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (415, {"content_type": "text/plain", "upload_offset": "0"}),
        (400, {}),
        (400, {"upload_offset": "-0"}),
        (400, {"upload_offset": "²"}),
    ],
)
def test_what_is_not_written(page: Sending, status: int, headers: dict[str, str]) -> None:
    """Bytes of another kind, or for no place."""
    where = page.begin(3)

    assert page.tus("PATCH", where, b"abc", **headers).status == status
    assert offset(page, where) == 0


def test_a_disk_that_fills_up_keeps_what_came(page: Sending, monkeypatch: pytest.MonkeyPatch) -> None:
    """507; once there is room again, the sender goes on."""
    where, append = page.begin(3 * BLOCK_BYTES), Uploads.append

    def full(uploads: Uploads, key: str, at: int, block: bytes) -> int:
        if at >= BLOCK_BYTES:
            raise StoreFullError("no room")
        return append(uploads, key, at, block)

    monkeypatch.setattr(Uploads, "append", full)

    assert page.tus("PATCH", where, b"x" * BLOCK_BYTES, b"y" * BLOCK_BYTES, upload_offset="0").status == 507
    assert offset(page, where) == BLOCK_BYTES


def test_an_upload_that_is_deleted_on_the_way_is_gone(page: Sending) -> None:
    """Retention may take it away; the sender learns to begin anew."""
    where = page.begin(3 * BLOCK_BYTES)

    def pruned() -> bytes:
        page.storage.uploads.abandon(where.rpartition("/")[2])
        return b"x"

    assert page.tus("PATCH", where, b"x" * BLOCK_BYTES, pruned, upload_offset="0").status == 410


def test_the_method_may_stand_in_a_header(page: Sending) -> None:
    """For senders behind something that lets no PATCH through; a POST by itself is none."""
    where = page.begin(3)
    headers = {"upload_offset": "0", "content_type": "application/offset+octet-stream"}

    assert page.tus("POST", where, b"abc", **headers).status == 405
    assert page.tus("POST", where, b"abc", x_http_method_override="PATCH", **headers).status == 204
    assert page.bundles() == [digest(b"abc")]


def test_admins_see_and_end_unfinished_uploads(tmp_path: Path, run: Run) -> None:
    """On a page and by a command, of any owner, while they are sent; the sender is told, and others see none of it."""
    with served(tmp_path, Mode.TOKENS) as whole:
        admin, ours = whole.signed_in("admin"), (("origin", ORIGIN), ("sec-fetch-site", "same-origin"))
        storage, place = whole.storage, ("--data", whole.storage.folder)
        keys = [storage.uploads.begin(f"<b>{n}</b>.tar", 10, "token:abc") for n in range(2)]
        storage.uploads.append(keys[0], 0, b"xyz")
        page = whole.ask("GET", "/uploads", *admin).body.decode()
        refused = whole.ask("POST", f"/uploads/{keys[0]}/end", *ours, *whole.signed_in("upload", "read"))
        ended = whole.ask("POST", f"/uploads/{keys[0]}/end", *ours, *admin)
        again = whole.ask("POST", f"/uploads/{keys[0]}/end", *ours, *admin)
        listed = run("serve", "upload", "list", *place).out.splitlines()
        done = [run("serve", "upload", "end", key, *place).code for key in (keys[1], keys[1])]

        assert [text in page for text in ("token:abc", "3 bytes of 10 bytes", "&lt;b&gt;0", "<b>0")] == [True] * 3 + [
            False
        ]
        assert (refused.status, ended.status, again.status, done) == (403, 303, 404, [0, 2])
        assert [line.split("\t")[:4] for line in listed] == [[keys[1], "token:abc", "0", "10"]]
        assert whole.audited()[0] == ("end-upload", "done", keys[1])
        assert list((storage.folder / "uploads").iterdir()) == []


def test_a_put_whose_upload_is_ended(tmp_path: Path) -> None:
    """Its sender is told so, in place of a failure of the server."""
    with sending(tmp_path) as tus:
        uploads = tus.whole.storage.uploads

        def end() -> bytes:
            assert [uploads.abandon(one.id) for one in uploads.list_unfinished()] == [True]
            return bytes(BLOCK_BYTES)

        answer = tus.call("PUT", "/api/v1/bundles/a", bytes(BLOCK_BYTES), end)
        assert (answer.status, "an administrator ended it" in answer.text) == (410, True)


def test_a_token_that_announces_much_keeps_nobody_out(tmp_path: Path) -> None:
    """Thirty uploads of 64 MiB without a byte, in a quota of 512 MiB: others begin as large ones and send theirs."""
    with served(tmp_path, Mode.TOKENS, quota=512 << 20) as whole:
        greedy, other = whole.token("upload"), whole.token("upload")
        header = (("tus-resumable", "1.0.0"), ("upload-length", str(LIMIT)))
        begun = [whole.ask("POST", "/files", greedy, *header).status for _ in range(30)]

        assert begun == [201] * 30
        assert whole.ask("POST", "/files", other, *header).status == 201
        assert whole.ask("PUT", "/api/v1/bundles/a", other, body=b"bundle").status == 201
