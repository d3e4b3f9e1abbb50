"""/proc/kallsyms and System.map: the names of the kernel's functions by address, without which perf.data has none.

`thpdiag.perf.kallsyms` makes a table of it, if a recording asks for names. Which kernel a list is of stands
in its path only: the release in `System.map-RELEASE` and `lib/modules/RELEASE/`, the build id in perf's own store
(`~/.debug`, unpacked or as `perf archive` packs it): `[kernel.kallsyms]/BUILD-ID/kallsyms` (perf source
tools/perf/util/build-id.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from thpdiag.model import Citation, Problem, ProblemKind, SymbolList, TableKind
from thpdiag.model.facts import MAX_CITED_CHARS
from thpdiag.model.parser import BulkParser, Content, Source
from thpdiag.model.profile import width_of

MAX_LIST_BYTES = 128 * 1024 * 1024  # bytes; the longest lists known (all data symbols included) have a tenth of it
HEAD = 4096  # bytes that have the first line, be it below a command
DECIDING_LINES = 64  # lines of the beginning that must be symbols
_LINE = re.compile(
    rb"(?:[0-9a-f]{16}|[0-9a-f]{8}|[ ]{2,10}\(null\)) [A-Za-z?-] [^\s\[\]]+(?:[\t ]+\[[^\]\s]+\])?[ \t]*\r?$"
)
_NAMED = re.compile(r"(?:^|/)(?:[\w.+-]*kallsyms[\w.+-]*|[\w.-]*System\.map(?:-[^/]*)?)$", re.IGNORECASE)
_SYSTEM_MAP = re.compile(r"(?:^|/)[\w.-]*System\.map[^/]*$", re.IGNORECASE)
# Names that every list for the kernel of a known architecture has near its beginning, and none of a program has.
_COMMAND = re.compile(rb"(?!(?:[0-9a-f]{8}){1,2} )[^\n]{0,200}(?:kallsyms|System\.map)[^\n]{0,100}\n")  # copied with it
_KERNEL_NAMES = re.compile(
    rb"(?m) [TtAaDd] (?:_s?text|startup_64|__per_cpu_start|fixed_percpu_data|irq_stack_union|_head|primary_entry)\r?$"
)
_RELEASE = re.compile(r"(?:System\.map|kallsyms)-(\d+\.\d+[\w.+~-]*?)(?:\.(?:gz|xz|bz2|zst|txt|log))*$")
_MODULES = re.compile(r"(?:^|/)lib/modules/(\d+\.\d+[^/]*)/")
_BUILD_ID = re.compile(
    r"(?:^|/)([0-9a-f]{16,64})/(?:[^/]+/)?kallsyms$|\.build-id/([0-9a-f]{2})/([0-9a-f]{14,62})/kallsyms$"
)


def release_in(path: str) -> str:
    """The release of the kernel that the path names, or nothing."""
    found = _RELEASE.search(path) or _MODULES.search(path)
    return found[1] if found else ""


def build_id_in(path: str) -> str:
    """The build id of the folder that the path goes through in perf's own store, or nothing."""
    found = _BUILD_ID.search(path)
    return "".join(part for part in found.groups() if part) if found else ""


def _claims(path: str, head: bytes, size: int | None) -> bool:
    head = _without_command(head)
    lines = head.split(b"\n")[:-1][:DECIDING_LINES] or [head]
    fit = [bool(_LINE.match(line)) for line in lines]
    if not fit[0]:
        return False
    if _NAMED.search(path):
        return 4 * sum(fit) >= 3 * len(fit)
    return all(fit) and bool(_KERNEL_NAMES.search(head))


def _without_command(text: bytes) -> bytes:
    """The text below the command that printed it, where somebody copied both."""
    typed = _COMMAND.match(text[:512])
    return text[typed.end() :] if typed else text


def read(source: Source, content: Content) -> Iterator[SymbolList | Problem]:
    """The list as it is: a sosreport has one of 5 MB that nothing in it asks for, so that it is left there."""
    chunks, ended, cut = _chunks(content)
    head = _head(chunks)
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
        if not content.again or given < HEAD:
            kept.append(chunk)
        given += len(chunk)
        if given > MAX_LIST_BYTES:
            break
    cut = given > MAX_LIST_BYTES
    if cut and not content.again:
        text = b"".join(kept)[:MAX_LIST_BYTES]
        kept = [text[: text.rfind(b"\n") + 1]]
    return tuple(kept), cut or chunk.endswith(b"\n"), cut


def _head(chunks: Iterable[bytes]) -> bytes:
    """As many of them as hold the first line."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= HEAD:
            break
    return head


BULK_PARSER = BulkParser(
    "kallsyms", "/proc/kallsyms, System.map", _claims, read, on_demand=True,
    opens=re.compile(rb"[0-9a-f]{8}|[ ]{2,10}\(null\)|[^\n]{0,200}(?:kallsyms|System\.map)"),
)  # fmt: skip
