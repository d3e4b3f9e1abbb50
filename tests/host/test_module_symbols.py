"""Names for functions of kernel modules: from the boot's own kallsyms, or from the modules' files by where they lay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elf_files import CODE, DATA, NOTE, Section, Symbol, build_id_note, elf
from kernel_symbol_files import BASE, RELEASE, SLIDE, recording, samples, table
from thpdiag.host.kernel_symbols import symbolize
from thpdiag.model import KernelImage, Module, Problem, SymbolTable
from thpdiag.model.parser import Content, Source
from thpdiag.parsers import kernel_symbols

XFS, NET = 0xFFFFFFFFC0400000, 0xFFFFFFFFC0600000
BUILD_ID = bytes(range(20))
IMAGE = KernelImage(
    RELEASE,
    "",
    "_text",
    BASE,
    (Module("xfs", XFS, XFS + 0x10000, BUILD_ID.hex()), Module("nf_conntrack", NET, NET + 0x8000)),
)
MODULES = (
    f"{NET + 0x10:016x} t nf_confirm\t[nf_conntrack]\n{XFS + 0x40:016x} t xfs_write\t[xfs]\n"
    f"{XFS + 0x2000:016x} t xfs_read\t[xfs]\n"
)
ADDRESSES = [[NET + 0x20, BASE + 0x1000], [XFS + 0x50, BASE + 0x1000], [XFS + 0x2004, BASE + 0x1000]]
UNKNOWN = "[unknown] < clear_page_erms"


def module_file(path: str = "nf-conntrack.ko", *, release: str = RELEASE, name: str = "nf_conntrack") -> SymbolTable:
    sections = [
        Section(".text", b"\x90" * 0x100, flags=CODE),
        Section(".modinfo", f"name={name}\0vermagic={release} SMP mod_unload \0".encode(), flags=DATA),
        Section(".note.gnu.build-id", build_id_note(BUILD_ID, "<"), NOTE, DATA),
    ]
    data = elf(sections, [Symbol(f"{name}_in", 0x10), Symbol(f"{name}_out", 0x40)], wide=True, order="<", kind=1)
    (found,) = kernel_symbols.read_elf(Source(path), Content(iter([data])))
    assert isinstance(found, SymbolTable)
    return found


def named(image: KernelImage, *tables: SymbolTable) -> tuple[dict[str, int], list[Problem], str]:
    profile, problems = symbolize(recording(ADDRESSES, image), tables)
    return samples(profile), problems, profile.facts["symbols"]


def test_the_boots_own_kallsyms_names_modules() -> None:
    """Its addresses are those of the running kernel; the object is the module."""
    profile, problems = symbolize(recording(ADDRESSES, IMAGE), [table(release=RELEASE, more=MODULES)])

    assert problems == []
    assert samples(profile) == {f"{f} < clear_page_erms": 1 for f in ("nf_confirm", "xfs_write", "xfs_read")}
    assert {f.name: f.dso for f in profile.frames} == {
        "nf_confirm": "[nf_conntrack]",
        "xfs_write": "[xfs]",
        "xfs_read": "[xfs]",
        "clear_page_erms": "[kernel.kallsyms]",
    }


def test_modules_that_agree_make_a_list_known() -> None:
    """No other boot has them at the same places."""
    found, problems, source = named(IMAGE, table(more=MODULES))

    assert (len(found), problems, source) == (3, [], "kallsyms")


def test_the_end_of_a_module_is_not_the_next_ones_beginning() -> None:
    """The last function of a module ends with its page."""
    profile, _ = symbolize(
        recording([[NET - 0x100000], [XFS + 0x2FFF], [XFS + 0x3000]], replace(IMAGE, modules=())),
        [table(release=RELEASE, more=MODULES)],
    )
    assert samples(profile) == {"[unknown]": 2, "xfs_read": 1}


@pytest.mark.parametrize("how", ["slide", "modules"])
def test_another_boots_kallsyms_names_no_modules(how: str) -> None:
    """Modules are loaded elsewhere each time, with or without KASLR; wrong names would look right."""
    if how == "slide":
        other = table(release=RELEASE, base=BASE - SLIDE, more=MODULES)
    else:
        elsewhere = f"{XFS - 0x4000:016x} t xfs_write\t[xfs]\n{XFS + 0x48:016x} t nf_confirm\t[nf_conntrack]\n"
        other = table(release=RELEASE, more=elsewhere)
    found, (problem,), source = named(IMAGE, other)

    assert found == {UNKNOWN: 3}
    assert "of another boot" in source
    assert "nf_conntrack, xfs" in problem.text
    assert problem.cite == other.cite
    assert problem.count == 3
    assert not problem.hides_data


def test_modules_are_taken_from_another_table_than_the_kernel() -> None:
    """The best table may be one that knows no modules."""
    best = table(member="by build id", build_id="ab" * 20)
    found, problems, source = named(replace(IMAGE, build_id="ab" * 20), best, table(more=MODULES))

    assert problems == []
    assert source == "by build id"
    assert found == {f"{f} < clear_page_erms": 1 for f in ("nf_confirm", "xfs_write", "xfs_read")}


def test_a_modules_file_counts_from_where_it_was_mapped() -> None:
    """By name and release, or by build id; `-` in the name of the file is `_` in the kernel."""
    found, problems, _ = named(
        IMAGE, table(release=RELEASE), module_file(), module_file("x.ko", release="?", name="xfs")
    )

    # 0x2004 lies beyond the page in which the file's code ends
    assert found == {"nf_conntrack_in < clear_page_erms": 1, "xfs_out < clear_page_erms": 1, UNKNOWN: 1}
    assert len(problems) == 1


@pytest.mark.parametrize(
    "wrong", [module_file(release="5.14.0-1"), module_file(name="nf_nat"), module_file("a.ko", name="xfs")]
)
def test_another_kernels_module_is_not_taken(wrong: SymbolTable) -> None:
    """Release and name must be those of the recording; so must the build id, where both sides tell it."""
    image = replace(IMAGE, modules=(replace(IMAGE.modules[0], build_id="ff" * 20), IMAGE.modules[1]))
    found, _, _ = named(image, table(release=RELEASE), wrong)

    assert found == {UNKNOWN: 3}


def test_a_modules_file_alone_names_no_kernel() -> None:
    """The request for the kernel's symbols stays."""
    found, (problem,), _ = named(IMAGE, module_file())

    assert found == {"[unknown]": 3}
    assert problem.hides_data
