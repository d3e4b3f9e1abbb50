"""The verdict on the page of a case: its block, the letter to the customer, the script, and what a customer sends."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from serve_application import BEFORE, STORM, Whole, analysed, archive, served
from thpdiag.report.first_block import first_block
from thpdiag.report.messages import hosts
from thpdiag.serve.access.audit import mask_secrets
from thpdiag.serve.access.principals import Mode
from thpdiag.serve.pages.work import verdict_blocks
from thpdiag.serve.storage.database import DAY

SECRET = re.compile(r"/s/([\w-]{43})")
KIND = "multipart/form-data; boundary=b"
OPEN = b"$ uname -r\n5.14.0-1.el9.x86_64\n"


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Whole]:
    with served(tmp_path, Mode.TOKENS) as made:
        yield made


def undecided(whole: Whole) -> str:
    """A case that too little was sent of."""
    whole.uploaded(OPEN, "ticket.txt")
    return whole.done(whole.claimed(), analysed(OPEN, "ticket.txt"))


def test_the_block_is_that_of_the_terminal(whole: Whole) -> None:
    """The same lines, as text on the page, where nothing else of the report has to be loaded."""
    key = whole.completed(STORM)
    document = analysed(archive(STORM), "redis-shop-ubuntu.tar")
    page = whole.ask("GET", f"/cases/{key}", whole.token("read")).body.decode()
    shown = page.partition('id="verdict-0"')[2].partition(">")[2].partition("</pre>")[0]

    lines = [line.rstrip() for line in first_block(hosts(document)[0]).lines]
    assert [line.rstrip() for line in unescape(re.sub(r"<[^>]+>", "", shown)).splitlines()] == lines
    assert f'href="/cases/{key}/page" target="_blank"' in page


def test_a_block_of_hostile_words_is_text() -> None:
    """Markup and control characters of a customer are shown, not run."""
    document: dict[str, Any] = json.loads(BEFORE.read_text(encoding="utf-8"))
    document["verdict"]["sentence"] = document["host"]["name"] = "<script>\u202e\x1b[31m"
    (block,) = verdict_blocks(document)

    assert "<script" not in block.shown
    assert "\u202e" not in block.shown + block.text
    assert verdict_blocks({"verdict": 1}) == []


def test_an_open_case_has_letter_and_script(whole: Whole) -> None:
    """A button each; who only reads gets the script. The letter has the script and an address for the customer."""
    key = undecided(whole)
    cookie, csrf = whole.signed_in("work", "upload")
    page = whole.ask("GET", f"/cases/{key}", cookie).body.decode()
    script = whole.ask("GET", f"/cases/{key}/capture-script", whole.token("read"))
    letter = unescape(whole.ask("POST", f"/cases/{key}/letter", cookie, csrf).body.decode())

    assert f'action="/cases/{key}/letter?csrf=' in page
    assert "/letter?" not in whole.ask("GET", f"/cases/{key}", whole.token("read")).body.decode()
    assert script.headers["content-disposition"].startswith('attachment; filename="thp-capture.sh"')
    assert script.body.startswith(b"#!/bin/sh")
    assert script.body.decode() in letter
    assert re.search(r"curl -fT thp-capture-HOST-DATE.tar.gz https://thpdiag.example.org/s/[\w-]{43}/\n", letter)
    assert whole.ask("POST", f"/cases/{key}/letter", whole.token("read")).status == 403
    assert whole.ask("POST", f"/cases/{key}/letter", cookie).status == 403


def test_the_script_of_the_server_is_one_that_sh_reads(whole: Whole, tmp_path: Path) -> None:
    """It prints what it would do."""
    file = tmp_path / "thp-capture.sh"
    file.write_bytes(whole.ask("GET", f"/cases/{undecided(whole)}/capture-script", whole.token("read")).body)
    done = subprocess.run([shutil.which("sh") or "sh", "-n", file], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def given(whole: Whole, key: str) -> str:
    """The secret of the address in a new letter."""
    cookie, csrf = whole.signed_in("work")
    found = SECRET.search(whole.ask("POST", f"/cases/{key}/letter", cookie, csrf).body.decode())
    assert found
    return found[1]


def test_a_customer_sends_files_for_one_case(whole: Whole) -> None:
    """By curl or by the page, without a login; the case gets a new version, of which the answer says nothing."""
    key = undecided(whole)
    secret = given(whole, key)
    shown = whole.ask("GET", f"/s/{secret}").body.decode()
    answer = whole.ask("PUT", f"/s/{secret}/capture.txt", body=b"more")
    new = whole.done(whole.claimed(), analysed(OPEN, "ticket.txt"))
    form = b'--b\r\nContent-Disposition: form-data; name="text"\r\n\r\nwords\r\n--b--\r\n'
    page = whole.ask("POST", f"/s/{secret}/files", ("content-type", KIND), body=form)

    assert f'action="/s/{secret}/files"' in shown
    assert (answer.status, answer.body) == (201, b"received 4 bytes, thank you\n")
    assert whole.storage.cases.find(key).superseded  # type: ignore[union-attr]
    assert page.headers["location"] == f"/s/{secret}?sent"
    parts = [one.name for one in whole.storage.bundles.parts(whole.claimed().job.sha256)]
    assert parts == ["capture.txt", "pasted.txt", "ticket.txt"]
    assert whole.ask("GET", f"/cases/{new}", whole.token("read")).status == 200


def test_a_link_gives_nothing_else(whole: Whole) -> None:
    """Neither pages nor another case; after its time, or once its case is gone, it is as if it had never been."""
    key = undecided(whole)
    secret = given(whole, key)
    for path in (f"/cases/{key}", f"/cases/{key}/page", "/cases", f"/api/v1/cases/{key}"):
        assert whole.ask("GET", path, ("authorization", f"Bearer {secret}")).status == 401
    wrong = [whole.ask("GET", f"/s/{one}").status for one in ("0" * 43, "x", secret[:-1], f"{secret}x")]
    assert wrong == [404] * 4
    whole.hands.now += 14 * DAY
    assert whole.ask("GET", f"/s/{secret}").status == 404
    assert whole.ask("PUT", f"/s/{secret}/a", body=b"x").status == 404
    whole.hands.now -= 14 * DAY
    assert whole.ask("GET", f"/s/{secret}").status == 200
    whole.storage.removal.delete_case(key)
    assert whole.ask("GET", f"/s/{secret}").status == 404


def test_a_link_is_kept_as_a_digest_and_in_no_log(whole: Whole) -> None:
    """Neither the files of the server nor a line of a log have the secret."""
    key = undecided(whole)
    secret = given(whole, key)
    whole.ask("PUT", f"/s/{secret}/a.txt", body=b"x")
    kept = b"".join(file.read_bytes() for file in whole.storage.folder.rglob("*") if file.is_file())

    assert secret.encode() not in kept
    assert secret not in str(whole.audited())
    assert mask_secrets(f"PUT /s/{secret}/a.txt 201") == "PUT /s/***/a.txt 201"


def test_another_site_sends_nothing_by_a_link(whole: Whole) -> None:
    """A page elsewhere that knows the address cannot have a browser use it."""
    secret = given(whole, undecided(whole))
    asked = whole.ask("PUT", f"/s/{secret}/a", ("sec-fetch-site", "cross-site"), body=b"x")
    assert asked.status == 403


def test_what_is_decided_needs_no_letter(whole: Whole) -> None:
    """A document that is none, or one that lacks nothing, has a page that says so."""
    key = whole.completed(BEFORE, document={"verdict": {"status": "found"}})
    cookie, csrf = whole.signed_in("work")
    assert whole.ask("POST", f"/cases/{key}/letter", cookie, csrf).status == 409
    assert whole.ask("GET", f"/cases/{key}/capture-script", cookie).status == 409
