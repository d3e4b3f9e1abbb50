"""One file of the bundle, as a forward stream that is valid until the next member is asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from thpdiag.bundle.limits import Limits
from thpdiag.bundle.lines import Block, NumberedLines, Undecoded, blocks
from thpdiag.bundle.stream import CHUNK, Stream
from thpdiag.model import Citation, Problem, ProblemKind

LONGEST = 1 << 20  # bytes of a line that are held back until its end is seen
ROW = 4096  # bytes; a line that is longer is no row but a document, which is worth reading up to where it ends


class Member:
    """A file the reader may want.

    `path` is the customer's path inside the bundle, printable; `aliases` are the wanted paths of links that lead here;
    `size` is None where it is known only at the end; `file` opens the same bytes again where they lie on a disk as they
    are, while the member is valid. `problems` and `sha256` are complete after `finish`. `kept` is what was read of it,
    as far as `keep` asks for it; `lined` says that it was read as lines, so that it is a text.
    """

    def __init__(
        self,
        path: str,
        size: int | None,
        stream: Stream,
        limits: Limits,
        aliases: tuple[str, ...] = (),
        file: Path | None = None,
    ) -> None:
        self.path = path
        self.size = size
        self.aliases = aliases
        self.file = file
        self.problems: list[Problem] = []
        self.kept: list[bytes] = []
        self.lined = False
        self._room = 0  # bytes of `kept`
        self._stream = stream
        self._limits = limits
        self._hash = hashlib.sha256()
        self._given = 0
        self._ended = False
        self._cut = False  # it ends before its end

    def head(self, size: int = CHUNK) -> bytes:
        """The first bytes that were not read yet, without reading them."""
        return self._stream.peek(size)

    def keep(self, most: int) -> None:
        """Of what is read from now on, keep the first bytes."""
        self._room = most

    def lines(self) -> NumberedLines:
        """Numbered lines without line ends, from 1; see `thpdiag.bundle.lines`."""
        return NumberedLines(self._blocks())

    def _blocks(self) -> Iterator[Block]:
        odd = Undecoded()
        try:
            yield from blocks(self.head(), self.chunks_of_lines(), self._limits.line, odd)
        finally:
            self.problems.extend(odd.problems(self.path, self._limits.line))

    def chunks(self) -> Iterator[bytes]:
        """The bytes as they come. What ends them early becomes a problem."""
        while not self._ended and (chunk := self._stream.read()):
            room = self._limits.member_bytes - self._given
            if len(chunk) > room:
                self._problem(
                    ProblemKind.LIMIT,
                    f"only the first {self._limits.member_bytes} bytes were read (limit member_bytes)",
                )
                self._ended = self._cut = True
                chunk = chunk[:room]
            self._given += len(chunk)
            self._hash.update(chunk)
            if self._room:
                self.kept.append(chunk[: self._room])
                self._room -= len(self.kept[-1])
            yield chunk
        if not self._ended:
            self._ended = True
            if failure := self._stream.failure:
                self._cut = True
                self.problems.append(failure.problem(self.path))

    def chunks_of_lines(self) -> Iterator[bytes]:
        """The bytes of a text, cut at line ends; where they end early, without the last row.

        Half a row is no shorter row: of 953586 the first two digits are another number.
        """
        self.lined = True
        held = b""
        for chunk in self.chunks():
            end = chunk.rfind(b"\n") + 1
            if end:
                yield held + chunk[:end]
                held = chunk[end:]
            else:
                held += chunk
                if len(held) > LONGEST:
                    yield held
                    held = b""
        if held and not (self._cut and len(held) <= ROW):
            yield held

    def finish(self) -> None:
        """Reads what is left, so that `sha256` and `problems` speak of the whole member."""
        for _ in self.chunks():
            pass

    @property
    def sha256(self) -> str:
        """Of the content (decompressed), as far as it was read."""
        return self._hash.hexdigest()

    @property
    def length(self) -> int:
        """Bytes of the content (decompressed), as far as it was read."""
        return self._given

    def _problem(self, kind: ProblemKind, text: str) -> None:
        self.problems.append(Problem(Citation(self.path), text, kind))
