"""ELF files: header, sections, notes.

Only what is held of the file is looked at, and every offset in it is checked against that; a file may lie. Layout: ELF
specification, gABI chapter 4; the build id is a note of binutils (ld --build-id).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

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


@dataclass(frozen=True, slots=True)
class Section:
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
            raise ElfError("the table of its sections, at the end of the file, is not there")
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


def opened(held: Held) -> Elf:
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
