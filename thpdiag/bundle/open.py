"""Entry point of the bundle stage: yields the members of the user's inputs, and problems.

Reads files and standard input, which may grow, shrink or fail while they are read, detects the type of each stream of
bytes, and opens archives and compressed files recursively.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from thpdiag.bundle.codecs import CHUNK, Stream, codec_of, decompress
from thpdiag.bundle.limits import Budget, Limits, StreamError, damage
from thpdiag.bundle.magic import (
    SNIFF,
    archive_defect,
    is_encrypted,
    is_packed,
    is_zip,
    named_as_archive,
    named_as_encrypted,
    unsupported_format,
)
from thpdiag.bundle.member import Member
from thpdiag.bundle.tar import TarWalker
from thpdiag.bundle.tar_format import is_tar
from thpdiag.bundle.tree import (
    DirectoryEntry,
    Entry,
    EntryKind,
    NameForm,
    Namespace,
    Place,
    open_regular,
    printable,
    size_of,
    unreadable,
    walk,
)
from thpdiag.bundle.zip import ZipFile, cut_zip, open_zip
from thpdiag.knowledge.paths import is_kernel_file
from thpdiag.model import Citation, Problem, ProblemKind


def read_file(file: BinaryIO, budget: Budget) -> Iterator[bytes]:
    """Yield chunks from the current position; a file that grows is read up to the size it had at the start."""
    expected = expected_size(file)
    given = 0
    while data := _read(file, CHUNK if expected is None else min(CHUNK, expected - given)):
        given += len(data)
        budget.count_input(len(data))
        budget.count_output(len(data))
        yield data
    if expected is not None and given < expected:
        raise damage(f"became shorter while it was read, {expected - given} bytes are missing")
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
        return b""  # the file is closed: the member is no longer valid


def expected_size(file: BinaryIO) -> int | None:
    """Return the size of a file on a disk; None for pipes and for /proc and /sys, whose sizes are meaningless."""
    try:
        status = os.fstat(file.fileno())
    except (OSError, ValueError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) and status.st_blocks else None


_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
MIN_ARCHIVE_BYTES = 40  # of an archive; a smaller compressed file is recognised by its name


@dataclass(slots=True)
class Intake:
    """Reads one input. `late` are skipped members that turned out to be wanted by a later link."""

    wants: Callable[[str], object]
    budget: Budget
    late: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def limits(self) -> Limits:
        return self.budget.limits

    def directory(self, root: Path, name: str) -> Iterator[Member | Problem]:
        space = self._namespace(Place(name))
        for found in walk(root, self.limits, stat.S_IFLNK):
            if not found.failure:
                space.link(Entry(found.path, EntryKind.SYMLINK, target=found.target))
        yield from self._open_entries(space, self._files(root, name, space))

    def file(self, file: BinaryIO, name: str) -> Iterator[Member | Problem]:
        """Yield the members of a file or stream that the user named."""
        place = Place(name, given=True, size=expected_size(file))
        yield from self.open(place, Stream(read_file(file, self.budget)), file if file.seekable() else None)

    def open(self, place: Place, stream: Stream, file: BinaryIO | None = None) -> Iterator[Member | Problem]:
        """Yield the members in a stream. `file` is its source if that supports seeking."""
        head = stream.peek(SNIFF)
        codec = codec_of(head)
        if (place.chain if codec else place.archives) >= self.limits.nesting and is_packed(head):
            text = f"lies in more than {self.limits.nesting} archives and was not opened (limit nesting)"
            yield Problem(Citation(place.path), text, ProblemKind.LIMIT, hides=True)
        elif codec:
            yield from self._unpack(codec, place, stream)
        elif is_zip(head):
            yield from self._zip(place, stream, file)
        elif is_tar(head):
            space = self._namespace(place.as_archive())
            walker = TarWalker(place.path, stream, self.budget, space.is_interesting)
            yield from self._open_entries(space, walker.entries())
        elif reason := _unsupported_reason(place, head):
            yield Problem(Citation(place.path), reason, ProblemKind.UNREADABLE)
        elif reason := archive_defect(place.path, head, unpacked=bool(place.chain)):
            yield (stream.failure or damage(f"{reason}; nothing in it was read")).problem(place.path, hides=True)
        elif place.wanted:
            if named_as_archive(place.path) and not place.codecs:
                yield damage("has the name of an archive and is text; read as text").problem(place.path, hides=True)
            self.budget.count_wanted()
            absolute = place.form is NameForm.ABSOLUTE
            yield Member(
                place.path,
                place.size,
                stream,
                self.limits,
                place.aliases,
                _on_disk(file),
                place.archive,
                absolute=absolute,
            )

    def _unpack(self, codec: str, place: Place, stream: Stream) -> Iterator[Member | Problem]:
        memory = self.limits.codec_memory >> place.codecs
        stem, dot, suffix = place.path.rpartition(".")
        wanted = place.wanted or (dot + suffix in _SUFFIXES and bool(self.wants(stem)))
        content = Stream(decompress(codec, stream, memory, self.budget))
        yield from self.open(place.as_decompressed(wanted=wanted), content)

    def _zip(self, place: Place, stream: Stream, file: BinaryIO | None) -> Iterator[Member | Problem]:
        space = self._namespace(place.as_archive())
        try:
            file = file or self._hold_in_memory(stream)
            entries = self._zip_entries(place, open_zip(file, self.budget), space)
        except StreamError as failure:
            yield failure.problem(place.path, hides=True)
            if file is None or failure.kind is not ProblemKind.DAMAGED:
                return
            file.seek(0)
            entries = cut_zip(Stream(read_file(file, self.budget)), self.budget, space.is_interesting)
        yield from self._open_entries(space, entries)

    def _hold_in_memory(self, stream: Stream) -> BinaryIO:
        data = stream.take(self.limits.held_bytes + 1)
        if len(data) > self.limits.held_bytes:
            text = f"is a zip of more than {self.limits.held_bytes} bytes where one cannot seek (limit held_bytes)"
            raise StreamError(ProblemKind.LIMIT, text)
        return io.BytesIO(data)

    def _zip_entries(self, place: Place, archive: ZipFile, space: Namespace) -> Iterator[Entry | Problem]:
        memory = self.limits.codec_memory >> place.codecs
        if archive.first:
            text = f"{archive.first} bytes before the zip archive were not read"
            yield damage(text).problem(place.path, hides=True)
        try:
            yield from archive.links(memory)
            yield from archive.files(memory, space.is_interesting)
        except StreamError as failure:
            yield failure.problem(place.path, "; members after it are missing", hides=True)

    def _files(self, root: Path, name: str, space: Namespace) -> Iterator[Entry | Problem]:
        for found in walk(root, self.limits):
            if found.failure:
                yield found.failure.problem(found.path or name, hides=True)
            elif stat.S_ISREG(found.mode):
                self.budget.count_members(1)
                yield from self._regular(found, space)
            elif not stat.S_ISLNK(found.mode):
                yield Entry(found.path, EntryKind.SPECIAL)

    def _regular(self, found: DirectoryEntry, space: Namespace) -> Iterator[Entry | Problem]:
        wanted = space.is_interesting(found.path)
        if not wanted and not _may_hold_members(found):
            return
        try:
            opened = open_regular(found.name, found.folder)
        except StreamError as failure:
            if wanted or named_as_archive(found.path):
                yield failure.problem(found.path, hides=True)
            return
        with os.fdopen(opened, "rb", buffering=0) as file:
            if wanted or named_as_archive(found.path) or is_packed(_head_bytes(file)):
                size = os.fstat(opened).st_size
                yield Entry(found.path, EntryKind.FILE, size, read_file(file, self.budget), wanted=wanted)

    def _namespace(self, place: Place) -> Namespace:
        return Namespace(place, self.wants, self.limits, self.late)

    def _open_entries(self, space: Namespace, entries: Iterator[Entry | Problem]) -> Iterator[Member | Problem]:
        for found in space.admit(entries):
            if isinstance(found, Problem):
                yield found
            else:
                entry, place = found
                yield from self.open(place, Stream(entry.chunks))


def _may_hold_members(found: DirectoryEntry) -> bool:
    """Whether an unwanted file is opened, because it may be an archive under any name."""
    if found.name.endswith(_SUFFIXES) or named_as_archive(found.name):
        return True
    return not is_kernel_file(found.path) and size_of(found) >= MIN_ARCHIVE_BYTES


def _unsupported_reason(place: Place, head: bytes) -> str:
    """Return the reason why a file that should have members or text cannot be opened, or empty."""
    if is_encrypted(head) and (place.given or named_as_encrypted(place.path)):
        return "is encrypted by GnuPG; decrypt it first (gpg -d) and give the result"
    if name := unsupported_format(head):
        return f"is {name}, which is not read; send it as tar or zip"
    return ""


def _head_bytes(file: BinaryIO) -> bytes:
    try:
        return os.pread(file.fileno(), SNIFF, 0)
    except OSError:
        return b""


def _on_disk(file: BinaryIO | None) -> Path | None:
    """Return a path by which another process can open an open disk file, even if it is renamed or deleted (Linux)."""
    if file is None or expected_size(file) is None:
        return None
    path = Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")
    return path if path.exists() else None


STDIN = Path("-")
_DEFAULTS = Limits()


def members(
    paths: Sequence[Path], wants: Callable[[str], object], limits: Limits = _DEFAULTS, stdin: BinaryIO | None = None,
    watch: Callable[[int], None] | None = None,
) -> Iterator[Member | Problem]:  # fmt: skip
    """Yield the wanted members, each valid until the next is requested, and problems.

    `wants` is called with the path of every file in an archive or directory, and the paths of links to it. A file that
    the user names is always yielded. `stdin` is used for `-` in `paths`. With several inputs, the name of the input is
    prepended to the paths of its members, because two captures of one host have files with equal names. `watch` is
    called with the number of input bytes read so far.
    """
    yield from _members(zip(paths, _labels(paths), strict=True), wants, Budget(limits, watch), stdin)


def reread_members(
    paths: Sequence[Path], wants: Callable[[str], object], limits: Limits = _DEFAULTS, stdin: BinaryIO | None = None
) -> Iterator[Member]:
    """Yield members a second time, by the same names, from the inputs that can be read again; without problems."""
    labelled = [(path, label) for path, label in zip(paths, _labels(paths), strict=True) if is_rereadable(path, stdin)]
    if STDIN in paths and stdin is not None and is_rereadable(STDIN, stdin):
        stdin.seek(0)
    for found in _members(labelled, wants, Budget(limits), stdin):
        if isinstance(found, Member):
            yield found


def is_rereadable(path: Path, stdin: BinaryIO | None = None) -> bool:
    """Whether an input can be read a second time. Pipes cannot: opening a named pipe waits for a writer."""
    if path == STDIN:
        return stdin is not None and stdin.seekable()
    try:
        return _file_type(path) in {stat.S_IFREG, stat.S_IFDIR}
    except StreamError:
        return False


def _members(
    labelled: Iterable[tuple[Path, str]], wants: Callable[[str], object], budget: Budget, stdin: BinaryIO | None
) -> Iterator[Member | Problem]:
    for path, label in labelled:
        name = "stdin" if path == STDIN else _name(path)
        intake = Intake(wants, budget)
        try:
            for found in chain(_open_input(path, name, intake, stdin), _late_members(path, name, intake)):
                yield _with_label(found, label, name)
        except StreamError as failure:
            yield failure.problem(label or name, hides=True)


def _name(path: Path) -> str:
    return printable(os.fsencode(path.name or path.resolve().name))


def _labels(paths: Sequence[Path]) -> list[str]:
    """Return a unique name for each input: its own, with the parent's name if two are equal, numbered if need be."""
    if len(paths) == 1:
        return [""]
    names = [_name(path) for path in paths]
    if len(set(names)) < len(names):
        names = [f"{_name(path.absolute().parent)}/{_name(path)}" for path in paths]
    return [name if names.count(name) == 1 else f"{name}.{i}" for i, name in enumerate(names, start=1)]


def _with_label(found: Member | Problem, label: str, name: str) -> Member | Problem:
    """Prepend the label of its input to a path; a single file has only the label."""
    if not label:
        return found
    if isinstance(found, Member):
        found.path = label if found.path == name else f"{label}/{found.path}"
        found.archive = f"{label}/{found.archive}"
        return found
    member = found.cite.member
    place = label if member == name else f"{label}/{member}"
    return replace(found, cite=found.cite._replace(member=place))


def _open_input(path: Path, name: str, intake: Intake, stdin: BinaryIO | None) -> Iterator[Member | Problem]:
    if path == STDIN:
        yield from intake.file(stdin or sys.stdin.buffer, name)
    elif (kind := _file_type(path)) == stat.S_IFDIR:
        yield from intake.directory(path, name)
    elif kind not in {stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK}:
        raise StreamError(ProblemKind.REFUSED, "is not a file, pipe, or directory")
    else:
        try:  # the user's own links are followed
            file = path.open("rb", buffering=0)
        except OSError as error:
            raise unreadable(error) from error
        with file:
            yield from intake.file(file, name)


def _late_members(path: Path, name: str, intake: Intake) -> Iterator[Member | Problem]:
    """Yield the members whose links followed after them. Files are read a second time for that; pipes cannot be."""
    late = intake.late
    if not is_rereadable(path):
        text = "is the target of a later link, and a stream cannot be read twice"
        yield from (Problem(Citation(member), text, ProblemKind.UNREADABLE) for member in late)
    elif late:
        for found in _open_input(path, name, Intake(late.__contains__, intake.budget), None):
            if isinstance(found, Member) and found.path in late:
                found.aliases = late[found.path]
                yield found


def _file_type(path: Path) -> int:
    try:
        return stat.S_IFMT(path.stat().st_mode)
    except OSError as error:
        raise unreadable(error) from error
