"""Room that is kept back for the day the disk is full.

A full disk stops SQLite even from deleting, since its log cannot grow. A file of 1 MiB is written beside the store
before the first result; given up, it leaves room to write down what happened and to close the store properly.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

NAME: Final = "ballast"
SIZE: Final = 1 << 20


def load(folder: Path) -> None:
    """Have the whole of it on the disk; OSError if there is no room. Random, so that no file system packs it away."""
    file = folder / NAME
    if file.is_file() and file.stat().st_size == SIZE:
        return
    try:
        with file.open("wb") as out:
            out.write(os.urandom(SIZE))
            out.flush()
            os.fsync(out.fileno())
    except OSError:
        drop(folder)
        raise


def drop(folder: Path) -> None:
    """Give the room back; the next run loads it again."""
    (folder / NAME).unlink(missing_ok=True)
