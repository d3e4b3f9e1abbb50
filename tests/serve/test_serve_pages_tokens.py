"""The page of API tokens, asked in memory: made, seen once, listed, revoked, written down; by admins only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from serve_application import Header, Whole, served
from serve_requests import ORIGIN, Answer, bearer
from thpdiag.serve.access.principals import Mode

FORM: Header = ("content-type", "application/x-www-form-urlencoded")
OURS: tuple[Header, ...] = (("origin", ORIGIN), ("sec-fetch-site", "same-origin"))
SECRET = re.compile(r"thpdiag_([0-9a-f]{16})_[0-9a-f]{64}")
DAY = 86_400.0
HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}"


@pytest.fixture
def whole(tmp_path: Path, database: str | None) -> Iterator[Whole]:
    with served(tmp_path, Mode.TOKENS, database) as made:
        yield made


def form(whole: Whole, *headers: Header, **fields: str | list[str]) -> Answer:
    """The form of a new token as a browser sends it; by an admin unless others are named."""
    given = headers or whole.signed_in("admin")
    body = urlencode({"name": "ci", "scope": ["upload"], "days": "30", **fields}, doseq=True).encode()
    return whole.ask("POST", "/tokens", FORM, *OURS, *given, body=body)


def test_a_new_token_is_seen_once_and_opens(whole: Whole) -> None:
    """In the answer to its form, which no cache keeps; the list after it has the prefix alone."""
    admin = whole.signed_in("admin")
    made = form(whole, *admin, scope=["upload", "read"])
    found = SECRET.search(made.body.decode())
    assert found
    listed = whole.ask("GET", "/tokens", *admin)

    assert (made.status, made.headers["cache-control"], "location" in made.headers) == (200, "no-store", False)
    assert SECRET.search(listed.body.decode()) is None
    assert f"thpdiag_{found[1]}" in listed.body.decode()
    kept = whole.storage.tokens.find(found[1])
    assert kept
    assert (kept.label, set(kept.scopes), kept.expires) == ("ci", {"upload", "read"}, whole.hands.now + 30 * DAY)
    assert whole.ask("GET", "/cases", bearer(found[0])).status == 200
    assert whole.audited()[0] == ("create-token", "done", found[1])
    assert all(found[0] not in str(entry) for entry in whole.audited())


def test_a_token_without_days_lasts_until_it_is_revoked(whole: Whole) -> None:
    """None of its own accord, whatever the time."""
    found = SECRET.search(form(whole, days="").body.decode())

    assert found
    kept = whole.storage.tokens.find(found[1])
    assert kept
    assert kept.expires is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": " "}, "needs a printable name"),
        ({"name": "a\x1bb"}, "needs a printable name"),
        ({"name": "a" * 101}, "100 characters"),
        ({"scope": []}, "needs a scope"),
        ({"scope": ["root"]}, "no such scope: root"),
        ({"scope": ["admin", "\x00"]}, "no such scope"),
        ({"days": "0"}, "1 to 3,650 days"),
        ({"days": "-1"}, "a number of days"),
        ({"days": "9" * 400}, "a number of days"),
        ({"days": "1e3"}, "a number of days"),
        ({"days": "٣"}, "a number of days"),
        ({"days": "3651"}, "1 to 3,650 days"),
    ],
)
def test_what_is_wrong_with_a_form_is_said_and_makes_nothing(
    tmp_path: Path, fields: dict[str, str | list[str]], words: str
) -> None:
    """What was filled in stands in it again."""
    with served(tmp_path, Mode.TOKENS) as whole:
        admin = whole.signed_in("admin")
        answer = form(whole, *admin, **{"name": "kept as typed", "scope": ["read"], "days": "7", **fields})
        page = answer.body.decode()

        assert answer.status == 400
        assert words in page.lower()
        assert "name" in fields or 'value="kept as typed"' in page
        assert SECRET.search(page) is None
        assert len(whole.storage.tokens.all()) == 1


def test_a_token_that_is_revoked_opens_nothing(whole: Whole) -> None:
    """From the next request on, nor does a session that it began; a second time there is none."""
    admin = whole.signed_in("admin")
    session, _ = whole.signed_in("read")
    secret = whole.secret("read", label="gone")
    prefixes = {token.label: token.prefix for token in whole.storage.tokens.all()}
    began = next(t.prefix for t in whole.storage.tokens.all() if t.scopes == {"read"} and t.label != "gone")

    for prefix in (prefixes["gone"], began):
        done = whole.ask("POST", f"/tokens/{prefix}/revoke", *admin, *OURS)
        assert (done.status, done.headers["location"]) == (303, "/tokens")
        assert whole.audited()[0] == ("revoke-token", "done", prefix)
    assert whole.ask("GET", "/cases", bearer(secret)).status == 401
    assert whole.ask("GET", "/cases", session).status == 401
    assert whole.ask("POST", f"/tokens/{began}/revoke", *admin, *OURS).status == 404
    assert len(whole.storage.tokens.all()) == 1


@pytest.mark.parametrize("prefix", ["0" * 15, "g" * 16, "A" * 16, "%00", "..%2f", "0" * 16])
def test_only_a_prefix_names_a_token(tmp_path: Path, prefix: str) -> None:
    """Anything else is not there, or is refused by its form."""
    with served(tmp_path, Mode.TOKENS) as whole:
        answer = whole.ask("POST", f"/tokens/{prefix}/revoke", *whole.signed_in("admin"), *OURS)

        assert answer.status in (400, 404)
        assert whole.audited() == []


def test_tokens_are_for_admins_and_for_pages_of_ours(whole: Whole) -> None:
    """Another scope, no token against CSRF, another site: refused, and nothing is made or ended."""
    reader, admin = whole.signed_in("read", "upload"), whole.signed_in("admin")
    before = [token.prefix for token in whole.storage.tokens.all()]
    prefix = before[0]

    assert whole.ask("GET", "/tokens", reader[0]).status == 403
    assert whole.ask("GET", "/tokens").status == 401
    assert form(whole, *reader).status == 403
    assert form(whole, admin[0]).status == 403
    assert whole.ask("POST", f"/tokens/{prefix}/revoke", *reader, *OURS).status == 403
    assert whole.ask("POST", f"/tokens/{prefix}/revoke", admin[0], *OURS).status == 403
    assert whole.ask("POST", f"/tokens/{prefix}/revoke", *admin, ("origin", "https://evil.example")).status == 403
    assert [token.prefix for token in whole.storage.tokens.all()] == before


def test_the_list_tells_what_there_is_of_each(whole: Whole) -> None:
    """Names of strangers as text, times in UTC, what has expired, what was used."""
    admin = whole.signed_in("admin")
    whole.secret("read", label=HOSTILE, expires=whole.hands.now + 60)
    used = whole.secret("read", label="used")
    assert whole.ask("GET", "/cases", bearer(used)).status == 200
    whole.hands.now += 61
    page = whole.ask("GET", "/tokens", *admin).body.decode()

    assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&amp;{{7*7}}" in page
    assert "<script>alert" not in page
    assert page.count('<span class="badge medium">expired</span>') == 1
    assert page.count("not yet") == 1  # the session's own and the used one were
    assert "2027-01-15 08:00 UTC" in page
    assert page.count('<span class="badge">yours</span>') == 1


def test_without_login_no_token_is_made(tmp_path: Path) -> None:
    """It would open this server to whoever made it, on the day on which it gets a login."""
    with served(tmp_path, Mode.NONE) as whole:
        page = whole.ask("GET", "/tokens").body.decode()
        body = urlencode({"name": "later", "scope": "admin", "days": ""}).encode()
        answer = whole.ask("POST", "/tokens", FORM, body=body)

        assert "runs without login" in page
        assert 'name="scope"' not in page
        assert answer.status == 409
        assert whole.storage.tokens.all() == []
