"""Sign-in with OpenID Connect: what an ID token must have, what a session may do, and that nothing leaks."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

import pytest
from joserfc.jwk import RSAKey

from oidc_provider import CLIENT, CLIENT_SECRET, Provider, provider
from serve_application import BEFORE, Header, Whole, served
from serve_requests import KEY, Answer
from serve_storage_fixtures import Hands
from thpdiag.errors import UsageError
from thpdiag.serve.access import credentials
from thpdiag.serve.access.audit import mask_secrets
from thpdiag.serve.access.oidc import OidcClient, OidcSettings, SignInError, check_oidc, parse_roles
from thpdiag.serve.access.principals import Mode, Scope
from thpdiag.serve.routes import application

BACK = "https://thpdiag.example.org/sign-in/callback"
ROLES = {"support": frozenset((Scope.UPLOAD, Scope.WORK))}


@pytest.fixture
def given() -> Iterator[Provider]:
    with provider() as made:
        yield made


def settings(given: Provider, **other: object) -> OidcSettings:
    return replace(OidcSettings(given.issuer, CLIENT, CLIENT_SECRET, roles=ROLES), **other)  # type: ignore[arg-type]


@pytest.fixture
def whole(tmp_path: Path, given: Provider) -> Iterator[Whole]:
    """A server in mode oidc, whose clock is that of the provider."""
    with served(tmp_path, Mode.OIDC, hands=Hands(time.time())) as made:
        yield with_provider(made, settings(given))


def with_provider(whole: Whole, chosen: OidcSettings) -> Whole:
    bearer = replace(whole.server.bearer, logins=whole.storage.logins)
    server = replace(whole.server, oidc=OidcClient(chosen, whole.hands), bearer=bearer)
    return Whole(server, application(server), whole.hands)


class _Stay(HTTPRedirectHandler):
    def http_error_302(self, req, fp, code, msg, headers):  # type: ignore[no-untyped-def]
        return fp


def visited(address: str) -> str:
    """Where the provider sends a browser back to."""
    with build_opener(_Stay).open(address, timeout=30) as answer:
        return str(answer.headers["location"])


def begun(whole: Whole, to: str = "/cases") -> tuple[str, Header]:
    """The path of the answer that the provider gives, and the cookie of the browser."""
    answer = whole.ask("GET", f"/sign-in/begin?to={to}")
    assert answer.status == 303, answer
    back = urlsplit(visited(answer.headers["location"]))
    assert f"{back.scheme}://{back.netloc}{back.path}" == BACK
    return f"{back.path}?{back.query}", ("cookie", answer.headers["set-cookie"].partition(";")[0])


def cookie_of(answer: Answer) -> Header:
    """The cookie of the session that an answer begins."""
    values = [value for value in answer.headers.getlist("set-cookie") if "-flow=" not in value]
    return "cookie", values[0].partition(";")[0]


def signed_in(whole: Whole) -> Header:
    path, flow = begun(whole)
    answer = whole.ask("GET", path, flow, ("sec-fetch-site", "cross-site"))
    assert answer.status == 200, answer
    return cookie_of(answer)


def test_somebody_signs_in_and_out(whole: Whole) -> None:
    """Back from the provider a session begins, in which the user may do what the group may; signing out ends it."""
    key = whole.completed(BEFORE)
    path, flow = begun(whole, f"/cases/{key}")
    answer = whole.ask("GET", path, flow, ("sec-fetch-site", "cross-site"))
    cookie = cookie_of(answer)

    assert answer.headers["refresh"] == f"0;url=/cases/{key}"
    for text in answer.headers.getlist("set-cookie"):
        assert "; HttpOnly; SameSite=" in text
        assert text.endswith("; Secure")
    page = whole.ask("GET", f"/cases/{key}", cookie)
    assert page.status == 200
    assert "Anna</span>" in page.body.decode()
    assert 'id="note"' in page.body.decode()
    assert whole.ask("GET", "/tokens", cookie).status == 403
    csrf = page.body.decode().partition("/sign-out?csrf=")[2].partition('"')[0]
    out = whole.ask("POST", f"/sign-out?csrf={csrf}", cookie)
    assert out.headers["location"] == "/sign-in?ended"
    assert "/logout" in whole.ask("GET", "/sign-in?ended").body.decode()
    assert whole.ask("GET", f"/cases/{key}", cookie).status == 401
    done = [action for action, outcome, _ in whole.audited() if outcome == "done"]
    assert done == ["sign-out", "sign-in"]


def test_an_admin_ends_the_session_of_somebody(whole: Whole) -> None:
    """It is listed with what the user may do; once ended, the user has to sign in again. It is in the audit log."""
    cookie, admin = signed_in(whole), whole.token("admin")
    page = whole.ask("GET", "/tokens", admin).body.decode()
    address = page.partition('action="/sessions/')[2].partition('"')[0]
    key = address.partition("/")[0]

    assert "<bdi>Anna</bdi>" in page
    assert "upload, work" in page.partition('id="sessions"')[2]
    assert whole.ask("POST", f"/sessions/{key}/end", cookie).status == 403
    assert whole.ask("GET", "/cases", cookie).status == 200
    assert whole.ask("POST", f"/sessions/{key}/end", admin).headers["location"] == "/tokens#sessions"
    assert whole.ask("GET", "/cases", cookie).status == 401
    assert whole.ask("POST", f"/sessions/{key}/end", admin).status == 404
    assert "There are no sessions." in whole.ask("GET", "/tokens", admin).body.decode()
    assert ("end-session", "done", key) in whole.audited()


def test_who_comes_without_a_session_is_led_to_the_provider(whole: Whole) -> None:
    """A browser gets the page with the button; a program with a token comes in as before."""
    page = whole.ask("GET", "/cases", ("accept", "text/html"))
    assert page.headers["location"] == "/sign-in?to=/cases"
    assert '<a class="button" href="/sign-in/begin?to=/cases">' in whole.ask("GET", "/sign-in?to=/cases").body.decode()
    assert whole.ask("GET", "/api/v1/cases", whole.token("read")).status == 200
    assert whole.ask("POST", "/sign-in", body=b"token=x").status == 409


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"}, {"iss": None}, {"aud": "other"}, {"aud": None}, {"aud": [CLIENT, "other"]},
        {"azp": "other"}, {"exp": 1}, {"exp": None}, {"iat": 4_000_000_000}, {"iat": None}, {"nonce": "other"},
        {"nonce": None}, {"sub": None}, {"nbf": 4_000_000_000},
    ],
)  # fmt: skip
def test_an_id_token_that_does_not_count(whole: Whole, given: Provider, claims: dict[str, object]) -> None:
    """Of another issuer or client, expired, not yet valid, of another sign-in, of nobody: no session begins."""
    given.claims = claims
    path, flow = begun(whole)
    answer = whole.ask("GET", path, flow)

    assert answer.status == 401
    assert all("-flow=" in value for value in answer.headers.getlist("set-cookie"))
    assert ("sign-in", "refused") in [one[:2] for one in whole.audited()]


@pytest.mark.parametrize("algorithm", ["none", "HS256", "other key", "other alg"])
def test_a_signature_that_does_not_count(whole: Whole, given: Provider, algorithm: str) -> None:
    """None, one by the secret that both know, one by another key."""
    if algorithm in ("none", "HS256"):
        given.algorithm = algorithm
    else:
        given.published = [RSAKey.generate_key(2048, {"kid": "1", "use": "sig"})]
    path, flow = begun(whole)
    assert whole.ask("GET", path, flow).status == 401


def test_keys_are_read_again_when_the_provider_changes_them(whole: Whole, given: Provider) -> None:
    """Not for each wrong token, though: nobody has this server ask the provider all the time."""
    signed_in(whole)
    given.key = RSAKey.generate_key(2048, {"kid": "1", "use": "sig"})
    path, flow = begun(whole)
    assert whole.ask("GET", path, flow).status == 401
    assert given.asked.count("/keys") == 1
    whole.hands.now += 61
    assert signed_in(whole)
    assert given.asked.count("/keys") == 2


def test_an_answer_belongs_to_the_browser_that_asked(whole: Whole) -> None:
    """Without its cookie, with another's, with a changed state, too late, or a second time it is refused."""
    path, flow = begun(whole)
    other_path, other = begun(whole)
    state = parse_qs(urlsplit(path).query)["state"][0]
    for asked, headers in (
        (path, ()), (path, (other,)), (path.replace(state, "x" * 43), (flow,)), (path + "&state=x", (flow,)),
        ("/sign-in/callback", (flow,)), ("/sign-in/callback?error=access_denied&state=" + state, (flow,)),
        (path, (("cookie", flow[1][:-3] + "abc"),)), (other_path, (flow,)),
    ):  # fmt: skip
        assert whole.ask("GET", asked, *headers).status == 401
    assert whole.ask("GET", path, flow).status == 200
    assert whole.ask("GET", path, flow).status == 401
    late, cookie = begun(whole)
    whole.hands.now += 601
    assert whole.ask("GET", late, cookie).status == 401


def test_roles_are_those_of_the_groups(whole: Whole, given: Provider) -> None:
    """Nobody gets in without one; admins are named by sub or by an address that the provider has verified."""
    given.user = {"sub": "u2", "email": "bert@example.org", "groups": ["others"]}
    path, flow = begun(whole)
    assert whole.ask("GET", path, flow).status == 401
    boss = with_provider(whole, settings(given, admins=frozenset(("bert@example.org",))))
    path, flow = begun(boss)
    assert boss.ask("GET", path, flow).status == 401
    given.user["email_verified"] = True
    path, flow = begun(boss)
    assert boss.ask("GET", "/tokens", cookie_of(boss.ask("GET", path, flow))).status == 200
    plain = with_provider(whole, settings(given, scopes=frozenset((Scope.READ,))))
    path, flow = begun(plain)
    cookie = cookie_of(plain.ask("GET", path, flow))
    assert [plain.ask("GET", page, cookie).status for page in ("/cases", "/tokens")] == [200, 403]


def test_a_session_ends_with_its_time_and_is_no_token(whole: Whole) -> None:
    """Twelve hours; what it is begun with is no token of this server, nor is a token's session one of these."""
    cookie = signed_in(whole)
    assert whole.ask("GET", "/cases", cookie).status == 200
    token = whole.secret("admin").split("_")[1]
    forged = credentials.begin_session(KEY, token, whole.hands.now)
    assert whole.ask("GET", "/cases", ("cookie", f"__Host-thpdiag={forged}")).status == 401
    whole.hands.now += credentials.SESSION_SECONDS
    assert whole.ask("GET", "/cases", cookie).status == 401


def test_a_change_needs_the_token_of_a_page(whole: Whole) -> None:
    """A cookie of the browser alone changes nothing."""
    key = whole.completed(BEFORE)
    assert whole.ask("POST", f"/cases/{key}/analyse", signed_in(whole)).status == 403


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://other.example"}, {"token_endpoint": "http://evil.example/token"}, {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"}, {"authorization_endpoint": 1},
    ],
)  # fmt: skip
def test_metadata_that_make_no_sense(whole: Whole, given: Provider, changes: dict[str, object]) -> None:
    """Of another issuer, without TLS, or missing: nobody is sent there."""
    given.changes = changes
    answer = whole.ask("GET", "/sign-in/begin")
    if answer.status == 303:
        back = urlsplit(visited(answer.headers["location"]))
        flow = ("cookie", answer.headers["set-cookie"].partition(";")[0])
        answer = whole.ask("GET", f"{back.path}?{back.query}", flow)
    assert answer.status == 401
    assert "The sign-in did not succeed" in answer.body.decode()


def test_a_provider_that_is_away(given: Provider) -> None:
    """A sentence for the log, none of the secret."""
    client = OidcClient(replace(settings(given), issuer="http://127.0.0.1:1"), time.time)
    with pytest.raises(SignInError, match="does not answer") as failure:
        client.begin(BACK, "/")
    assert CLIENT_SECRET not in str(failure.value)
    assert CLIENT_SECRET not in repr(client.settings)
    assert client.end_session() == ""


def test_no_secret_is_in_a_log(whole: Whole, caplog: pytest.LogCaptureFixture) -> None:
    """Neither code, state, cookies nor tokens."""
    with caplog.at_level(logging.INFO):
        path, flow = begun(whole)
        whole.ask("GET", path, flow)
    query = parse_qs(urlsplit(path).query)
    for secret in (query["code"][0], query["state"][0], flow[1], CLIENT_SECRET):
        assert secret not in caplog.text
    assert mask_secrets('{"id_token": "eyJhbGciOi.eyJzdWIi.c2ln"}') == '{"id_token": "***"}'
    assert mask_secrets("code_verifier=abcdefghijklmnop") == "code_verifier=***"


def test_settings_of_a_provider(tmp_path: Path) -> None:
    """Over TLS, with a client, and a secret that nobody else reads."""
    secret = tmp_path / "secret"
    secret.write_text("s\n", encoding="utf-8")
    secret.chmod(0o600)
    assert check_oidc("https://id.example.org/realm", "thpdiag", secret) == "s"
    assert check_oidc("http://localhost:5556/dex", "thpdiag", None) == ""
    for issuer, client in (("http://id.example.org", "x"), ("", "x"), ("https://x?y", "x"), ("https://x", "")):
        with pytest.raises(UsageError):
            check_oidc(issuer, client, None)
    secret.chmod(0o644)
    with pytest.raises(UsageError, match="other users than its owner"):
        check_oidc("https://id.example.org", "thpdiag", secret)
    assert parse_roles(["a=b=upload, work"]) == {"a=b": frozenset((Scope.UPLOAD, Scope.WORK))}
    for text in ("x", "=read", "x=other"):
        with pytest.raises(UsageError):
            parse_roles([text])
