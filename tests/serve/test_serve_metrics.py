"""Whether the server is well, and its figures for Prometheus."""

from __future__ import annotations

import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from postgres_server import programs, running
from serve_application import BEFORE, Whole, served
from serve_storage_fixtures import database, postgres_server  # noqa: F401  # fixtures
from thpdiag import __version__
from thpdiag.serve.access.principals import Mode
from thpdiag.serve.server import HEALTH_SECONDS, Health

LINE = re.compile(r'[a-z_]+(?:\{(?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)+\})? -?[0-9.e+-]+')


@pytest.fixture
def whole(tmp_path: Path, database: str | None) -> Iterator[Whole]:  # noqa: F811
    with served(tmp_path, Mode.TOKENS, database, quota=1 << 30) as made:
        yield made


def figures(whole: Whole) -> dict[str, float]:
    answer = whole.ask("GET", "/metrics", whole.token("read"))
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.body.decode().splitlines()
    assert all(LINE.fullmatch(line) for line in lines if not line.startswith("# "))
    return {
        name: float(value) for name, _, value in (one.rpartition(" ") for one in lines if not one.startswith("#"))
    }  # fmt: skip


def test_the_figures_follow_what_happens(whole: Whole) -> None:
    """Jobs, cases, bytes; and what was asked by route, never by what a stranger wrote."""
    size, sends = len(BEFORE.read_bytes()), whole.token("upload")
    whole.completed(BEFORE)
    whole.ask("PUT", "/api/v1/bundles/secret.tar", sends, body=b"abc")
    whole.ask("GET", "/api/v1/cases/secret", sends)
    whole.ask("BREW", "/secret")

    found = figures(whole)

    assert found[f'thpdiag_build_info{{rules_digest="{whole.server.analysis.rules_digest}",version="{__version__}"}}']
    assert (found['thpdiag_jobs{state="queued"}'], found['thpdiag_jobs{state="done"}']) == (1, 1)
    assert found['thpdiag_jobs{state="failed"}'] == 0
    assert (found['thpdiag_cases{verdict="found"}'], found['thpdiag_cases{verdict="cannot_tell"}']) == (1, 0)
    assert (found["thpdiag_bundles"], found["thpdiag_bundle_bytes"]) == (2, size + 3)
    assert (found["thpdiag_quota_bytes"], found["thpdiag_upload_reserved_bytes"]) == (1 << 30, 0)
    assert (found['thpdiag_uploads_total{way="put"}'], found['thpdiag_upload_bytes_total{way="put"}']) == (1, 3)
    asked = 'thpdiag_http_requests_total{method="%s",route="%s",status="%d"}'
    assert found[asked % ("PUT", "/api/v1/bundles/{name}", 201)] == 1
    assert found[asked % ("GET", "/api/v1/cases/{id}", 403)] == 1
    assert found[asked % ("other", "", 404)] == 1
    assert not [name for name in found if "secret" in name]


def test_health_is_for_anybody(whole: Whole) -> None:
    """It tells nothing but that the server works, and leaves nothing on the disk."""
    answer = whole.ask("GET", "/healthz")

    assert (answer.status, answer.told) == (200, {"status": "ok", "database": True, "disk": True, "reason": ""})
    assert not (whole.storage.folder / ".healthz").exists()


def test_a_disk_that_takes_nothing_is_told(tmp_path: Path) -> None:
    """503, so that a balancer sends nobody here."""
    with served(tmp_path) as whole:
        shutil.rmtree(whole.storage.folder)
        answer = whole.ask("GET", "/healthz")

        assert (answer.status, answer.told["status"], answer.told["disk"]) == (503, "failing", False)


def test_a_database_that_is_away_is_told(tmp_path: Path, database: str | None) -> None:  # noqa: F811
    """A table that is gone stands for a server that is; the next look after a while tells of its return."""
    now = [0.0]
    with served(tmp_path, database=database) as whole:
        health = Health(whole.storage, lambda: now[0])
        assert health.check().reason == ""

        with whole.storage.engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE job RENAME TO elsewhere")
        assert health.check().reason == ""  # as it was a moment ago
        now[0] += HEALTH_SECONDS
        assert health.check().reason == "the database cannot be used"
        assert whole.ask("GET", "/healthz").status == 503

        with whole.storage.engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE elsewhere RENAME TO job")
        now[0] += HEALTH_SECONDS
        assert health.check().reason == ""


def test_a_server_of_databases_that_has_stopped_is_told(tmp_path: Path) -> None:
    """Also with connections that it ended while they waited for their next use."""
    home = programs()
    if home is None:
        pytest.skip("no PostgreSQL server of version 15 or later in /usr/lib/postgresql")
    with ExitStack() as undo:
        runs = undo.enter_context(ExitStack())
        database = runs.enter_context(running(home)).fresh()
        whole = undo.enter_context(served(tmp_path, database=database))
        assert whole.ask("GET", "/api/v1/cases").status == 200
        runs.close()

        answer = whole.ask("GET", "/healthz")

        assert (answer.status, answer.told["database"]) == (503, False)


def test_a_mistake_of_ours_is_told_without_details(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To programs as problem JSON, to people as a sentence."""
    with served(tmp_path) as whole, whole.listening() as url:
        monkeypatch.setattr(type(whole.storage.cases), "first_page", lambda *_, **__: {}["secret"])
        answers = []
        for kind in ("*/*", "text/html"):
            request = urllib.request.Request(f"{url}/api/v1/cases", headers={"Accept": kind})
            with pytest.raises(urllib.error.HTTPError) as told, urllib.request.urlopen(request, timeout=30):
                pass
            answers.append((told.value.code, told.value.headers["content-type"], told.value.read()))

    assert [answer[:2] for answer in answers] == [
        (500, "application/problem+json"), (500, "text/plain; charset=utf-8"),
    ]  # fmt: skip
    assert not any(b"secret" in answer[2] for answer in answers)
