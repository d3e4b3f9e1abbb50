"""A strict tar walker on a forward stream: ustar, PAX, GNU long names, base-256 sizes, sparse members.

Why not `tarfile`: on hostile or damaged archives it hangs, swells to gigabytes or ends early without a word. This
walker takes nothing for granted: every header must carry its checksum; at one that does not it looks on block by block
for the next that does and reports the gap; an archive without its end mark (two blocks of zeros; one is accepted) may
have lost members and is reported.

Most of a bundle is members that nobody wants, so the loop that passes them decides what intake costs: a bundle of
20,000 members leaves three microseconds for each if it is to cost no more than decompression. It passes only what is
plain beyond doubt (a regular member with an exact header, also with a name of more than 100 characters as GNU tar
writes it, or an extended header that holds times alone) and leaves everything else to the strict walker.
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
    HARMLESS,
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
LOOKAHEAD_BYTES = 3 * BLOCK  # a header and two blocks of what follows are looked at
MAX_LONG_NAME = 8 * BLOCK  # bytes of a name in a body of its own that is passed without the strict parser


def _needs_second_look(path: str) -> bool:
    """Not canonical, a directory, or not printable."""
    return (
        ("." in path and "/." in path) or "//" in path or path[0] in "/." or path[-1] == "/" or not is_printable(path)
    )


def _long_name(buffer: bytes, at: int, size: int) -> str:
    """The name that GNU tar keeps in a body of its own; raises ValueError for none."""
    name = bytes(buffer[at : at + size]).partition(b"\0")[0].decode()
    if not name:
        raise ValueError("no name")
    return name


_EXTENDED = {b"x", b"X", b"g", b"L", b"K"}
_LINKS = {b"1", b"2"}
_NO_MEMBER = {b"5", b"V", b"M", b"D", b"A", b"N", b"I"}  # directories, volume labels, parts of other volumes, ACLs, ...
_SPECIAL = {b"3", b"4", b"6"}
_NO_BODY = {b"2", b"3", b"4", b"5", b"6"}
_MAX_EXTENDED_HEADERS = 16  # extended headers before one member


class _Body:
    """The bytes of one member, of which `used` are already read."""

    __slots__ = ("_padding", "_stream", "left")

    def __init__(self, stream: Stream, size: int, used: int = 0) -> None:
        self._stream = stream
        self._padding = padded_size(size) - size
        self.left = max(size - used, 0)

    def chunks(self) -> Iterator[bytes]:
        try:
            for data in self._stream.exactly(self.left, "the archive"):
                self.left -= len(data)
                yield data
        except StreamError:
            self.left = 0
            raise

    def close(self) -> int:
        """Ends the reading of this member; how many bytes of it are still to be passed over."""
        left, self.left = self.left + self._padding, 0
        return left


class TarWalker:
    """`archive` names the archive in problems; `interesting` is asked for path and size of every regular member.

    `entries` gives the interesting members, those that are archives or compressed whatever their name, all links and
    special files. An entry is valid until the next one is asked for.
    """

    def __init__(self, archive: str, stream: Stream, budget: Budget, interesting: Callable[[str, int], bool]) -> None:
        self._archive = archive
        self._stream = stream
        self._budget = budget
        self._interesting = interesting
        self._extended = Extended()
        self._chain = 0
        self._problems = ProblemFold(apart=10)
        self._start = 0  # offset of the header at hand
        self._wanted = (-1, "")  # offset of the header whose path was asked for and is interesting, and the path
        self._zeros = 0  # blocks of zeros just passed
        self._cut = False

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
                self._pass_over()
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

    def _pass_over(self) -> None:
        """Passes the members that nobody wants; stops at the first header that needs more than a look."""
        stream = self._stream
        while stream.fill(LOOKAHEAD_BYTES) and stream.buffer[stream.at + 156] in PLAIN_KINDS:
            begin, end = stream.offset - stream.at, len(stream.buffer)
            at, members, wanted = self._skip_plain_members()
            if at > stream.at:
                self._after_zeros()
            stream.at = min(at, end)
            self._budget.count_members(members)
            self._advance(max(at - end, 0))
            if wanted:
                self._wanted = begin + wanted[0], wanted[1]
            if len(stream.buffer) - stream.at >= LOOKAHEAD_BYTES:
                return

    def _skip_plain_members(self) -> tuple[int, int, tuple[int, str] | None]:
        """Where in the buffer, or behind it, the first header is that was not passed, and how many members were.

        And, if that header is of a member that was asked for and is interesting, where it is and the path; else None.
        The stream itself is not moved.
        """
        buffer, at, interesting = self._stream.buffer, self._stream.at, self._interesting
        view, last, unpack = memoryview(buffer), len(buffer) - LOOKAHEAD_BYTES, _PLAIN.unpack_from
        members, wanted, longest = 0, None, min(MAX_LONG_NAME, self._budget.limits.name)
        long, held = "", 0  # the name from a header of its own, and where that is
        try:
            while at <= last:
                name, digits, after, check, check_end, kind, magic, prefix = unpack(buffer, at)
                # Adler-32 started at 0 has the sum of the bytes in its low half, and is ten times faster than sum().
                if (
                    (magic != USTAR and magic != GNU)
                    or not digits.isdigit()
                    or after not in b"\0 "
                    or prefix
                    or check_end != b"\0 "
                    or adler32(view[at : at + BLOCK], 0) & 0xFFFF != int(check, 8) + (adler32(check, 0) & 0xFFFF) - 224
                ):
                    break
                size, body = int(digits, 8), at + BLOCK
                if kind == b"0":
                    path = long or name.partition(b"\0")[0].decode()
                    packed = size and may_be_packed(buffer, body, size)
                    if packed or _needs_second_look(path):
                        break
                    if interesting(path, size):
                        wanted = at, path
                        break
                    members, long = members + 1, ""
                elif kind == b"L" and not long and size <= longest:
                    long, held = _long_name(buffer, body, size), at
                elif long or kind != b"x" or size > BLOCK or not HARMLESS.fullmatch(buffer, body, body + size):
                    break
                at = body + (size + 511 & -512)
        except (ValueError, IndexError):
            pass  # no octal digits, no UTF-8, no name: the strict parser says what it is
        return held if long and not wanted else at, members, wanted

    def _after_zeros(self) -> None:
        if self._zeros:
            self._note_loss(
                f"{self._zeros} blocks of zeros lie before offset {self._stream.offset}, members may be missing there"
            )
            self._zeros = 0

    def _resynchronise(self, reason: str) -> None:
        """Goes on to the next block that is a header; what lay between is lost and reported."""
        self._extended, self._chain = Extended(), 0
        stream, where = self._stream, f"{reason} at offset {self._start} of the tar archive"
        while stream.fill(BLOCK):
            at = stream.at
            if stream.buffer[at + 257 : at + 262] == b"ustar" and is_header(stream.buffer[at : at + BLOCK]):
                self._note_loss(f"{where}; members up to offset {stream.offset} are lost")
                self._zeros = 0
                return
            stream.at += BLOCK
        stream.skip(BLOCK)
        if self._zeros >= 2:
            self._problems.add(
                "end", Problem(Citation(self._archive), "bytes that are not tar follow the end of the archive")
            )
        else:
            self._note_loss(f"{where}; members from there on are lost")
            self._zeros = 2  # reported: that the end mark is missing is no second problem

    def _note_loss(self, text: str, kind: ProblemKind = ProblemKind.DAMAGED) -> None:
        self._problems.add("members may be lost", Problem(Citation(self._archive), text, kind, hides=True))

    def _advance(self, size: int) -> None:
        if size and self._stream.skip(size) < size:
            self._cut = True

    def _end_problems(self) -> Iterator[Problem]:
        lost = f"; members after offset {self._stream.offset} of the tar archive are missing"
        if self._stream.failure:
            yield self._stream.failure.problem(self._archive, lost, hides=True)
        elif self._cut:
            yield damage(f"the archive ends inside a member{lost}").problem(self._archive, hides=True)
        elif not self._zeros:
            yield damage(f"the archive ends without its end mark{lost}").problem(self._archive, hides=True)

    # Extended headers

    def _read_extended(self, header: Header) -> None:
        self._chain += 1
        if header.size > self._budget.limits.metadata or self._chain > _MAX_EXTENDED_HEADERS:
            many = self._chain > _MAX_EXTENDED_HEADERS
            what = (
                f"more than {_MAX_EXTENDED_HEADERS} extended headers"
                if many
                else (f"extended header of {header.size} bytes")
            )
            self._note_loss(f"{what} at offset {self._start} of the tar archive (limit metadata)", ProblemKind.LIMIT)
            self._extended, self._chain = Extended(), 0
            self._advance(padded_size(header.size))
            return
        body = self._stream.take(padded_size(header.size))
        self._cut = self._cut or len(body) < padded_size(header.size)
        try:
            self._extended.read(header.kind, body[: header.size])
        except ValueError as error:
            self._note_loss(f"{quoted(error)} at offset {self._start} of the tar archive")

    # Members

    def _entry(self, header: Header) -> tuple[Entry | None, _Body]:
        """The entry, None for what is no member or nobody asked for, and the body to pass over."""
        extended, self._extended, self._chain = self._extended, Extended(), 0
        size = header.size if extended.size is None else extended.size
        body = _Body(self._stream, 0 if header.kind in _NO_BODY else size)
        wanted = self._start == self._wanted[0]
        path, form = self._wanted[1], NameForm.RELATIVE
        if not wanted:
            name = self._name(extended.name(header.name))
            if header.kind in _NO_MEMBER or (name.endswith("/") and header.kind not in _LINKS):
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
        most = self._budget.limits.name
        if len(raw) > most:
            self._note_loss(
                f"name of {len(raw)} bytes at offset {self._start} of the tar archive is cut (limit name)",
                ProblemKind.LIMIT,
            )
        return printable(raw[:most])

    def _hard_link_has_body(self, size: int) -> bool:
        """PAX lets a hard link carry its data again; older archives state the size without any data."""
        following = self._stream.peek(BLOCK)
        return size > 0 and following.strip(b"\0") != b"" and not is_header(following)

    def _sparse(self, entry: Entry, header: Header, extended: Extended, size: int) -> tuple[Entry, _Body]:
        """The entry with its holes filled, or as it is stored when the map is of no use."""
        stored, start = header.kind == b"S", self._stream.offset
        pieces: SparseMap = []
        try:
            if stored:
                pieces, real = parse_old_gnu_map(header, self._stream)
            else:
                pieces, real = parse_pax_map(extended, self._stream, self._budget.limits)
        except ValueError as error:
            real = 0
            self._note_loss(f"{quoted(error)}, holes of {path_name(entry.path)} are left out")
        body = _Body(self._stream, size, 0 if stored else self._stream.offset - start)
        if not pieces and not real:
            return replace(entry, chunks=body.chunks()), body
        if real - sum(length for _, length in pieces) > self._budget.limits.hole_bytes:
            self._note_loss(f"holes of {path_name(entry.path)} are left out (limit hole_bytes)", ProblemKind.LIMIT)
            return replace(entry, chunks=body.chunks()), body
        return replace(entry, size=real, chunks=fill_holes(pieces, real, body.chunks())), body
