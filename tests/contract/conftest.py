"""What the tests of the contract share: answers that two tests look at are asked for once in a run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from contract.recorded_answers import keep_blessed

Once = Callable[[str, Callable[[], Any]], Any]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("BLESS") in ("1", "words") and not hasattr(session.config, "workerinput"):
        keep_blessed()


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Once:
    """Gives the JSON that a function makes, which is called at the first time only, in whichever worker that is."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "answers"
    folder.mkdir(exist_ok=True)

    def _once(name: str, ask: Callable[[], Any]) -> Any:
        file = folder / quote(name, safe="")
        if not file.exists():
            part = file.with_name(f"{file.name[-100:]}.{worker_id}")
            part.write_text(json.dumps(ask()))
            part.rename(file)
        return json.loads(file.read_text())

    return _once
