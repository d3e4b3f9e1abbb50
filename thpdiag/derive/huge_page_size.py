"""The size of a huge page of programs on a host: what one page fault can bring at most, what one collapse makes.

2 MiB on x86-64, and on 64-bit ARM with pages of 4 KiB; 512 MiB there with pages of 64 KiB. The kernel says it in
hpage_pmd_size (4.10 and later). Before, Hugepagesize of /proc/meminfo is the same unless somebody chose another default
for reserved pages (1 GiB), which is no size that page faults bring.
"""

from __future__ import annotations

from thpdiag.derive.series import last_having
from thpdiag.model import Case

USUAL = 2.0 * 2**20
_CHOSEN = 2.0**30  # the default of reserved pages was chosen, it is not the size of transparent ones
_OF_PAGES = {65536: 512.0 * 2**20, 16384: 32.0 * 2**20}  # by the size of a small page


def huge_page_size(case: Case) -> float:
    """In bytes; the usual size if nothing in the input says it."""
    facts = [*case.facts, *(f for state in case.states for f in state.facts)]
    told = {f.name: float(f.value) for f in facts if f.name in _TOLD and not isinstance(f.value, str) and f.value > 0}
    if size := told.get("thp.hpage_pmd_size"):
        return size
    if size := _OF_PAGES.get(int(told.get("kernel.page_size", 0))):
        return size
    rows = (sample for state in case.states for sample in state.samples)
    last = last_having(rows, "node_memory_Hugepagesize_bytes")
    size = last.values["node_memory_Hugepagesize_bytes"] if last else 0.0
    return size if 0 < size < _CHOSEN else USUAL


_TOLD = ("thp.hpage_pmd_size", "kernel.page_size")
