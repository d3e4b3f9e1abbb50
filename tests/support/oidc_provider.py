"""A small provider of OpenID Connect: it signs everybody in at once as its user, and misbehaves as tests tell it.

with provider() as given:
    settings = OidcSettings(given.issuer, CLIENT, CLIENT_SECRET)
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from remote_servers import run_server

CLIENT = "thpdiag"
CLIENT_SECRET = "kept between us: 5c2d"


@dataclass
class Provider:
    """`claims` replace those of ID tokens (None: left out), `changes` entries of the metadata."""

    issuer: str = ""
    user: dict[str, Any] = field(default_factory=lambda: {"sub": "u1", "name": "Anna", "groups": ["support"]})
    claims: dict[str, Any] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "1", "use": "sig"}))
    published: list[RSAKey] | None = None  # in place of the key that signs
    algorithm: str = "RS256"
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def metadata(self) -> dict[str, Any]:
        paths = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys",
                 "end_session_endpoint": "logout"}  # fmt: skip
        return {
            "issuer": self.issuer, **{name: f"{self.issuer}/{path}" for name, path in paths.items()}, **self.changes,
        }  # fmt: skip

    def id_token(self, nonce: str) -> str:
        now = int(time.time())
        told = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 60, "nonce": nonce, **self.user}
        told = {name: value for name, value in {**told, **self.claims}.items() if value is not None}
        if self.algorithm == "none":
            parts = (json.dumps(part).encode() for part in ({"alg": "none"}, told))
            return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."
        key = OctKey.import_key(CLIENT_SECRET) if self.algorithm == "HS256" else self.key
        return jwt.encode({"alg": self.algorithm, "kid": "1"}, told, key, algorithms=[self.algorithm])

    def give(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """What the token endpoint answers; None if it refuses."""
        code = self.codes.pop(form.get("code", ""), None)
        pair = base64.b64encode(f"{CLIENT}:{urlencode({'': CLIENT_SECRET})[1:]}".encode()).decode()
        challenge = base64.urlsafe_b64encode(sha256(form.get("code_verifier", "").encode()).digest()).rstrip(b"=")
        if code is None or authorization != f"Basic {pair}" or challenge.decode() != code["code_challenge"]:
            return None
        if form["redirect_uri"] != code["redirect_uri"]:
            return None
        return {"access_token": "unused", "token_type": "Bearer", "id_token": self.id_token(code["nonce"])}


def _handler(given: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            given.asked.append(parts.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            if parts.path == "/authorize":
                code = f"code-{len(given.asked)}"
                given.codes[code] = query
                back = urlencode({"code": code, "state": query["state"]})
                self._answer(302, b"", ("Location", f"{query['redirect_uri']}?{back}"))
            elif parts.path == "/keys":
                keys = given.published or [given.key]
                self._json({"keys": [key.as_dict(private=False) for key in keys]})
            elif parts.path == "/logout":
                self._answer(200, b"<title>Signed out of the provider</title>", ("Content-Type", "text/html"))
            else:
                self._json(given.metadata())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            answer = given.give(form, self.headers.get("authorization", ""))
            if answer is None:
                self._answer(400, b'{"error": "invalid_grant"}')
            else:
                self._json(answer)

        def _json(self, value: object) -> None:
            self._answer(200, json.dumps(value).encode(), ("Content-Type", "application/json"))

        def _answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
            self.send_response(status)
            for name, value in (*headers, ("Content-Length", str(len(body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextmanager
def provider() -> Iterator[Provider]:
    given = Provider()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(given))
    given.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    with run_server(server):
        yield given
