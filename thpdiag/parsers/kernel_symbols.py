"""Kernel function names by address: kallsyms, System.map, and the symbol tables of vmlinux and modules.

perf.data contains no names of kernel functions; they come from these files.

/proc/kallsyms and System.map: `thpdiag.perf.kallsyms` builds the table if a recording needs names. Only the path of a
list identifies its kernel: the release in `System.map-RELEASE` and `lib/modules/RELEASE/`, the build id in perf's cache
(`~/.debug`, unpacked or as `perf archive` packs it): `[kernel.kallsyms]/BUILD-ID/kallsyms` (perf source
tools/perf/util/build-id.c).

vmlinux, kernel modules and their debug files: `thpdiag.perf.elf` reads the symbol tables. They come from `/boot`,
`/usr/lib/debug`, and perf's cache: `lib/modules/RELEASE/.../NAME.ko/BUILD-ID/elf`, `.build-id/XX/YYYY/elf`. A kernel
with debug information has up to a gigabyte; the needed parts are at its beginning and at its end.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator

from thpdiag.model import Citation, Problem, ProblemKind, SymbolList, SymbolTable, TableKind
from thpdiag.model.facts import MAX_CITED_CHARS
from thpdiag.model.parser import BulkParser, Content, Source
from thpdiag.model.profile import width_of

MAX_LIST_BYTES = 128 * 1024 * 1024  # ten times the longest known lists (with all data symbols)
FIRST_LINE_BYTES = 4096  # enough for a copied command and the first line
CHECKED_LINES = 64  # first lines of a member that are checked to be symbols
_SYMBOL_LINE = re.compile(
    rb"(?:[0-9a-f]{16}|[0-9a-f]{8}|[ ]{2,10}\(null\)) [A-Za-z?-] [^\s\[\]]+(?:[\t ]+\[[^\]\s]+\])?[ \t]*\r?$"
)
_LIST_PATH = re.compile(r"(?:^|/)(?:[\w.+-]*kallsyms[\w.+-]*|[\w.-]*System\.map(?:-[^/]*)?)$", re.IGNORECASE)
_SYSTEM_MAP = re.compile(r"(?:^|/)[\w.-]*System\.map[^/]*$", re.IGNORECASE)
_COMMAND = re.compile(rb"(?!(?:[0-9a-f]{8}){1,2} )[^\n]{0,200}(?:kallsyms|System\.map)[^\n]{0,100}\n")
# Names near the beginning of the list of a kernel of every known architecture, but of no list of a program.
_KERNEL_NAMES = re.compile(
    rb"(?m) [TtAaDd] (?:_s?text|startup_64|__per_cpu_start|fixed_percpu_data|irq_stack_union|_head|primary_entry)\r?$"
)
_LIST_RELEASE = re.compile(r"(?:System\.map|kallsyms)-(\d+\.\d+[\w.+~-]*?)(?:\.(?:gz|xz|bz2|zst|txt|log))*$")
_MODULES = re.compile(r"(?:^|/)lib/modules/(\d+\.\d+[^/]*)/")
_BUILD_ID = re.compile(
    r"(?:^|/)([0-9a-f]{16,64})/(?:[^/]+/)?kallsyms$|\.build-id/([0-9a-f]{2})/([0-9a-f]{14,62})/kallsyms$"
)


def release_in(path: str) -> str:
    """Return the kernel release in a path, or ""."""
    match = _LIST_RELEASE.search(path) or _MODULES.search(path)
    return match[1] if match else ""


def build_id_in(path: str) -> str:
    """Return the build id in a path of perf's cache, or ""."""
    match = _BUILD_ID.search(path)
    return "".join(part for part in match.groups() if part) if match else ""


def _is_kallsyms(path: str, head: bytes, size: int | None) -> bool:
    head = _without_command(head)
    lines = head.split(b"\n")[:-1][:CHECKED_LINES] or [head]
    is_symbol = [bool(_SYMBOL_LINE.match(line)) for line in lines]
    if not is_symbol[0]:
        return False
    if _LIST_PATH.search(path):
        return 4 * sum(is_symbol) >= 3 * len(is_symbol)
    return all(is_symbol) and bool(_KERNEL_NAMES.search(head))


def _without_command(text: bytes) -> bytes:
    """Remove the command line that was copied together with its output."""
    command = _COMMAND.match(text[:512])
    return text[command.end() :] if command else text


def read_kallsyms(source: Source, content: Content) -> Iterator[SymbolList | Problem]:
    """Yield the unparsed list. If it can be read again, it is not kept: a sosreport has 5 MB that are seldom needed."""
    chunks, ends_with_line, is_cut = _chunks(content)
    head = _first_line(chunks)
    text = _without_command(head)
    cite = source.cite(
        1 if text is head else 2, text[:MAX_CITED_CHARS].partition(b"\n")[0].decode("utf-8", "replace").rstrip()
    )
    if is_cut:
        problem = f"only the first {MAX_LIST_BYTES} bytes were read; functions at higher addresses have no names"
        yield Problem(Citation(source.member), problem, ProblemKind.LIMIT)
    if not width_of(text):
        yield Problem(cite, "does not begin with `address type name`", ProblemKind.UNREADABLE)
        return
    if not ends_with_line:
        yield Problem(Citation(source.member), "ends within a line: it may have been cut")
    path = source.path or source.member
    kind = TableKind.SYSTEM_MAP if _SYSTEM_MAP.search(path) else TableKind.KALLSYMS
    release, build_id = release_in(source.member) or release_in(path), build_id_in(source.member)
    yield SymbolList(cite, kind, chunks, len(head) - len(text), release, build_id, whole=not content.again)


def _chunks(content: Content) -> tuple[tuple[bytes, ...], bool, bool]:
    """Return the chunks (only the first if the list can be read again), whether they end a line, and are cut."""
    kept: list[bytes] = []
    size, chunk = 0, b""
    for chunk in filter(None, content.chunks):
        if not content.again or size < FIRST_LINE_BYTES:
            kept.append(chunk)
        size += len(chunk)
        if size > MAX_LIST_BYTES:
            break
    is_cut = size > MAX_LIST_BYTES
    if is_cut and not content.again:
        text = b"".join(kept)[:MAX_LIST_BYTES]
        kept = [text[: text.rfind(b"\n") + 1]]
    return tuple(kept), is_cut or chunk.endswith(b"\n"), is_cut


def _first_line(chunks: Iterable[bytes]) -> bytes:
    """Return at least the first line, joined from the chunks."""
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


HEAD_BYTES = 1024 * 1024  # bytes kept of the beginning of a file
TAIL_BYTES = 96 * 1024 * 1024  # bytes kept of its end: linkers put the symbol table after the debug information
_VMLINUX_PATH = re.compile(r"(?:^|/)vmlinux(?:-[^/]*)?(?:\.debug)?(?:/[0-9a-f]{16,64}/(?:elf|debug|vmlinux))?$")
_MODULE_PATH = re.compile(r"(?:^|/)([\w-]+)\.ko(?:\.(?:gz|xz|zst|debug))*(?:/[0-9a-f]{16,64}/(?:elf|debug))?$")
_CACHE_PATH = re.compile(
    r"(?:^|/)(?:\.build-id/[0-9a-f]{2}/[0-9a-f]{14,62}(?:\.debug|/(?:elf|debug|vmlinux))"
    r"|\[kernel\.[\w.]+\]/[0-9a-f]{16,64}/(?:elf|debug|vmlinux))$"
)
_FILE_RELEASE = re.compile(r"(?:^|/)vmlinux-(\d+\.\d+[\w.+~-]*?)(?:\.debug|\.gz|\.xz|\.zst)*(?:/|$)")
_BANNER = re.compile(rb"Linux version (\d+\.\d+[\w.+~-]{0,100}) ")
_MAX_BANNER_BYTES = 256


class HeadAndTail:
    """The beginning and the end of a stream, requested ranges between them, and the release in a kernel banner."""

    def __init__(self) -> None:
        self.size = 0
        self.release = ""
        self._head = b""
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._requested: dict[tuple[int, int], bytes] = {}
        self._joined_tail: bytes | None = None

    def request(self, offset: int, size: int) -> None:
        """Keep this range too, as far as it has not passed yet."""
        before = b"".join(self._tail) if offset < self.size == self._tail_size else b""
        self._requested[offset, size] = before[offset : offset + size]

    def add(self, chunk: bytes) -> None:
        begin, self.size = self.size, self.size + len(chunk)
        if len(self._head) < HEAD_BYTES:
            self._head += chunk[: HEAD_BYTES - len(self._head)]
        for (offset, size), part in self._requested.items():
            self._requested[offset, size] = part + chunk[max(0, offset - begin) : max(0, offset + size - begin)]
        if not self.release:
            text = (self._tail[-1][-_MAX_BANNER_BYTES:] if self._tail else b"") + chunk
            if (start := text.find(b"Linux version ")) >= 0 and (banner := _BANNER.match(text, start)):
                self.release = banner[1].decode()
        self._tail.append(chunk)
        self._tail_size += len(chunk)
        while self._tail_size - len(self._tail[0]) >= TAIL_BYTES:
            self._tail_size -= len(self._tail.popleft())

    def part(self, offset: int, size: int) -> bytes | None:
        """Return a range of the file, or None if it was not kept (protocol `thpdiag.perf.elf.Held`)."""
        if offset + size <= len(self._head):
            return self._head[offset : offset + size]
        if len(part := self._requested.get((offset, size), b"")) == size:
            return part
        first = self.size - self._tail_size
        if offset < first or offset + size > self.size:
            return None
        if self._joined_tail is None or len(self._joined_tail) != self._tail_size:
            self._joined_tail = b"".join(self._tail)
        return self._joined_tail[offset - first : offset + size - first]


def read_elf(source: Source, content: Content) -> Iterator[SymbolTable | Problem]:
    """Yield the functions of a kernel or a module, and nothing for other programs."""
    from thpdiag.perf import elf  # imported late: numpy is needed only if there is a file

    cite, path = Citation(source.member), source.member
    module = _MODULE_PATH.search(path)
    try:
        kept = _head_and_tail(content)
        release = kept.release or release_in(path) or (match[1] if (match := _FILE_RELEASE.search(path)) else "")
        table = elf.read(elf.open_elf(kept), cite, release, module[1].replace("-", "_") if module else "")
    except elf.ElfError as error:
        yield Problem(cite, str(error), ProblemKind.UNREADABLE, hides=False)
        return
    if table is not None and len(table.addresses):
        yield table
    elif table is not None or not _CACHE_PATH.search(path):
        yield Problem(cite, "has no symbols of a kernel (stripped?)", ProblemKind.UNREADABLE, hides=False)


def _head_and_tail(content: Content) -> HeadAndTail:
    from thpdiag.perf.elf import open_elf

    kept, is_opened = HeadAndTail(), False
    for chunk in content.chunks:
        kept.add(chunk)
        if not is_opened and kept.size >= HEAD_BYTES:
            is_opened = True
            for offset, size in open_elf(kept).program_notes:
                kept.request(offset, size)
    return kept


ELF_SYMBOLS = BulkParser(
    "elf_symbols", "vmlinux, kernel modules (symbol table)",
    lambda path, _head, _size: _VMLINUX_PATH.search(path) or _MODULE_PATH.search(path) or _CACHE_PATH.search(path),
    read_elf, opens=re.compile(rb"\x7fELF"),
)  # fmt: skip
