"""What is being done with a bundle, in words: the guarded child writes them to a file, the server reads them.

The child may do anything with that file, since it reads a stranger's bytes. So it is opened only if it is a plain file,
little of it is read, and words that are not from here are not shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from time import monotonic
from types import MappingProxyType
from typing import Final

NAME: Final = "stage"
WIDTH: Final = 60  # bytes of the file, always: a reader never meets half of the words
EVERY: Final = 0.2  # seconds between two counts
READING: Final = "reading file {}"
STAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "read": "looking what is in the bundle",
        "cases": "telling hosts apart",
        "rules": "judging the rules",
        "lines that are cited": "quoting the lines that are cited",
        "result": "writing the result",
    }
)
PACKING: Final = "packing the result"
_SHOWN: Final = re.compile(rf"reading file \d{{1,9}}|{'|'.join(map(re.escape, (*STAGES.values(), PACKING)))}", re.ASCII)


@dataclass(slots=True)
class Stages:
    """Where the child says what it does. A disk without room for that is no matter of the analysis."""

    room: Path
    _files: int = 0
    _counted: float = -EVERY

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """What the analysis calls the block."""
        self.tell(STAGES.get(name, ""))
        yield

    def file(self, _path: str) -> None:
        """One more file of the bundle is read."""
        self._files += 1
        now = monotonic()
        if now - self._counted >= EVERY:
            self._counted = now
            self.tell(READING.format(self._files))

    def tell(self, words: str) -> None:
        with suppress(OSError):
            handle = os.open(self.room / NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(handle, words.ljust(WIDTH).encode("ascii", "replace")[:WIDTH], 0)
            finally:
                os.close(handle)


def told(room: Path) -> str:
    """What is being done now; empty if nothing of ours is told."""
    try:
        handle = os.open(room / NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        if not S_ISREG(os.fstat(handle).st_mode):
            return ""
        words = os.pread(handle, WIDTH, 0).decode("ascii", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(handle)
    return words if _SHOWN.fullmatch(words) else ""
