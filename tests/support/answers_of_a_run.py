"""What several tests ask of the same input, made once in a run of pytest, in whichever of its processes asks first."""

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

VARIABLE = "THPDIAG_TEST_ANSWERS"  # the folder, for the processes of xdist; a program of its own makes all itself
Answer = TypeVar("Answer")


def begin(config: pytest.Config) -> None:
    """Make the folder, which is gone at the end of the run."""
    if not hasattr(config, "workerinput"):
        os.environ[VARIABLE] = folder = tempfile.mkdtemp(prefix="thpdiag-answers-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def answer(question: str, make: Callable[[], Answer]) -> Answer:
    """What `make` gives, from the folder if it lies there. No test may change it."""
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
    part.replace(file)  # another process that made it, too, made the same
    return made
