"""ELF files: the functions in the symbol table of a kernel (vmlinux), a kernel module (.ko), or their debug files.

Only what is held of the file is looked at, and every offset in it is checked against that; a file may lie. Modules are
not linked: their sections are laid out when they are loaded, executable ones first and in the order of the file, so
that a module's addresses are counted from its first one. Source: ELF specification, gABI chapter 4; the build id is a
note of binutils (ld --build-id); kernel source kernel/module/main.c, layout_sections.
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
MOST_SECTIONS = 65_536
MOST_NOTES = 65_536  # bytes
MOST_SEGMENTS = 64  # with notes; a kernel has one or two, and each is looked for in all that is read of a file
_BUILD_ID = 3  # note type NT_GNU_BUILD_ID


class ElfError(ValueError):
    """What is wrong with the file, as a sentence."""


class Held(Protocol):
    """The parts of a file that are still there."""

    def part(self, offset: int, size: int) -> bytes | None:
        """These bytes, or None where any of them is not held or not in the file."""
        ...


class Section(NamedTuple):
    """A section header; names of the ELF specification without their prefix."""

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
    names: int  # the section that holds the names of sections

    @cached_property
    def sections(self) -> list[Section]:
        _, _, offset, number = self.headers
        form = struct.Struct(self.order + ("IIQQQQIIQQ" if self.wide else "IIIIIIIIII"))
        if not number and offset and (first := self.held.part(offset, form.size)):
            number = form.unpack(first)[5]  # more than 65,279 sections: their number is the size of the first
        if not 0 < number <= MOST_SECTIONS:
            return []
        raw = self.held.part(offset, number * form.size)
        if raw is None:
            raise ElfError("the table of its sections, at the end of the file, does not exist")
        return [Section(f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[8]) for f in form.iter_unpack(raw)]

    def bytes_of(self, section: Section) -> bytes:
        found = self.held.part(section.offset, section.size)
        if found is None:
            raise ElfError("a section lies outside of the file, or outside of what is held of it")
        return found

    def name_of(self, section: Section) -> bytes:
        return self._section_names[section.name :].partition(b"\0")[0]

    @cached_property
    def _section_names(self) -> bytes:
        inside = 0 <= self.names < len(self.sections)
        found = self.held.part(self.sections[self.names].offset, self.sections[self.names].size) if inside else None
        return found or b""

    @property
    def program_notes(self) -> list[tuple[int, int]]:
        """Offset and size of what holds notes, as the program headers tell, which stand at the beginning."""
        offset, number, _, _ = self.headers
        form = struct.Struct(self.order + ("IIQQQQQQ" if self.wide else "IIIIIIII"))
        rows = form.iter_unpack(self.held.part(offset, number * form.size) or b"")
        at, size = (2, 5) if self.wide else (1, 4)
        found = [(row[at], min(row[size], MOST_NOTES)) for row in rows if row[0] == PT_NOTE]
        return found[:MOST_SEGMENTS]

    @property
    def notes(self) -> list[tuple[int, int]]:
        """The same by program headers, else by sections."""
        return self.program_notes or [(s.offset, min(s.size, MOST_NOTES)) for s in self.sections if s.type == NOTE]

    @property
    def build_id(self) -> str:
        """In hex, empty where there is none."""
        for offset, size in self.notes:
            if (raw := self.held.part(offset, size)) and (found := _build_id(raw, self.order)):
                return found
        return ""


def open_elf(held: Held) -> Elf:
    """The file with its header read; raises ElfError."""
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
    at = 0
    while at + 12 <= len(raw):
        name_size, size, kind = struct.unpack_from(order + "III", raw, at)
        begin = at + 12 + (name_size + 3 & ~3)
        if kind == _BUILD_ID and raw[at + 12 : at + 12 + name_size] == b"GNU\0":
            return raw[begin : begin + size].hex()
        at = begin + (size + 3 & ~3)
    return ""


Ints = NDArray[np.int64]
Rows = NDArray[np.void]  # of a symbol table: name, info, section, value, size

_FUNCTIONS = (0, 2, 10)  # STT_NOTYPE (labels in assembler), STT_FUNC, STT_GNU_IFUNC
_GLOBAL, _WEAK = 1, 2  # binding
_SIZED = 16  # the rank of names that have a size; below it, the end of code counts for more
_WORD = re.compile(rb"(?:^|\0)(name|vermagic)=([^\0 ]*)")


def read(elf: Elf, cite: Citation, release: str, stem: str) -> SymbolTable | None:
    """The functions of a kernel or a module, None where the file is neither; raises ElfError.

    `release` and `stem` are what the path tells of the kernel's release and the module's name.
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
    """The rows of the symbol table, and the text that holds its names; empty where there is none."""
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
    """Where the kernel begins. Names may share their ends with longer ones in the file."""
    found = []
    for name in ANCHORS:
        places = [m.start() for m in re.finditer(re.escape(name.encode()) + rb"\0", text)]
        at = np.flatnonzero(np.isin(rows["name"], places) & (rows["section"] != 0))
        if len(at):
            found.append((name, int(rows["value"][at[0]])))
    return tuple(found)


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
    """Functions by address; nameless ones where code ends, so that nothing behind it gets a name."""
    bases, borders = _code(elf, kind)
    is_code, base = np.zeros(MOST_SECTIONS, np.bool_), np.zeros(MOST_SECTIONS, np.uint64)
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


def _code(elf: Elf, kind: TableKind) -> tuple[dict[int, int], list[int]]:
    """What is to be added to a symbol's value by its section, and where stretches of code end."""
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
    """Which of several names at one address is the better: perf's rule (tools/perf/util/symbol.c, choose_best_symbol).

    One with a size before one without, a strong one before a weak one, a global one, one with fewer underscores at its
    beginning; the longest of those.
    """
    binding = rows["info"] >> 4
    first, second = (letters == ord("_") for letters in _first_letters(rows, text))
    better = (rows["size"] > 0) * _SIZED + (binding != _WEAK) * 8 + (binding == _GLOBAL) * 4
    rank: Ints = better + 3 - first - (first & second)
    return rank
