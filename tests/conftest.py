"""What all tests share: where things are, and that corpus tests say why they are skipped."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from answers_of_a_run import begin
from browser_fixtures import _pw_artifacts_folder, base_url, browser_type_launch_args, show, show_file
from command_line import ROOT, Outcome, Run
from remote_servers import asked_directly, bucket, moto
from serve_storage_fixtures import database, hands, opened, postgres_server, storage
from thpdiag.cli import main

__all__ = [
    "ROOT", "_pw_artifacts_folder", "asked_directly", "base_url", "browser_type_launch_args", "bucket", "database",
    "hands", "moto", "opened", "postgres_server", "show", "show_file", "storage",
]  # fmt: skip


# How long an example takes depends on what else the machine does. Examples are the same in each run of `make test`, so
# that it fails for a change and not by chance; `make proof` looks for new ones.
settings.register_profile("same", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("new", settings.get_profile("same"), derandomize=False)
settings.load_profile("new" if os.environ.get("THPDIAG_PROOF") == "1" else "same")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What stays until the end, the tests themselves above all, is not looked through each time memory is tidied."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of programs that tests begin: its threads cost 65 ms each


def pytest_configure(config: pytest.Config) -> None:
    begin(config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The full counts of a proof run by `make proof` alone."""
    if os.environ.get("THPDIAG_PROOF") != "1":
        proofs = [item for item in items if item.get_closest_marker("proof")]
        config.hook.pytest_deselected(items=proofs)
        items[:] = [item for item in items if not item.get_closest_marker("proof")]


@pytest.fixture(autouse=True)
def _the_browsers_loop_is_not_ours(request: pytest.FixtureRequest) -> Iterator[None]:
    """Once a browser test ran, Playwright's event loop counts as running in this thread; no other test may meet it."""
    running = asyncio._get_running_loop()
    if running is None or "playwright" in request.fixturenames:
        yield
        return
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(running)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of real input that nobody here wrote; not in the repository."""
    folder = os.environ.get("THPDIAG_CORPUS", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("THPDIAG_CORPUS does not name a folder")
    return Path(folder)


@pytest.fixture(scope="session")
def stories(corpus: Path) -> Path:
    """The five public accounts as texts, beside the corpus."""
    folder = corpus.parent / "stories"
    if not folder.is_dir():
        pytest.skip("no stories beside the corpus")
    return folder


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in this process; stdin is not a terminal, nor are the others."""

    def _run(*arguments: str | Path, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        return Outcome(int(left.value.code or 0), out.decode(), err.decode())

    return _run
