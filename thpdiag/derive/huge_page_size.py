"""The size of a huge page of programs on a host: what one page fault can bring at most, what one collapse makes.

2 MiB on x86-64, and on 64-bit ARM with pages of 4 KiB; 512 MiB there with pages of 64 KiB. The kernel says it in
hpage_pmd_size (4.10 and later). Before, Hugepagesize of /proc/meminfo is the same unless somebody chose another default
for reserved pages (1 GiB), which is no size that page faults bring.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from thpdiag.derive.series import last_having
from thpdiag.model import Case, Fact

NAME = "memory.huge_page_bytes"
USUAL = 2.0 * 2**20  # bytes
_CHOSEN = 2.0**30  # the default of reserved pages was chosen, it is not the size of transparent ones
_TOLD = ("thp.hpage_pmd_size", "kernel.page_size")
_OTHER_MACHINE = re.compile(r"aarch64|arm64|64k|ppc64|s390|riscv|loongarch|mips|sparc")
_LARGEST = 512.0 * 2**20
_OF_PAGES = {65536: _LARGEST, 16384: 32.0 * 2**20, 4096: USUAL}  # by the size of a small page


def huge_page_size(case: Case) -> float:
    """In bytes; the usual size if nothing in the input says it."""
    return next((float(fact.value) for fact in huge_page_facts(case)), USUAL)


def most_of_a_huge_page(case: Case) -> float:
    """In bytes, the most that it may be: the largest on machines with pages of several sizes, if nothing says which."""
    releases = [f for f in case.facts if f.name == "kernel.release"]
    usual = _LARGEST if any(_OTHER_MACHINE.search(str(f.value)) for f in releases) else USUAL
    return next((float(fact.value) for fact in huge_page_facts(case)), usual)


def huge_page_facts(case: Case) -> Iterator[Fact]:
    """The size as a fact, from the best place that says it. None where it may be any: on machines with pages of
    several sizes the release of the kernel does not tell.
    """
    facts = [*case.facts, *(f for state in case.states for f in state.facts)]
    told = {f.name: f for f in facts if f.name in _TOLD and not isinstance(f.value, str) and f.value > 0}
    if (fact := told.get("thp.hpage_pmd_size")) is not None:
        yield Fact(NAME, float(fact.value), fact.cite)
    elif (pages := told.get("kernel.page_size")) is not None and int(pages.value) in _OF_PAGES:
        yield Fact(NAME, _OF_PAGES[int(pages.value)], pages.cite)
    else:
        yield from _by_meminfo(case) or _by_kernel(facts)


def _by_meminfo(case: Case) -> list[Fact]:
    rows = (sample for state in case.states for sample in state.samples)
    last = last_having(rows, "node_memory_Hugepagesize_bytes")
    size = last.values["node_memory_Hugepagesize_bytes"] if last else 0.0
    return [Fact(NAME, size, last.cite)] if last and 0 < size < _CHOSEN else []


def _by_kernel(facts: Iterable[Fact]) -> list[Fact]:
    releases = [f for f in facts if f.name == "kernel.release" and not f.provenance]
    return [Fact(NAME, USUAL, f.cite) for f in releases[:1] if not _OTHER_MACHINE.search(str(f.value))]
