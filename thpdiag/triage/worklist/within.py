"""What the user named, as seen from the folders and links that are met in it: what is none of its bundles."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from thpdiag.bundle.directory import open_regular
from thpdiag.bundle.failure import StreamError
from thpdiag.triage.store import form

PAGES: Final = "hosts"  # where triage writes the pages of hosts, beside its store
_HEAD: Final = 100  # bytes of the header of a database
_SQLITE: Final = b"SQLite format 3\0"
_COOKIE: Final = slice(40, 44)  # in the header: 0 as long as nothing is in the database
_APPLICATION: Final = slice(68, 72)


@dataclass(frozen=True, slots=True)
class Within:
    """The folder that the user named, and folders that results go to.

    Of a pattern `root` is the folder that it begins with, and `fits` says whether a path below fits. `followed` are the
    folders that links led to.
    """

    root: Path
    besides: Sequence[Path] = ()
    fits: Callable[[Sequence[str]], bool] | None = None
    followed: set[Path] = field(default_factory=set, compare=False)

    @classmethod
    def of(cls, root: Path, besides: Sequence[Path] = ()) -> Within:
        """Both as the system resolves them."""
        return cls(root.resolve(), tuple(path.resolve() for path in besides))

    def receives(self, folder: Path) -> bool:
        """Whether the results of this run go there."""
        return any(folder.name == path.name for path in self.besides) and folder.resolve() in self.besides

    def results(self, folder: Path) -> bool:
        """Whether triage writes into a folder, or did: results, or pages beside them."""
        return self._store(folder) or (folder.name == PAGES and self._store(folder.parent))

    def holds(self, place: Path) -> bool:
        """Whether something lies in what was named, given as the system resolves it."""
        return place.is_relative_to(self.root)

    def hides(self, folder: Path) -> bool:
        """Whether a folder of what was named, or one around it, has a name that is passed over."""
        return any(part.startswith(".") for part in folder.relative_to(self.root).parts)

    def finds(self, folder: Path) -> bool:
        """Whether a folder of what was named is found by its own name."""
        if not self.fits:
            return not self.hides(folder)
        parts = folder.relative_to(self.root).parts
        hidden = [place for place, part in enumerate(parts, start=1) if part.startswith(".")]
        return any(self.fits(parts[:place]) for place in range(max(hidden, default=0), len(parts) + 1))

    def _store(self, folder: Path) -> bool:
        return self.receives(folder) or is_store(folder / form.NAME)


def is_store(file: Path) -> bool:
    """Whether a file is a store of triage, or the beginning of one; told by its head, for it may be somebody else's.

    As long as a run has not ended all may be in the log beside it, and the database is empty.
    """
    try:
        opened = open_regular(file)
    except StreamError:
        return False
    try:
        head = os.read(opened, _HEAD)
    except OSError:
        return False
    finally:
        os.close(opened)
    if not head:
        return True
    ours = head[_APPLICATION] == form.APPLICATION.to_bytes(4, "big")
    return len(head) == _HEAD and head.startswith(_SQLITE) and (ours or not any(head[_COOKIE] + head[_APPLICATION]))
