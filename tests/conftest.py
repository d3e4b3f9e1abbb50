"""What all tests share: where things are, and that corpus tests say why they are skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


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
