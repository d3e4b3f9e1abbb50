"""Names for the kernel's addresses: which table is taken, where it is placed, what is refused, what becomes one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_symbol_files import BASE, BUILD_ID, FUNCTIONS, PROGRAM, RELEASE, SLIDE, recording, samples, table
from thpdiag.host.kernel_symbols import find_functions, symbolize
from thpdiag.model import (
    Citation,
    Frame,
    KernelImage,
    Ledger,
    Module,
    Problem,
    ProblemKind,
    SymbolList,
    SymbolTable,
    TableKind,
)
from thpdiag.perf import kallsyms

HERE = KernelImage(RELEASE, BUILD_ID, "_text", BASE)
SLID = KernelImage(RELEASE, BUILD_ID, "_text", BASE + SLIDE)
CHAIN = "clear_page_erms < do_huge_pmd_anonymous_page < [unknown]"


def chain(base: int = BASE) -> list[int | Frame]:
    return [base + 0x1010, base + 0x3020, PROGRAM]


def source(image: KernelImage, *tables: SymbolTable) -> str:
    """What names a chain of that kernel, or the problem if nothing does."""
    named, problems = symbolize(recording([chain(image.address or BASE)], image), tables)
    assert (samples(named) == {CHAIN: 1}) is (not problems)
    return problems[0].text if problems else named.facts["symbols"]


def test_the_boots_own_kallsyms_names_functions() -> None:
    """Without a slide; the programs' frames stay what they are."""
    named, problems = symbolize(recording([chain()], HERE), [table(release=RELEASE)])

    assert problems == []
    assert named.kernel is None
    assert named.facts == {"release": RELEASE, "symbols": "kallsyms"}
    assert named.frames[0] == PROGRAM
    assert set(named.frames[1:]) == {
        Frame(name, "[kernel.kallsyms]", kernel=True) for name in ("clear_page_erms", "do_huge_pmd_anonymous_page")
    }
    assert samples(named) == {CHAIN: 1}


@pytest.mark.parametrize("kind", [TableKind.SYSTEM_MAP, TableKind.VMLINUX, TableKind.KALLSYMS])
def test_a_table_of_another_boot_is_shifted(kind: TableKind) -> None:
    """The slide is where `_text` lay less where the table has it, upwards or downwards."""
    assert source(SLID, table(kind=kind, release=RELEASE)).startswith("kallsyms, shifted by 0x1a200000")
    down = table(kind=kind, release=RELEASE, base=BASE + SLIDE)
    assert source(HERE, down).startswith("kallsyms, shifted by -0x1a200000")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (table(release="5.14.0-362.el9.x86_64"), "(5.14.0-362.el9.x86_64, recorded 5.14.0-427.el9.x86_64)"),
        (table(build_id="ff" * 20), "(build id ffff"),
        (table(build_id="ff" * 20, release=RELEASE), "(build id ffff"),
        (table(base=BASE + 0x1000), "an impossible distance"),
        (table(base=BASE + 0x1000, release=RELEASE), "an impossible distance"),
        (table(FUNCTIONS | {"_text": 0x800}), "an impossible distance"),
        (table({"schedule": 0x1000}), "cannot be placed"),
        (replace(table(), zeroed=True), "kptr_restrict"),
        (table({"_text": 0, "schedule": 16}), "lies outside of it"),
    ],
    ids=["release", "build-id", "build-id-counts-more", "slide", "slide-of-right-release", "anchor", "no-anchor",
         "zeroed", "too-short"],
)  # fmt: skip
def test_what_does_not_fit_is_refused(wrong: SymbolTable, why: str) -> None:
    """One problem names the table, why it is refused, and what to send; a table that fits is still found."""
    named, (problem,) = symbolize(recording([chain()], HERE), [wrong])

    assert problem.kind is ProblemKind.UNREADABLE
    assert problem.hides_data
    assert why in problem.text
    assert "kallsyms" in problem.text
    assert samples(named) == {"[unknown] < [unknown]": 1}
    assert source(HERE, wrong, table(member="good", release=RELEASE)) == "good"


def test_the_right_build_id_counts_more_than_the_release_in_a_name() -> None:
    """Files get wrong names; recordings fill short build ids up with zeros."""
    assert source(HERE, table(build_id=BUILD_ID, release="6.6.6")) == "kallsyms"
    assert source(replace(HERE, build_id="ab" * 16 + "00000000"), table(build_id="ab" * 16)) == "kallsyms"


def test_the_order_of_tables() -> None:
    """kallsyms, System.map, vmlinux; what is known to fit before what may; the boot's own before another's."""
    shifted = table(member="other boot", release=RELEASE, base=BASE - SLIDE)
    order = [
        table(member="by build id", build_id=BUILD_ID),
        table(member="kallsyms", release=RELEASE),
        shifted,
        table(member="map", kind=TableKind.SYSTEM_MAP, release=RELEASE),
        table(member="vmlinux", kind=TableKind.VMLINUX, release=RELEASE),
        table(member="who knows"),
        table(member="who knows which map", kind=TableKind.SYSTEM_MAP),
    ]
    for first, best in enumerate(order):
        assert source(HERE, *reversed(order[first:])).startswith(best.cite.member)


def test_what_nothing_identifies_is_accepted_with_doubt() -> None:
    """The address of the kernel must fit, and the report says so."""
    assert "accepted because" in source(HERE, table())
    assert "accepted because" in source(replace(HERE, release=""), table(release=RELEASE))
    assert "accepted because" not in source(HERE, table(release=RELEASE))


def test_without_the_kernels_address_only_what_holds_all_is_accepted() -> None:
    """A recording by a user from whom it was hidden; a slide cannot be told, so none may be needed."""
    hidden = replace(HERE, address=None)
    assert "no slide is assumed" in source(hidden, table(release=RELEASE))

    named, (problem,) = symbolize(recording([chain(BASE + SLIDE)], hidden), [table(release=RELEASE)])
    assert "where _text lay is not known" in problem.text
    assert samples(named) == {"[unknown] < [unknown]": 1}


def test_other_anchors_and_architectures() -> None:
    """Old perf names `_stext`; elsewhere than on x86 a kernel may lie at any page."""
    arm = 0xFFFF800008000000
    stext = table({"_text": 0, "_stext": 0x10000} | {n: a + 0x10000 for n, a in FUNCTIONS.items() if a}, base=arm)
    image = KernelImage("", "", "_stext", arm + 0x10000 + 0x5000)
    named, problems = symbolize(recording([[arm + 0x5000 + 0x11010]], image), [stext])

    assert (samples(named), problems) == ({"clear_page_erms": 1}, [])


def test_names_are_normalised_and_become_one() -> None:
    """What the compiler added goes; frames and chains that are equal then are one, and no sample is lost."""
    functions = {"_text": 0, "isolate.isra.0": 0x1000, "isolate.cold": 0x2000, "compact_zone": 0x3000}
    chains = [
        [BASE + 0x1000, BASE + 0x3000],
        [BASE + 0x1004, BASE + 0x3999],
        [BASE + 0x2000, BASE + 0x3000],
        [BASE + 0x3001],
    ]
    named, _ = symbolize(recording(chains, HERE), [table(functions, release=RELEASE)])

    assert samples(named) == {"isolate < compact_zone": 3, "compact_zone": 1}
    assert len(named.chains) == 2
    assert len(named.frames) == 2
    assert named.rows.chain.tolist() == [0, 0, 0, 1]


def test_of_several_names_the_last_counts_but_not_where_the_kernel_begins() -> None:
    """As perf has it."""
    text = b"ffffffff81000000 T startup_64\nffffffff81000000 T _text\nffffffff81000040 T one\nffffffff81000040 t two\n"
    found, _ = kallsyms.read(SymbolList(Citation("kallsyms"), TableKind.KALLSYMS, (text,), 0, RELEASE))
    named, _ = symbolize(recording([[BASE], [BASE + 0x40]], HERE), [found])

    assert samples(named) == {"startup_64": 1, "two": 1}


def test_addresses_outside_of_all_functions_stay_without_name() -> None:
    """Below the first, in data, and beyond the page in which the last one ends; they are counted."""
    more = f"{BASE + 0x4000:016x} D data\n{BASE + 0x6000:016x} T last\n"
    inside = [BASE + 0x3FFF, BASE + 0x6000, BASE + 0x6FFF]
    outside = [BASE - 1, BASE + 0x4000, BASE + 0x5FFF, BASE + 0x7000, BASE + 0x100000]
    profile = recording([[a] for a in inside + outside], HERE, ledger=Ledger(read=8, kept=8, unknown_symbol=2))
    named, problems = symbolize(profile, [table(release=RELEASE, more=more)])

    assert samples(named) == {"do_huge_pmd_anonymous_page": 1, "last": 2, "[unknown]": 5}
    assert named.ledger == Ledger(read=8, kept=8, unknown_symbol=7)
    assert problems == []


def test_without_tables_the_kernel_is_one_function() -> None:
    """Its share stays known, and so do the programs' parts; the one problem asks for what is missing."""
    other = Frame("main", "churn", kernel=False)
    chains: list[list[int | Frame]] = [chain(), [BASE + 0x2000, PROGRAM], [PROGRAM], [BASE, other, BASE + 5], []]
    named, (problem,) = symbolize(recording(chains, HERE), [])

    assert named.frames == (PROGRAM, other, Frame("[unknown]", "[kernel.kallsyms]", kernel=True))
    assert [list(c) for c in named.chains] == [[2, 0], [0], [2, 1, 2], []]
    assert named.rows.chain.tolist() == [0, 0, 1, 2, 3]
    assert named.ledger.unknown_symbol == 3
    assert named.facts["symbols"].startswith("none")
    assert problem.cite == Citation("perf.data")
    assert RELEASE in problem.text
    for what in ("`cat /proc/kallsyms > kallsyms-$(uname -r)`", "`perf script --no-inline", "`perf archive"):
        assert what in problem.text


def test_what_waits_for_nothing_stays() -> None:
    """Profiles of texts have names already; a recording may have no kernel part."""
    text = recording([[PROGRAM]], None)
    assert symbolize(text, [table()]) == (text, [])

    user, problems = symbolize(recording([[PROGRAM]], HERE), [])
    assert (user.kernel, user.frames, problems) == (None, (PROGRAM,), [])


def test_a_chain_that_was_cut_is_another_than_one_that_was_not() -> None:
    """Both stay, each marked as it was."""
    profile = recording([[BASE + 0x2000], [BASE + 0x2004], [BASE + 0x2008]], HERE)
    cut = replace(profile, chains=replace(profile.chains, cut=np.array([False, True, True])))
    named, _ = symbolize(cut, [table(release=RELEASE)])

    assert named.chains.cut is not None
    assert named.chains.cut.tolist() == [False, True]
    assert named.rows.chain.tolist() == [0, 1, 1]


@given(
    st.lists(st.integers(0, 2**64 - 1) | st.integers(BASE - 5, BASE + 0x9000), max_size=30),
    st.integers(0, 2**64 - 1) | st.just(BASE) | st.none(),
    st.lists(st.tuples(st.integers(0, 2**64), st.integers(0, 2**65)), max_size=3),
)
def test_no_address_raises(addresses: list[int], text: int | None, modules: list[tuple[int, int]]) -> None:
    """Damaged recordings hold any number; all samples stay."""
    image = KernelImage(RELEASE, "", "_text", text, tuple(Module("[x]", a, b) for a, b in modules))
    for tables in ([table(release=RELEASE)], [table()], []):
        named, problems = symbolize(recording([[a] for a in addresses], image), tables)
        assert sum(samples(named).values()) == len(addresses)
        assert all(isinstance(p, Problem) for p in problems)


def test_an_empty_table_holds_nothing() -> None:
    """No function, no place."""
    empty = table({"_text": 0})
    none = replace(empty, addresses=empty.addresses[:0])
    assert find_functions(none, np.array([BASE], np.uint64)).tolist() == [-1]
