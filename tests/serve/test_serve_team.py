"""What a team does with a case: notes, state, ticket, links, files, and analyses by today's rules."""

from __future__ import annotations

import io
import json
import tarfile
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from serve_application import AFTER, BEFORE, Header, Whole, served
from serve_storage_fixtures import ANALYSIS, OTHER, cased, done
from small_results import document
from thpdiag.serve.access.principals import Mode
from thpdiag.serve.pages.work import is_web_address, render_note, what_changed
from thpdiag.serve.routes import application
from thpdiag.serve.storage.cases import CaseFilter
from thpdiag.serve.storage.database import DAY
from thpdiag.serve.storage.storage import Storage
from thpdiag.serve.storage.uploads import FilesGoneError

FORM = ("content-type", "application/x-www-form-urlencoded")


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Whole]:
    with served(tmp_path, Mode.TOKENS) as made:
        yield made


def post(whole: Whole, path: str, who: tuple[Header, Header], **fields: str):  # type: ignore[no-untyped-def]
    return whole.ask("POST", path, *who, FORM, body=urlencode(fields).encode())


def page(whole: Whole, key: str, who: Header) -> str:
    return whole.ask("GET", f"/cases/{key}", who).body.decode()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**bold** `code`", "<p><strong>bold</strong> <code>code</code></p>"),
        ("<script>alert(1)</script>", "&lt;script&gt;"),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ("[x](data:text/html,x)", "[x](data:text/html,x)"),
        ("[x](/cases)", '<a href="#" rel="noopener noreferrer nofollow">x</a>'),
        ("[x](//evil.example)", '<a href="#"'),
        ("<https://example.org>", '<a href="https://example.org" rel="noopener noreferrer nofollow">'),
        ("![x](https://evil.example/x.png)", "!<a href"),
        ('<img src=x onerror="x">', "&lt;img"),
        ("# Big", "<h4>Big</h4>"),
        ("a\u202eb", "a\\u202eb"),
        ("[x]: javascript:x\n\n[x]", "javascript"),
    ],
)
def test_a_note_is_markdown_and_nothing_else(text: str, shown: str) -> None:
    """No HTML, no image, no link but to the web and to mail."""
    html = render_note(text)
    assert shown in html
    for forbidden in ("<script", "<img", 'href="javascript', 'href="data', 'href="/', "\u202e"):
        assert forbidden not in html


def test_notes_say_who_and_when(whole: Whole) -> None:
    """Everybody who reads cases reads them; only who works on cases writes, and deletes the own ones."""
    key = whole.completed(BEFORE)
    anna, bert, boss = (whole.signed_in(scope) for scope in ("work", "work", "admin"))
    reads = whole.token("read")
    assert post(whole, f"/cases/{key}/notes", anna, text="*checked* <b>").status == 303
    shown = page(whole, key, reads)
    note = whole.storage.work.notes(1)[0]

    assert "<em>checked</em> &lt;b&gt;" in shown
    assert "2027-01-15 08:00 UTC" in shown
    assert "<form method" not in shown.partition('id="notes"')[2].partition("</section>")[0]
    assert whole.ask("POST", f"/cases/{key}/notes", reads, FORM, body=b"text=x").status == 403
    assert post(whole, f"/cases/{key}/notes/{note.id}/delete", bert).status == 404
    assert post(whole, f"/cases/{key}/notes/{note.id}/delete", boss).status == 303
    assert whole.storage.work.notes(1) == []
    assert [subject for action, _, subject in whole.audited() if action == "note"] == [key]


@pytest.mark.parametrize("text", ["", "  \n", "x" * 20_001])
def test_a_note_has_words(whole: Whole, text: str) -> None:
    """Not none, and not without end."""
    key = whole.completed(BEFORE)
    assert post(whole, f"/cases/{key}/notes", whole.signed_in("work"), text=text).status == 400
    assert whole.storage.work.notes(1) == []


def test_changes_need_the_token_of_a_page(whole: Whole) -> None:
    """A cookie alone changes nothing, as with the other forms."""
    key = whole.completed(BEFORE)
    cookie, _ = whole.signed_in("work")
    for path in ("notes", "work", "share", "analyse", "letter"):
        assert whole.ask("POST", f"/cases/{key}/{path}", cookie, FORM, body=b"text=x&state=new&days=1").status == 403


def test_state_owner_and_ticket(whole: Whole) -> None:
    """They stay with the case in its next version and are searched for; an answer of the customer ends the waiting."""
    key = whole.completed(BEFORE)
    who = whole.signed_in("work", "upload")
    told = {"state": "waiting", "assignee": "Anna", "ticket": "https://tickets.example.org/THP-7"}
    assert post(whole, f"/cases/{key}/work", who, **told).status == 303
    shown = page(whole, key, who[0])
    assert '<a href="https://tickets.example.org/THP-7" target="_blank" rel="noopener noreferrer">' in shown
    assert "waiting for customer, <bdi>Anna</bdi>" in shown
    listed = whole.ask("GET", "/cases?state=waiting&assignee=Anna", who[0]).body.decode()
    assert f"/cases/{key}" in listed
    assert f"/cases/{key}" not in whole.ask("GET", "/cases?state=new", who[0]).body.decode()

    thread = whole.storage.cases.find(key).thread  # type: ignore[union-attr]
    secret, _ = whole.storage.links.add(thread, "upload", DAY, "anna")
    assert whole.ask("PUT", f"/s/{secret}/more.txt", body=b"more").status == 201
    new = whole.storage.cases.find(whole.done(whole.claimed(), document(2)))
    assert new is not None
    assert (new.state, new.assignee, new.ticket) == ("new", "Anna", told["ticket"])


@pytest.mark.parametrize(
    "ticket",
    ["javascript:alert(1)", "x", "https://", "//x", "https://a b", "ftp://x", "https://x\n", "http://[", "h" * 9],
)
def test_a_ticket_is_an_address_of_the_web(whole: Whole, ticket: str) -> None:
    """Nothing else becomes a link."""
    key = whole.completed(BEFORE)
    sent = {"state": "new", "assignee": "", "ticket": ticket}
    assert is_web_address(ticket.strip()) == (ticket.strip() == "https://x")
    if not is_web_address(ticket.strip()):
        assert post(whole, f"/cases/{key}/work", whole.signed_in("work"), **sent).status == 400


def shared(whole: Whole, key: str, **fields: str) -> str:
    answer = post(whole, f"/cases/{key}/share", whole.signed_in("work"), **{"days": "2", **fields})
    assert answer.status == 200, answer
    return answer.body.decode().partition('aria-label="Address">')[2].partition("/s/")[2].partition("<")[0]


def test_a_link_shows_the_report_until_its_end(whole: Whole) -> None:
    """Without a login, in its own policy; redacted without the customer's names; it can be ended before its time."""
    key = whole.completed(BEFORE)
    plain, redacted, ended = shared(whole, key), shared(whole, key, redact="1"), shared(whole, key)
    report = whole.ask("GET", f"/s/{plain}")
    name = whole.storage.cases.find(key).host or ""  # type: ignore[union-attr]

    assert report.status == 200
    assert report.headers["content-security-policy"].startswith("sandbox allow-scripts;")
    assert report.headers["referrer-policy"] == "no-referrer"
    assert f">{name}<" in report.body.decode()
    assert f">{name}<" not in whole.ask("GET", f"/s/{redacted}").body.decode()
    assert whole.ask("PUT", f"/s/{plain}/x", body=b"x").status == 404
    link = whole.storage.links.find(ended, "read")
    assert link is not None
    who = whole.signed_in("work")
    assert f"{link.key[:8]}" in page(whole, key, who[0])
    assert post(whole, f"/cases/{key}/links/{link.key}/end", who).status == 303
    assert whole.ask("GET", f"/s/{ended}").status == 404
    whole.hands.now += 2 * DAY
    assert whole.ask("GET", f"/s/{plain}").status == 404
    whole.storage.links.prune()
    assert whole.storage.links.list_active(1) == []


@pytest.mark.parametrize("days", ["", "0", "366", "-1", "x", "1e1", "١"])
def test_a_link_has_an_end(whole: Whole, days: str) -> None:
    """Within a year."""
    key = whole.completed(BEFORE)
    assert post(whole, f"/cases/{key}/share", whole.signed_in("work"), days=days).status == 400


def test_files_are_given_to_those_who_work(whole: Whole) -> None:
    """As they were sent, one by one or in an archive; to nobody else, and not shown."""
    keys = []
    for name, data in (("a.txt", b"alpha"), ("b.txt", b"beta" * 200)):
        key = whole.storage.uploads.begin(name, len(data), "local:local")
        whole.storage.uploads.append(key, 0, data)
        keys.append(key)
    whole.storage.accept_together(keys, whole.server.analysis)
    case = whole.done(whole.claimed(), document(1))
    works, reads = whole.token("work"), whole.token("read")

    with whole.listening() as url:
        one, archive = (_saved(f"{url}/cases/{case}/{path}", works) for path in ("files/0", "files.tar"))
    assert one[0] == b"alpha"
    assert one[1]["content-type"] == "application/octet-stream"
    assert 'filename="a.txt"' in one[1]["content-disposition"]
    with tarfile.open(fileobj=io.BytesIO(archive[0])) as tar:
        found = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    assert found == {"a.txt": b"alpha", "b.txt": b"beta" * 200}
    for path in ("files/0", "files.tar"):
        assert whole.ask("GET", f"/cases/{case}/{path}", reads).status == 403
    for place in ("2", "-1", "x", "999999"):
        assert whole.ask("GET", f"/cases/{case}/files/{place}", works).status == 404


def _saved(address: str, who: Header) -> tuple[bytes, Any]:
    with urllib.request.urlopen(urllib.request.Request(address, headers=dict([who])), timeout=30) as answer:
        return answer.read(), answer.headers


def with_analysis(whole: Whole, digest: str) -> Whole:
    """The same server with other rules."""
    server = replace(whole.server, analysis=replace(whole.server.analysis, rules_digest=digest))
    return Whole(server, application(server), whole.hands, whole.woken)


def test_a_case_is_analysed_again_by_other_rules(whole: Whole) -> None:
    """It gets a new version that says what changed; by the same rules there is nothing to do."""
    key = whole.completed(BEFORE)
    assert post(whole, f"/cases/{key}/analyse", whole.signed_in("work")).status == 409
    other = with_analysis(whole, "f" * 64)
    who = other.signed_in("work")
    assert "Analyze again with today&#39;s rules" in page(other, key, who[0]).replace("'", "&#39;")
    assert post(other, f"/cases/{key}/analyse", who).status == 303
    assert whole.woken
    new = other.done(other.claimed(), _read(AFTER))
    shown = page(other, new, who[0])

    assert "the verdict was found, " in shown
    assert "no longer a finding: " in shown
    assert "Open the latest" in page(other, key, who[0])
    assert other.storage.cases.outdated_cases(other.server.analysis) == []


def test_all_cases_are_analysed_again(whole: Whole) -> None:
    """By admins; the page says how many are of other rules, whose files are gone, and what changed."""
    first, second = whole.completed(BEFORE), whole.completed(AFTER)
    whole.uploaded(b"third", "c.txt")
    third = whole.done(whole.claimed(), document(3))
    whole.storage.content.remove(whole.storage.cases.find(third).sha256)  # type: ignore[union-attr]
    other = with_analysis(whole, "e" * 64)
    boss = other.signed_in("admin")
    assert "3 cases were made by another version" in other.ask("GET", "/analyses", boss[0]).body.decode()
    assert post(other, "/analyses", other.signed_in("work")).status == 403
    answer = post(other, "/analyses", boss)
    assert answer.headers["location"] == "/analyses?queued=2&gone=1"
    while (claim := other.storage.jobs.claim()) is not None:
        other.done(claim, _read(AFTER))
    shown = other.ask("GET", "/analyses?queued=2&gone=1", boss[0]).body.decode()

    assert "2 analyses are queued. 1 case cannot be analyzed again" in shown
    assert shown.count('<td role="cell" class="host">') == 1
    assert {case.id for case in other.storage.cases.page(CaseFilter())}.isdisjoint({first, second})


def _read(file: Path):  # type: ignore[no-untyped-def]
    return json.loads(file.read_text(encoding="utf-8"))


def test_what_changed_is_told_for_each_host() -> None:
    """Of results without a form nothing is."""
    assert what_changed(_read(BEFORE), _read(BEFORE)) == []
    assert any("verdict was found" in line for line in what_changed(_read(BEFORE), _read(AFTER)))
    assert what_changed({"cases": 1}, {}) == []


def test_work_is_stored_and_removed_with_its_case(storage: Storage) -> None:
    """On both databases; with the last version of a case go its notes, state and links."""
    key = cased(storage, 1)
    storage.work.set(1, "solved", "anna", "https://x")
    storage.work.set(1, "waiting", "bert", "https://x")
    storage.work.add_note(1, "anna", "token:1", "text")
    secret, _ = storage.links.add(1, "read", DAY, "anna")
    found = storage.cases.find(key)
    assert found is not None
    assert (found.state, found.assignee) == ("waiting", "bert")
    assert [case.id for case in storage.cases.page(CaseFilter(state="waiting", assignee="bert"))] == [key]
    assert storage.cases.page(CaseFilter(state="new")) == []
    assert storage.links.find(secret, "read") is not None

    assert storage.removal.delete_case(key)
    assert (storage.work.notes(1), storage.work.assignees(), storage.links.find(secret, "read")) == ([], [], None)


def test_another_analysis_is_a_version_of_the_case(storage: Storage) -> None:
    """On both databases; whether the verdict changed is found among all cases."""
    key = cased(storage, 1)
    assert storage.analyse_again(key, ANALYSIS, "ci") is None
    assert storage.cases.outdated_cases(OTHER) == [key]
    assert storage.analyse_again(key, OTHER, "ci") is not None
    claim = storage.jobs.claim()
    assert claim is not None
    new = done(storage, claim, document(2), OTHER)
    pairs = storage.cases.changed_cases(OTHER, 10)
    assert [(a.id, b.id) for a, b in pairs] in ([(key, new)], [])
    assert storage.cases.outdated_cases(OTHER) == []
    storage.content.remove(claim.job.sha256)
    with pytest.raises(FilesGoneError):
        storage.analyse_again(new, ANALYSIS, "ci")


def test_work_includes_reading_and_nothing_more(whole: Whole) -> None:
    """Neither uploading nor what admins do."""
    key, works = whole.completed(BEFORE), whole.token("work")
    assert [whole.ask("GET", path, works).status for path in ("/cases", f"/cases/{key}", "/metrics")] == [200] * 3
    assert whole.ask("PUT", "/api/v1/bundles/x", works, body=b"x").status == 403
    assert whole.ask("DELETE", f"/api/v1/cases/{key}", works).status == 403
    assert whole.ask("GET", "/tokens", works).status == 403
