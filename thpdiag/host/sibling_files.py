"""Files that belong together: symbols beside a perf recording, archives of several files for another program.

An engineer names `perf.data`; the customer sent `kallsyms`, `System.map-RELEASE` or the `perf.data.tar.bz2` of `perf
archive` into the same folder. An archive of Performance Co-Pilot is three files and more, of which pmrep wants the
paths: its members, which come packed one after the other, are spooled to a folder, up to a limit, until they are read.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from thpdiag.bundle import Member
from thpdiag.detect import Detector, TaggedRecord
from thpdiag.model import Citation, Problem, ProblemKind
from thpdiag.model.parser import BulkParser, Content
from thpdiag.parsers import bulk_formats

_PACKED = r"(?:\.(?:gz|bz2|xz|zst))?"
_SYMBOLS = re.compile(rf"(?:(?:proc[._-])?kallsyms(?:[.-][\w.+~-]*)?|System\.map(?:-[^/]*)?){_PACKED}$")
_STORE = ".debug"
MAX_SIBLINGS = 100  # files beside one recording


def sibling_files(paths: Sequence[Path]) -> list[Path]:
    """Further paths to read with the given ones, by name, none of them given already."""
    found: dict[Path, Path] = {}
    for path in filter(is_recording, paths):
        for near in sorted(_siblings_of(path))[:MAX_SIBLINGS]:
            found.setdefault(_real_path(near), near)
    given = {_real_path(path) for path in paths} if found else set()
    return [near for true, near in found.items() if true not in given]


def is_recording(path: Path) -> bool:
    """Whether it is a file that perf recorded into."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open("rb") as file:
            head = file.read(8)
    except OSError:
        return False
    return any(known.claims(path.name, head, None) for known in bulk_formats() if known.name == "perf_data")


def _siblings_of(path: Path) -> Iterator[Path]:
    archive = re.compile(rf"{re.escape(path.name)}\.(?:tar\.(?:gz|bz2|xz|zst)|tar|tgz|tbz2?|txz)$")
    try:
        entries = list(path.parent.iterdir())
    except OSError:
        return
    for near in entries:
        if near.name == _STORE:
            if near.is_dir():
                yield near
        elif (_SYMBOLS.match(near.name) or archive.match(near.name)) and near.is_file():
            yield near


def _real_path(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path


MAX_SPOOLED_BYTES = 4 << 30  # bytes of all that is kept


class _SpooledMember(NamedTuple):
    reader: BulkParser
    head: bytes
    size: int
    file: Path | None


class SpooledMembers(ExitStack):
    """The kept members, by path. To be used as a context; the folder is made when something is kept."""

    def __init__(self, most: int = MAX_SPOOLED_BYTES) -> None:
        super().__init__()
        self._room = most
        self._folder: Path | None = None
        self._kept: dict[str, _SpooledMember] = {}

    def keeps(self, member: Member, reader: BulkParser, paths: Sequence[str]) -> bool:
        """Whether the member is kept to be read later, by `read`."""
        name = next((name for path in paths if reader.beside and (name := reader.beside(path, member.file))), "")
        if not name:
            return False
        head, file, size = member.head(), self._place(member.path, name), 0
        with file.open("wb") as out:  # of one for which there is too little room a little more is read
            for chunk in member.chunks():
                size += len(chunk)
                if size > self._room:
                    break
                out.write(chunk)
        fits = size <= self._room
        self._kept[member.path] = _SpooledMember(reader, head, size, file if fits else None)
        if fits:
            self._room -= size
        else:
            file.unlink()
        return True

    def read(self, path: str, detector: Detector) -> list[TaggedRecord]:
        """What a kept member holds, once all of them lie there."""
        kept = self._kept[path]
        content = Content(iter((kept.head,)), kept.size, kept.file)
        found = list(detector.bulk(kept.reader, path, content))
        if kept.file is None:
            text = f"more than {MAX_SPOOLED_BYTES} bytes must be unpacked at the same time; it was not read"
            found.append(TaggedRecord(Problem(Citation(path), text, ProblemKind.LIMIT), kept.reader.name, ("", "")))
        return found

    def _place(self, path: str, name: str) -> Path:
        """A file of this name, in one folder with what lay in one folder."""
        self._folder = self._folder or Path(self.enter_context(TemporaryDirectory(prefix="thpdiag-")))
        folders = list(dict.fromkeys(kept.rpartition("/")[0] for kept in (*self._kept, path)))
        folder = self._folder / str(folders.index(path.rpartition("/")[0]))
        folder.mkdir(exist_ok=True)
        return folder / name
