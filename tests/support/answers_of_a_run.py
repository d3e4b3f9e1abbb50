"""Values that several tests need, computed once per run of pytest by the first process that needs them."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import pytest

VARIABLE = "THPDIAG_TEST_ANSWERS"  # the folder, shared by the processes of xdist; other programs compute all values
Answer = TypeVar("Answer")


def begin(config: pytest.Config) -> None:
    """Create the folder, which is removed at the end of the run."""
    if not hasattr(config, "workerinput"):
        os.environ[VARIABLE] = folder = tempfile.mkdtemp(prefix="thpdiag-answers-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def answer(question: str, make: Callable[[], Answer]) -> Answer:
    """Return the value of `make`, from the folder if it exists there. Tests must not change it."""
    folder = os.environ.get(VARIABLE)
    if folder is None:
        return make()
    file = Path(folder, sha256(question.encode()).hexdigest())
    if file.is_file():
        known: Answer = pickle.loads(file.read_bytes())
        return known
    made = make()
    part = file.with_suffix(f".{os.getpid()}")
    part.write_bytes(pickle.dumps(made))
    part.replace(file)  # if another process made it too, it is equal
    return made
