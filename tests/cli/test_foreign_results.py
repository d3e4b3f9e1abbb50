"""Results that are not ours: whatever is wrong in a document costs one sentence and exit 3, never a traceback."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from command_line import LEAK, Run

PROOF = os.environ.get("THPDIAG_PROOF") == "1"
MUTATIONS = 800 if PROOF else 20
FORMATS = ("text", "html", "markdown", "csv", "sarif", "junit", "gitlab", "github", "json")
VALUES = (
    None, True, -1, 0.5, 1e308, float("nan"), 10**30, "", "x", "9" * 100_000, "\ud800\x1b[2J", [], [[]], {}, [None],
    ["x", 1, None], {"a": {"b": [1]}}, {"schema": "thpdiag/result/1"},
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture
def whole(folder: Path, run: Run) -> Path:
    """A real result, of whose lists little is left."""
    path = folder / "whole.json"
    if not path.exists():
        path.write_text(json.dumps(cut(run("analyze", LEAK, "-f", "json").document)))
    return path


def cut(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: cut(value) for key, value in part.items()}
    if isinstance(part, list):
        return [cut(item) for item in part[:2]] if part and isinstance(part[0], dict | list) else part
    return part


def places(part: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield above
    for key, value in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        yield from places(value, (*above, key))


def mutate(document: Any, seed: int) -> tuple[Any, str]:
    """Another document, and what is different: a key is gone, or a value is another."""
    chance = random.Random(seed)
    *above, key = chance.choice([place for place in places(document) if place])
    changed = parent = deepcopy(document)
    for step in above:
        parent = parent[step]
    value = chance.choice((*VALUES, "drop"))
    if value == "drop":
        del parent[key]
    else:
        parent[key] = value
    return changed, f"{[*above, key]}: {repr(value)[:30]}"


def check(path: Path, whole: Path, what: str, run: Run) -> None:
    commands = [
        *(("render", path, "-f", name, "-vv") for name in FORMATS),
        ("compare", path, whole), ("compare", whole, path, "-f", "html"), ("redact", path), ("ask", path),
        ("baseline", "create", path, "--reason", "known", "-o", whole.with_suffix(".baseline")),
    ]  # fmt: skip
    for command in commands:
        done = run(*command)
        assert done.code in (0, 3), f"{what}, {command}: {done.err}"
        assert done.code == 0 or (done.out, done.err.count("\n")) == ("", 1), f"{what}, {command}: {done.err}"


def test_a_changed_result_is_read_or_refused(whole: Path, run: Run) -> None:
    """By each command that takes a result."""
    document, path = json.loads(whole.read_text()), whole.with_name("changed.json")
    check(whole, whole, "nothing", run)
    for seed in range(MUTATIONS):
        changed, what = mutate(document, seed)
        path.write_text(json.dumps(changed))
        check(path, whole, what, run)


@pytest.mark.parametrize(
    "begin", ['{"schema": "thpdiag/result/1"', '{"schema": "thpdiag/result/1", "a": ' + "[" * 99_999]
)
def test_a_result_that_is_cut_or_deep_is_refused(begin: str, folder: Path, run: Run) -> None:
    """JSON that ends in its middle, or nests without end."""
    path = folder / "cut.json"
    path.write_text(begin)
    for command in (("render", path), ("redact", path), ("compare", path, path), ("ask", path)):
        done = run(*command)
        assert (done.code, done.out, done.err.count("\n")) == (3, "", 1)
