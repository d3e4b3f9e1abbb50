"""The whole server that other tests use: it is put together, keeps what it is given, and asks who comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from serve_whole import BEFORE, STORM, served
from thpdiag.serve.access.modes import Mode


@pytest.mark.parametrize("mode", list(Mode))
def test_it_is_put_together_in_every_mode(mode: Mode, tmp_path: Path) -> None:
    """What the table does not have is not there, and bundles are kept."""
    with served(tmp_path, mode) as whole:
        assert whole.ask("GET", "/nothing").status == 404
        accepted = whole.uploaded(b"abc", "a.tar")
        assert accepted.case is None
        assert whole.storage.jobs.counts() == {"queued": 1}


def test_a_fixture_becomes_a_case(tmp_path: Path, database: str | None) -> None:
    """A folder by an analysis, a saved result as it is; the same again is the same case."""
    with served(tmp_path, database=database) as whole:
        storm, before = whole.completed(STORM), whole.completed(BEFORE)
        found = whole.storage.cases.found(storm)
        assert found is not None
        assert (found.verdict, found.name) == ("found", "redis-shop-ubuntu.tar")
        assert whole.completed(STORM) == storm != before


def test_a_login_counts(tmp_path: Path) -> None:
    """Without one nothing is read; a token that may only upload reads no list."""
    with served(tmp_path, Mode.TOKENS) as whole:
        assert whole.ask("GET", "/api/v1/cases").status == 401
        assert whole.ask("GET", "/api/v1/cases", whole.token("upload")).status == 403
        cookie, csrf = whole.signed_in("read")
        assert whole.ask("DELETE", f"/api/v1/cases/{'0' * 32}", cookie, csrf).status == 403
