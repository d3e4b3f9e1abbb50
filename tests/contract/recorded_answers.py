"""What was recorded of today's answers, and whether they are still the same.

A recording is one file for a group of answers, `recorded/GROUP.xz`: lines of an answer's name, a tab, and JSON.
`BLESS=1` records values and words anew, `BLESS=words` the words only: each test leaves its answer in a folder, and at
the end of the run (`conftest.py`) the folder becomes part of the recordings.
"""

from __future__ import annotations

import json
import lzma
import os
import shutil
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from contract.separate_words import differences

RECORDED = Path(__file__).parent / "recorded"
BLESSED = RECORDED / ".blessed"  # what the tests of a run with BLESS have left, by group
MAX_SHOWN = 20  # differences of one answer that a failure shows
FRESH = 9  # preset of xz: its window spans a whole group, whose answers are much alike


def compare(group: str, name: str, actual: Any, *, words: bool = False) -> None:
    """Fail with the first differences unless an answer is as it was recorded."""
    __tracebackhide__ = True  # a failure shows the differences alone
    group = f"{group}.words" if words else group
    if os.environ.get("BLESS") in (("1", "words") if words else ("1",)):
        _bless(group, name, actual)
        return
    recorded = _lines(group).get(name)
    assert recorded is not None, f"{name} is not recorded in {group}; look at it, then run the test with BLESS=1"
    old, new = json.loads(recorded), json.loads(json.dumps(actual))
    if old == new:
        return
    found = differences(old, new)
    shown = [*islice(found, MAX_SHOWN)]
    more = sum(1 for _ in found)
    title = f"{len(shown) + more} {'wordings' if words else 'values'} of {name} are not as recorded in {group}"
    raise AssertionError("\n  ".join([f"{title} (old -> new):", *shown, *([f"... and {more} more"] if more else [])]))


def recorded_words() -> Iterator[tuple[str, dict[str, str]]]:
    """Every answer of `analyze`: its name, and its sentences by their place in the document."""
    for file in sorted(RECORDED.glob("analyze.*.words.xz")):
        for name, words in _lines(file.stem).items():
            yield name, json.loads(words)


def recorded_values(group: str, name: str) -> dict[str, Any]:
    """The values of one answer."""
    values: dict[str, Any] = json.loads(_lines(group)[name])
    return values


def recorded_documents(group: str) -> Iterator[tuple[str, dict[str, Any], dict[str, str]]]:
    """Every answer of a group: its name, its values, and its sentences by their place in it."""
    words = _lines(f"{group}.words")
    for name, values in _lines(group).items():
        yield name, json.loads(values), json.loads(words[name])


@lru_cache(4)
def _lines(group: str) -> dict[str, str]:
    file = RECORDED / f"{group}.xz"
    if not file.is_file():
        return {}
    return dict(line.split("\t", 1) for line in lzma.decompress(file.read_bytes()).decode().split("\n") if line)


def _bless(group: str, name: str, actual: Any) -> None:
    folder = BLESSED / group
    folder.mkdir(parents=True, exist_ok=True)
    (folder / quote(name, safe="")).write_text(json.dumps(actual, sort_keys=True, ensure_ascii=True))


def keep_blessed() -> None:
    """Make what tests have left a part of the recordings; names that were not asked stay."""
    for folder in sorted(BLESSED.glob("*")):
        lines = _lines(folder.name) | {unquote(file.name): file.read_text() for file in folder.iterdir()}
        text = "\n".join(f"{name}\t{lines[name]}" for name in sorted(lines))
        (RECORDED / f"{folder.name}.xz").write_bytes(lzma.compress(text.encode(), preset=FRESH))
    shutil.rmtree(BLESSED, ignore_errors=True)
