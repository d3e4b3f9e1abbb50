"""/proc/kallsyms and System.map: what is claimed, which names are kept, and what is said of odd ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import ROOT
from thpdiag.model import Problem, ProblemKind, SymbolList, SymbolTable, TableKind
from thpdiag.model.parser import Content, Source
from thpdiag.parsers import kernel_symbols
from thpdiag.perf import kallsyms as tables

FIXTURE = (ROOT / "fixtures/readers/kallsyms/kernel-6.18/proc/kallsyms").read_bytes()
BUILD_ID = "0123456789abcdef0123456789abcdef01234567"


def read(text: bytes, path: str = "kallsyms", chunk: int = 1 << 16) -> tuple[SymbolTable, list[Problem]]:
    chunks = (text[i : i + chunk] for i in range(0, len(text), chunk))
    records = list(kernel_symbols.read_kallsyms(Source(path, path=path), Content(chunks, len(text))))
    (listed,) = [r for r in records if isinstance(r, SymbolList)]
    table, odd = tables.read(listed)
    return table, [r for r in records if isinstance(r, Problem)] + odd


def names(table: SymbolTable) -> list[tuple[int, str]]:
    return [(address, table.name(i)) for i, address in enumerate(table.addresses.tolist())]


@pytest.mark.parametrize(
    ("path", "release", "build_id", "kind"),
    [
        ("proc/kallsyms", "", "", TableKind.KALLSYMS),
        ("mail/kallsyms.txt", "", "", TableKind.KALLSYMS),
        ("boot/System.map-5.14.0-427.13.1.el9_4.x86_64", "5.14.0-427.13.1.el9_4.x86_64", "", TableKind.SYSTEM_MAP),
        ("System.map-6.1.0-18-amd64.gz", "6.1.0-18-amd64", "", TableKind.SYSTEM_MAP),
        ("lib/modules/6.8.9-300.fc40.x86_64/System.map", "6.8.9-300.fc40.x86_64", "", TableKind.SYSTEM_MAP),
        (f"x/.debug/[kernel.kallsyms]/{BUILD_ID}/kallsyms", "", BUILD_ID, TableKind.KALLSYMS),
        (f"[kernel.kcore]/{BUILD_ID}/2026112003355021/kallsyms", "", BUILD_ID, TableKind.KALLSYMS),
        (f".build-id/{BUILD_ID[:2]}/{BUILD_ID[2:]}/kallsyms", "", BUILD_ID, TableKind.KALLSYMS),
    ],
)
def test_the_path_tells_the_kernel(path: str, release: str, build_id: str, kind: TableKind) -> None:
    """Release, build id and kind are in names only."""
    table, _ = read(FIXTURE, path)

    assert (table.release, table.build_id, table.kind) == (release, build_id, kind)
    assert kernel_symbols.KALLSYMS.claims(path, FIXTURE[:65536], len(FIXTURE))


@pytest.mark.parametrize(
    ("path", "head"),
    [
        ("nm.txt", b"0000000000001139 T main\n0000000000001150 T usage\n"),
        ("kallsyms", b"see the attached file\nffffffff81000000 T _text\n"),
        ("kallsyms", b""),
        ("proc/vmstat", b"nr_free_pages 4711\n"),
        ("objdump.txt", b"ffffffff81000000:\t55\tpush %rbp\n"),
    ],
)
def test_other_lists_are_not_claimed(path: str, head: bytes) -> None:
    """A program's symbols, prose and /proc files belong to nobody here."""
    assert not kernel_symbols.KALLSYMS.claims(path, head, len(head))


def test_a_list_is_known_by_its_names_whatever_the_file_is_called() -> None:
    """`_text` stands near the beginning of every kernel's list."""
    assert kernel_symbols.KALLSYMS.claims("symbols from web1", FIXTURE[:65536], None)


@pytest.mark.parametrize("typed", [b"$ cat /proc/kallsyms\n", b"[root@host ~]# sudo cat /boot/System.map-5.10\r\n"])
def test_the_command_that_printed_a_list_may_stand_above_it(typed: bytes) -> None:
    """Whatever the file is called; only that one line."""
    assert kernel_symbols.KALLSYMS.claims("listing.txt", typed + FIXTURE, None)
    assert not kernel_symbols.KALLSYMS.claims("listing.txt", typed + typed + FIXTURE, None)
    (table, problems), (plain, _) = read(typed + FIXTURE), read(FIXTURE)
    assert (names(table), problems, table.cite.line) == (names(plain), [], 2)


def test_functions_only_by_address() -> None:
    """Types t and w count; lines out of order are sorted; data ends what stands before it; ARM's marks are left out."""
    text = (
        b"ffffffff81000200 t second\nffffffff81000100 T first\nffffffff81000180 t $x\nffffffff81000300 D data\n"
        b"ffffffff81000310 d more_data\nffffffff81000320 a absolute\nffffffff81000400 W weak\n"
        b"ffffffff81000500 V object\n"
    )
    table, problems = read(text)

    base = 0xFFFFFFFF81000000
    assert names(table) == [
        (base + 0x100, "first"),
        (base + 0x200, "second"),
        (base + 0x300, ""),
        (base + 0x400, "weak"),
    ]
    assert problems == []


def test_of_several_names_at_one_address_the_last_stands_last() -> None:
    """As perf has it; but the marks of the kernel's beginning and of data come before functions."""
    text = (
        b"ffffffff81000000 T startup_64\nffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000000 D data\n"
        b"ffffffff81000040 t one\nffffffff81000040 T two\n"
    )
    table, _ = read(text)

    assert [name for _, name in names(table)] == ["_stext", "_text", "", "startup_64", "one", "two"]
    assert dict(table.anchors) == {"_text": 0xFFFFFFFF81000000, "_stext": 0xFFFFFFFF81000000}


def test_modules_stand_beside_their_functions() -> None:
    """The same name may be in two modules, a module may come twice."""
    text = (
        b"ffffffff81000000 T _text\nffffffffc0001000 t init\t[nf_conntrack]\nffffffffc0002000 t init\t[xfs]\n"
        b"ffffffffc0001800 t exit\t[nf_conntrack]\nffffffffc0009000 t bpf_prog_6deef7357e7b4530\t[bpf]\n"
    )
    table, problems = read(text)

    told = [(table.name(i), table.modules[m]) for i, m in enumerate(table.module.tolist())]
    assert told == [
        ("_text", ""),
        ("init", "nf_conntrack"),
        ("exit", "nf_conntrack"),
        ("init", "xfs"),
        ("bpf_prog_6deef7357e7b4530", "bpf"),
    ]
    assert problems == []


@pytest.mark.parametrize("zero", [b"0000000000000000", b"00000000", b"          (null)"])
def test_hidden_addresses_are_flagged(zero: bytes) -> None:
    """Zeros, or what kernels before 4.15 print for them; the problem says what to send instead."""
    table, problems = read(b"".join(zero + b" T " + name + b"\n" for name in (b"_text", b"_stext", b"schedule")))

    assert table.zeroed
    assert len(table.addresses) == 0
    assert [(p.kind, p.hides_data) for p in problems] == [(ProblemKind.UNREADABLE, False)]
    assert "kptr_restrict" in problems[0].text


def test_32_bit_addresses_and_dos_line_ends() -> None:
    """Eight digits are an address too."""
    table, problems = read(b"c0008000 T _text\r\nc0008100 t one\r\nbf000000 t two\t[ext4]\r\n")

    assert names(table) == [(0xBF000000, "two"), (0xC0008000, "_text"), (0xC0008100, "one")]
    assert dict(table.anchors) == {"_text": 0xC0008000}
    assert table.modules == ("", "ext4")
    assert problems == []


def test_odd_lines_are_counted_once() -> None:
    """What is no symbol is left out, with the first place and the number."""
    table, problems = read(FIXTURE + b"\n\nffffffff8zz00000 T odd\nshort\n0123 T x\n")

    assert [(p.kind, p.count, p.cite.line) for p in problems] == [(ProblemKind.ODD, 3, FIXTURE.count(b"\n") + 3)]
    assert "odd" not in dict(names(table)).values()


def test_a_list_that_ends_within_a_line_is_said_to() -> None:
    """It may be half of one; what is there counts."""
    table, problems = read(FIXTURE[:20_000])

    assert len(table.addresses) > 100
    assert ["cut" in p.text for p in problems] == [True]


def test_a_list_that_is_too_long_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a line's end, with a problem that names the limit."""
    monkeypatch.setattr(kernel_symbols, "MAX_LIST_BYTES", 10_000)
    table, problems = read(FIXTURE, chunk=4096)

    assert [(p.kind, "10000" in p.text) for p in problems] == [(ProblemKind.LIMIT, True)]
    assert names(table) == names(read(FIXTURE[: FIXTURE.rfind(b"\n", 0, 10_000) + 1])[0])


@given(st.binary(max_size=400), st.integers(0, 2000), st.integers(0, 60))
def test_garbage_is_a_problem_never_an_exception(garbage: bytes, at: int, gone: int) -> None:
    """Bytes put in and taken out anywhere."""
    text = FIXTURE[:2000]
    records = list(
        kernel_symbols.read_kallsyms(Source("kallsyms"), Content(iter([text[:at] + garbage + text[at + gone :]])))
    )

    for listed in records:
        if isinstance(listed, SymbolList):
            table, _ = tables.read(listed)
            assert [table.name(i) for i in range(len(table.addresses))]
            assert (table.addresses[1:] >= table.addresses[:-1]).all()


@pytest.mark.parametrize("chunk", [1, 7, 100, 5000, 1 << 20])
def test_a_command_above_the_list_is_passed_over_in_whatever_pieces_it_comes(chunk: int) -> None:
    """The table is that of the list alone, cited where that begins."""
    typed = b"[root@host ~]# cat /proc/kallsyms > kallsyms-5.14.0\n"
    table, problems = read(typed + FIXTURE, chunk=chunk)

    assert names(table) == names(read(FIXTURE)[0])
    assert table.cite.line == 2
    assert problems == []
