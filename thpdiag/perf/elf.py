"""ELF files: the functions in the symbol table of a kernel (vmlinux), a kernel module (.ko), or their debug files.

Only a part of the file may be available, and every offset is checked against it, because offsets may be wrong. Modules
are not linked: the kernel lays out their sections when it loads them, executable ones first and in the order of the
file, so a module's addresses are relative to its first one. Source: ELF specification, gABI chapter 4; the build id is
a note of binutils (ld --build-id); kernel source kernel/module/main.c, layout_sections.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Citation, SymbolTable, TableKind
from thpdiag.perf.kallsyms import ANCHORS

RELOCATABLE, PROGRAM, SHARED = 1, 2, 3  # e_type
SYMTAB, NOTE = 2, 7  # sh_type
PT_NOTE = 4
ALLOC, EXEC = 2, 4  # sh_flags
MAX_SECTIONS = 65_536
MAX_NOTE_BYTES = 65_536
MAX_NOTE_SEGMENTS = 64  # a kernel has one or two, and each is searched in the available parts of a file
_BUILD_ID = 3  # note type NT_GNU_BUILD_ID


class ElfError(ValueError):
    """A defect of the file, described in a sentence."""


class Held(Protocol):
    """The available parts of a file."""

    def part(self, offset: int, size: int) -> bytes | None:
        """Return these bytes, or None if any of them is not available."""
        ...


class Section(NamedTuple):
    """A section header, with the field names of the ELF specification without their prefix."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    align: int


@dataclass(frozen=True)
class Elf:
    """An ELF file of either class and byte order."""

    held: Held
    wide: bool
    order: str
    type: int
    headers: tuple[int, int, int, int]  # offset and number of program headers and of section headers
    names: int  # index of the section with the names of sections

    @cached_property
    def sections(self) -> list[Section]:
        _, _, offset, number = self.headers
        form = struct.Struct(self.order + ("IIQQQQIIQQ" if self.wide else "IIIIIIIIII"))
        if not number and offset and (first := self.held.part(offset, form.size)):
            number = form.unpack(first)[5]  # above 65,279 sections, their number is in the size of the first
        if not 0 < number <= MAX_SECTIONS:
            return []
        raw = self.held.part(offset, number * form.size)
        if raw is None:
            raise ElfError("the table of its sections, at the end of the file, does not exist")
        return [Section(f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[8]) for f in form.iter_unpack(raw)]

    def bytes_of(self, section: Section) -> bytes:
        content = self.held.part(section.offset, section.size)
        if content is None:
            raise ElfError("a section lies outside of the file, or outside of what is held of it")
        return content

    def name_of(self, section: Section) -> bytes:
        return self._section_names[section.name :].partition(b"\0")[0]

    @cached_property
    def _section_names(self) -> bytes:
        if not 0 <= self.names < len(self.sections):
            return b""
        section = self.sections[self.names]
        return self.held.part(section.offset, section.size) or b""

    @property
    def program_notes(self) -> list[tuple[int, int]]:
        """Offset and size of the segments with notes, by the program headers at the beginning of the file."""
        offset, number, _, _ = self.headers
        form = struct.Struct(self.order + ("IIQQQQQQ" if self.wide else "IIIIIIII"))
        rows = form.iter_unpack(self.held.part(offset, number * form.size) or b"")
        place, size = (2, 5) if self.wide else (1, 4)
        segments = [(row[place], min(row[size], MAX_NOTE_BYTES)) for row in rows if row[0] == PT_NOTE]
        return segments[:MAX_NOTE_SEGMENTS]

    @property
    def notes(self) -> list[tuple[int, int]]:
        """Offset and size of the notes, by program headers or else by sections."""
        return self.program_notes or [(s.offset, min(s.size, MAX_NOTE_BYTES)) for s in self.sections if s.type == NOTE]

    @property
    def build_id(self) -> str:
        """The build id in hex, empty if there is none."""
        for offset, size in self.notes:
            if (raw := self.held.part(offset, size)) and (build_id := _build_id(raw, self.order)):
                return build_id
        return ""


def open_elf(held: Held) -> Elf:
    """Read the header of the file; raise ElfError if it is invalid."""
    ident = held.part(0, 16)
    if ident is None or ident[:4] != b"\x7fELF" or ident[4] not in (1, 2) or ident[5] not in (1, 2):
        raise ElfError("is no ELF file")
    wide, order = ident[4] == 2, "<" if ident[5] == 1 else ">"
    form = struct.Struct(order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"))
    raw = held.part(16, form.size)
    if raw is None:
        raise ElfError("ends within its header")
    kind, _, _, _, programs, sections, _, _, _, program_count, _, section_count, names = form.unpack(raw)
    return Elf(held, wide, order, kind, (programs, program_count, sections, section_count), names)


def _build_id(raw: bytes, order: str) -> str:
    start = 0
    while start + 12 <= len(raw):
        name_size, size, kind = struct.unpack_from(order + "III", raw, start)
        begin = start + 12 + (name_size + 3 & ~3)
        if kind == _BUILD_ID and raw[start + 12 : start + 12 + name_size] == b"GNU\0":
            return raw[begin : begin + size].hex()
        start = begin + (size + 3 & ~3)
    return ""


Ints = NDArray[np.int64]
Rows = NDArray[np.void]  # rows of a symbol table: name, info, section, value, size

_FUNCTIONS = (0, 2, 10)  # STT_NOTYPE (labels in assembler), STT_FUNC, STT_GNU_IFUNC
_GLOBAL, _WEAK = 1, 2  # binding
_SIZED = 16  # rank of names with a size; the end of code ranks above names without one
_WORD = re.compile(rb"(?:^|\0)(name|vermagic)=([^\0 ]*)")


def read(elf: Elf, cite: Citation, release: str, stem: str) -> SymbolTable | None:
    """Return the functions of a kernel or module, None if the file is neither; raise ElfError if it is damaged.

    `release` and `stem` are the kernel release and the module name by the path.
    """
    rows, text = _symbols(elf)
    if elf.type == RELOCATABLE:
        info = next((s for s in elf.sections if elf.name_of(s) == b".modinfo"), None)
        words = dict(_WORD.findall(elf.bytes_of(info))) if info else {}
        if not words:
            return None
        release = words.get(b"vermagic", b"").decode("utf-8", "replace") or release
        modules = ("", words.get(b"name", b"").decode("utf-8", "replace") or stem)
        return _table(elf, rows, text, cite, TableKind.MODULE, modules, (), release)
    anchors = _anchors(rows, text) if elf.type in (PROGRAM, SHARED) else ()
    return _table(elf, rows, text, cite, TableKind.VMLINUX, ("",), anchors, release) if anchors else None


def _symbols(elf: Elf) -> tuple[Rows, bytes]:
    """Return the rows of the symbol table and its string table; empty if there is none."""
    number, address = f"{elf.order}u4", f"{elf.order}u{8 if elf.wide else 4}"
    kind = [("info", "u1"), ("other", "u1"), ("section", f"{elf.order}u2")]
    place = [("value", address), ("size", address)]
    form = np.dtype([("name", number), *kind, *place] if elf.wide else [("name", number), *place, *kind])
    raw = text = b""
    table = next((s for s in elf.sections if s.type == SYMTAB), None)
    if table is not None and table.link < len(elf.sections):
        raw, text = elf.bytes_of(table), elf.bytes_of(elf.sections[table.link])
    rows = np.frombuffer(raw, form, len(raw) // form.itemsize)
    return rows[rows["name"] < len(text)].astype(form.newbyteorder("=")), text


def _anchors(rows: Rows, text: bytes) -> tuple[tuple[str, int], ...]:
    """Return the symbols that mark the beginning of the kernel. The string table may store a name as a suffix."""
    anchors = []
    for name in ANCHORS:
        offsets = [m.start() for m in re.finditer(re.escape(name.encode()) + rb"\0", text)]
        matches = np.flatnonzero(np.isin(rows["name"], offsets) & (rows["section"] != 0))
        if len(matches):
            anchors.append((name, int(rows["value"][matches[0]])))
    return tuple(anchors)


def _table(
    elf: Elf,
    rows: Rows,
    text: bytes,
    cite: Citation,
    kind: TableKind,
    modules: tuple[str, ...],
    anchors: tuple[tuple[str, int], ...],
    release: str,
) -> SymbolTable:
    """Return the functions by address, with nameless ones at the ends of code, so that no address after gets a name."""
    bases, borders = _code_sections(elf, kind)
    is_code, base = np.zeros(MAX_SECTIONS, np.bool_), np.zeros(MAX_SECTIONS, np.uint64)
    is_code[list(bases)], base[list(bases)] = True, list(bases.values())
    first, second = _first_letters(rows, text)
    named = (first != 0) & (first != ord("$")) & ~((first == ord(".")) & (second == ord("L")))
    rows = rows[named & is_code[rows["section"]] & np.isin(rows["info"] & 15, _FUNCTIONS)]
    starts = np.concatenate((np.zeros(len(borders), np.int64), rows["name"].astype(np.int64)))
    nuls = np.append(np.flatnonzero(np.frombuffer(text, np.uint8) == 0), len(text))
    ends = nuls[np.searchsorted(nuls, starts)]
    ends[: len(borders)] = 0
    addresses = np.concatenate((np.array(borders, np.uint64), rows["value"].astype(np.uint64) + base[rows["section"]]))
    rank = np.concatenate((np.full(len(borders), _SIZED), _rank(rows, text)))
    order = np.lexsort((ends - starts, rank, addresses))
    module = np.full(len(order), len(modules) - 1, np.int32)
    names = starts[order], ends[order], text, module, modules
    return SymbolTable(cite, kind, addresses[order], *names, anchors, release, elf.build_id)


def _code_sections(elf: Elf, kind: TableKind) -> tuple[dict[int, int], list[int]]:
    """Return the base address of symbols by section, and the addresses at which code ends."""
    bases, borders, size = {}, [], 0
    for number, section in enumerate(elf.sections):
        if section.flags & (ALLOC | EXEC) != ALLOC | EXEC:
            continue
        if kind is not TableKind.MODULE:
            bases[number] = 0
            borders.append((section.address + section.size) % 2**64)
        elif not elf.name_of(section).startswith(b".init"):
            align = min(max(section.align, 1), 65_536)
            size = (size + align - 1) // align * align
            bases[number] = size
            size = min(size + section.size, 2**62)
            borders = [size]
    return bases, borders


def _first_letters(rows: Rows, text: bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    letters = np.frombuffer(text + b"\0\0", np.uint8)
    return letters[rows["name"]], letters[rows["name"] + 1]


def _rank(rows: Rows, text: bytes) -> Ints:
    """Return the rank of names at equal addresses, as in perf (tools/perf/util/symbol.c, choose_best_symbol).

    Names with a size are preferred, then strong ones, global ones, those with fewer leading underscores, and the
    longest of these.
    """
    binding = rows["info"] >> 4
    first, second = (letters == ord("_") for letters in _first_letters(rows, text))
    by_symbol = (rows["size"] > 0) * _SIZED + (binding != _WEAK) * 8 + (binding == _GLOBAL) * 4
    rank: Ints = by_symbol + 3 - first - (first & second)
    return rank
