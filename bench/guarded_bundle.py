"""What the processes of `guard.py` do: one bundle, by calls that pickle knows, with the rules loaded at import."""

from __future__ import annotations

import json
import os
import signal
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd

from thpdiag.analyze import analyze
from thpdiag.engine.load import builtin_rules, load_rules
from thpdiag.guard.limits import Cell, Limits
from thpdiag.guard.outcome import Answer, Outcome
from thpdiag.guard.supervise import guarded
from thpdiag.readers import all_readers, bulk_readers

RULES = load_rules([builtin_rules()])
LOADED = (np.__name__, pd.__name__, all_readers(), bulk_readers())
BAD_EVERY = 10
WARMED = analyze([Path("-")], RULES, stdin=BytesIO(b"nothing that is known\n"))  # patterns are compiled, rules judged


def nothing(_number: int) -> None:
    """A task that shows that the pool has begun."""


def document(path: Path) -> bytes:
    """The result document of a bundle."""
    return json.dumps(analyze([path], RULES), default=dict).encode()


def answer(path: Path) -> Answer:
    return Answer(document(path))


def in_guard(path: Path) -> Outcome:
    """The same in a child of this process."""
    found = guarded(Answering(path), cell=Cell((path,)))
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
    """A task that is nothing, but for every tenth, which kills its process."""
    if number % BAD_EVERY == BAD_EVERY - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def small_in_guard(number: int) -> str:
    """The same in a child."""

    def call() -> Answer:
        return Answer(str(small(number)).encode())

    return guarded(call, Limits()).name
