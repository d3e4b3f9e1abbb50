"""Fixtures for tests of the storage of the upload page: each test runs on SQLite and on a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from postgres_server import PostgresServer, programs, running
from small_results import document
from thpdiag.serve.storage.jobs import Claim
from thpdiag.serve.storage.storage import Accepted, Storage
from thpdiag.store.results import Analysis, BundleResult, PackedResult, pack_result

ANALYSIS = Analysis("1.0", "0123456789abcdef", {"since": "03:00"})
OTHER = Analysis("1.1", "0123456789abcdef", {"since": "03:00"})
BEGIN = 1_800_000_000.0
PLENTY = 1 << 50

Opened = Callable[..., Storage]


@dataclass
class Hands:
    """A clock that stands still until it is set."""

    now: float = BEGIN

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    home = programs()
    if home is None:
        pytest.skip("no PostgreSQL server of version 15 or later in /usr/lib/postgresql")
    with running(home) as server:
        yield server


@pytest.fixture(params=("sqlite", "postgresql"))
def database(request: pytest.FixtureRequest) -> str | None:
    """Return the address of an empty database; None is the file in the data folder."""
    if request.param == "sqlite":
        return None
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.fresh()


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def opened(tmp_path: Path, database: str | None, hands: Hands) -> Iterator[Opened]:
    """Open the same storage repeatedly, as separate processes would."""
    with ExitStack() as undo:

        def _opened(**options: Any) -> Storage:
            given = {"database": database, "clock": hands, "free": lambda _: PLENTY, **options}
            return undo.enter_context(closing(Storage.open(tmp_path / "data", **given)))

        yield _opened


@pytest.fixture
def storage(opened: Opened) -> Storage:
    return opened()


def content(number: int, size: int = 1_000) -> bytes:
    return (f"bundle {number} ".encode() * size)[:size]


def digest(number: int) -> str:
    return sha256(content(number)).hexdigest()


def sent(storage: Storage, number: int, owner: str = "ci", name: str = "") -> str:
    """Return a complete upload in two blocks."""
    whole = content(number)
    key = storage.uploads.begin(name or f"{number}.tar", len(whole), owner)
    assert storage.uploads.append(key, 0, whole[:300]) == 300
    storage.uploads.append(key, 300, whole[300:])
    return key


def accepted(storage: Storage, number: int, analysis: Analysis = ANALYSIS) -> Accepted:
    return storage.accept(sent(storage, number), analysis)


def result(sha256: str, whole: Mapping[str, Any]) -> PackedResult:
    return pack_result(BundleResult(sha256, "in", 1, "ok", document=whole))


def done(storage: Storage, claim: Claim, whole: Mapping[str, Any], analysis: Analysis = ANALYSIS) -> str:
    """End a claim; return the id of its case."""
    key = storage.cases.complete(claim, result(claim.job.sha256, whole), analysis)
    assert key is not None
    return key


def cased(storage: Storage, number: int, whole: Mapping[str, Any] | None = None, analysis: Analysis = ANALYSIS) -> str:
    """Send and analyze a bundle; return the id of its case."""
    accepted(storage, number, analysis)
    claim = storage.jobs.claim()
    assert claim is not None
    assert claim.job.sha256 == digest(number)
    return done(storage, claim, document(number) if whole is None else whole, analysis)


def files(folder: Path) -> list[str]:
    """Return every file below a folder."""
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
