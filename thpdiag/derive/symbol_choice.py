"""Which table of kernel symbols fits a recording, and by how much its addresses are shifted.

With KASLR a kernel lies elsewhere at every boot. The recording tells where `_text` lay; the difference to the table's
own `_text` is the slide. /proc/kallsyms of the very boot has slide 0 and holds for modules too. A wrong table gives
names that look right, so build ids and releases must agree where both sides tell them, and the slide must be one that
KASLR makes (x86: multiples of 2 MiB, kernel CONFIG_PHYSICAL_ALIGN; elsewhere of a page).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from thpdiag.derive.symbol_places import PAGE
from thpdiag.model import KernelImage, SymbolTable, TableKind

Addresses = NDArray[np.uint64]
Entered = Callable[[SymbolTable, int], float | None]  # share of call chains that begin at an entry; table and slide

NO_MODULE = -1
_X86_KERNEL = 0xFFFFFFFF80000000  # __START_KERNEL_map; nothing lies as high on other architectures
_X86_MODULES = 0xFFFFFFFFC0000000
_X86_STEP = 2 * 1024 * 1024
_ENOUGH_INSIDE = 0.5  # of the kernel's addresses; a table of another kernel may still hold that many
_ALL_INSIDE = 0.99  # where nothing else tells that the table fits
_ENTERED = 0.5  # of the call chains; unwinding may stop before it is at the entry
_ASTRAY = 0.1  # with a table of another kernel hardly any begins at one
_ORDER = {TableKind.KALLSYMS: 0, TableKind.SYSTEM_MAP: 1, TableKind.VMLINUX: 2}


@dataclass(frozen=True, slots=True)
class Fit:
    """A table that may be used: runtime address = address in the table + `slide`.

    `modules`: its addresses of modules hold too. `doubt` says why it may be the wrong one, empty if nothing does;
    `told` by what else than release or build id it is known to be the right one.
    """

    table: SymbolTable
    slide: int
    modules: bool
    doubt: str = ""
    told: str = ""

    @property
    def rank(self) -> tuple[bool, bool, int, bool, bool]:
        """The best is the lowest."""
        return (bool(self.doubt), bool(self.told), _ORDER[self.table.kind], not self.table.build_id, self.slide != 0)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A table that must not be used, and why, as the end of a sentence about it."""

    table: SymbolTable
    reason: str


def fits(
    image: KernelImage, tables: Sequence[SymbolTable], addresses: Addresses, entered: Entered
) -> tuple[list[Fit], list[Refusal]]:
    """Tables of the kernel that fit a recording with these addresses, the best first, and those that do not."""
    own = [table for table in tables if table.kind is not TableKind.MODULE]
    judged = [_checked(image, _judged(image, table, addresses), entered) for table in own]
    good = [one for one in judged if isinstance(one, Fit)]
    return sorted(good, key=lambda fit: fit.rank), [one for one in judged if isinstance(one, Refusal)]


def _checked(image: KernelImage, one: Fit | Refusal, entered: Entered) -> Fit | Refusal:
    """Where there is a doubt, the call chains decide, if they can."""
    if isinstance(one, Refusal) or not one.doubt or (share := entered(one.table, one.slide)) is None:
        return one
    if share >= _ENTERED:
        return replace(one, doubt="", told="which fits the recorded call chains")
    if share < _ASTRAY and image.address is not None and image.address >= _X86_KERNEL:
        return Refusal(one.table, "is of another kernel: call chains would begin where no kernel is entered")
    return one


def module_tables(image: KernelImage, tables: Sequence[SymbolTable]) -> dict[str, SymbolTable]:
    """For each mapped module the table of its file, by build id, else by name and release."""
    files: dict[str, list[SymbolTable]] = {}
    for table in tables:
        if table.kind is TableKind.MODULE:
            files.setdefault(plain(table.modules[-1]), []).append(table)
    found = {}
    for module in image.modules if files else ():
        for table in files.get(plain(module.name), ()):
            same = same_build(table.build_id, module.build_id)
            if same or (same is None and table.release == image.release):
                found[module.name] = table
                break
    return found


def module_of(image: KernelImage, addresses: Addresses) -> NDArray[np.int64]:
    """The number of the module in which each address lies, `NO_MODULE` where it lies in none."""
    if not image.modules:
        return np.full(len(addresses), NO_MODULE, np.int64)
    starts = np.array([bounded(module.start) for module in image.modules], np.uint64)
    ends = np.array([bounded(module.end) for module in image.modules], np.uint64)
    order = np.argsort(starts, kind="stable")
    number = order[np.maximum(np.searchsorted(starts[order], addresses, "right") - 1, 0)]
    return np.where((addresses >= starts[number]) & (addresses < ends[number]), number, NO_MODULE)


def plain(module: str) -> str:
    """A module's name: files may be named with `-` where the kernel says `_`."""
    return module.strip("[]").replace("-", "_")


def same_build(one: str, other: str) -> bool | None:
    """Whether two build ids are the same, None where one is not known. Recordings fill short ones up with zeros."""
    return one.rstrip("0") == other.rstrip("0") if one and other else None


def bounded(address: int) -> np.uint64:
    """An address as a number of 64 bits, whatever a damaged file says."""
    return np.uint64(min(max(address, 0), 2**64 - 1))


def _judged(image: KernelImage, table: SymbolTable, addresses: Addresses) -> Fit | Refusal:
    if table.zeroed:
        return Refusal(table, "has only addresses of 0 (kptr_restrict hid them)")
    if not len(table.addresses):
        return Refusal(table, "lists no functions")
    same = same_build(table.build_id, image.build_id)
    if same is False:
        return Refusal(table, f"is of another kernel (build id {table.build_id}, recorded {image.build_id})")
    if not same and table.release and image.release and table.release != image.release:
        return Refusal(table, f"is of another kernel ({table.release}, recorded {image.release})")
    known = bool(same) or bool(table.release and image.release)
    return _placed(image, table, addresses, known=known)


def _placed(image: KernelImage, table: SymbolTable, addresses: Addresses, *, known: bool) -> Fit | Refusal:
    """The table at its slide."""
    anchor = dict(table.anchors).get(image.symbol)
    if image.address is None or anchor is None:
        inside = _inside(image, table, 0, addresses)
        if not known or inside < _ALL_INSIDE:
            return Refusal(table, f"cannot be placed: where {image.symbol} lay is not known")
        return Fit(table, 0, modules=False, doubt=f"where {image.symbol} lay is not known, no slide is assumed")
    slide = image.address - anchor
    if slide % (_X86_STEP if image.address >= _X86_KERNEL else PAGE):
        return Refusal(table, f"is of another kernel: {image.symbol} lies {slide:#x} away, which no boot makes")
    same_boot = table.kind is TableKind.KALLSYMS and slide == 0
    told = _modules_agree(image, table) if same_boot else None
    if known or told:
        return Fit(table, slide, modules=same_boot and told is not False)
    if _inside(image, table, slide, addresses) < _ENOUGH_INSIDE:
        return Refusal(table, "is of another kernel: most of what was recorded lies outside of it")
    doubt = "nothing tells the release or build id on both sides; accepted because the address of the kernel fits"
    return Fit(table, slide, modules=same_boot and told is not False, doubt=doubt)


def _inside(image: KernelImage, table: SymbolTable, slide: int, addresses: Addresses) -> float:
    """The share of the addresses that may be the kernel's own which lie in the table's functions of the kernel."""
    own = np.ones(len(addresses), np.bool_)
    if image.address is not None and image.address >= _X86_KERNEL:
        own &= addresses < np.uint64(_X86_MODULES)
    own &= module_of(image, addresses) == NO_MODULE
    of_kernel = table.addresses[table.module == 0]
    if not own.any() or not len(of_kernel):
        return 0.0
    first, last = bounded(int(of_kernel[0]) + slide), bounded(int(of_kernel[-1]) + slide + PAGE)
    inside = (addresses[own] >= first) & (addresses[own] < last)
    return float(inside.mean())


def _modules_agree(image: KernelImage, table: SymbolTable) -> bool | None:
    """Whether the modules lie where the table has them, None if it and the recording name none in common.

    The core of a module is mapped as one; its first function lies in it.
    """
    places = {module.name.strip("[]"): module for module in image.modules}
    common = [number for number, name in enumerate(table.modules) if name and name in places]
    if not common:
        return None
    numbers, first = np.unique(table.module, return_index=True)
    lowest = dict(zip(numbers.tolist(), table.addresses[first].tolist(), strict=True))
    hits = sum(places[table.modules[n]].start <= lowest.get(n, 0) < places[table.modules[n]].end for n in common)
    return bool(2 * hits > len(common))
