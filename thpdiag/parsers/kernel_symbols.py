"""Names of kernel functions by address: kallsyms, System.map, the symbol tables of vmlinux and modules.

/proc/kallsyms and System.map: the names of the kernel's functions by address, without which perf.data has none.

`thpdiag.perf.kallsyms` makes a table of it, if a recording asks for names. Which kernel a list is of stands
in its path only: the release in `System.map-RELEASE` and `lib/modules/RELEASE/`, the build id in perf's own store
(`~/.debug`, unpacked or as `perf archive` packs it): `[kernel.kallsyms]/BUILD-ID/kallsyms` (perf source
tools/perf/util/build-id.c).

vmlinux, kernel modules and their debug files: the names of functions by address, from the symbol table.

They come from `/boot`, `/usr/lib/debug`, and perf's own store (`~/.debug`, unpacked or as `perf archive` packs it):
`lib/modules/RELEASE/.../NAME.ko/BUILD-ID/elf`, `.build-id/XX/YYYY/elf` (perf source tools/perf/util/build-id.c). A
kernel with debug information has up to a gigabyte; what is needed of it stands at the beginning and at the end. The
tables are read by `thpdiag.perf.elf`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from thpdiag.model import Citation, Problem, ProblemKind, SymbolList, SymbolTable, TableKind
from thpdiag.model.facts import MAX_CITED_CHARS
from thpdiag.model.parser import BulkParser, Content, Source
from thpdiag.model.profile import width_of

MAX_LIST_BYTES = 128 * 1024 * 1024  # bytes; the longest lists known (all data symbols included) have a tenth of it
FIRST_LINE_BYTES = 4096  # bytes that have the first line, be it below a command
DECIDING_LINES = 64  # lines of the beginning that must be symbols
_SYMBOL_LINE = re.compile(
    rb"(?:[0-9a-f]{16}|[0-9a-f]{8}|[ ]{2,10}\(null\)) [A-Za-z?-] [^\s\[\]]+(?:[\t ]+\[[^\]\s]+\])?[ \t]*\r?$"
)
_NAMED = re.compile(r"(?:^|/)(?:[\w.+-]*kallsyms[\w.+-]*|[\w.-]*System\.map(?:-[^/]*)?)$", re.IGNORECASE)
_SYSTEM_MAP = re.compile(r"(?:^|/)[\w.-]*System\.map[^/]*$", re.IGNORECASE)
# Names that every list for the kernel of a known architecture has near its beginning, and none of a program has.
_COMMAND = re.compile(rb"(?!(?:[0-9a-f]{8}){1,2} )[^\n]{0,200}(?:kallsyms|System\.map)[^\n]{0,100}\n")  # copied with it
_KERNEL_NAMES = re.compile(
    rb"(?m) [TtAaDd] (?:_s?text|startup_64|__per_cpu_start|fixed_percpu_data|irq_stack_union|_head|primary_entry)\r?$"
)
_LIST_RELEASE = re.compile(r"(?:System\.map|kallsyms)-(\d+\.\d+[\w.+~-]*?)(?:\.(?:gz|xz|bz2|zst|txt|log))*$")
_MODULES = re.compile(r"(?:^|/)lib/modules/(\d+\.\d+[^/]*)/")
_BUILD_ID = re.compile(
    r"(?:^|/)([0-9a-f]{16,64})/(?:[^/]+/)?kallsyms$|\.build-id/([0-9a-f]{2})/([0-9a-f]{14,62})/kallsyms$"
)


def release_in(path: str) -> str:
    """The release of the kernel that the path names, or nothing."""
    found = _LIST_RELEASE.search(path) or _MODULES.search(path)
    return found[1] if found else ""


def build_id_in(path: str) -> str:
    """The build id of the folder that the path goes through in perf's own store, or nothing."""
    found = _BUILD_ID.search(path)
    return "".join(part for part in found.groups() if part) if found else ""


def _is_kallsyms(path: str, head: bytes, size: int | None) -> bool:
    head = _without_command(head)
    lines = head.split(b"\n")[:-1][:DECIDING_LINES] or [head]
    fit = [bool(_SYMBOL_LINE.match(line)) for line in lines]
    if not fit[0]:
        return False
    if _NAMED.search(path):
        return 4 * sum(fit) >= 3 * len(fit)
    return all(fit) and bool(_KERNEL_NAMES.search(head))


def _without_command(text: bytes) -> bytes:
    """The text below the command that printed it, where somebody copied both."""
    typed = _COMMAND.match(text[:512])
    return text[typed.end() :] if typed else text


def read_kallsyms(source: Source, content: Content) -> Iterator[SymbolList | Problem]:
    """The list as it is: a sosreport has one of 5 MB that nothing in it asks for, so that it is left there."""
    chunks, ended, cut = _chunks(content)
    head = _first_line(chunks)
    text = _without_command(head)
    cite = source.cite(
        1 if text is head else 2, text[:MAX_CITED_CHARS].partition(b"\n")[0].decode("utf-8", "replace").rstrip()
    )
    if cut:
        problem = f"only the first {MAX_LIST_BYTES} bytes were read; functions at higher addresses have no names"
        yield Problem(Citation(source.member), problem, ProblemKind.LIMIT)
    if not width_of(text):
        yield Problem(cite, "does not begin with `address type name`", ProblemKind.UNREADABLE)
        return
    if not ended:
        yield Problem(Citation(source.member), "ends within a line: it may have been cut")
    path = source.path or source.member
    kind = TableKind.SYSTEM_MAP if _SYSTEM_MAP.search(path) else TableKind.KALLSYMS
    release, build_id = release_in(source.member) or release_in(path), build_id_in(source.member)
    yield SymbolList(cite, kind, chunks, len(head) - len(text), release, build_id, whole=not content.again)


def _chunks(content: Content) -> tuple[tuple[bytes, ...], bool, bool]:
    """The bytes (the first, if the list is left where it is); whether they end a line; whether there were more."""
    kept: list[bytes] = []
    given, chunk = 0, b""
    for chunk in filter(None, content.chunks):
        if not content.again or given < FIRST_LINE_BYTES:
            kept.append(chunk)
        given += len(chunk)
        if given > MAX_LIST_BYTES:
            break
    cut = given > MAX_LIST_BYTES
    if cut and not content.again:
        text = b"".join(kept)[:MAX_LIST_BYTES]
        kept = [text[: text.rfind(b"\n") + 1]]
    return tuple(kept), cut or chunk.endswith(b"\n"), cut


def _first_line(chunks: Iterable[bytes]) -> bytes:
    """As many of them as hold the first line."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= FIRST_LINE_BYTES:
            break
    return head


KALLSYMS = BulkParser(
    "kallsyms", "/proc/kallsyms, System.map", _is_kallsyms, read_kallsyms, on_demand=True,
    opens=re.compile(rb"[0-9a-f]{8}|[ ]{2,10}\(null\)|[^\n]{0,200}(?:kallsyms|System\.map)"),
)  # fmt: skip


HEAD_BYTES = 1024 * 1024  # bytes that are kept of the beginning
TAIL_BYTES = 96 * 1024 * 1024  # and of the end: linkers put the symbol table behind debug information
_KERNEL = re.compile(r"(?:^|/)vmlinux(?:-[^/]*)?(?:\.debug)?(?:/[0-9a-f]{16,64}/(?:elf|debug|vmlinux))?$")
_MODULE = re.compile(r"(?:^|/)([\w-]+)\.ko(?:\.(?:gz|xz|zst|debug))*(?:/[0-9a-f]{16,64}/(?:elf|debug))?$")
_STORED = re.compile(
    r"(?:^|/)(?:\.build-id/[0-9a-f]{2}/[0-9a-f]{14,62}(?:\.debug|/(?:elf|debug|vmlinux))"
    r"|\[kernel\.[\w.]+\]/[0-9a-f]{16,64}/(?:elf|debug|vmlinux))$"
)
_FILE_RELEASE = re.compile(r"(?:^|/)vmlinux-(\d+\.\d+[\w.+~-]*?)(?:\.debug|\.gz|\.xz|\.zst)*(?:/|$)")
_BANNER = re.compile(rb"Linux version (\d+\.\d+[\w.+~-]{0,100}) ")
_MAX_BANNER_BYTES = 256


class HeadAndTail:
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
        if len(self._head) < HEAD_BYTES:
            self._head += chunk[: HEAD_BYTES - len(self._head)]
        for (offset, size), had in self._wanted.items():
            self._wanted[offset, size] = had + chunk[max(0, offset - begin) : max(0, offset + size - begin)]
        if not self.release:
            before = self._tail[-1][-_MAX_BANNER_BYTES:] if self._tail else b""
            if (found := (before + chunk).find(b"Linux version ")) >= 0:
                told = _BANNER.match(before + chunk, found)
                self.release = told[1].decode() if told else ""
        self._tail.append(chunk)
        self._held += len(chunk)
        while self._held - len(self._tail[0]) >= TAIL_BYTES:
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


def read_elf(source: Source, content: Content) -> Iterator[SymbolTable | Problem]:
    """The functions of a kernel or a module; nothing of a program."""
    from thpdiag.perf import elf  # numpy: only where there is a file

    cite, path = Citation(source.member), source.member
    module = _MODULE.search(path)
    try:
        kept = _head_and_tail(content)
        release = kept.release or release_in(path) or (found[1] if (found := _FILE_RELEASE.search(path)) else "")
        table = elf.read(elf.open_elf(kept), cite, release, module[1].replace("-", "_") if module else "")
    except elf.ElfError as error:
        yield Problem(cite, str(error), ProblemKind.UNREADABLE, hides=False)
        return
    if table is not None and len(table.addresses):
        yield table
    elif table is not None or not _STORED.search(path):
        yield Problem(cite, "has no symbols of a kernel (stripped?)", ProblemKind.UNREADABLE, hides=False)


def _head_and_tail(content: Content) -> HeadAndTail:
    from thpdiag.perf.elf import open_elf

    kept, asked = HeadAndTail(), False
    for chunk in content.chunks:
        kept.add(chunk)
        if not asked and kept.size >= HEAD_BYTES:
            asked = True
            for offset, size in open_elf(kept).program_notes:
                kept.want(offset, size)
    return kept


ELF_SYMBOLS = BulkParser(
    "elf_symbols", "vmlinux, kernel modules (symbol table)",
    lambda path, _head, _size: _KERNEL.search(path) or _MODULE.search(path) or _STORED.search(path), read_elf,
    opens=re.compile(rb"\x7fELF"),
)  # fmt: skip
