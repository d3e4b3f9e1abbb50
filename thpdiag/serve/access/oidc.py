"""Sign-in with OpenID Connect: the authorization code flow with PKCE, as of OpenID Connect Core 1.0 and RFC 9700.

    GET /sign-in/begin?to=PATH     to the provider, with state, nonce and a code challenge
    GET /sign-in/callback          back with a code, for which the provider's token endpoint gives an ID token

State, nonce and the code's verifier lie meanwhile in a signed cookie of that browser, so that nobody else's answer is
taken. An ID token counts if the provider's key signed it, it is for us, of this issuer, of now, and has our nonce. Its
claims say who it is and, by the groups that whoever runs the server has named, what they may do; that holds for the
session, which is a row here and ends when somebody signs out. Metadata and keys are kept for an hour.
"""

from __future__ import annotations

import base64
import hmac
import json
import logging
import secrets
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from threading import Lock
from typing import IO, Any, Final
from urllib.error import URLError
from urllib.parse import urlencode, urlsplit

from thpdiag.errors import UsageError
from thpdiag.serve.access.principals import Scope, is_loopback, parse_scopes

LOG: Final = logging.getLogger(__name__)
CALLBACK_PATH: Final = "/sign-in/callback"
BEGIN_PATH: Final = "/sign-in/begin"
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
FLOW_SECONDS: Final = 600  # in which somebody comes back from the provider
KEPT_SECONDS: Final = 3_600.0
REFRESH_SECONDS: Final = 60.0  # between two looks for a key that is not known
TIMEOUT_SECONDS: Final = 10.0
LEEWAY_SECONDS: Final = 60
MAX_ANSWER_BYTES: Final = 1 << 20
MAX_NAME_CHARS: Final = 100
NO_JOSE: Final = "sign-in with OpenID Connect needs joserfc: pip install 'thpdiag[oidc]'"


class SignInError(Exception):
    """Why somebody was not signed in, for the log; who tries is told no more than that it failed."""


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """What whoever runs the server says: the provider, how it knows us, and what users may do.

    `claim` is where an ID token lists groups, `roles` are scopes by group, `scopes` those of everybody who signs in,
    `admins` users by `sub` or by e-mail address, as far as the provider has verified it.
    """

    issuer: str
    client: str
    secret: str = field(default="", repr=False)
    claim: str = "groups"
    roles: Mapping[str, frozenset[Scope]] = field(default_factory=dict)
    scopes: frozenset[Scope] = frozenset()
    admins: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Flow:
    """A sign-in under way: what the provider has to give back, and where somebody goes on then."""

    state: str
    nonce: str
    verifier: str = field(repr=False)
    onward: str


@dataclass(frozen=True, slots=True)
class User:
    """Who signed in: `subject` stands for them for ever, the name is for people."""

    subject: str
    name: str
    scopes: frozenset[Scope]


def parse_roles(texts: Iterable[str]) -> dict[str, frozenset[Scope]]:
    """`GROUP=SCOPE,SCOPE` each."""
    roles: dict[str, frozenset[Scope]] = {}
    for text in texts:
        group, mark, scopes = text.rpartition("=")
        if not mark or not group or group in roles:
            raise UsageError(f"a role is written GROUP=SCOPE,SCOPE, each group once: {text!r}")
        roles[group] = parse_scopes(scopes.split(","))
    return roles


def check_oidc(issuer: str, client: str, secret_file: Path | None) -> str:
    """The secret of our client, empty for a public one; UsageError if something is missing or unsafe."""
    try:
        import joserfc  # noqa: F401
    except ModuleNotFoundError as missing:
        raise UsageError(NO_JOSE) from missing
    if not client:
        raise UsageError("name the id that the provider has given this server (oidc_client)")
    if not _is_safe(issuer):
        raise UsageError("the issuer of OpenID Connect is an address that begins with https:// (oidc_issuer)")
    if secret_file is None:
        return ""
    try:
        if secret_file.stat().st_mode & 0o077:
            raise UsageError(f"{secret_file}: other users than its owner can read it")
        return secret_file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{secret_file}: cannot be read as the secret of OpenID Connect") from error


def _is_safe(address: str) -> bool:
    """Over TLS, or on this machine."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    host = parts.hostname or ""
    local = parts.scheme == "http" and (host == "localhost" or is_loopback(host, lambda _: []))
    return bool(parts.hostname) and (parts.scheme == "https" or local) and not parts.query and not parts.fragment


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def fetch_json(address: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None) -> Any:
    """What an address of the provider answers; SignInError if that is no JSON within the time."""
    body = None if form is None else urlencode(form).encode()
    request = urllib.request.Request(address, body, {"Accept": "application/json", **(headers or {})})
    opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler())
    try:
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            content = answer.read(MAX_ANSWER_BYTES + 1)
        if len(content) > MAX_ANSWER_BYTES:
            raise SignInError("the provider's answer is too long")
        return json.loads(content)
    except (URLError, OSError, HTTPException, ValueError, RecursionError) as error:
        raise SignInError(f"the provider does not answer correctly ({type(error).__name__}: {error})") from error


class OidcClient:
    """One provider. Functions wait for it: an event loop calls them in threads. `clock` is seconds since 1970."""

    def __init__(
        self, settings: OidcSettings, clock: Callable[[], float], fetch: Callable[..., Any] = fetch_json
    ) -> None:
        self.settings, self._clock, self._fetch = settings, clock, fetch
        self._lock = Lock()
        self._metadata: tuple[float, dict[str, Any]] = (float("-inf"), {})
        self._keys: tuple[float, dict[str, Any]] = (float("-inf"), {})

    def begin(self, redirect: str, onward: str) -> tuple[str, Flow]:
        """The address of the provider where somebody signs in, and what to keep until they come back."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        flow = Flow(state, nonce, verifier, onward)
        challenge = base64.urlsafe_b64encode(sha256(flow.verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code", "client_id": self.settings.client, "redirect_uri": redirect,
            "scope": "openid profile email" + (" groups" if self._knows_groups() else ""), "state": flow.state,
            "nonce": flow.nonce, "code_challenge": challenge, "code_challenge_method": "S256",
        }  # fmt: skip
        place = self._endpoint("authorization_endpoint")
        return f"{place}{'&' if '?' in place else '?'}{urlencode(query)}", flow

    def finish(self, flow: Flow, state: str, code: str, redirect: str, issuer: str = "") -> User:
        """Who came back with a code; SignInError if nobody can be sure of that."""
        if not hmac.compare_digest(flow.state.encode(), state.encode("utf-8", "replace")):
            raise SignInError("the state is not that of this browser")
        if not code or (issuer and issuer != self.settings.issuer):
            raise SignInError("the provider gave no code, or another provider did")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect,
            "code_verifier": flow.verifier,
        }
        headers = {}
        if not self.settings.secret:
            form["client_id"] = self.settings.client
        elif "client_secret_basic" in self._supported_values(
            "token_endpoint_auth_methods_supported", "client_secret_basic"
        ):
            pair = urlencode({"": self.settings.client})[1:] + ":" + urlencode({"": self.settings.secret})[1:]
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form |= {"client_id": self.settings.client, "client_secret": self.settings.secret}
        answer = self._fetch(self._endpoint("token_endpoint"), form, headers)
        token = answer.get("id_token") if isinstance(answer, dict) else None
        if not isinstance(token, str):
            raise SignInError("the provider gave no ID token")
        return self._user(self._claims(token, flow.nonce))

    def end_session(self) -> str:
        """Where somebody signs out of the provider too; empty if it has no such address."""
        try:
            place = self._discover().get("end_session_endpoint")
        except SignInError:
            return ""
        return place if isinstance(place, str) and _is_safe(place.partition("?")[0]) else ""

    def _claims(self, token: str, nonce: str) -> dict[str, Any]:
        """What an ID token says, once it is known to be the provider's, for us, of now and of this sign-in."""
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        wanted: jwt.ClaimsOption = {"essential": True}
        registry = jwt.JWTClaimsRegistry(
            now=int(self._clock()), leeway=LEEWAY_SECONDS, exp=wanted, iat=wanted, sub=wanted,
            iss={"essential": True, "value": self.settings.issuer},
            aud={"essential": True, "value": self.settings.client}, nonce={"essential": True, "value": nonce},
        )  # fmt: skip
        failure: Exception | None = None
        for anew in (False, True):  # the provider may have changed its keys
            keys = self._key_set(anew=anew)
            try:
                found = jwt.decode(token, KeySet.import_key_set(keys), algorithms=list(ALGORITHMS))  # type: ignore[arg-type]
                registry.validate(found.claims)
            except (JoseError, ValueError, TypeError, KeyError) as error:
                failure = error
            else:
                claims = dict(found.claims)
                if claims.get("azp", self.settings.client) != self.settings.client:
                    raise SignInError("the ID token was issued to another client")
                if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and "azp" not in claims:
                    raise SignInError("the ID token is for several clients and does not say which asked for it")
                return claims
        raise SignInError(f"the ID token is not valid ({type(failure).__name__}: {failure})") from failure

    def _user(self, claims: Mapping[str, Any]) -> User:
        settings, sub = self.settings, str(claims["sub"])
        email = claims.get("email") if claims.get("email_verified") is True else None
        groups = claims.get(settings.claim)
        named = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        scopes = settings.scopes.union(*(settings.roles.get(one, frozenset()) for one in named if isinstance(one, str)))
        if {sub, email} & settings.admins:
            scopes = frozenset(Scope)
        told = next((claims[key] for key in ("name", "preferred_username", "email") if claims.get(key)), sub)
        name = "".join(c if c.isprintable() else "_" for c in str(told))[:MAX_NAME_CHARS]
        return User(sha256(f"{settings.issuer} {sub}".encode()).hexdigest()[:32], name, scopes)

    def _knows_groups(self) -> bool:
        return "groups" in self._supported_values("scopes_supported", "")

    def _supported_values(self, name: str, usual: str) -> list[Any]:
        found = self._discover().get(name)
        return found if isinstance(found, list) else [usual]

    def _endpoint(self, name: str) -> str:
        place = self._discover().get(name)
        if not isinstance(place, str) or not _is_safe(place.partition("?")[0]):
            raise SignInError(f"the provider names no {name} over TLS")
        return place

    def _discover(self) -> dict[str, Any]:
        with self._lock:
            until, known = self._metadata
            if self._clock() >= until:
                issuer = self.settings.issuer
                known = self._fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
                if not isinstance(known, dict) or known.get("issuer") != issuer:
                    raise SignInError("the provider's metadata are of another issuer")
                self._metadata = (self._clock() + KEPT_SECONDS, known)
            return known

    def _key_set(self, *, anew: bool) -> dict[str, Any]:
        """The keys that the provider signs with; `anew` has them read again, unless that was done a moment ago."""
        place = self._endpoint("jwks_uri")
        with self._lock:
            read, known = self._keys
            age = self._clock() - read
            if age >= KEPT_SECONDS or (anew and age >= REFRESH_SECONDS):
                known = self._fetch(place)
                if not isinstance(known, dict) or not isinstance(known.get("keys"), list):
                    raise SignInError("the provider's keys have no form")
                # a key that both sides know would let whoever reads the keys sign
                keys = [one for one in known["keys"] if isinstance(one, dict) and one.get("kty") != "oct"]
                known = {"keys": [one for one in keys if one.get("use", "sig") == "sig"]}
                self._keys = (self._clock(), known)
            return known
