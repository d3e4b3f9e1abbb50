"""Text that waits on the disk until what stands before it is known: how many there are, which of them are the gravest.

The files have no name; whatever ends the program, nothing of them is left.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

PIECE: Final = 1 << 16  # characters that are in memory at a time


class Spools:
    """The files of one walk, in this folder if it can be written, else where temporary files are kept."""

    def __init__(self, folder: Path) -> None:
        self._place = folder if os.access(folder, os.W_OK) else None
        self._files: list[IO[str]] = []

    def one(self) -> Spool:
        file = tempfile.TemporaryFile(  # noqa: SIM115 - closed with the others
            "w+", encoding="utf-8", errors="backslashreplace", newline="", dir=self._place
        )
        self._files.append(file)
        return Spool(file)

    def ranked(self) -> Ranked:
        return Ranked(self)

    def flush(self) -> None:
        """Write all of it; an OSError tells that there is no room."""
        for file in self._files:
            file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files:
            with suppress(OSError):  # what a full disk did not take is of no use any more
                file.close()


class Spool:
    """One such file. It is written first, then read as often as need be."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def add(self, text: str) -> None:
        self._file.write(text)

    def pieces(self) -> Iterator[str]:
        self._file.seek(0)
        while piece := self._file.read(PIECE):
            yield piece

    def lines(self) -> Iterator[str]:
        """The text by its lines, without their ends."""
        self._file.seek(0)
        return (line.removesuffix("\n") for line in self._file)


class Ranked:
    """Texts that come out by their weight, the greatest first; those of one weight in the order in which they came."""

    def __init__(self, spools: Spools) -> None:
        self._new, self._spools = spools.one, dict[int, Spool]()

    def add(self, weight: int, text: str) -> None:
        """`text` has no tab in it, as JSON that was `written`."""
        if weight not in self._spools:
            self._spools[weight] = self._new()
        self._spools[weight].add(text.replace("\n", "\t") + "\n")

    def texts(self) -> Iterator[str]:
        for weight in sorted(self._spools, reverse=True):
            yield from (line.replace("\t", "\n") for line in self._spools[weight].lines())
