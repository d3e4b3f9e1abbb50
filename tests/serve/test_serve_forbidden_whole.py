"""Every route of the whole server by everybody who may not have it, and what one customer could learn of another."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from serve_application import AFTER, BEFORE, PROXY, STORM, Header, Whole, rules, served
from serve_process import LONG, Running
from thpdiag.sandbox.supervise import parent_of, running_processes
from thpdiag.serve.access.gate import RouteRule
from thpdiag.serve.access.principals import LOCAL, Mode
from thpdiag.serve.pages import lines
from thpdiag.serve.pages.cases import DOWNLOADS
from thpdiag.serve.pages.render import static_address
from thpdiag.serve.routes import ROUTES
from thpdiag.serve.running import add_database_password
from thpdiag.serve.settings import Settings
from thpdiag.serve.storage import database
from thpdiag.serve.storage.access import LoginRow
from thpdiag.serve.storage.database import new_id

RULES = ROUTES.rules
CLOSED = tuple(rule for rule in RULES if rule.scopes)
CHANGES = tuple(rule for rule in CLOSED if rule.method not in ("GET", "HEAD"))
WHO = {"nobody": (), "upload": ("upload",), "read": ("read",), "admin": ("admin",)}
TUS = (("tus-resumable", "1.0.0"), ("upload-offset", "0"), ("content-type", "application/offset+octet-stream"))
SAME = ("sec-fetch-site", "same-origin")
FRAME = (("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe"))
WORD = "canary-of-hemlock"
SAID = (  # what tells nobody anything: of which word is asked
    f"{WORD} kernel: page allocation stalls for 10004ms, order:9, mode:0x4742ca(GFP_TRANSHUGE)\n"
).encode()


def named(rule: RouteRule) -> str:
    return f"{rule.method} {rule.path}"


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Whole]:
    with served(tmp_path, Mode.TOKENS) as made:
        yield made


def target(whole: Whole, rule: RouteRule, owner: str = LOCAL.owner) -> str:
    """An address that the rule is for, of things that are there; fleets are of no cases, which costs no time."""
    if rule.path.startswith("/fleet"):
        return rule.path
    case, other = whole.completed(BEFORE, owner=owner), whole.completed(AFTER, owner=owner)
    parts = {
        "/api/v1/jobs": whole.uploaded(b"waits", "w.txt", owner).job, "/jobs": whole.uploaded(b"waits", "w", owner).job,
        "/files": whole.storage.uploads.begin("b.tar", 100, owner), "/rules": rules()[0].id,
        "/uploads": whole.storage.uploads.begin("b.tar", 100, owner), "/sessions": session(whole),
    }  # fmt: skip
    key = next((key for start, key in parts.items() if rule.path.startswith(start)), case)
    address = rule.path.replace("{id}", key).replace("{report}", "report.txt").replace("{format}", "json")
    address = address.replace(
        "{name}", static_address("style.css").rpartition("/")[2] if "static" in rule.path else "b.txt"
    )
    thread = whole.storage.cases.find(case).thread  # type: ignore[union-attr]
    if "{secret}" in address:
        address = address.replace("{secret}", whole.storage.links.add(thread, "upload", 60.0, "ci")[0])
    if "{note}" in address:
        address = address.replace("{note}", whole.storage.work.add_note(thread, "ci", owner, "a note"))
    if "{key}" in address:
        whole.storage.links.add(thread, "read", 60.0, "ci")
        address = address.replace("{key}", whole.storage.links.list_active(thread)[0].key)
    address = address.replace("{place}", "0")
    if "{prefix}" in address:
        address = address.replace("{prefix}", whole.secret("read").split("_")[1])
    compared = "/compare" in rule.path or "/comparison" in rule.path
    query = f"before={case}&after={other}" if "api" in rule.path else f"with={other}"
    return f"{address}?{query}" if compared else address


def session(whole: Whole) -> str:
    """The id of a session of a user."""
    key, now = new_id(), whole.server.clock()
    whole.storage.logins.add(LoginRow(key, "0" * 32, "Anna", frozenset(("read",)), now, now + 60.0))
    return key


def nowhere(rule: RouteRule) -> str:
    """An address that the rule is for, of what is not there: it is refused before anybody looks."""
    return re.sub(r"\{\w+\}", "0" * 32, rule.path)


def asked(whole: Whole, rule: RouteRule, address: str, *headers: Header, peer: str = "127.0.0.1") -> int:
    """The status of an answer to a request that is in order but for who sends it."""
    form = () if not rule.path.startswith("/files") else TUS
    length = (("upload-length", "5"),) if rule.path == "/files" else ()
    instead = (("x-http-method-override", "PATCH"),) if (rule.method, rule.path) == ("POST", "/files/{id}") else ()
    return whole.ask(rule.method, address, *form, *length, *instead, *headers, peer=peer).status


def test_each_route_is_for_whom_the_table_says(whole: Whole) -> None:
    """Nobody is asked for a token, a wrong scope is refused and written down, and a right one gets to the route."""
    for rule in RULES:
        for who, names in WHO.items():
            secret = whole.secret(*names) if names else ""
            header = (("authorization", f"Bearer {secret}"),) if secret else ()
            owner = f"token:{secret.split('_')[1]}" if secret else "token:0"
            let_in = not rule.scopes or {"admin", *rule.scopes} & set(names)
            address = target(whole, rule, owner) if let_in else nowhere(rule)
            status = asked(whole, rule, address, *header)
            check_status(whole, rule, names, status, f"{named(rule)} by {who}")


def check_status(whole: Whole, rule: RouteRule, names: tuple[str, ...], status: int, about: str) -> None:
    if not rule.scopes:
        assert status not in (401, 403, 404), about
    elif not names:
        assert status == 401, about
    elif {"admin", *rule.scopes} & set(names):
        assert status not in (401, 403, 405, 421), about
        nothing = (rule.path.startswith("/fleet") and status == 503) or rule.path.endswith("/lines")
        assert nothing or status not in (404, 500, 503), about
    else:
        assert status == 403, about
        assert whole.audited()[0][:2] == ("request", "refused"), about


def test_no_route_is_open_to_a_page_of_another_site(whole: Whole) -> None:
    """With the cookie of an admin and the token of our own page: no form, no script, no frame of theirs."""
    cookie, csrf = whole.signed_in("admin")
    for rule in CLOSED:
        address = nowhere(rule)

        assert asked(whole, rule, address, cookie, csrf, *FRAME) == 403, named(rule)
        assert asked(whole, rule, address, cookie, csrf, ("sec-fetch-site", "same-site")) == 403, named(rule)
        assert asked(whole, rule, address, cookie, csrf, ("host", "evil.example")) == 421, named(rule)
        if rule in CHANGES:
            assert asked(whole, rule, address, cookie, csrf, ("origin", "https://evil.example")) == 403, named(rule)


def test_no_change_is_made_without_the_token_of_a_page_of_the_same_session(whole: Whole) -> None:
    """None, that of another session of an admin: both refused before anything happens. HEAD changes nothing."""
    cookie, _ = whole.signed_in("admin")
    _, of_another = whole.signed_in("admin")
    for rule in CHANGES:
        address = nowhere(rule)

        assert asked(whole, rule, address, cookie, SAME) == 403, named(rule)
        assert asked(whole, rule, address, cookie, SAME, of_another) == 403, named(rule)


def test_without_login_another_name_opens_nothing(tmp_path: Path) -> None:
    """A name that its owner lets lead to loopback is not ours, nor is a server behind a proxy without login."""
    with served(tmp_path) as whole:
        for rule in CLOSED:
            address = nowhere(rule)
            assert asked(whole, rule, address, ("host", "evil.example:8765")) == 421, named(rule)
            assert asked(whole, rule, address, ("x-forwarded-for", "203.0.113.9")) == 403, named(rule)
            assert asked(whole, rule, address, *FRAME) == 403, named(rule)


def test_the_header_of_a_proxy_counts_from_the_proxy_only(tmp_path: Path) -> None:
    """From elsewhere it is refused, and so are two of it; without it nobody is known."""
    elsewhere = "203.0.113.9"
    with served(tmp_path, Mode.PROXY) as whole:
        root, anna = whole.proxied("root"), whole.proxied("anna")
        for rule in CLOSED:
            address = nowhere(rule)
            assert asked(whole, rule, address, root, SAME, peer=elsewhere) == 403, named(rule)
            assert asked(whole, rule, address, root, SAME, ("x-forwarded-for", PROXY), peer=elsewhere) == 403
            assert asked(whole, rule, address, root, anna, SAME, peer=PROXY) == 403, named(rule)
            assert asked(whole, rule, address, SAME, peer=PROXY) == 401, named(rule)


def test_what_another_customer_sent_does_not_exist(whole: Whole) -> None:
    """By job, page, events, upload: the same answer as for what was never there."""
    mine, other = whole.secret("upload"), whole.token("upload")
    owner = f"token:{mine.split('_')[1]}"
    job, key = whole.uploaded(b"mine", "mine.txt", owner).job, whole.storage.uploads.begin("m.tar", 9, owner)
    places = [("GET", "/jobs/{}", job), ("GET", "/api/v1/jobs/{}", job), ("GET", "/api/v1/jobs/{}/events", job),
              ("HEAD", "/files/{}", key), ("PATCH", "/files/{}", key), ("DELETE", "/files/{}", key)]  # fmt: skip

    for method, place, known in places:
        foreign, absent = (whole.ask(method, place.format(one), other, *TUS) for one in (known, "0" * 32))
        assert foreign.status in (404, 410), (method, place)
        assert (foreign.status, foreign.body) == (absent.status, absent.body)
    assert whole.storage.uploads.find(key) is not None


@pytest.mark.parametrize("ended", [False, True], ids=["while it waits", "once it has ended"])
def test_who_sends_the_same_content_learns_nothing_of_the_other(ended: bool, whole: Whole) -> None:
    """The verdict is that of the content, which the sender has; the name by which another sent it is not told.

    That the content was known cannot be hidden: its verdict is there at once.
    """
    first, second, reads = whole.token("upload"), whole.token("upload"), whole.token("read")
    content = BEFORE.read_bytes()
    whole.ask("PUT", f"/api/v1/bundles/{WORD}.json", first, body=content)
    if ended:
        whole.done(whole.claimed(), nameless())
    answer = whole.ask("PUT", "/api/v1/bundles/b.json", second, body=content)
    job = answer.told["job"]
    told = [answer, *(whole.ask("GET", f"{place}/{job}", second) for place in ("/jobs", "/api/v1/jobs"))]
    bodies = [one.body for one in told]
    if ended:
        bodies.append(whole.ask("GET", f"/api/v1/jobs/{job}/events", second).body)
        with whole.listening() as url:
            bodies += [waited(url, content, second, kind) for kind in ("application/json", "text/plain")]
            assert b"exit" in bodies[-2]

    assert {one.status for one in told} == {200, 201}
    assert [body for body in bodies if WORD.encode() in body] == []
    assert b"b.json" in bodies[1]
    if not ended:
        assert WORD.encode() in whole.ask("GET", f"/jobs/{job}", first).body
        assert WORD.encode() in whole.ask("GET", f"/jobs/{job}", reads).body


def waited(url: str, content: bytes, who: Header, accepts: str) -> bytes:
    """What somebody is told who sends a bundle and waits for its verdict."""
    connection = HTTPConnection(url.removeprefix("http://"), timeout=LONG)
    with closing(connection):
        connection.request("PUT", "/api/v1/bundles/b.json?wait=1", content, {**dict([who]), "accept": accepts})
        answer = connection.getresponse()
        assert answer.status == 201
        return answer.read()


def nameless() -> dict[str, Any]:
    """A result whose host has no name: pages name it by its bundle then."""
    found: dict[str, Any] = json.loads(BEFORE.read_bytes())
    return {**found, "case": "", "host": {**found["host"], "name": None}}


def test_what_is_done_to_data_is_written_down(whole: Whole) -> None:
    """Uploads, whatever leaves the server, deletion, keeping, tokens: each once, with the id of what it was."""
    admin, key, other = whole.token("admin"), whole.completed(BEFORE), whole.completed(AFTER)
    sha256, prefix = whole.storage.cases.find(key).sha256, whole.secret("read").split("_")[1]  # type: ignore[union-attr]
    form = ("content-type", "application/x-www-form-urlencoded")
    done: list[tuple[str, str, str, list[str]]] = [
        ("PUT", "/api/v1/bundles/b.json", "upload", [sha256]),
        *(("GET", f"/api/v1/cases/{key}/{file}", "download", [key]) for _, file in DOWNLOADS),
        ("GET", f"/cases/{key}/page", "download", [key]),
        ("GET", f"/api/v1/compare/json?before={key}&after={other}", "download", [other, key]),
        ("GET", f"/cases/{key}/comparison?with={other}", "download", [other, key]),
        ("PUT", f"/api/v1/cases/{key}/kept", "keep", [key]), ("DELETE", f"/api/v1/cases/{key}/kept", "release", [key]),
        ("POST", f"/cases/{key}/keep", "keep", [key]), ("POST", f"/cases/{key}/release", "release", [key]),
        ("POST", f"/tokens/{prefix}/revoke", "revoke-token", [prefix]),
        ("POST", f"/cases/{key}/delete?sure=yes", "delete", [key]),
        ("DELETE", f"/api/v1/cases/{other}", "delete", [other]),
    ]  # fmt: skip

    for method, address, action, subjects in done:
        before = len(whole.audited())
        body = BEFORE.read_bytes() if action == "upload" else b""
        answer = whole.ask(method, address, admin, body=body)
        assert answer.status < 400, address
        new = whole.audited()[: len(whole.audited()) - before]
        assert sorted(new) == sorted((action, "done", subject) for subject in subjects), address
    made = whole.ask("POST", "/tokens", admin, form, body=b"name=n&scope=read&days=1")
    assert made.status == 200
    assert whole.audited()[0][:2] == ("create-token", "done")


def test_the_data_are_their_owners_alone(tmp_path: Path) -> None:
    """In a folder that others can look into, whatever the server's umask is: nobody else reads a file that tells."""
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    running = Running(folder)
    before = os.umask(0o022)
    try:
        with running.serving():
            running.sent(SAID, f"{WORD}.txt")
            open_to_others = [
                file.relative_to(folder).as_posix() for file in folder.rglob("*")
                if stat.S_IMODE(file.stat().st_mode) & 0o077 and not {"work", "fleet"} & set(file.parts)
            ]  # fmt: skip
    finally:
        os.umask(before)

    assert set(open_to_others) <= {"ballast", "folder", "lock"}


def test_lines_of_bundles_do_not_take_the_threads_of_all_pages(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for lines while many others wait for theirs is told so at once, and what was taken is given back."""
    reads, key = whole.token("read"), whole.completed(STORM)
    address = f"/cases/{key}/lines?member=session.txt&line=30"
    monkeypatch.setattr(lines, "WAIT_SECONDS", LONG)
    for _ in range(lines.MAX_WAITING):
        lines._WAITING.acquire()
    try:
        assert whole.ask("GET", address, reads).status == 503
    finally:
        for _ in range(lines.MAX_WAITING):
            lines._WAITING.release()

    assert [whole.ask("GET", address, reads).status for _ in range(lines.MAX_WAITING + 1)] == [200] * (
        lines.MAX_WAITING + 1
    )
    assert whole.audited()[0] == ("download", "done", key)


def test_processes_that_read_bundles_have_no_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What begins under the server has no password of a database in its environment or its command."""
    monkeypatch.setenv("PGPASSWORD", WORD)
    running = Running(tmp_path / "data")
    with running.serving():
        running.ended(running.sent(SAID, "b.txt"))
        assert running.process
        below = [pid for pid in running_processes() if parent_of(pid) == running.process.pid]
        told = [Path(f"/proc/{pid}/{file}").read_bytes() for pid in below for file in ("environ", "cmdline")]

    assert told
    assert [one for one in told if WORD.encode() in one] == []


def test_the_password_still_opens_the_database() -> None:
    """It is taken as libpq would take it: behind one that stands in the address."""
    settings = Settings(data=Path("d"), database="postgresql://anna@db/thpdiag")
    given = Settings(data=Path("d"), database="postgresql://anna:other@db/thpdiag")
    environment = {"PGPASSWORD": "p/w@1", "HOME": "/"}

    told = add_database_password(settings, environment).database
    assert database.parse_database_url(told or "").password == "p/w@1"
    assert environment == {"HOME": "/"}
    assert (
        database.parse_database_url(add_database_password(given, {"PGPASSWORD": "p"}).database or "").password
        == "other"
    )
    assert add_database_password(settings, {}) == settings


def test_deleted_is_gone_from_the_whole_server(tmp_path: Path) -> None:
    """Content, file name, result, uploads, jobs, the fleet and its list: no byte in the folder tells the word."""
    running = Running(tmp_path / "data")
    with running.serving():
        told = running.ended(running.sent(SAID, f"{WORD}.txt"))
        case = told["case"]
        for address in ("/fleet", "/fleet/fleet.csv", f"/cases/{case}/page", f"/api/v1/cases/{case}/report.json"):
            assert running.asked("GET", address)[0] == 200, address
        assert {"hosts.jsonl", "fleet.csv"} < set(holding(tmp_path / "data"))
        packed = packed_result(tmp_path / "data" / "serve.sqlite")
        assert any(packed in file.read_bytes() for file in (tmp_path / "data").glob("serve.sqlite*"))
        assert running.asked("DELETE", f"/api/v1/cases/{case}")[0] == 204

        assert holding(tmp_path / "data") == []
        assert not any(packed in file.read_bytes() for file in (tmp_path / "data").glob("serve.sqlite*"))
        gone = (f"/cases/{case}", f"/cases/{case}/page", f"/api/v1/jobs/{told['id']}", f"/jobs/{told['id']}")
        assert {running.asked("GET", address)[0] for address in gone} == {404}
        assert WORD.encode() not in b"".join(running.asked("GET", one)[1] for one in ("/", "/cases", "/fleet"))
    assert holding(tmp_path / "data") == []


def packed_result(database: Path) -> bytes:
    """The beginning of the only stored result, which is packed: as much as surely lies on one page."""
    with closing(sqlite3.connect(database)) as connection:
        (row,) = connection.execute("SELECT * FROM document").fetchall()
    return next(bytes(cell[:200]) for cell in row if isinstance(cell, bytes))


def holding(folder: Path) -> list[str]:
    """Files whose name or bytes have the word."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [file.name for file in files if WORD in str(file.relative_to(folder)) or WORD.encode() in file.read_bytes()]
