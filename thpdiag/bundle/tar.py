"""A strict tar walker on a forward stream: ustar, PAX, GNU long names, base-256 sizes, sparse members.

`tarfile` is not used because on hostile or damaged archives it hangs, allocates gigabytes or ends early without an
error. This walker requires a valid checksum in every header; after an invalid header it searches block by block for the
next valid one and reports the gap. An archive without its end mark (two blocks of zeros; one is accepted) may have lost
members and is reported.

Most members of a bundle are unwanted, so the loop that skips them determines the cost: with 20,000 members it has three
microseconds for each if it is to cost no more than decompression. It skips only plain members (regular files with an
exact header, also with a name of more than 100 characters as GNU tar writes it, and extended headers with only times)
and leaves everything else to the strict walker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from struct import Struct
from zlib import adler32

from thpdiag.bundle.codecs import Stream
from thpdiag.bundle.limits import Budget, ProblemFold, StreamError, damage
from thpdiag.bundle.magic import SNIFF, is_packed, may_be_packed
from thpdiag.bundle.tar_format import (
    BLOCK,
    GNU,
    ONLY_TIMES,
    USTAR,
    Extended,
    Header,
    SparseMap,
    fill_holes,
    is_header,
    padded_size,
    parse_header,
    parse_old_gnu_map,
    parse_pax_map,
)
from thpdiag.bundle.tree import Entry, EntryKind, NameForm, canonical_path, is_printable, printable
from thpdiag.model import Citation, Problem, ProblemKind
from thpdiag.model.text import path_name, quoted

_PLAIN = Struct("100s24x11sB12x6s2sc100x8s80xB166x")
PLAIN_KINDS = b"0xL"
LOOKAHEAD_BYTES = 3 * BLOCK  # a header and the two following blocks
MAX_LONG_NAME_BYTES = 8 * BLOCK  # of a GNU long name that is handled without the strict parser


def _is_unusual(path: str) -> bool:
    """Whether a path is not canonical, a directory, or not printable."""
    return (
        ("." in path and "/." in path) or "//" in path or path[0] in "/." or path[-1] == "/" or not is_printable(path)
    )


def _long_name(buffer: bytes, offset: int, size: int) -> str:
    """Return the long name in the body of a GNU header; raise ValueError if it is empty."""
    name = bytes(buffer[offset : offset + size]).partition(b"\0")[0].decode()
    if not name:
        raise ValueError("no name")
    return name


_EXTENDED = {b"x", b"X", b"g", b"L", b"K"}
_LINKS = {b"1", b"2"}
_NON_MEMBERS = {
    b"5",
    b"V",
    b"M",
    b"D",
    b"A",
    b"N",
    b"I",
}  # directories, volume labels, parts of other volumes, ACLs, ...
_SPECIAL = {b"3", b"4", b"6"}
_NO_BODY = {b"2", b"3", b"4", b"5", b"6"}
_MAX_EXTENDED_HEADERS = 16  # extended headers before one member


class _Body:
    """The bytes of one member, of which `used` have been read."""

    __slots__ = ("_padding", "_stream", "remaining")

    def __init__(self, stream: Stream, size: int, used: int = 0) -> None:
        self._stream = stream
        self._padding = padded_size(size) - size
        self.remaining = max(size - used, 0)

    def chunks(self) -> Iterator[bytes]:
        try:
            for data in self._stream.exactly(self.remaining, "the archive"):
                self.remaining -= len(data)
                yield data
        except StreamError:
            self.remaining = 0
            raise

    def close(self) -> int:
        """End the reading of this member and return the number of bytes to skip."""
        skipped, self.remaining = self.remaining + self._padding, 0
        return skipped


class TarWalker:
    """Iterates over the entries of a tar archive.

    `archive` is the path for problems; `interesting` is called with path and size of every regular member. `entries`
    yields the interesting members, archives and compressed files with any name, all links and special files. An entry
    is valid until the next one is requested.
    """

    def __init__(self, archive: str, stream: Stream, budget: Budget, interesting: Callable[[str, int], bool]) -> None:
        self._archive = archive
        self._stream = stream
        self._budget = budget
        self._interesting = interesting
        self._extended = Extended()
        self._chain = 0
        self._problems = ProblemFold(separate=10)
        self._start = 0  # offset of the current header
        self._wanted = (-1, "")  # offset and path of the member that is known to be interesting
        self._zeros = 0  # preceding blocks of zeros
        self._truncated = False

    def entries(self) -> Iterator[Entry | Problem]:
        while header := self._next_header():
            if header.kind in _EXTENDED:
                self._read_extended(header)
                continue
            entry, body = self._entry(header)
            yield from self._problems.new()
            if entry:
                yield entry
            self._advance(body.close())
        yield from self._problems.rest()
        yield from self._end_problems()

    # Headers

    def _next_header(self) -> Header | None:
        while True:
            if not self._chain:
                self._skip_unwanted()
            self._start = self._stream.offset
            block = self._stream.take(BLOCK)
            if not block or not block.strip(b"\0"):
                self._zeros += bool(block)
                if len(block) < BLOCK:
                    return None
                continue
            try:
                header = parse_header(block)
            except ValueError as error:
                self._resynchronise(str(error))
                continue
            self._after_zeros()
            self._budget.count_members(1)
            return header

    def _skip_unwanted(self) -> None:
        """Skip unwanted members, up to the first header that needs the strict parser."""
        stream = self._stream
        while stream.fill(LOOKAHEAD_BYTES) and stream.buffer[stream.position + 156] in PLAIN_KINDS:
            begin, end = stream.offset - stream.position, len(stream.buffer)
            position, members, wanted = self._skip_plain_members()
            if position > stream.position:
                self._after_zeros()
            stream.position = min(position, end)
            self._budget.count_members(members)
            self._advance(max(position - end, 0))
            if wanted:
                self._wanted = begin + wanted[0], wanted[1]
            if len(stream.buffer) - stream.position >= LOOKAHEAD_BYTES:
                return

    def _skip_plain_members(self) -> tuple[int, int, tuple[int, str] | None]:
        """Find the first header in the buffer that cannot be skipped, without moving the stream.

        Return its position (possibly after the end of the buffer), the number of members before it, and, if it belongs
        to an interesting member, the position and path of that.
        """
        buffer, position, interesting = self._stream.buffer, self._stream.position, self._interesting
        view, last, unpack = memoryview(buffer), len(buffer) - LOOKAHEAD_BYTES, _PLAIN.unpack_from
        members, wanted, max_name = 0, None, min(MAX_LONG_NAME_BYTES, self._budget.limits.name)
        long_name, long_name_header = "", 0
        try:
            while position <= last:
                name, digits, after, check, check_end, kind, magic, prefix = unpack(buffer, position)
                # The low half of Adler-32 started at 0 is the sum of the bytes, ten times faster than sum().
                if (
                    (magic != USTAR and magic != GNU)
                    or not digits.isdigit()
                    or after not in b"\0 "
                    or prefix
                    or check_end != b"\0 "
                    or adler32(view[position : position + BLOCK], 0) & 0xFFFF
                    != int(check, 8) + (adler32(check, 0) & 0xFFFF) - 224
                ):
                    break
                size, body = int(digits, 8), position + BLOCK
                if kind == b"0":
                    path = long_name or name.partition(b"\0")[0].decode()
                    packed = size and may_be_packed(buffer, body, size)
                    if packed or _is_unusual(path):
                        break
                    if interesting(path, size):
                        wanted = position, path
                        break
                    members, long_name = members + 1, ""
                elif kind == b"L" and not long_name and size <= max_name:
                    long_name, long_name_header = _long_name(buffer, body, size), position
                elif long_name or kind != b"x" or size > BLOCK or not ONLY_TIMES.fullmatch(buffer, body, body + size):
                    break
                position = body + (size + 511 & -512)
        except (ValueError, IndexError):
            pass  # no octal digits, no UTF-8, no name: the strict parser reports the error
        return long_name_header if long_name and not wanted else position, members, wanted

    def _after_zeros(self) -> None:
        if self._zeros:
            self._note_loss(
                f"{self._zeros} blocks of zeros lie before offset {self._stream.offset}, members may be missing there"
            )
            self._zeros = 0

    def _resynchronise(self, reason: str) -> None:
        """Skip to the next block that is a header, and report the loss."""
        self._extended, self._chain = Extended(), 0
        stream, where = self._stream, f"{reason} at offset {self._start} of the tar archive"
        while stream.fill(BLOCK):
            position = stream.position
            if stream.buffer[position + 257 : position + 262] == b"ustar" and is_header(
                stream.buffer[position : position + BLOCK]
            ):
                self._note_loss(f"{where}; members up to offset {stream.offset} are lost")
                self._zeros = 0
                return
            stream.position += BLOCK
        stream.skip(BLOCK)
        if self._zeros >= 2:
            self._problems.add(
                "end", Problem(Citation(self._archive), "bytes that are not tar follow the end of the archive")
            )
        else:
            self._note_loss(f"{where}; members from there on are lost")
            self._zeros = 2  # do not report the missing end mark as a second problem

    def _note_loss(self, text: str, kind: ProblemKind = ProblemKind.DAMAGED) -> None:
        self._problems.add("members may be lost", Problem(Citation(self._archive), text, kind, hides=True))

    def _advance(self, size: int) -> None:
        if size and self._stream.skip(size) < size:
            self._truncated = True

    def _end_problems(self) -> Iterator[Problem]:
        lost = f"; members after offset {self._stream.offset} of the tar archive are missing"
        if self._stream.failure:
            yield self._stream.failure.problem(self._archive, lost, hides=True)
        elif self._truncated:
            yield damage(f"the archive ends inside a member{lost}").problem(self._archive, hides=True)
        elif not self._zeros:
            yield damage(f"the archive ends without its end mark{lost}").problem(self._archive, hides=True)

    # Extended headers

    def _read_extended(self, header: Header) -> None:
        self._chain += 1
        if header.size > self._budget.limits.metadata or self._chain > _MAX_EXTENDED_HEADERS:
            text = f"extended header of {header.size} bytes"
            if self._chain > _MAX_EXTENDED_HEADERS:
                text = f"more than {_MAX_EXTENDED_HEADERS} extended headers"
            self._note_loss(f"{text} at offset {self._start} of the tar archive (limit metadata)", ProblemKind.LIMIT)
            self._extended, self._chain = Extended(), 0
            self._advance(padded_size(header.size))
            return
        body = self._stream.take(padded_size(header.size))
        self._truncated = self._truncated or len(body) < padded_size(header.size)
        try:
            self._extended.read(header.kind, body[: header.size])
        except ValueError as error:
            self._note_loss(f"{quoted(error)} at offset {self._start} of the tar archive")

    # Members

    def _entry(self, header: Header) -> tuple[Entry | None, _Body]:
        """Return the entry, None if it is not a member or unwanted, and its body."""
        extended, self._extended, self._chain = self._extended, Extended(), 0
        size = header.size if extended.size is None else extended.size
        body = _Body(self._stream, 0 if header.kind in _NO_BODY else size)
        wanted = self._start == self._wanted[0]
        path, form = self._wanted[1], NameForm.RELATIVE
        if not wanted:
            name = self._name(extended.name(header.name))
            if header.kind in _NON_MEMBERS or (name.endswith("/") and header.kind not in _LINKS):
                return None, body
            path, form = canonical_path(name)
        if not path:
            self._problems.add(
                "nameless", Problem(Citation(self._archive), f"member without a name at offset {self._start}")
            )
            return None, body
        if header.kind in _SPECIAL:
            return Entry(path, EntryKind.SPECIAL), body
        target = printable(header.link if extended.link is None else extended.link)
        if header.kind == b"2":
            return Entry(path, EntryKind.SYMLINK, target=target), body
        if header.kind == b"1" and not self._hard_link_has_body(size):
            return Entry(path, EntryKind.HARDLINK, target=target), _Body(self._stream, 0)
        wanted = wanted or self._interesting(path, size)
        entry = Entry(path, EntryKind.FILE, size, body.chunks(), form=form, wanted=wanted)
        if header.kind == b"S" or extended.sparse or extended.sparse_map:
            entry, body = self._sparse(entry, header, extended, size)
        if not wanted and not (size and is_packed(self._stream.peek(min(SNIFF, size)))):
            return None, body
        return entry, body

    def _name(self, raw: bytes) -> str:
        limit = self._budget.limits.name
        if len(raw) > limit:
            self._note_loss(
                f"name of {len(raw)} bytes at offset {self._start} of the tar archive is cut (limit name)",
                ProblemKind.LIMIT,
            )
        return printable(raw[:limit])

    def _hard_link_has_body(self, size: int) -> bool:
        """Whether data follow a hard link: PAX allows that; older archives state the size without data."""
        following = self._stream.peek(BLOCK)
        return size > 0 and following.strip(b"\0") != b"" and not is_header(following)

    def _sparse(self, entry: Entry, header: Header, extended: Extended, size: int) -> tuple[Entry, _Body]:
        """Return the entry with its holes filled, or as stored if the map is invalid."""
        is_old_gnu, start = header.kind == b"S", self._stream.offset
        pieces: SparseMap = []
        try:
            if is_old_gnu:
                pieces, real = parse_old_gnu_map(header, self._stream)
            else:
                pieces, real = parse_pax_map(extended, self._stream, self._budget.limits)
        except ValueError as error:
            real = 0
            self._note_loss(f"{quoted(error)}, holes of {path_name(entry.path)} are left out")
        body = _Body(self._stream, size, 0 if is_old_gnu else self._stream.offset - start)
        if not pieces and not real:
            return replace(entry, chunks=body.chunks()), body
        if real - sum(length for _, length in pieces) > self._budget.limits.hole_bytes:
            self._note_loss(f"holes of {path_name(entry.path)} are left out (limit hole_bytes)", ProblemKind.LIMIT)
            return replace(entry, chunks=body.chunks()), body
        return replace(entry, size=real, chunks=fill_holes(pieces, real, body.chunks())), body
