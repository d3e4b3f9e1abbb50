"""Hashes of files that are still growing: kept in memory while they grow, made again from the file after a restart."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import Final

KEPT: Final = 1_000  # uploads whose hash is in memory; of more the oldest are read again
BLOCK: Final = 1 << 20


class Digests:
    """One writer per upload calls; different uploads may do so at once."""

    def __init__(self) -> None:
        self._states: OrderedDict[str, tuple[int, hashlib._Hash]] = OrderedDict()
        self._lock = Lock()

    def add(self, upload: str, file: Path, offset: int, block: bytes) -> None:
        """Take in what was written at `offset`, which is where the file ended."""
        state = self._state(upload, file, offset)
        state.update(block)
        self._keep(upload, offset + len(block), state)

    def hexdigest(self, upload: str, file: Path, size: int) -> str:
        """The digest of the first `size` bytes."""
        state = self._state(upload, file, size)
        self._keep(upload, size, state)
        return state.hexdigest()

    def drop(self, upload: str) -> None:
        with self._lock:
            self._states.pop(upload, None)

    def _state(self, upload: str, file: Path, offset: int) -> hashlib._Hash:
        with self._lock:
            known, state = self._states.pop(upload, (0, hashlib.sha256()))
        return state if known == offset else _read(file, offset)

    def _keep(self, upload: str, offset: int, state: hashlib._Hash) -> None:
        with self._lock:
            self._states[upload] = (offset, state)
            while len(self._states) > KEPT:
                self._states.popitem(last=False)


def _read(file: Path, size: int) -> hashlib._Hash:
    state = hashlib.sha256()
    with file.open("rb", buffering=0) as source:
        while size and (block := source.read(min(BLOCK, size))):
            state.update(block)
            size -= len(block)
    return state
