"""Files that belong together: symbols next to a perf recording, and the files of a Performance Co-Pilot archive.

An engineer names `perf.data`; the customer sent `kallsyms`, `System.map-RELEASE` or the `perf.data.tar.bz2` of `perf
archive` into the same folder. An archive of Performance Co-Pilot is at least three files whose paths pmrep needs: its
members, which are unpacked one after the other, are spooled to a folder, up to a limit, until they are read.
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
_DEBUG_FOLDER = ".debug"
MAX_SIBLINGS = 100  # per recording


def sibling_files(paths: Sequence[Path]) -> list[Path]:
    """Return further paths to read with the given ones, without those that are given already."""
    siblings: dict[Path, Path] = {}
    for path in filter(is_recording, paths):
        for sibling in sorted(_siblings_of(path))[:MAX_SIBLINGS]:
            siblings.setdefault(_real_path(sibling), sibling)
    given = {_real_path(path) for path in paths} if siblings else set()
    return [sibling for real_path, sibling in siblings.items() if real_path not in given]


def is_recording(path: Path) -> bool:
    """Whether a file is a perf recording."""
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
    for entry in entries:
        if entry.name == _DEBUG_FOLDER:
            if entry.is_dir():
                yield entry
        elif (_SYMBOLS.match(entry.name) or archive.match(entry.name)) and entry.is_file():
            yield entry


def _real_path(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path


MAX_SPOOLED_BYTES = 4 << 30  # of all spooled members together


class _SpooledMember(NamedTuple):
    reader: BulkParser
    head: bytes
    size: int
    file: Path | None


class SpooledMembers(ExitStack):
    """Spooled members by path. Use it as a context manager; the folder is created with the first member."""

    def __init__(self, max_bytes: int = MAX_SPOOLED_BYTES) -> None:
        super().__init__()
        self._room = max_bytes
        self._folder: Path | None = None
        self._kept: dict[str, _SpooledMember] = {}

    def spool(self, member: Member, reader: BulkParser, paths: Sequence[str]) -> bool:
        """Spool a member to be read later with `read`, and return whether it is one that must be."""
        name = next((name for path in paths if reader.beside and (name := reader.beside(path, member.file))), "")
        if not name:
            return False
        head, file, size = member.head(), self._place(member.path, name), 0
        with file.open("wb") as out:  # the last chunk read of a member that does not fit is discarded
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
        """Return the readings of a spooled member, once all of them are spooled."""
        spooled = self._kept[path]
        content = Content(iter((spooled.head,)), spooled.size, spooled.file)
        readings = list(detector.bulk(spooled.reader, path, content))
        if spooled.file is None:
            text = f"more than {MAX_SPOOLED_BYTES} bytes must be unpacked at the same time; it was not read"
            problem = Problem(Citation(path), text, ProblemKind.LIMIT)
            readings.append(TaggedRecord(problem, spooled.reader.name, ("", "")))
        return readings

    def _place(self, path: str, name: str) -> Path:
        """Return the path of a file with this name, in one folder per source folder."""
        self._folder = self._folder or Path(self.enter_context(TemporaryDirectory(prefix="thpdiag-")))
        folders = list(dict.fromkeys(spooled.rpartition("/")[0] for spooled in (*self._kept, path)))
        folder = self._folder / str(folders.index(path.rpartition("/")[0]))
        folder.mkdir(exist_ok=True)
        return folder / name
