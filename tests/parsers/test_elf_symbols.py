"""Symbol tables of kernels and modules, of either class and byte order, whole, damaged and larger than what is held."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT
from elf_files import CODE, DATA, LOCAL, NOTE, NOTYPE, OBJECT, WEAK, Section, Symbol, build_id_note, elf
from thpdiag.model import Problem, ProblemKind, SymbolTable, TableKind
from thpdiag.model.parser import Content, Source
from thpdiag.parsers import kernel_symbols

FORMS = pytest.mark.parametrize(("wide", "order"), [(True, "<"), (True, ">"), (False, "<"), (False, ">")])
BUILD_ID = bytes(range(20))
BASE = 0xC0100000
KERNEL = (ROOT / "fixtures/readers/elf_symbols/vmlinux/vmlinux-6.18.0-generic").read_bytes()
MODULE = (ROOT / "fixtures/readers/elf_symbols/module/churn-net.ko").read_bytes()


def read(data: bytes, path: str = "vmlinux", chunk: int = 1000) -> list[SymbolTable | Problem]:
    chunks = (data[i : i + chunk] for i in range(0, len(data), chunk))
    return list(kernel_symbols.read_elf(Source(path), Content(chunks, len(data))))


def table(data: bytes, path: str = "vmlinux") -> SymbolTable:
    (found,) = read(data, path)
    assert isinstance(found, SymbolTable)
    return found


def names(found: SymbolTable) -> list[tuple[int, str]]:
    return [(address, found.name(i)) for i, address in enumerate(found.addresses.tolist())]


def vmlinux(order: str, *, wide: bool, middle: bytes = b"") -> bytes:
    sections = [
        Section(".text", b"\x90" * 256, flags=CODE, address=BASE),
        Section(".notes", build_id_note(BUILD_ID, order), NOTE, DATA),
        Section(".rodata", b"\0Linux version 4.18.0-80.el8.ppc64 (builder@example)", flags=DATA, address=BASE + 4096),
        Section(".debug_info", middle),
    ]
    symbols = [
        Symbol("sized", BASE + 64),
        Symbol("weak_alias", BASE + 64, binding=WEAK),
        Symbol("__underscored", BASE + 64),
        Symbol("label", BASE + 64, size=0, type=NOTYPE),
        Symbol("local", BASE + 128, binding=LOCAL),
        Symbol("jiffies", BASE + 4100, section=3, type=OBJECT),
        Symbol("outside", BASE + 4200, section=0),
        Symbol("$x", BASE + 130, type=NOTYPE),
        Symbol("_etext", BASE + 256, size=0, type=NOTYPE),
        Symbol("_text", BASE, size=0, type=NOTYPE),
    ]
    return elf(sections, symbols, wide=wide, order=order, kind=2)


@FORMS
def test_functions_of_a_kernel(wide: bool, order: str) -> None:
    """Functions and labels in code, the best name last; none behind the end of the code."""
    found = table(vmlinux(order, wide=wide))

    aliases = ["label", "weak_alias", "__underscored", "sized"]
    functions = [(BASE, "_text"), *((BASE + 64, n) for n in aliases), (BASE + 128, "local")]
    assert names(found) == [*functions, (BASE + 256, "_etext"), (BASE + 256, "")]
    assert (found.kind, found.release, found.build_id) == (TableKind.VMLINUX, "4.18.0-80.el8.ppc64", BUILD_ID.hex())
    assert found.anchors == (("_text", BASE),)


@FORMS
def test_functions_of_a_module_lie_as_it_is_loaded(wide: bool, order: str) -> None:
    """Executable sections in the order of the file, each at its alignment, without what only starts it."""
    sections = [
        Section(".text", b"\x90" * 20, flags=CODE),
        Section(".init.text", b"\x90" * 100, flags=CODE),
        Section(".text.unlikely", b"\x90" * 8, flags=CODE, align=16),
        Section(".modinfo", b"license=GPL\0name=churn\0vermagic=5.14.0 SMP mod_unload \0", flags=DATA),
        Section(".note.gnu.build-id", build_id_note(BUILD_ID, order), NOTE, DATA),
    ]
    symbols = [Symbol("slow", 2, section=3), Symbol("fast", 4), Symbol("init_module", 0, section=2)]
    found = table(elf(sections, symbols, wide=wide, order=order, kind=1), "churn.ko")

    assert names(found) == [(4, "fast"), (34, "slow"), (40, "")]
    assert (found.kind, found.modules, found.release) == (TableKind.MODULE, ("", "churn"), "5.14.0")
    assert found.build_id == BUILD_ID.hex()


@pytest.mark.parametrize(
    "path",
    [
        "vmlinux",
        "boot/vmlinux-5.14.21-150500.53-default",
        "usr/lib/debug/lib/modules/5.14.0-427.el9.x86_64/vmlinux",
        "lib/modules/5.14.0/kernel/fs/xfs/xfs.ko.xz/0123456789abcdef0123456789abcdef01234567/elf",
        "x/nf-conntrack.ko",
        ".debug/.build-id/01/23456789abcdef0123456789abcdef01234567/elf",
        "[kernel.kallsyms]/0123456789abcdef0123456789abcdef01234567/vmlinux",
    ],
)
def test_kernels_and_modules_are_known_by_their_paths(path: str) -> None:
    """And by the first bytes."""
    assert kernel_symbols.ELF_SYMBOLS.claims(path, KERNEL[:65536], None)
    assert not kernel_symbols.ELF_SYMBOLS.claims(path, b"\x1f\x8b", None)


@pytest.mark.parametrize("path", ["usr/bin/churn", "churn", "usr/lib/libc.so.6/0123456789abcdef/elf", "x.kosher"])
def test_programs_are_not_claimed(path: str) -> None:
    """Their symbols are of no use."""
    assert not kernel_symbols.ELF_SYMBOLS.claims(path, KERNEL[:65536], None)


def test_the_release_in_the_path_counts_where_the_file_says_none() -> None:
    """The banner of the file itself is the better witness."""
    assert table(KERNEL, "usr/lib/debug/lib/modules/5.14.0-1/vmlinux").release == "6.18.0-generic"
    mute = KERNEL.replace(b"Linux version", b"Linux varsion")
    assert table(mute, "usr/lib/debug/lib/modules/5.14.0-1/vmlinux").release == "5.14.0-1"
    assert table(mute, "vmlinux-5.14.0-1.debug").release == "5.14.0-1"


def test_a_program_in_the_store_gives_nothing() -> None:
    """perf keeps programs and kernels alike; only the content tells."""
    program = elf([Section(".text", b"\x90" * 64, flags=CODE)], [Symbol("main", 0)], wide=True, order="<", kind=3)

    assert read(program, ".build-id/01/23456789abcdef0123456789abcdef01234567/elf") == []
    assert [type(r) for r in read(program)] == [Problem]


def test_debug_information_between_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """The beginning and the end are enough, and notes in the middle that the program headers announce."""
    monkeypatch.setattr(kernel_symbols, "HEAD_BYTES", 4096)
    monkeypatch.setattr(kernel_symbols, "TAIL_BYTES", 4096)
    big = vmlinux("<", wide=True, middle=bytes(100_000))
    assert len(names(table(big))) == 8

    monkeypatch.setattr(kernel_symbols, "TAIL_BYTES", len(KERNEL) - KERNEL.index(b"GNU\0") - 30)
    (found,) = read(KERNEL, chunk=10)
    assert isinstance(found, SymbolTable)
    assert found.build_id == "3ce3c1adaec2fb5c1a8afd0e6107c12e6aa25237"


def test_a_symbol_table_far_from_the_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded; the problem says so."""
    monkeypatch.setattr(kernel_symbols, "HEAD_BYTES", 64)
    monkeypatch.setattr(kernel_symbols, "TAIL_BYTES", 64)

    assert [r.kind for r in read(KERNEL, chunk=50) if isinstance(r, Problem)] == [ProblemKind.UNREADABLE]


@pytest.mark.parametrize("end", [0, 3, 16, 40, 63, 500, 9000, -64, -1])
def test_a_file_that_ends_early_is_a_problem(end: int) -> None:
    """Its table of sections stands at the end."""
    assert [type(r) for r in read(KERNEL[:end])] == [Problem]


@given(st.integers(0, len(MODULE) - 1), st.binary(min_size=1, max_size=12), st.booleans())
def test_wrong_bytes_raise_nothing(at: int, wrong: bytes, kernel: bool) -> None:
    """Offsets, sizes and numbers that lie; names still lie within the file's text."""
    at = at * len(KERNEL) // len(MODULE) if kernel else at
    good = KERNEL if kernel else MODULE
    for found in read(good[:at] + wrong + good[at + len(wrong) :]):
        if isinstance(found, SymbolTable):
            assert len(names(found)) <= len(good)


@given(st.integers(0, 63), st.integers(0, 255))
def test_wrong_headers_raise_nothing(at: int, value: int) -> None:
    """Every byte of the header."""
    read(KERNEL[:at] + bytes([value]) + KERNEL[at + 1 :])
