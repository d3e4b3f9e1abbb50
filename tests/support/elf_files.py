"""ELF files of either class and byte order, written field by field: forms that no compiler here produces."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

NOTYPE, OBJECT, FUNC = 0, 1, 2
LOCAL, GLOBAL, WEAK = 0, 1, 2
PROGBITS, SYMTAB, STRTAB, NOTE = 1, 2, 3, 7
CODE, DATA = 6, 2  # SHF_ALLOC | SHF_EXECINSTR; SHF_ALLOC


@dataclass(frozen=True)
class Section:
    """`link` is the number of another section."""

    name: str
    data: bytes = b""
    type: int = PROGBITS
    flags: int = 0
    address: int = 0
    link: int = 0
    align: int = 1
    size: int | None = None  # where it is not that of the data


@dataclass(frozen=True)
class Symbol:
    """`section` counts from 1, 0 is undefined."""

    name: str
    value: int
    section: int = 1
    size: int = 16
    type: int = FUNC
    binding: int = GLOBAL


def elf(sections: Sequence[Section], symbols: Sequence[Symbol], *, wide: bool, order: str, kind: int) -> bytes:
    """The file: header, sections, then the table of sections. `kind` is e_type: 1 relocatable, 2 program, 3 shared."""
    names = b"\0" + b"".join(s.name.encode() + b"\0" for s in symbols)
    table = b"\0" * (24 if wide else 16)
    for symbol in symbols:
        at, info = names.index(b"\0" + symbol.name.encode() + b"\0") + 1, symbol.binding << 4 | symbol.type
        if wide:
            table += struct.pack(order + "IBBHQQ", at, info, 0, symbol.section, symbol.value, symbol.size)
        else:
            table += struct.pack(order + "IIIBBH", at, symbol.value, symbol.size, info, 0, symbol.section)
    number = len(sections) + 1
    every = [
        Section(""),
        *sections,
        Section(".symtab", table, SYMTAB, link=number + 1),
        Section(".strtab", names, STRTAB),
        Section(".shstrtab", b"", STRTAB),
    ]
    shown = b"".join(s.name.encode() + b"\0" for s in every)
    every[-1] = Section(".shstrtab", shown, STRTAB)
    offset, body, rows, at = (64 if wide else 52), b"", b"", 0
    for section in every:
        size = len(section.data) if section.size is None else section.size
        fields = (at, section.type if section.name else 0, section.flags, section.address, offset + len(body), size)
        row = (*fields, section.link, 0, section.align, 0)
        rows += struct.pack(order + ("IIQQQQIIQQ" if wide else "IIIIIIIIII"), *row)
        at += len(section.name) + 1
        body += section.data
    return _header(offset + len(body), len(every), wide=wide, order=order, kind=kind) + body + rows


def _header(table: int, count: int, *, wide: bool, order: str, kind: int) -> bytes:
    ident = b"\x7fELF" + bytes((2 if wide else 1, 1 if order == "<" else 2, 1)) + b"\0" * 9
    sizes = (64, 56, 0, 64) if wide else (52, 32, 0, 40)
    fields = (kind, 62, 1, 0, 0, table, 0, *sizes, count, count - 1)
    return ident + struct.pack(order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"), *fields)


def build_id_note(build_id: bytes, order: str) -> bytes:
    """Return a build id after another note whose length needs padding."""
    other = struct.pack(order + "III", 6, 3, 0x100) + b"Linux\0\0\0" + b"abc\0"
    return other + struct.pack(order + "III", 4, len(build_id), 3) + b"GNU\0" + build_id
