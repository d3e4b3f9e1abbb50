"""Files that are whole or not there: written under another name, on the disk, and then renamed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TextIO

from thpdiag.errors import StoreFullError, UsageError
from thpdiag.triage.store.trouble import NO_ROOM

ODD: Final = "backslashreplace"  # of lone surrogates, which no encoding has


@contextmanager
def whole(file: Path) -> Iterator[TextIO]:
    """A stream to a file that is there once it ends without an error; UTF-8, line ends as they are written."""
    part = file.with_name(f".{file.name}.part")
    with cannot(file), ExitStack() as undo:
        out = part.open("w", encoding="utf-8", newline="", errors=ODD)
        undo.callback(part.unlink, missing_ok=True)
        with out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        part.replace(file)


@contextmanager
def cannot(file: Path) -> Iterator[None]:
    """Turn an error of the disk into one sentence about the file."""
    try:
        yield
    except OSError as error:
        full = StoreFullError if error.errno in NO_ROOM else UsageError
        raise full(f"{file}: cannot be written ({error.strerror})") from error
