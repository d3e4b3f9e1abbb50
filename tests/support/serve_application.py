"""The complete server of the upload page for tests: on a folder of the test, with in-memory requests.

    with served(tmp_path) as whole:                           # no login, loopback
        key = whole.completed(STORM)                           # a bundle that was uploaded and analysed
        answer = whole.ask("GET", f"/cases/{key}")

    with served(tmp_path, Mode.TOKENS) as whole:
        answer = whole.ask("GET", "/cases", whole.token("read"))
        cookie, csrf = whole.signed_in("admin")
        whole.ask("POST", f"/cases/{key}/delete", cookie, csrf)

No workers run: waiting jobs are analyzed here by `work`, or ended with an existing document. For a browser there is
`with whole.listening() as url`.
"""

from __future__ import annotations

import io
import json
import socket
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starlette.types import ASGIApp

from command_line import ROOT
from serve_requests import KEY, ORIGIN, Answer, ask, bearer, prefix, serving
from serve_storage_fixtures import PLENTY, Hands
from thpdiag import __version__
from thpdiag.engine.load import Rule, digest, rule_set
from thpdiag.pipeline import analyze
from thpdiag.serve.access import credentials
from thpdiag.serve.access.credentials import Attempts, Bearer, mint_token
from thpdiag.serve.access.principals import LOCAL, Access, AuthMethod, Mode, Principal, parse_networks, parse_scopes
from thpdiag.serve.routes import application
from thpdiag.serve.server import Server
from thpdiag.serve.storage.bundles import StorageLimits
from thpdiag.serve.storage.jobs import Claim
from thpdiag.serve.storage.retention import Terms
from thpdiag.serve.storage.storage import Accepted, Storage
from thpdiag.serve.uploads.intake import Intake, SendLimits
from thpdiag.store.results import Analysis, BundleResult, pack_result

STORM = ROOT / "fixtures/stories/redis-shop-ubuntu/bundle"
HEALTHY = ROOT / "fixtures/healthy/sosreport-debian12/bundle"
BEFORE = ROOT / "fixtures/comparisons/storm-thp-never/before.json"
AFTER = ROOT / "fixtures/comparisons/storm-thp-never/after.json"
CHANGED = 1_790_000_000  # seconds since 1970: when the files of a packed folder say that they were changed
LIMIT = 64 << 20
TERMS = Terms()
LOCAL_HOST = "127.0.0.1:8765"
PROXY = "10.1.2.3"
USER_HEADER = "x-forwarded-user"
Header = tuple[str, str]


@dataclass
class Whole:
    """A server, its application, its clock, and the number of wake-ups of its workers."""

    server: Server
    app: ASGIApp
    hands: Hands
    woken: list[float] = field(default_factory=list)

    @property
    def storage(self) -> Storage:
        return self.server.storage

    def ask(self, method: str, target: str, *headers: Header, body: bytes = b"", peer: str = "127.0.0.1") -> Answer:
        """Send a request with its browser name, from this machine unless another is named."""
        return ask(self.app, method, target, [*self._host(headers), *headers], peer, (body,))

    def token(self, *names: str, label: str = "ci", expires: float | None = None) -> Header:
        """Return the header of a new token with these scopes."""
        return bearer(self.secret(*names, label=label, expires=expires))

    def secret(self, *names: str, label: str = "ci", expires: float | None = None) -> str:
        secret, kept = mint_token(label, parse_scopes(names), self.hands.now, expires)
        self.storage.tokens.add(kept)
        return secret

    def signed_in(self, *names: str) -> tuple[Header, Header]:
        """Return headers of a browser that signed in with a new token: its cookie, and the CSRF token of its page."""
        known = prefix(self.secret(*names))
        value = credentials.begin_session(KEY, known, self.hands.now)
        session = credentials.read_session(KEY, value, self.hands.now)
        assert session
        who = Principal("ci", AuthMethod.SESSION, parse_scopes(names), known, session.nonce)
        name = credentials.cookie_name(over_tls=self.server.access.over_tls)
        return ("cookie", f"{name}={value}"), ("x-csrf-token", credentials.issue_csrf_token(KEY, who, self.hands.now))

    def proxied(self, user: str) -> Header:
        """Return the header of a proxy; the request must come from PROXY: `peer=PROXY`."""
        return USER_HEADER, user

    def audited(self) -> list[tuple[str, str, str]]:
        """Return action, outcome and subject of the audit log, latest first."""
        return [(e.action, e.outcome, e.subject) for _, e in self.storage.audit.page()]

    def uploaded(self, content: bytes, name: str, owner: str = LOCAL.owner) -> Accepted:
        """Return a complete upload, which waits for its analysis unless it was analyzed before."""
        key = self.storage.uploads.begin(name, len(content), owner)
        self.storage.uploads.append(key, 0, content)
        return self.storage.accept(key, self.server.analysis)

    def completed(
        self, bundle: Path, *, name: str = "", owner: str = LOCAL.owner, document: Mapping[str, Any] | None = None
    ) -> str:
        """Upload and analyze a bundle; return the id of its case.

        A folder is packed. A saved result (`BEFORE`) is its own bundle, with the document but without its lines. With a
        `document` nothing is analyzed.
        """
        content = archive(bundle) if bundle.is_dir() else bundle.read_bytes()
        name = name or (f"{bundle.parent.name}.tar" if bundle.is_dir() else bundle.name)
        accepted = self.uploaded(content, name, owner)
        if accepted.case is not None:
            return accepted.case
        claim = self.claimed()
        if document is None:
            document = json.loads(content) if bundle.suffix == ".json" else analysed(content, claim.job.name)
        return self.done(claim, document)

    def claimed(self) -> Claim:
        """Return the next job, for the test to finish."""
        claim = self.storage.jobs.claim()
        assert claim is not None
        return claim

    def done(self, claim: Claim, document: Mapping[str, Any], status: str = "ok") -> str:
        """End a job; return the id of its case."""
        result = pack_result(BundleResult(claim.job.sha256, claim.job.name, 1, status, document=document))
        key = self.storage.cases.complete(claim, result, self.server.analysis)
        assert key is not None
        return key

    @contextmanager
    def listening(self, at: socket.socket | None = None) -> Iterator[str]:
        """Run the real server in a thread for browsers; its address. A session in mode tokens needs `origin=` of it."""
        with at or socket.create_server(("127.0.0.1", 0)) as listens, serving(self.app, listens):
            yield f"http://127.0.0.1:{listens.getsockname()[1]}"

    def _host(self, headers: Sequence[Header]) -> list[Header]:
        if any(name == "host" for name, _ in headers):
            return []
        origins = sorted(self.server.access.origins)
        return [("host", origins[0].partition("//")[2] if origins else LOCAL_HOST)]


@contextmanager
def served(
    folder: Path, mode: Mode = Mode.NONE, database: str | None = None, *, origin: str = ORIGIN, limit: int = LIMIT,
    quota: int | None = None, admins: Sequence[str] = ("root",), terms: Terms = TERMS,
    hands: Hands | None = None, pace: SendLimits | None = None,
) -> Iterator[Whole]:  # fmt: skip
    """Return the server of a new folder below this one, with empty tables and a clock that stands still."""
    hands = hands or Hands()
    bounds = StorageLimits(quota, 0)
    storage = Storage.open(folder / "data", database, bounds, hands, free=lambda _: PLENTY)
    with closing(storage), storage.claim_folder(analysis()):
        yield made(
            storage, access(mode, origin, admins), hands, Intake(storage.uploads, limit, pace or SendLimits()), terms
        )


def made(storage: Storage, allowed: Access, hands: Hands, intake: Intake, terms: Terms) -> Whole:
    """Assemble the parts of a server as the real one does."""
    woken: list[float] = []
    door = Bearer(storage.tokens, Attempts(hands), storage.audit.add, hands)
    server = Server(
        storage, allowed, KEY, door, intake, rules(), analysis(), terms,
        workers=2, wake=lambda: woken.append(hands.now), clock=hands,
    )  # fmt: skip
    return Whole(server, application(server), hands, woken)


def access(mode: Mode, origin: str = ORIGIN, admins: Sequence[str] = ()) -> Access:
    """Return loopback in mode none; otherwise the name of a public server."""
    if mode is Mode.NONE:
        return Access(sign_in="/sign-in")
    proxies = parse_networks([PROXY]) if mode is Mode.PROXY else ()
    return Access(
        mode, "0.0.0.0", frozenset((origin,)), proxies, USER_HEADER, admins=frozenset(admins), sign_in="/sign-in"
    )


@cache
def rules() -> tuple[Rule, ...]:
    """Return the shipped rules."""
    return rule_set()


@cache
def analysis() -> Analysis:
    return Analysis(__version__, digest(rules()))


def archive(folder: Path) -> bytes:
    """Return a folder as a tar archive, the same bytes each time."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for file in sorted(folder.rglob("*")):
            tar.add(file, str(file.relative_to(folder)), recursive=False, filter=_settled)
    return whole.getvalue()


def _settled(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = CHANGED, 0, 0, "root", "root"
    entry.mode = 0o755 if entry.isdir() else 0o644
    return entry


def analysed(content: bytes, name: str) -> dict[str, Any]:
    """Return the document of a bundle under a name; made once per run of tests."""
    return json.loads(_analysed(sha256(content).hexdigest(), _Content(content), name))


@dataclass(frozen=True)
class _Content:
    """Bytes that a cache identifies by their digest only."""

    whole: bytes = field(compare=False, repr=False)


@cache
def _analysed(_digest: str, content: _Content, name: str) -> str:
    with TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_bytes(content.whole)
        return json.dumps(analyze([file], rules()), default=dict)


def in_other_words(document: Mapping[str, Any], **host: Any) -> dict[str, Any]:
    """Return the document with other facts of its host: `name`, `kernel`, `os`."""
    return {**document, "host": {**document["host"], **host}}


def with_rules(whole: Whole, chosen: tuple[Rule, ...]) -> Whole:
    """Return the same server with other rules, for pages that list them."""
    server = replace(whole.server, rules=chosen)
    return Whole(server, application(server), whole.hands, whole.woken)
