"""Members of archives that a program must find as files beside each other: kept in a folder until they are read.

An archive of Performance Co-Pilot is three files and more, of which pmrep wants the paths. In a bundle they come one
after the other, packed. What is kept is bounded; the folder is gone when the reading is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from thpdiag.bundle import Member
from thpdiag.model import Citation, Problem, ProblemKind
from thpdiag.reader import BulkReader, Content
from thpdiag.recognise import Reading, Recogniser

MOST = 4 << 30  # bytes of all that is kept


@dataclass(frozen=True, slots=True)
class _Kept:
    reader: BulkReader
    head: bytes
    size: int
    file: Path | None


class SideBySide:
    """The kept members, by path. To be used as a context; the folder is made when something is kept."""

    def __init__(self, most: int = MOST) -> None:
        self._room = most
        self._folder: TemporaryDirectory[str] | None = None
        self._kept: dict[str, _Kept] = {}

    def __enter__(self) -> SideBySide:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._folder:
            self._folder.cleanup()

    def keeps(self, member: Member, reader: BulkReader, paths: Sequence[str]) -> bool:
        """Whether the member is kept to be read later, by `read`."""
        name = next((name for path in paths if reader.beside and (name := reader.beside(path, member.file))), "")
        if not name:
            return False
        head, file = member.head(), self._place(member.path, name)
        size = self._write(member, file)
        self._kept[member.path] = _Kept(reader, head, size, file if size <= self._room else None)
        if size <= self._room:
            self._room -= size
        else:
            file.unlink()
        return True

    def read(self, path: str, recogniser: Recogniser) -> list[Reading]:
        """What a kept member holds, once all of them lie there."""
        kept = self._kept[path]
        content = Content(iter((kept.head,)), kept.size, kept.file)
        found = list(recogniser.bulk(kept.reader, path, content))
        if kept.file is None:
            text = f"more than {MOST} bytes would have to be unpacked beside each other; it was not read"
            found.append(Reading(Problem(Citation(path), text, ProblemKind.LIMIT), kept.reader.name, ("", "")))
        return found

    def _place(self, path: str, name: str) -> Path:
        """A file of this name, in one folder with what lay in one folder."""
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="thpdiag-")
        folders = list(dict.fromkeys(kept.rpartition("/")[0] for kept in (*self._kept, path)))
        folder = Path(self._folder.name) / str(folders.index(path.rpartition("/")[0]))
        folder.mkdir(exist_ok=True)
        return folder / name

    def _write(self, member: Member, file: Path) -> int:
        """How long the member is, as far as there is room; a little more, if there is too little."""
        size = 0
        with file.open("wb") as out:
            for chunk in member.chunks():
                size += len(chunk)
                if size > self._room:
                    break
                out.write(chunk)
        return size
