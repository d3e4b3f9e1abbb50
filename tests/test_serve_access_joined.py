"""Access, uploads and storage of the upload page meet: what one room asks for the other has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import URL
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from serve_asking import KEY, TOKENS, Answer, ask, bearer
from thpdiag.serve.access.around import around
from thpdiag.serve.access.attempts import Attempts
from thpdiag.serve.access.bearer import Bearer
from thpdiag.serve.access.routes import Routes, Rule
from thpdiag.serve.access.scopes import Scope, scopes
from thpdiag.serve.access.tokens import mint
from thpdiag.serve.storage.audit import AuditTable
from thpdiag.serve.storage.database import opened
from thpdiag.serve.storage.tokens import TokenTable
from thpdiag.serve.uploads.intake import Intake
from thpdiag.serve.uploads.put import put_route
from thpdiag.serve.uploads.sink import Arrived, Sender
from thpdiag.serve.uploads.tus import tus_routes
from uploading import FolderSink

NOW = 1_000_000.0
BUNDLE = "/api/v1/bundles/b.tar"
TUS = ("tus-resumable", "1.0.0")
ROUTES = Routes(
    (
        Rule("PUT", "/api/v1/bundles/{name}", Scope.UPLOAD, streams=True),
        Rule("POST", "/files", Scope.UPLOAD, streams=True),
        *(Rule(m, "/files/{id}", Scope.UPLOAD, streams=True) for m in ("HEAD", "PATCH", "DELETE", "POST")),
    )
)


@dataclass
class Joined:
    """A server of all three rooms."""

    tokens: TokenTable
    audit: AuditTable
    folder: Path

    def __post_init__(self) -> None:
        async def admit(request: Request) -> Sender:
            sender: Sender = request.state.principal
            return sender

        async def accept(_request: Request, arrived: Arrived) -> Response:
            return PlainTextResponse(f"{arrived.owner} {arrived.size}", 201)

        async def complete(_request: Request, _arrived: Arrived) -> Mapping[str, str]:
            return {}

        intake = Intake(FolderSink(self.folder, clock=lambda: NOW), limit=1 << 20)
        routes = [put_route("/api/v1/bundles", intake, admit, accept), *tus_routes("/files", intake, admit, complete)]
        door = Bearer(self.tokens, Attempts(lambda: NOW), self.audit.add, lambda: NOW)
        self.app = around(Starlette(routes=routes), TOKENS, ROUTES, door, KEY)

    def token(self, *names: str) -> tuple[str, str]:
        secret, kept = mint("ci", scopes(names), NOW)
        self.tokens.add(kept)
        return bearer(secret)

    def ask(self, method: str, path: str, *headers: tuple[str, str], body: bytes = b"") -> Answer:
        return ask(self.app, method, path, [("host", "thpdiag.example.org"), *headers], body=(body,))


@pytest.fixture
def joined(tmp_path: Path) -> Iterator[Joined]:
    """On SQLite, in a folder that goes away."""
    engine = opened(URL.create("sqlite", database=str(tmp_path / "db.sqlite")), "folder")
    (tmp_path / "uploads").mkdir()
    yield Joined(TokenTable(engine), AuditTable(engine), tmp_path / "uploads")
    engine.dispose()


def test_a_kept_token_opens_until_it_is_removed(joined: Joined) -> None:
    """Its use is noted, and the bundle is larger than what other routes take."""
    login = joined.token("upload")
    (kept,) = joined.tokens.all()

    answer = joined.ask("PUT", BUNDLE, login, body=bytes(100_000))
    assert (answer.status, answer.body.decode()) == (201, f"token:{kept.prefix} 100000")
    assert [token.used for token in joined.tokens.all()] == [NOW]
    assert joined.tokens.remove(kept.prefix)
    assert joined.ask("PUT", BUNDLE, login).status == 401


def test_what_is_refused_is_kept_in_the_audit_log(joined: Joined) -> None:
    """Scope and wrong token, latest first, each once."""
    login = joined.token("read")
    (kept,) = joined.tokens.all()

    assert joined.ask("PUT", BUNDLE, login).status == 403
    assert joined.ask("PUT", BUNDLE, (login[0], login[1] + "0")).status == 401
    assert [(e.action, e.outcome, e.actor, e.address) for _, e in joined.audit.page()] == [
        ("authenticate", "refused", "nobody", "203.0.113.7"),
        ("request", "refused", f"token:{kept.prefix}:ci", "203.0.113.7"),
    ]


def test_an_upload_is_its_owners(joined: Joined) -> None:
    """Another token with the same scope finds none of that id, by any method; admin may end it."""
    mine, other, admin = joined.token("upload"), joined.token("upload"), joined.token("admin")
    begun = joined.ask("POST", "/files", mine, TUS, ("upload-length", "3"))
    place = begun.headers["location"]
    patch = (TUS, ("upload-offset", "0"), ("content-type", "application/offset+octet-stream"))

    assert begun.status == 201
    assert joined.ask("HEAD", place, mine, TUS).status == 200
    strange = [
        joined.ask("HEAD", place, other, TUS),
        joined.ask("DELETE", place, other, TUS),
        joined.ask("PATCH", place, other, *patch, body=b"abc"),
        joined.ask("POST", place, other, *patch, ("x-http-method-override", "PATCH"), body=b"abc"),
    ]
    assert (
        {answer.status for answer in strange} == {joined.ask("HEAD", f"/files/{'0' * 32}", mine, TUS).status} == {410}
    )
    assert joined.ask("PATCH", place, mine, *patch, body=b"ab").status == 204
    assert joined.ask("DELETE", place, admin, TUS).status == 204
    assert joined.ask("HEAD", place, mine, TUS).status == 410


@pytest.mark.parametrize("key", ["..%2f..%2fdb.sqlite", "..", "%2e%2e", "a%00b", "A" * 32, "0" * 33])
def test_a_trick_in_an_id_of_tus_is_refused(joined: Joined, key: str) -> None:
    """By its form, or because nothing can have such an id; no file is looked for."""
    assert joined.ask("HEAD", f"/files/{key}", joined.token("admin"), TUS).status in (400, 404)
