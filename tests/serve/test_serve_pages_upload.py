"""The pages of uploads and jobs, asked in memory: who sees what, and the command that uploads from a shell."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from serve_application import BEFORE, PROXY, Whole, served
from serve_requests import ORIGIN
from thpdiag.serve.access.principals import Mode

CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Whole]:
    with served(tmp_path, Mode.TOKENS) as made:
        yield made


def owner(header: tuple[str, str]) -> str:
    return f"token:{header[1].split('_')[1]}"


def test_the_page_says_what_is_taken_and_how_to_send_it(whole: Whole) -> None:
    """The limit, the form with its token, and a command with the name by which the server is known."""
    cookie, _ = whole.signed_in("upload")
    page = whole.ask("GET", "/", cookie).body.decode()

    assert "At most 64.0 MiB" in page
    assert 'data-limit="67108864"' in page
    assert 'method="post" enctype="multipart/form-data" action="/upload?csrf=' in page
    assert f"$TOKEN&#34; {ORIGIN}/api/v1/bundles/" in page
    assert "Latest cases" not in page


def test_the_latest_cases_are_for_those_who_read(whole: Whole) -> None:
    """Who reads alone gets no form, who uploads alone no cases."""
    key = whole.completed(BEFORE)
    reads, sends = (whole.ask("GET", "/", whole.token(scope)).body.decode() for scope in ("read", "upload"))

    assert f"/cases/{key}" in reads
    assert "<form" not in reads
    assert f"/cases/{key}" not in sends
    assert 'id="upload"' in sends


def test_behind_a_proxy_the_page_names_the_proxy(tmp_path: Path) -> None:
    """Not the address at which the server listens."""
    with served(tmp_path, Mode.PROXY) as whole:
        page = whole.ask("GET", "/", whole.proxied("anna"), peer=PROXY).body.decode()
    assert f"{ORIGIN}/api/v1/bundles/" in page


def test_a_job_is_for_its_sender_and_for_those_who_read(whole: Whole) -> None:
    """To another who may only upload it is as if it were not there, by its own id and by that of its upload."""
    mine, other, reads, admin = (whole.token(scope) for scope in ("upload", "upload", "read", "admin"))
    key = whole.storage.uploads.begin("b.txt", 1, owner(mine))
    whole.storage.uploads.append(key, 0, b"b")
    job = whole.storage.accept(key, whole.server.analysis).job

    assert [whole.ask("GET", f"/jobs/{job}", who).status for who in (mine, other, reads, admin)] == [200, 404, 200, 200]
    by_upload = [whole.ask("GET", f"/jobs/{key}", who) for who in (mine, other, admin)]
    assert [answer.status for answer in by_upload] == [303, 404, 303]
    assert by_upload[0].headers["location"] == f"/jobs/{job}"
    strange = whole.ask("GET", f"/jobs/{job}", other).body
    assert strange == whole.ask("GET", f"/jobs/{'0' * 32}", other).body.replace(b"0" * 32, job.encode())


def test_two_senders_of_the_same_content_both_see_the_job(whole: Whole) -> None:
    """It is one job, begun for the first of them."""
    mine, yours = whole.token("upload"), whole.token("upload")
    jobs = {whole.uploaded(b"the same", "b.txt", owner(who)).job for who in (mine, yours)}

    assert len(jobs) == 1
    assert [whole.ask("GET", f"/jobs/{jobs.copy().pop()}", who).status for who in (mine, yours)] == [200, 200]


def test_a_job_that_is_done_leads_to_its_case(whole: Whole) -> None:
    """Who reads goes on to it; who may only upload is told the verdict, and once the case is deleted, that."""
    mine = whole.token("upload")
    key = whole.completed(BEFORE, owner=owner(mine))
    job = whole.uploaded(BEFORE.read_bytes(), "again.json", owner(mine)).job

    answer = whole.ask("GET", f"/jobs/{job}", whole.token("read"))
    assert (answer.status, answer.headers["location"]) == (303, f"/cases/{key}")
    page = whole.ask("GET", f"/jobs/{job}", mine)
    assert page.status == 200
    assert "34.2 % of the non-idle samples" in page.body.decode()
    assert whole.storage.removal.delete_case(key)
    assert whole.ask("GET", f"/jobs/{job}", mine).status == 404


@pytest.mark.parametrize("state", ["queued", "running", "failed"])
def test_a_page_without_script_loads_itself_while_there_is_news_to_come(state: str, whole: Whole) -> None:
    """And no longer."""
    reads = whole.token("read")
    job = whole.uploaded(b"b", "b.txt").job
    if state != "queued":
        claim = whole.claimed()
    if state == "failed":
        whole.storage.jobs.fail(claim, "no")
    page = whole.ask("GET", f"/jobs/{job}", reads).body.decode()
    assert ('http-equiv="refresh"' in page) == (state != "failed")


@CURL
@pytest.mark.parametrize("more", ["", "?wait=0"])
def test_the_command_of_the_page_uploads(more: str, tmp_path: Path) -> None:
    """As it stands there, also with a query behind it: curl puts the name of the file where it belongs."""
    (tmp_path / "bundle.tar.xz").write_bytes(b"a bundle")
    with served(tmp_path) as whole, whole.listening() as url:
        page = whole.ask("GET", "/", ("host", url.partition("//")[2])).body.decode()
        line = page.partition('tabindex="0">')[2].partition("</pre>")[0] + more
        done = subprocess.run([*shlex.split(line), "-sS", "--max-time", "30"], capture_output=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert whole.claimed().job.name == "bundle.tar.xz"


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        ("limit (cpu)", "a part of it"), ("timeout", "a part of it"), ("out of memory", "a part of it"),
        ("refused", "whether the file is complete"), ("signal 11", "thpdiag failed on something"),
        ("bug", "thpdiag failed on something"), ("gone", "no longer has the file"), ("killed", "The server failed"),
        ("", "The server failed"),
    ],
)  # fmt: skip
def test_what_to_do_about_a_failed_job_follows_how_it_ended(tmp_path: Path, status: str, advice: str) -> None:
    """One thing for this end, and whom to ask if it does not help."""
    with served(tmp_path) as whole:
        job = whole.uploaded(b"bundle", "bundle.tar").job
        whole.storage.jobs.fail(whole.claimed(), "no", status)

        page = whole.ask("GET", f"/jobs/{job}").body.decode()

    assert advice in page
    assert page.count("<li>") == 2
