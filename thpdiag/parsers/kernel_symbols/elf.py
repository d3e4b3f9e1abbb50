"""vmlinux, kernel modules and their debug files: the names of functions by address, from the symbol table.

They come from `/boot`, `/usr/lib/debug`, and perf's own store (`~/.debug`, unpacked or as `perf archive` packs it):
`lib/modules/RELEASE/.../NAME.ko/BUILD-ID/elf`, `.build-id/XX/YYYY/elf` (perf source tools/perf/util/build-id.c). A
kernel with debug information has up to a gigabyte; what is needed of it stands at the beginning and at the end. The
tables are read by `thpdiag.perf.elf`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from thpdiag.model import Citation, Problem, ProblemKind, SymbolTable
from thpdiag.model.parser import BulkParser, Content, Source
from thpdiag.parsers.kernel_symbols.kallsyms import release_in

HEAD = 1024 * 1024  # bytes that are kept of the beginning
TAIL = 96 * 1024 * 1024  # and of the end: linkers put the symbol table behind debug information
_KERNEL = re.compile(r"(?:^|/)vmlinux(?:-[^/]*)?(?:\.debug)?(?:/[0-9a-f]{16,64}/(?:elf|debug|vmlinux))?$")
_MODULE = re.compile(r"(?:^|/)([\w-]+)\.ko(?:\.(?:gz|xz|zst|debug))*(?:/[0-9a-f]{16,64}/(?:elf|debug))?$")
_STORED = re.compile(
    r"(?:^|/)(?:\.build-id/[0-9a-f]{2}/[0-9a-f]{14,62}(?:\.debug|/(?:elf|debug|vmlinux))"
    r"|\[kernel\.[\w.]+\]/[0-9a-f]{16,64}/(?:elf|debug|vmlinux))$"
)
_RELEASE = re.compile(r"(?:^|/)vmlinux-(\d+\.\d+[\w.+~-]*?)(?:\.debug|\.gz|\.xz|\.zst)*(?:/|$)")
_BANNER = re.compile(rb"Linux version (\d+\.\d+[\w.+~-]{0,100}) ")
_LONGEST_BANNER = 256


class Kept:
    """The beginning and the end of a stream, what was asked for between them, and the banner of a kernel in it."""

    def __init__(self) -> None:
        self.size = 0
        self.release = ""
        self._head = b""
        self._tail: deque[bytes] = deque()
        self._held = 0
        self._wanted: dict[tuple[int, int], bytes] = {}
        self._whole: bytes | None = None

    def want(self, offset: int, size: int) -> None:
        """Keep these bytes too, as far as they are still to come."""
        before = b"".join(self._tail) if offset < self.size == self._held else b""
        self._wanted[offset, size] = before[offset : offset + size]

    def add(self, chunk: bytes) -> None:
        begin, self.size = self.size, self.size + len(chunk)
        if len(self._head) < HEAD:
            self._head += chunk[: HEAD - len(self._head)]
        for (offset, size), had in self._wanted.items():
            self._wanted[offset, size] = had + chunk[max(0, offset - begin) : max(0, offset + size - begin)]
        if not self.release:
            before = self._tail[-1][-_LONGEST_BANNER:] if self._tail else b""
            if (found := (before + chunk).find(b"Linux version ")) >= 0:
                told = _BANNER.match(before + chunk, found)
                self.release = told[1].decode() if told else ""
        self._tail.append(chunk)
        self._held += len(chunk)
        while self._held - len(self._tail[0]) >= TAIL:
            self._held -= len(self._tail.popleft())

    def part(self, offset: int, size: int) -> bytes | None:
        """What `thpdiag.perf.elf.Held` asks for."""
        if offset + size <= len(self._head):
            return self._head[offset : offset + size]
        if len(found := self._wanted.get((offset, size), b"")) == size:
            return found
        first = self.size - self._held
        if offset < first or offset + size > self.size:
            return None
        if self._whole is None or len(self._whole) != self._held:
            self._whole = b"".join(self._tail)
        return self._whole[offset - first : offset + size - first]


def _claims(path: str, head: bytes, size: int | None) -> bool:
    return bool(_KERNEL.search(path) or _MODULE.search(path) or _STORED.search(path))


def read(source: Source, content: Content) -> Iterator[SymbolTable | Problem]:
    """The functions of a kernel or a module; nothing of a program."""
    from thpdiag.perf import elf  # numpy: only where there is a file

    cite, path = Citation(source.member), source.member
    module = _MODULE.search(path)
    try:
        kept = _kept(content)
        release = kept.release or release_in(path) or (found[1] if (found := _RELEASE.search(path)) else "")
        table = elf.read(elf.open_elf(kept), cite, release, module[1].replace("-", "_") if module else "")
    except elf.ElfError as error:
        yield Problem(cite, str(error), ProblemKind.UNREADABLE, hides=False)
        return
    if table is not None and len(table.addresses):
        yield table
    elif table is not None or not _STORED.search(path):
        yield Problem(cite, "has no symbols of a kernel (stripped?)", ProblemKind.UNREADABLE, hides=False)


def _kept(content: Content) -> Kept:
    from thpdiag.perf.elf import open_elf

    kept, asked = Kept(), False
    for chunk in content.chunks:
        kept.add(chunk)
        if not asked and kept.size >= HEAD:
            asked = True
            for offset, size in open_elf(kept).program_notes:
                kept.want(offset, size)
    return kept


BULK_PARSER = BulkParser(
    "elf_symbols", "vmlinux, kernel modules (symbol table)", _claims, read, opens=re.compile(rb"\x7fELF")
)
