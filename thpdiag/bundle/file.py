"""The bytes of a file of the customer, or of standard input, while it may grow, shrink or fail."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

from thpdiag.bundle.failure import StreamError, damaged
from thpdiag.bundle.limits import Budget
from thpdiag.bundle.stream import CHUNK
from thpdiag.model import ProblemKind


def read_file(file: BinaryIO, budget: Budget) -> Iterator[bytes]:
    """Chunks from where the file stands; a file that grows is read up to the size it had at the start."""
    expected = expected_size(file)
    given = 0
    while data := _read(file, CHUNK if expected is None else min(CHUNK, expected - given)):
        given += len(data)
        budget.took(len(data))
        budget.gave(len(data))
        yield data
    if expected is not None and given < expected:
        raise damaged(f"became shorter while it was read, {expected - given} bytes are missing")
    if expected is not None and _read(file, 1):
        raise StreamError(ProblemKind.ODD, f"grew while it was read; only the first {given} bytes were read")


def _read(file: BinaryIO, size: int) -> bytes:
    try:
        return file.read(size) or b""
    except OSError as error:
        raise StreamError(
            ProblemKind.UNREADABLE, f"reading failed: {error.strerror or type(error).__name__}"
        ) from error
    except ValueError:
        return b""  # closed: the member is no longer valid


def expected_size(file: BinaryIO) -> int | None:
    """The size of a file on a disk; None for pipes and for /proc and /sys, where the size says nothing."""
    try:
        status = os.fstat(file.fileno())
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) and status.st_blocks else None
