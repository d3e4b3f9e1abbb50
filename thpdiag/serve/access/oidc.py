"""Sign-in with OpenID Connect: the authorization code flow with PKCE, as of OpenID Connect Core 1.0 and RFC 9700.

    GET /sign-in/begin?to=PATH     to the provider, with state, nonce and a code challenge
    GET /sign-in/callback          back with a code, for which the provider's token endpoint gives an ID token

State, nonce and code verifier are in a signed cookie of the browser meanwhile, so that only its own answer is accepted.
An ID token is valid if the provider's key signed it and its audience, issuer, times and nonce match. Its claims
identify the user and, by the configured groups, their scopes. These hold for the session, which is a row of the
database and ends at sign-out. Metadata and keys are cached for an hour.
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
FLOW_SECONDS: Final = 600  # maximum duration of a sign-in at the provider
CACHE_SECONDS: Final = 3_600.0  # of metadata and keys
REFRESH_SECONDS: Final = 60.0  # between two requests for keys after a token with an unknown key
TIMEOUT_SECONDS: Final = 10.0
LEEWAY_SECONDS: Final = 60
MAX_ANSWER_BYTES: Final = 1 << 20
MAX_NAME_CHARS: Final = 100
NO_JOSE: Final = "sign-in with OpenID Connect needs joserfc: pip install 'thpdiag[oidc]'"


class SignInError(Exception):
    """Why a sign-in failed, for the log; the user only learns that it failed."""


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """The provider, the client registered there, and the scopes of users.

    `claim` is the claim with groups, `roles` are scopes by group, `scopes` those of every user, `admins` users by `sub`
    or by verified e-mail address.
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
    """A sign-in in progress: what the provider has to return, and the path to continue at."""

    state: str
    nonce: str
    verifier: str = field(repr=False)
    onward: str


@dataclass(frozen=True, slots=True)
class User:
    """A signed-in user: `subject` is permanent, `name` is for display."""

    subject: str
    name: str
    scopes: frozenset[Scope]


def parse_roles(texts: Iterable[str]) -> dict[str, frozenset[Scope]]:
    """Parse roles of the form `GROUP=SCOPE,SCOPE`."""
    roles: dict[str, frozenset[Scope]] = {}
    for text in texts:
        group, mark, scopes = text.rpartition("=")
        if not mark or not group or group in roles:
            raise UsageError(f"a role is written GROUP=SCOPE,SCOPE, each group once: {text!r}")
        roles[group] = parse_scopes(scopes.split(","))
    return roles


def check_oidc(issuer: str, client: str, secret_file: Path | None) -> str:
    """Return the client secret, empty for a public client; UsageError if a setting is missing or unsafe."""
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
    """Whether an address uses TLS or is on this machine."""
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
    """Fetch JSON from the provider; SignInError if the answer is not JSON, too long or late."""
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
    """Client of one provider. Its functions block: an event loop calls them in threads. `clock`: seconds since 1970."""

    def __init__(
        self, settings: OidcSettings, clock: Callable[[], float], fetch: Callable[..., Any] = fetch_json
    ) -> None:
        self.settings, self._clock, self._fetch = settings, clock, fetch
        self._lock = Lock()
        self._metadata: tuple[float, dict[str, Any]] = (float("-inf"), {})
        self._keys: tuple[float, dict[str, Any]] = (float("-inf"), {})

    def begin(self, redirect: str, onward: str) -> tuple[str, Flow]:
        """Return the address of the provider's sign-in page, and the flow to keep until the user comes back."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        has_groups = "groups" in self._supported_values("scopes_supported", "")
        query = {
            "response_type": "code", "client_id": self.settings.client, "redirect_uri": redirect,
            "scope": "openid profile email" + (" groups" if has_groups else ""), "state": state,
            "nonce": nonce, "code_challenge": challenge, "code_challenge_method": "S256",
        }  # fmt: skip
        endpoint = self._endpoint("authorization_endpoint")
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}", Flow(state, nonce, verifier, onward)

    def finish(self, flow: Flow, state: str, code: str, redirect: str, issuer: str = "") -> User:
        """Return the user who came back with a code; SignInError if that cannot be verified."""
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
        """Return the sign-out address of the provider; empty if it has none."""
        try:
            return self._endpoint("end_session_endpoint")
        except SignInError:
            return ""

    def _claims(self, token: str, nonce: str) -> dict[str, Any]:
        """Return the claims of an ID token after checking signature, issuer, audience, times and nonce."""
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        required: jwt.ClaimsOption = {"essential": True}
        registry = jwt.JWTClaimsRegistry(
            now=int(self._clock()), leeway=LEEWAY_SECONDS, exp=required, iat=required, sub=required,
            iss={"essential": True, "value": self.settings.issuer},
            aud={"essential": True, "value": self.settings.client}, nonce={"essential": True, "value": nonce},
        )  # fmt: skip
        failure: Exception | None = None
        for refresh in (False, True):  # the provider may have changed its keys
            keys = self._key_set(refresh=refresh)
            try:
                decoded = jwt.decode(token, KeySet.import_key_set(keys), algorithms=list(ALGORITHMS))  # type: ignore[arg-type]
                registry.validate(decoded.claims)
            except (JoseError, ValueError, TypeError, KeyError) as error:
                failure = error
            else:
                claims = dict(decoded.claims)
                if claims.get("azp", self.settings.client) != self.settings.client:
                    raise SignInError("the ID token was issued to another client")
                if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and "azp" not in claims:
                    raise SignInError("the ID token is for several clients and does not say which asked for it")
                return claims
        raise SignInError(f"the ID token is not valid ({type(failure).__name__}: {failure})") from failure

    def _user(self, claims: Mapping[str, Any]) -> User:
        settings, sub = self.settings, str(claims["sub"])
        email = claims.get("email") if claims.get("email_verified") is True else None
        claim = claims.get(settings.claim)
        groups = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
        roles = (settings.roles.get(group, frozenset()) for group in groups if isinstance(group, str))
        scopes = settings.scopes.union(*roles)
        if {sub, email} & settings.admins:
            scopes = frozenset(Scope)
        label = next((claims[key] for key in ("name", "preferred_username", "email") if claims.get(key)), sub)
        name = "".join(c if c.isprintable() else "_" for c in str(label))[:MAX_NAME_CHARS]
        return User(sha256(f"{settings.issuer} {sub}".encode()).hexdigest()[:32], name, scopes)

    def _supported_values(self, name: str, default: str) -> list[Any]:
        values = self._discover().get(name)
        return values if isinstance(values, list) else [default]

    def _endpoint(self, name: str) -> str:
        address = self._discover().get(name)
        if not isinstance(address, str) or not _is_safe(address.partition("?")[0]):
            raise SignInError(f"the provider names no {name} over TLS")
        return address

    def _discover(self) -> dict[str, Any]:
        with self._lock:
            expires, metadata = self._metadata
            if self._clock() >= expires:
                issuer = self.settings.issuer
                metadata = self._fetch(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
                if not isinstance(metadata, dict) or metadata.get("issuer") != issuer:
                    raise SignInError("the provider's metadata are of another issuer")
                self._metadata = (self._clock() + CACHE_SECONDS, metadata)
            return metadata

    def _key_set(self, *, refresh: bool) -> dict[str, Any]:
        """Return the provider's signing keys; `refresh` fetches them again, at most every REFRESH_SECONDS."""
        address = self._endpoint("jwks_uri")
        with self._lock:
            fetched, key_set = self._keys
            age = self._clock() - fetched
            if age >= CACHE_SECONDS or (refresh and age >= REFRESH_SECONDS):
                key_set = self._fetch(address)
                if not isinstance(key_set, dict) or not isinstance(key_set.get("keys"), list):
                    raise SignInError("the provider's keys have no form")
                # with a symmetric key, everyone who can read the keys could sign
                keys = [key for key in key_set["keys"] if isinstance(key, dict) and key.get("kty") != "oct"]
                key_set = {"keys": [key for key in keys if key.get("use", "sig") == "sig"]}
                self._keys = (self._clock(), key_set)
            return key_set
