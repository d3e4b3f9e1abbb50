"""The functions in the symbol table of a kernel (vmlinux), of a kernel module (.ko), or of their debug files.

Modules are not linked: their sections are laid out when they are loaded, executable ones first and in the order of the
file (kernel source kernel/module/main.c, layout_sections), so that a module's addresses are counted from its first one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Citation, SymbolTable, TableKind
from thpdiag.symbol_tables.elf import ALLOC, EXEC, MOST_SECTIONS, PROGRAM, RELOCATABLE, SHARED, SYMTAB, Elf
from thpdiag.symbol_tables.kallsyms import ANCHORS

Ints = NDArray[np.int64]

_FUNCTIONS = (0, 2, 10)  # STT_NOTYPE (labels in assembler), STT_FUNC, STT_GNU_IFUNC
_GLOBAL, _WEAK = 1, 2  # binding
_SIZED = 16  # the rank of names that have a size; below it, the end of code counts for more
_WORD = re.compile(rb"(?:^|\0)(name|vermagic)=([^\0 ]*)")


@dataclass(frozen=True, slots=True)
class _Symbols:
    """Columns of a symbol table."""

    name: Ints
    info: NDArray[np.uint8]
    section: Ints
    value: NDArray[np.uint64]
    size: NDArray[np.uint64]
    text: bytes


def read(elf: Elf, cite: Citation, release: str, stem: str) -> SymbolTable | None:
    """The functions of a kernel or a module, None where the file is neither; raises ElfError.

    `release` and `stem` are what the path tells of the kernel's release and the module's name.
    """
    symbols = _symbols(elf)
    if elf.type == RELOCATABLE:
        words = _module_words(elf)
        if not words:
            return None
        release = words.get(b"vermagic", b"").decode("utf-8", "replace") or release
        modules = ("", words.get(b"name", b"").decode("utf-8", "replace") or stem)
        return _table(elf, symbols, cite, TableKind.MODULE, modules, (), release)
    anchors = _anchors(symbols) if elf.type in (PROGRAM, SHARED) else ()
    return _table(elf, symbols, cite, TableKind.VMLINUX, ("",), anchors, release) if anchors else None


def _symbols(elf: Elf) -> _Symbols:
    """The columns of the symbol table, empty where there is none."""
    u4, u = f"{elf.order}u4", f"{elf.order}u{8 if elf.wide else 4}"
    small = [("info", "u1"), ("other", "u1"), ("section", f"{elf.order}u2")]
    form = np.dtype(
        [("name", u4), *small, ("value", u), ("size", u)]
        if elf.wide
        else [("name", u4), ("value", u), ("size", u), *small]
    )
    raw = text = b""
    table = next((s for s in elf.sections if s.type == SYMTAB), None)
    if table is not None and table.link < len(elf.sections):
        raw, text = elf.bytes_of(table), elf.bytes_of(elf.sections[table.link])
    rows = np.frombuffer(raw, form, len(raw) // form.itemsize)
    rows = rows[rows["name"] < len(text)]
    return _Symbols(
        rows["name"].astype(np.int64),
        rows["info"],
        rows["section"].astype(np.int64),
        rows["value"].astype(np.uint64),
        rows["size"].astype(np.uint64),
        text,
    )


def _module_words(elf: Elf) -> dict[bytes, bytes]:
    """Name and version of a module, from its section .modinfo; nothing where it is no module."""
    for section in elf.sections:
        if elf.name_of(section) == b".modinfo":
            return dict(_WORD.findall(elf.bytes_of(section)))
    return {}


def _anchors(symbols: _Symbols) -> tuple[tuple[str, int], ...]:
    """Where the kernel begins. Names may share their ends with longer ones in the file."""
    found = []
    for name in ANCHORS:
        places = [m.start() for m in re.finditer(re.escape(name.encode()) + rb"\0", symbols.text)]
        rows = np.flatnonzero(np.isin(symbols.name, places) & (symbols.section != 0))
        if len(rows):
            found.append((name, int(symbols.value[rows[0]])))
    return tuple(found)


def _table(
    elf: Elf,
    symbols: _Symbols,
    cite: Citation,
    kind: TableKind,
    modules: tuple[str, ...],
    anchors: tuple[tuple[str, int], ...],
    release: str,
) -> SymbolTable:
    """Functions by address; nameless ones where code ends, so that nothing behind it gets a name."""
    bases, borders = _code(elf, kind)
    rows = _functions(symbols, np.isin(np.arange(MOST_SECTIONS), list(bases)))
    base = np.zeros(MOST_SECTIONS, np.uint64)
    base[list(bases)] = list(bases.values())
    starts = np.concatenate((np.zeros(len(borders), np.int64), symbols.name[rows]))
    nuls = np.append(np.flatnonzero(np.frombuffer(symbols.text, np.uint8) == 0), len(symbols.text))
    ends = nuls[np.searchsorted(nuls, starts)]
    ends[: len(borders)] = 0
    addresses = np.concatenate((np.array(borders, np.uint64), symbols.value[rows] + base[symbols.section[rows]]))
    order = np.lexsort(
        (ends - starts, np.concatenate((np.full(len(borders), _SIZED), _rank(symbols, rows))), addresses)
    )
    module = np.full(len(order), len(modules) - 1, np.int32)
    return SymbolTable(
        cite,
        kind,
        addresses[order],
        starts[order],
        ends[order],
        symbols.text,
        module,
        modules,
        anchors,
        release,
        elf.build_id,
    )


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


def _functions(symbols: _Symbols, code: NDArray[np.bool_]) -> Ints:
    """The rows that are named places in code."""
    text = np.frombuffer(symbols.text + b"\0\0", np.uint8)
    first, second = text[symbols.name], text[symbols.name + 1]
    named = (first != 0) & (first != ord("$")) & ~((first == ord(".")) & (second == ord("L")))
    return np.flatnonzero(named & code[symbols.section] & np.isin(symbols.info & 15, _FUNCTIONS))


def _rank(symbols: _Symbols, rows: Ints) -> Ints:
    """Which of several names at one address is the better: perf's rule (tools/perf/util/symbol.c, choose_best_symbol).

    One with a size before one without, a strong one before a weak one, a global one, one with fewer underscores at its
    beginning; the longest of those.
    """
    text = np.frombuffer(symbols.text + b"\0\0", np.uint8)
    binding = symbols.info[rows] >> 4
    first = text[symbols.name[rows]] == ord("_")
    second = first & (text[symbols.name[rows] + 1] == ord("_"))
    better = (symbols.size[rows] > 0) * _SIZED + (binding != _WEAK) * 8 + (binding == _GLOBAL) * 4
    rank: Ints = better + 3 - first - second
    return rank
