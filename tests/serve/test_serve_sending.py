"""Bundles come in by three ways, and each sender learns what became of theirs."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from serve_application import BEFORE, HEALTHY, STORM, Header, Whole, analysed, archive, served
from serve_requests import Answer
from thpdiag.cli import main
from thpdiag.serve.access.http import PAGE_HEADERS, problem_response
from thpdiag.serve.access.principals import Mode
from thpdiag.serve.storage.uploads import Uploads

BUNDLES = "/api/v1/bundles"
TUS = ("tus-resumable", "1.0.0")
BYTES = ("content-type", "application/offset+octet-stream")
CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
ROUND = "----form"


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Whole]:
    with served(tmp_path, Mode.TOKENS) as made:
        yield made


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Whole]:
    with served(tmp_path) as made:
        yield made


@contextmanager
def working(whole: Whole, *, fails: str = "", status: str = "") -> Iterator[None]:
    """Does every job that comes, with the document that the bundle is or that its analysis gives."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(0.05):
            claim = whole.storage.jobs.claim()
            if claim is None:
                continue
            whole.storage.jobs.heartbeat(claim, "reading")
            content = whole.storage.content.path(claim.job.sha256).read_bytes()
            if fails:
                whole.storage.jobs.fail(claim, fails, status)
            else:
                whole.done(claim, analysed(content, claim.job.name))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def curl(*arguments: str | Path, stdin: bytes = b"") -> tuple[dict[str, str], bytes]:
    """Headers and body of the last answer."""
    line = ["curl", "-sS", "-q", "-i", "--max-time", "60", *map(str, arguments)]
    head, _, body = subprocess.run(line, input=stdin, capture_output=True, check=True).stdout.rpartition(b"\r\n\r\n")
    while not head.startswith(b"HTTP/"):
        head, _, more = head.rpartition(b"\r\n\r\n")
        body = more + b"\r\n\r\n" + body
    first, *rest = head.decode().rpartition("HTTP/1.1 ")[2].split("\r\n")
    return {"status": first[:3], **{k.lower(): v for k, _, v in (line.partition(": ") for line in rest)}}, body


def job_of(whole: Whole, answer: Answer, who: Header) -> Any:
    return whole.ask("GET", answer.headers["location"], who).told


def form(content: bytes, name: str = "b.tar") -> bytes:
    head = f'--{ROUND}\r\nContent-Disposition: form-data; name="bundle"; filename="{name}"\r\n\r\n'
    return head.encode() + content + f"\r\n--{ROUND}--\r\n".encode()


def test_a_put_makes_a_job(whole: Whole) -> None:
    """Its address, the digest of the bundle; the workers are woken, and it is written down."""
    who, digest = whole.token("upload"), sha256(b"abc").hexdigest()

    answer = whole.ask("PUT", f"{BUNDLES}/b.tar", who, body=b"abc")

    job = job_of(whole, answer, who)
    assert answer.status == 201
    assert answer.told == {"job": job["id"], "sha256": digest, "size": 3, "case": None, "known": False}
    assert (job["state"], job["name"], job["ahead"], job["sha256"]) == ("queued", "b.tar", 0, digest)
    assert (whole.woken, whole.audited()) == ([whole.hands.now], [("upload", "done", digest)])


def test_the_same_content_is_recognised(whole: Whole) -> None:
    """While it waits it is the same job; once it is analysed its case is told, and a job that is done."""
    who, other = whole.token("upload"), whole.token("upload")
    first = whole.ask("PUT", f"{BUNDLES}/a.json", who, body=BEFORE.read_bytes())

    waiting = whole.ask("PUT", f"{BUNDLES}/b.json", other, body=BEFORE.read_bytes())
    case = whole.done(whole.claimed(), json.loads(BEFORE.read_bytes()))
    done = whole.ask("PUT", f"{BUNDLES}/c.json", other, body=BEFORE.read_bytes())

    assert waiting.told == {**first.told, "known": True}
    assert job_of(whole, waiting, other)["id"] == first.told["job"]
    assert (done.told["case"], done.told["known"]) == (case, True)
    assert (job_of(whole, done, other)["state"], job_of(whole, done, other)["case"]) == ("done", case)


def test_a_finished_resumable_upload_tells_its_job(whole: Whole) -> None:
    """With the last byte, and whenever somebody asks for it again; it is one job however often they do."""
    who, other = whole.token("upload"), whole.token("upload")
    place = whole.ask("POST", "/files", who, TUS, ("upload-length", "3")).headers["location"]

    half = whole.ask("PATCH", place, who, TUS, BYTES, ("upload-offset", "0"), body=b"ab")
    last = whole.ask("PATCH", place, who, TUS, BYTES, ("upload-offset", "2"), body=b"c")
    head = whole.ask("HEAD", place, who, TUS)
    again = whole.ask("PATCH", place, who, TUS, BYTES, ("upload-offset", "3"))

    job = last.headers["thpdiag-job"]
    assert "thpdiag-job" not in half.headers
    assert [a.status for a in (half, last, head, again)] == [204, 204, 200, 204]
    assert {head.headers["thpdiag-job"], again.headers["thpdiag-job"]} == {job}
    assert whole.ask("GET", job, who).told["sha256"] == sha256(b"abc").hexdigest()
    assert whole.ask("HEAD", place, other, TUS).status == 410
    assert whole.storage.jobs.counts() == {"queued": 1}


def test_an_empty_upload_tells_its_job_at_once(whole: Whole) -> None:
    """It is whole when it is begun."""
    answer = whole.ask("POST", "/files", whole.token("upload"), TUS, ("upload-length", "0"))

    assert (answer.status, answer.headers["thpdiag-job"][:13]) == (201, "/api/v1/jobs/")


def test_a_form_leads_to_the_page_of_its_job(whole: Whole) -> None:
    """303, so that loading it again sends nothing; with the session's own token in the address.

    What is refused is a page for a browser, data for anything else.
    """
    cookie, (_, token) = whole.signed_in("upload")
    kind = ("content-type", f"multipart/form-data; boundary={ROUND}")
    ours = ("origin", "https://thpdiag.example.org")

    answer = whole.ask("POST", f"/upload?csrf={token}", cookie, kind, ours, body=form(b"abc"))
    strange = whole.ask("POST", "/upload", cookie, kind, ours, body=form(b"abc"))
    looks = ("accept", "text/html,*/*;q=0.8")
    none = whole.ask("POST", f"/upload?csrf={token}", cookie, kind, ours, looks, body=form(b"", ""))
    large = whole.ask("POST", f"/upload?csrf={token}", cookie, kind, ours, looks, ("content-length", str(1 << 40)))
    plain = whole.ask("POST", f"/upload?csrf={token}", cookie, kind, ours, body=form(b"", ""))

    assert (answer.status, answer.headers["location"][:6]) == (303, "/jobs/")
    assert whole.storage.jobs.find(answer.headers["location"][6:]) is not None
    assert (strange.status, none.status, large.status) == (403, 400, 413)
    for page, words in (
        (none, "<p>No file was chosen, and no text was pasted.</p>"),
        (large, "at most 67,108,864 are taken.</p>"),
    ):
        assert words in page.body.decode()
        assert '<a href="/">Upload again</a>' in page.body.decode()
        assert page.headers["content-security-policy"] == PAGE_HEADERS["Content-Security-Policy"]
    assert (plain.status, plain.told["detail"]) == (400, "no file was chosen, and no text was pasted")
    assert whole.storage.jobs.counts() == {"queued": 1}


@pytest.mark.parametrize("query", ["wait=2", "wait=1&wait=1", "fail-on=grave", "label=4711", "Wait=1"])
def test_a_query_that_is_not_understood_is_refused(local: Whole, query: str) -> None:
    """Before a byte is taken: a label or a gate that nobody heeds must not seem to hold."""
    answer = local.ask("PUT", f"{BUNDLES}/b.tar?{query}", body=b"abc")

    assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
    assert local.storage.bundles.total() == 0


def test_refusals_are_problem_json(local: Whole) -> None:
    """Of PUT and of tus."""
    large = local.ask("PUT", f"{BUNDLES}/b.tar", ("content-length", str(1 << 30)))
    part = local.ask("PUT", f"{BUNDLES}/b.tar", ("content-range", "bytes 0-1/2"), body=b"ab")
    silent = local.ask("POST", "/files", TUS)

    assert [a.told["status"] for a in (large, part, silent)] == [413, 400, 400]
    assert {a.headers["content-type"] for a in (large, part, silent)} == {"application/problem+json"}
    assert json.loads(problem_response(413, "x").body)["title"] == large.told["title"]


@pytest.mark.parametrize("name", ["..%2f..%2fetc%2fpasswd", "%2e%2e", "a%5cb", "a%00b", "%1b%5b2J", "a/b"])
def test_a_name_that_is_a_path_is_refused(local: Whole, name: str) -> None:
    """However it is written; nothing is stored."""
    assert local.ask("PUT", f"{BUNDLES}/{name}", body=b"abc").status in (400, 404)
    assert local.storage.bundles.total() == 0


def test_a_read_token_sends_nothing(whole: Whole) -> None:
    """Wrong scope, no token: by all three ways."""
    read = whole.token("read")
    ways = [("PUT", f"{BUNDLES}/b.tar"), ("POST", "/files"), ("POST", "/upload")]

    assert [whole.ask(method, path, read, TUS).status for method, path in ways] == [403, 403, 403]
    assert [whole.ask(method, path, TUS).status for method, path in ways] == [401, 401, 401]


@CURL
@pytest.mark.parametrize(("bundle", "gate"), [(STORM, "low"), (STORM, "critical"), (HEALTHY, "low")])
def test_curl_waits_for_the_verdict(local: Whole, tmp_path: Path, bundle: Path, gate: str) -> None:
    """The header has the exit code with which `thpdiag analyze --fail-on` leaves for the same bundle."""
    file = tmp_path / "bundle.tar"
    file.write_bytes(archive(bundle))
    with pytest.raises(SystemExit) as left:
        main(["analyze", str(file), "--fail-on", gate, "-o", str(tmp_path / "told.txt"), "-f", "json"])

    with local.listening() as url, working(local):
        head, body = curl("-T", file, f"{url}{BUNDLES}/bundle.tar?wait=1&fail-on={gate}")
        plain, text = curl("-H", "Accept: text/plain", "-T", file, f"{url}{BUNDLES}/bundle.tar?wait=1&fail-on={gate}")

    told, code = json.loads(body), left.value.code
    assert (head["status"], head["x-thpdiag-exit"], told["exit"]) == ("201", str(code), code)
    assert (plain["x-thpdiag-exit"], text.decode()) == (str(code), (tmp_path / "told.txt").read_text())
    assert (told["state"], told["verdict"]["page"]) == ("done", f"/cases/{told['case']}")
    assert (told["verdict"]["leading"] is None) == (bundle is HEALTHY)
    assert local.ask("GET", told["verdict"]["report"]).status == 200


@CURL
@pytest.mark.parametrize(("status", "code"), [("timeout", 6), ("signal 11", 70), ("bug", 70), ("refused", 3), ("", 6)])
def test_an_analysis_that_fails_is_told_to_who_waits(local: Whole, status: str, code: int) -> None:
    """The bundle is stored, the verdict is missing, and a gate stays shut, by the code of the command line."""
    with local.listening() as url, working(local, fails="the child process took too long", status=status):
        head, body = curl("-T", "-", f"{url}{BUNDLES}/b.tar?wait=1", stdin=b"abc")
        _, text = curl("-H", "Accept: text/plain", "-T", "-", f"{url}{BUNDLES}/b.tar?wait=1", stdin=b"abcd")

    told = json.loads(body)
    assert (head["x-thpdiag-exit"], told["exit"], told["state"], told["verdict"]) == (str(code), code, "failed", None)
    assert told["reason"] == "the child process took too long"
    assert b"took too long" in text


def test_who_leaves_is_waited_for_no_longer(local: Whole) -> None:
    """The sender hangs up behind the last byte: the answer is made at once, and the job stays."""
    answer = local.ask("PUT", f"{BUNDLES}/b.tar?wait=1", body=b"abc")  # nothing comes after the body but that they left

    assert (answer.status, answer.told["known"]) == (202, False)
    assert local.storage.jobs.counts() == {"queued": 1}


def test_uploads_that_wait_for_the_disk_hold_up_nobody_else(local: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than the server has threads: they have threads of their own."""
    opened, begin = threading.Event(), local.storage.uploads.begin

    def begin_later(_: Uploads, *told: Any, **ways: Any) -> Any:
        assert opened.wait(60)
        return begin(*told, **ways)

    monkeypatch.setattr(Uploads, "begin", begin_later)

    with local.listening() as url:
        senders = [HTTPConnection(url[7:], timeout=60) for _ in range(60)]
        for number, sender in enumerate(senders):
            sender.request("PUT", f"{BUNDLES}/{number}.tar", b"abc")
        try:
            with closing(HTTPConnection(url[7:], timeout=20)) as reader:
                reader.request("GET", "/api/v1/cases")
                listed = reader.getresponse().status
        finally:
            opened.set()
        sent = {sender.getresponse().status for sender in senders}
        for sender in senders:
            sender.close()

    assert (listed, sent) == (200, {201})


def test_an_upload_is_never_served_back(local: Whole) -> None:
    """An HTML page that somebody sent is not shown at any address that is known of it."""
    page = b"<!doctype html><script>alert(1)</script>"
    sent = local.ask("PUT", f"{BUNDLES}/evil.html", body=page).told
    places = [
        f"{BUNDLES}/evil.html", f"{BUNDLES}/{sent['sha256']}", f"/bundles/{sent['sha256']}", f"/files/{sent['sha256']}",
        "/uploads/evil.html", "/data/serve.sqlite", "/static/evil.html",
    ]  # fmt: skip
    answers = [local.ask("GET", place) for place in places]
    known = [local.ask("GET", f"/api/v1/jobs/{sent['job']}"), local.ask("GET", f"/jobs/{sent['job']}")]

    assert {a.status for a in answers} <= {404, 405}
    assert all(page not in a.body for a in (*answers, *known))
    assert all("'unsafe-inline'" not in a.headers["content-security-policy"] for a in (*answers, *known))
