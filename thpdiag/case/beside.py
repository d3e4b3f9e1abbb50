"""What lies beside a perf recording and names its kernel's functions, so that nobody needs to ask for it again.

An engineer names `perf.data`; the customer sent `kallsyms`, `System.map-RELEASE` or the `perf.data.tar.bz2` of
`perf archive` into the same folder.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from thpdiag.readers.perf.data import BULK

_PACKED = r"(?:\.(?:gz|bz2|xz|zst))?"
_SYMBOLS = re.compile(rf"(?:(?:proc[._-])?kallsyms(?:[.-][\w.+~-]*)?|System\.map(?:-[^/]*)?){_PACKED}$")
_STORE = ".debug"
MOST = 100  # files beside one recording


def beside(paths: Sequence[Path]) -> list[Path]:
    """Further paths to read with the given ones, by name, none of them given already."""
    given = {_true(path) for path in paths}
    found: dict[Path, Path] = {}
    for path in paths:
        if is_recording(path):
            for near in sorted(_near(path))[:MOST]:
                found.setdefault(_true(near), near)
    return [near for true, near in found.items() if true not in given]


def is_recording(path: Path) -> bool:
    """Whether it is a file that perf recorded into."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as file:
            return bool(BULK.claims(path.name, file.read(8), None))
    except OSError:
        return False


def _near(path: Path) -> Iterator[Path]:
    archive = re.compile(rf"{re.escape(path.name)}\.(?:tar\.(?:gz|bz2|xz|zst)|tar|tgz|tbz2?|txz)$")
    for near in _entries(path.parent):
        if near.name == _STORE:
            if near.is_dir():
                yield near
        elif (_SYMBOLS.match(near.name) or archive.match(near.name)) and near.is_file():
            yield near


def _entries(folder: Path) -> Iterable[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return ()


def _true(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path
