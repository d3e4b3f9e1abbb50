"""Bundles on disk by the sha256 of their content: `bundles/ab/cdef...`. No name of a stranger is part of a path.

A file comes in by a rename, whole or not at all, and is read-only from then on. Who puts and who removes holds the row
of the bundle in the database, so that none removes what another has just put.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from thpdiag.serve.storage.ids import is_sha256


class Content:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)

    def path(self, sha256: str) -> Path:
        """Where a bundle is, or would be; ValueError for what is no digest."""
        if not is_sha256(sha256):
            raise ValueError("no sha256 in hexadecimal")
        return self._folder / sha256[:2] / sha256[2:]

    def has(self, sha256: str) -> bool:
        return self.path(sha256).is_file()

    def put(self, file: Path, sha256: str) -> None:
        """Move a file in, which is on the disk already; it replaces one of the same content."""
        place = self.path(sha256)
        if not place.parent.is_dir():
            place.parent.mkdir(mode=0o700, exist_ok=True)
            sync_folder(self._folder)
        file.chmod(0o400)
        os.utime(file)  # from now on it counts as new: its row may not be seen by others yet
        file.replace(place)
        sync_folder(place.parent)

    def remove(self, sha256: str) -> int:
        """Unlink it; how many bytes that were."""
        place = self.path(sha256)
        try:
            size = place.stat().st_size
            place.unlink()
        except FileNotFoundError:
            return 0
        sync_folder(place.parent)
        return size

    def found(self) -> Iterator[tuple[str, float]]:
        """Digest and time of change of every file that has the name of a bundle."""
        for file in self._folder.glob("??/*"):
            sha256 = file.parent.name + file.name
            if is_sha256(sha256) and file.is_file():
                yield sha256, file.stat().st_mtime


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
