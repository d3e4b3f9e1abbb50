"""The work of the processes of `guard.py`: one bundle, by calls that pickle knows, with the rules loaded at import."""

from __future__ import annotations

import json
import os
import signal
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd

from thpdiag.engine.load import builtin_rules, load_rules
from thpdiag.parsers import all_parsers, bulk_parsers
from thpdiag.pipeline import analyze
from thpdiag.sandbox.outcome import Allowed, Answer, Limits, Outcome
from thpdiag.sandbox.supervise import run_in_child

RULES = load_rules([builtin_rules()])
LOADED = (np.__name__, pd.__name__, all_parsers(), bulk_parsers())
BAD_EVERY = 10
WARMED = analyze([Path("-")], RULES, stdin=BytesIO(b"nothing that is known\n"))  # compiles patterns, evaluates rules


def nothing(_number: int) -> None:
    """A task that shows that the pool has started."""


def document(path: Path) -> bytes:
    """Return the result document of a bundle."""
    return json.dumps(analyze([path], RULES), default=dict).encode()


def answer(path: Path) -> Answer:
    return Answer(document(path))


def in_guard(path: Path) -> Outcome:
    """Return the same from a child of this process."""
    found = run_in_child(Answering(path), cell=Allowed((path,)))
    if found.name != "ok":
        raise RuntimeError(found.sentence)
    return found


class Answering:
    """The call with its bundle."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self) -> Answer:
        return answer(self._path)


def small(number: int) -> int:
    """An empty task; every tenth kills its process."""
    if number % BAD_EVERY == BAD_EVERY - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def small_in_guard(number: int) -> str:
    """The same in a child."""

    def call() -> Answer:
        return Answer(str(small(number)).encode())

    return run_in_child(call, Limits()).name
