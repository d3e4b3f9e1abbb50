"""Names of the kernel's functions in a native perf recording, from the best symbol table of the input.

Kernel symbol tables come from anywhere in the input and are read on demand. A table fits by what it says of itself
(build id, release, the slide), not by the host it was found with: one who sends a recording sends its kallsyms in
another mail. perf.data has addresses only: where no table fits, the kernel stays one nameless function, so that its
share is still known, and a problem says which file the customer should send.

Slide: with KASLR a kernel lies elsewhere at every boot. The recording tells where `_text` lay; the difference to the
table's own `_text` is the slide. /proc/kallsyms of the very boot has slide 0 and holds for modules too. A wrong table
gives names that look right, so build ids and releases must agree where both sides tell them, and the slide must be one
that KASLR makes (x86: multiples of 2 MiB, kernel CONFIG_PHYSICAL_ALIGN; elsewhere of a page).

Call chains: where nothing tells of which kernel a table is, its names may all be wrong. But the outermost kernel
function of any chain is the entry of a system call, of a page fault or of an interrupt, or the beginning of a thread,
and the next one is its first function in C; a table of another kernel has others there. One of nearly the same build
may have the entries at the same place (x86 aligns them to 2 MiB, arch/x86/kernel/vmlinux.lds.S), but not what they
call. Names: arch/x86/entry/, arch/x86/kernel/entry_64.S (until 4.1), arch/x86/kernel/head_64.S,
arch/arm64/kernel/entry.S, arch/powerpc/kernel/exceptions-64s.S, arch/s390/kernel/entry.S.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from thpdiag.detect import Detector, TaggedRecord
from thpdiag.knowledge.paths import root_of, system_path
from thpdiag.knowledge.symbols import normalise
from thpdiag.model import (
    Chains,
    Citation,
    Fact,
    Frame,
    KernelImage,
    Problem,
    ProblemKind,
    Profile,
    Record,
    SymbolList,
    SymbolTable,
    TableKind,
)
from thpdiag.model.numeric import Array, Bools, Ints, np
from thpdiag.model.ragged import group_keys, keys_of, starts_of
from thpdiag.model.text import module_name, path_name, quoted, sentence
from thpdiag.perf import kallsyms

if TYPE_CHECKING:
    Addresses = Array[np.uint64]

PAGE = 4096
NOWHERE = -1
NO_MODULE = -1
_X86_KERNEL = 0xFFFFFFFF80000000  # __START_KERNEL_map; nothing lies as high on other architectures
_X86_MODULES = 0xFFFFFFFFC0000000
_X86_STEP = 2 * 1024 * 1024
_ENOUGH_INSIDE = 0.5  # of the kernel's addresses; a table of another kernel may still hold that many
_ALL_INSIDE = 0.99  # where nothing else tells that the table fits
_ENTERED = 0.5  # of the call chains; unwinding may stop before it is at the entry
_ASTRAY = 0.1  # with a table of another kernel hardly any begins at one
_ORDER = {TableKind.KALLSYMS: 0, TableKind.SYSTEM_MAP: 1, TableKind.VMLINUX: 2}
KERNEL = "[kernel.kallsyms]"
UNKNOWN = "[unknown]"
_MOST_NAMED = 3  # tables that do not fit and are named in the problem
_CUT = 0x9E3779B97F4A7C15
MIN_CHAINS = 5
_ENTRY = re.compile(
    r"entry_.*|do_int80.*|do_fast_syscall_32|system_call.*|sysenter.*|sysret.*|ia32_.*|tracesys.*|int_.*|stub_.*"
    r"|ret_from_.*|retint_.*|child_rip|kernel_thread_helper|kthread|secondary_startup.*|start_secondary.*"
    r"|x86_64_start_.*|start_kernel|rest_init|cpu_idle|cpu_bringup.*|asm_.*|.*page_fault.*|.*_interrupt|.*_interrupt_common.*"
    r"|common_interrupt.*|irq_entries_start|.*nmi|error_entry|xen_.*callback.*|hypervisor_callback|general_protection"
    r"|el[01].*|vectors|__primary_switched|data_access_.*|instruction_access_.*|pgm_check.*|__do_syscall|ext_int.*|io_int.*"
    r"|__ret_from_fork"
)
_FIRST = re.compile(
    r"do_.*|__do_.*|(?i:sys)_.*|__\w+_sys_.*|x64_sys_call|exc_.*|sysvec_.*|smp_.*|irqentry_.*|syscall_.*|exit_to_user_.*|.*kthread.*"
    r"|worker_thread|start_.*|cpu_.*|rest_init|x86_64_.*|schedule_tail|el[01].*|invoke_syscall|handle_.*|xen_.*|kernel_init|prepare_exit.*"
    r"|__.*_interrupt|timer_interrupt|system_call_.*|trace_.*page_fault|ret_from_fork.*"
)


def find_functions(table: SymbolTable, addresses: Addresses) -> Ints:
    """The functions in which addresses lie, `NOWHERE` outside of all.

    A function goes on to the next one. The last one of the kernel or of a module goes on to the end of the page behind
    it, as perf has it (tools/perf/util/symbol.c, symbols__fixup_end).
    """
    if not len(table.addresses):
        return np.full(len(addresses), NOWHERE, np.int64)
    place = np.searchsorted(table.addresses, addresses, "right") - 1
    found = np.maximum(place, 0)
    following = np.minimum(found + 1, len(table.addresses) - 1)
    last = (following == found) | (table.module[following] != table.module[found])
    start, page = table.addresses[found], np.uint64(PAGE)
    beyond = last & (addresses - start >= page + (page - start % page) % page)
    nameless = table.ends[found] <= table.starts[found]
    return np.where((place < 0) | beyond | nameless, NOWHERE, place)


@dataclass(frozen=True, slots=True)
class TableFit:
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
class TableRefusal:
    """A table that must not be used, and why, as the end of a sentence about it."""

    table: SymbolTable
    reason: str


def fitting_tables(
    profile: Profile, image: KernelImage, tables: Sequence[SymbolTable], addresses: Addresses
) -> tuple[list[TableFit], list[TableRefusal]]:
    """Tables of the kernel that fit a recording with these addresses, the best first, and those that do not."""
    good: list[TableFit] = []
    refused: list[TableRefusal] = []
    for table in tables:
        if table.kind is TableKind.MODULE:
            continue
        one = _judge_table(image, table, addresses)
        if isinstance(one, TableFit) and one.doubt and (share := entry_share(profile, table, one.slide)) is not None:
            # where there is a doubt, the call chains decide, if they can
            if share >= _ENTERED:
                one = replace(one, doubt="", told="which fits the recorded call chains")
            elif share < _ASTRAY and image.address is not None and image.address >= _X86_KERNEL:
                one = TableRefusal(table, "is of another kernel: call chains would not start at a kernel entry")
        if isinstance(one, TableFit):
            good.append(one)
        else:
            refused.append(one)
    return sorted(good, key=lambda fit: fit.rank), refused


def module_tables(image: KernelImage, tables: Sequence[SymbolTable]) -> dict[str, SymbolTable]:
    """For each mapped module the table of its file, by build id, else by name and release."""
    files: dict[str, list[SymbolTable]] = {}
    for table in tables:
        if table.kind is TableKind.MODULE:
            files.setdefault(module_key(table.modules[-1]), []).append(table)
    found = {}
    for module in image.modules if files else ():
        for table in files.get(module_key(module.name), ()):
            same = same_build(table.build_id, module.build_id)
            if same or (same is None and table.release == image.release):
                found[module.name] = table
                break
    return found


def module_of(image: KernelImage, addresses: Addresses) -> Ints:
    """The number of the module in which each address lies, `NO_MODULE` where it lies in none."""
    if not image.modules:
        return np.full(len(addresses), NO_MODULE, np.int64)
    starts = np.array([to_address(module.start) for module in image.modules], np.uint64)
    ends = np.array([to_address(module.end) for module in image.modules], np.uint64)
    order = np.argsort(starts, kind="stable")
    number = order[np.maximum(np.searchsorted(starts[order], addresses, "right") - 1, 0)]
    return np.where((addresses >= starts[number]) & (addresses < ends[number]), number, NO_MODULE)


def module_key(module: str) -> str:
    """A module's name: files may be named with `-` where the kernel says `_`."""
    return module.strip("[]").replace("-", "_")


def same_build(one: str, other: str) -> bool | None:
    """Whether two build ids are the same, None where one is not known. Recordings fill short ones up with zeros."""
    return one.rstrip("0") == other.rstrip("0") if one and other else None


def to_address(address: int) -> np.uint64:
    """An address as a number of 64 bits, whatever a damaged file says."""
    return np.uint64(min(max(address, 0), 2**64 - 1))


def _judge_table(image: KernelImage, table: SymbolTable, addresses: Addresses) -> TableFit | TableRefusal:
    if table.zeroed:
        return TableRefusal(table, "has only addresses of 0 (kptr_restrict hid them)")
    if not len(table.addresses):
        return TableRefusal(table, "lists no functions")
    same = same_build(table.build_id, image.build_id)
    if same is False:
        return TableRefusal(table, f"is of another kernel (build id {table.build_id}, recorded {image.build_id})")
    if not same and table.release and image.release and table.release != image.release:
        return TableRefusal(table, f"is of another kernel ({quoted(table.release)}, recorded {quoted(image.release)})")
    known = bool(same) or bool(table.release and image.release)
    return _place_table(image, table, addresses, known=known)


def _place_table(
    image: KernelImage, table: SymbolTable, addresses: Addresses, *, known: bool
) -> TableFit | TableRefusal:
    """The table at its slide."""
    anchor = dict(table.anchors).get(image.symbol)
    if image.address is None or anchor is None:
        inside = _share_inside(image, table, 0, addresses)
        if not known or inside < _ALL_INSIDE:
            return TableRefusal(table, f"cannot be placed: where {image.symbol} lay is not known")
        return TableFit(table, 0, modules=False, doubt=f"where {image.symbol} lay is not known, no slide is assumed")
    slide = image.address - anchor
    if slide % (_X86_STEP if image.address >= _X86_KERNEL else PAGE):
        return TableRefusal(table, f"is of another kernel: {image.symbol} is {slide:#x} away, an impossible distance")
    same_boot = table.kind is TableKind.KALLSYMS and slide == 0
    modules_agree = _modules_agree(image, table) if same_boot else None
    if known or modules_agree:
        return TableFit(table, slide, modules=same_boot and modules_agree is not False)
    if _share_inside(image, table, slide, addresses) < _ENOUGH_INSIDE:
        return TableRefusal(table, "is of another kernel: most of what was recorded lies outside of it")
    doubt = "no release or build ID on both sides; accepted because the address of the kernel matches"
    return TableFit(table, slide, modules=same_boot and modules_agree is not False, doubt=doubt)


def _share_inside(image: KernelImage, table: SymbolTable, slide: int, addresses: Addresses) -> float:
    """The share of the addresses that may be the kernel's own which lie in the table's functions of the kernel."""
    own = np.ones(len(addresses), np.bool_)
    if image.address is not None and image.address >= _X86_KERNEL:
        own &= addresses < np.uint64(_X86_MODULES)
    own &= module_of(image, addresses) == NO_MODULE
    of_kernel = table.addresses[table.module == 0]
    if not own.any() or not len(of_kernel):
        return 0.0
    first, last = to_address(int(of_kernel[0]) + slide), to_address(int(of_kernel[-1]) + slide + PAGE)
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


def entry_share(profile: Profile, table: SymbolTable, slide: int) -> float | None:
    """Of the chains that show three functions of the kernel or more, the share that begins as a chain can begin.

    None if there are too few to tell. Chains of which the outer end is missing do not count.
    """
    known = [frame.address if frame.kernel and frame.address is not None else 0 for frame in profile.frames]
    address, chains = np.array(known, np.uint64), profile.chains
    kernel = (address != 0)[chains.frames]
    at = np.flatnonzero(kernel)  # which frames of all chains are the kernel's
    within = np.concatenate([[0], np.cumsum(kernel)])
    ends = within[chains.starts[1:]]
    whole = ends - within[chains.starts[:-1]] > 2
    if chains.cut is not None:
        whole &= ~chains.cut
    last = ends[whole]
    if len(last) < MIN_CHAINS:
        return None
    place = find_functions(table, address - np.uint64(slide % 2**64))
    begins = np.ones(len(last), np.bool_)
    for frames, names in ((chains.frames[at[last - 1]], _ENTRY), (chains.frames[at[last - 2]], _FIRST)):
        distinct, number = np.unique(place[frames], return_inverse=True)
        fits = (p != NOWHERE and names.fullmatch(normalise(table.name(p))) is not None for p in distinct.tolist())
        begins &= np.fromiter(fits, np.bool_)[number.ravel()]
    return float(begins.mean())


def replace_frames(profile: Profile, frames: tuple[Frame, ...], number: Array[np.int32], alone: int = -1) -> Profile:
    """The profile with other frames: `number` gives for each of the old ones its new number.

    Chains that are equal now are one, where the first of them stood; a chain that was cut is another than one that was
    not. Frame `alone` stands once where it follows itself.
    """
    values, starts = number[profile.chains.frames], profile.chains.starts
    if alone >= 0:
        keep = np.ones(len(values), np.bool_)
        keep[1:] = (values[1:] != alone) | (values[:-1] != alone)
        keep[starts[:-1][starts[:-1] < len(values)]] = True
        values, starts = values[keep], starts_of(keep)[starts]
    keys, cut = keys_of(values, starts), profile.chains.cut
    if cut is not None:
        keys[cut] += np.uint64(_CUT)
    first, chain = group_keys(keys)
    lengths, old, kept = np.diff(starts), profile.chains, np.zeros(len(starts) - 1, np.bool_)
    kept[first] = True  # `first` ascends, so that what is kept stays in order
    chains = Chains(
        values if kept.all() else values[np.repeat(kept, lengths)],
        starts_of(lengths[kept]),
        old.lines[first],
        tuple(old.texts[i] for i in first.tolist()) if old.texts else (),
        None if cut is None else cut[first],
    )
    rows = replace(profile.rows, chain=chain.astype(np.int32)[profile.rows.chain])
    return replace(profile, frames=frames, chains=chains, rows=rows)


@dataclass(slots=True)
class _Names:
    """For each address the table (by number) and the place in it that names it, as far as known."""

    addresses: Addresses
    table: Ints
    place: Ints

    @property
    def open(self) -> Bools:
        missing: Bools = self.table == NOWHERE
        return missing

    def look(self, number: int, table: SymbolTable, slide: int, among: Bools, *, kernel: bool, modules: bool) -> None:
        """Name those of the marked addresses that have no name yet, by functions of the kernel, of modules, or both."""
        where = np.flatnonzero(self.open & among)
        place = find_functions(table, self.addresses[where] - np.uint64(slide % 2**64))
        allowed = np.array([kernel] + [modules] * (len(table.modules) - 1))
        good = place >= 0
        good[good] = allowed[table.module[place[good]]]
        self.table[where[good]] = number
        self.place[where[good]] = place[good]


def symbolize(profile: Profile, tables: Sequence[SymbolTable]) -> tuple[Profile, list[Problem]]:
    """The profile with names for its kernel functions, and what is to be said about the tables.

    A profile that waits for none (`kernel` is None) stays as it is.
    """
    image = profile.kernel
    if image is None:
        return profile, []
    pending = [i for i, frame in enumerate(profile.frames) if frame.kernel and frame.address is not None]
    if not pending:
        return replace(profile, kernel=None), []
    addresses = np.array([profile.frames[i].address for i in pending], np.uint64)
    fit, refused = fitting_tables(profile, image, tables, addresses)
    if not fit:
        # Why there are no names
        kernel = f"kernel {quoted(image.release)}" if image.release else "the recorded kernel"
        why = "".join(f"; {path_name(r.table.cite.member)} {r.reason}" for r in refused[:_MOST_NAMED])
        more = f"; {len(refused) - _MOST_NAMED} more do not fit" if len(refused) > _MOST_NAMED else ""
        missing = f"no list of the symbols of {kernel} is in the input{why}{more}"
        nameless = [Frame(UNKNOWN, KERNEL, kernel=True)]
        plain = _name_frames(profile, pending, nameless, np.zeros(len(pending), np.int64), f"none: {missing}")
        text = (
            f"the kernel's functions have no names: {missing}."
            " Send from that host, before it is restarted, what root gets by"
            " `cat /proc/kallsyms > kallsyms-$(uname -r)`, or `perf script --no-inline -i perf.data > perf.script`, or"
            " `perf archive perf.data` (perf.data.tar.bz2)"
        )
        return plain, [Problem(profile.cite, text, ProblemKind.UNREADABLE, hides=True)]
    names, used = _names(image, fit, tables, addresses)
    frames, numbers = _frames(image, used, names)
    named = _name_frames(profile, pending, frames, numbers, _describe_source(fit))
    if fit[0].doubt:  # makes what the names prove weak evidence
        named = replace(named, facts={**named.facts, "symbols_doubt": fit[0].doubt})
    return named, list(_nameless_modules(image, fit[0], names))


def _names(
    image: KernelImage, fit: Sequence[TableFit], tables: Sequence[SymbolTable], addresses: Addresses
) -> tuple[_Names, list[SymbolTable]]:
    """Names from the best table; those of modules also from others, and from the modules' own files."""
    names = _Names(addresses, *(np.full(len(addresses), NOWHERE, np.int64) for _ in range(2)))
    everywhere = np.ones(len(addresses), np.bool_)
    used = [f.table for f in fit]
    for number, one in enumerate(fit):
        if number == 0 or one.modules:
            names.look(number, one.table, one.slide, everywhere, kernel=number == 0, modules=one.modules)
    files = module_tables(image, tables)
    for module in image.modules:
        if table := files.get(module.name):
            inside = (addresses >= to_address(module.start)) & (addresses < to_address(module.end))
            names.look(len(used), table, module.start, inside, kernel=False, modules=True)
            used.append(table)
    return names, used


def _frames(image: KernelImage, used: Sequence[SymbolTable], names: _Names) -> tuple[list[Frame], Ints]:
    """The distinct functions, and for each address which it is."""
    module = module_of(image, names.addresses)
    keys = np.where(names.open, -2 - module, names.table << 40 | names.place)
    distinct, inverse = np.unique(keys, return_inverse=True)
    frames = []
    for key in distinct.tolist():
        if key < 0:
            name, of = UNKNOWN, "" if key == -2 - NO_MODULE else image.modules[-2 - key].name
        else:
            table, place = used[key >> 40], key & (1 << 40) - 1
            name, of = normalise(table.name(place)) or UNKNOWN, table.modules[table.module[place]]
        frames.append(Frame(name, f"[{of.strip('[]')}]" if of else KERNEL, kernel=True))
    return frames, inverse.ravel()


def _name_frames(
    profile: Profile, pending: Sequence[int], frames: Sequence[Frame], numbers: Ints, source: str
) -> Profile:
    """The profile in which frame `pending[i]` is `frames[numbers[i]]`; the kernel is one frame if there is but one.

    The ledger counts the samples taken in a function of the kernel that has no name.
    """
    waiting = np.zeros(len(profile.frames), np.bool_)
    waiting[list(pending)] = True
    kept = [frame for frame, gone in zip(profile.frames, waiting.tolist(), strict=True) if not gone]
    known = {frame: i for i, frame in enumerate(kept) if frame.kernel}
    places = []
    for frame in frames:
        if (place := known.setdefault(frame, len(kept))) == len(kept):
            kept.append(frame)
        places.append(place)
    number = np.cumsum(~waiting, dtype=np.int32) - np.int32(1)
    number[waiting] = np.array(places, np.int32)[numbers]
    only = places[0] if len(frames) == 1 and frames[0].name == UNKNOWN else -1
    done = replace_frames(profile, tuple(kept), number, only)
    chains, rows = done.chains, done.rows
    nameless = [place for place in set(places) if kept[place].name == UNKNOWN]
    filled = np.flatnonzero(np.diff(chains.starts))
    marked = np.zeros(len(chains), np.bool_)
    marked[filled] = np.isin(chains.frames[chains.starts[filled]], nameless)
    unknown = profile.ledger.unknown_symbol + int(rows.samples[marked[rows.chain]].sum())
    ledger = replace(profile.ledger, unknown_symbol=unknown)
    return replace(done, ledger=ledger, kernel=None, facts={**profile.facts, "symbols": sentence(source)})


def _describe_source(fit: Sequence[TableFit]) -> str:
    """Where the names come from, for a reader of the report."""
    best = fit[0]
    member = path_name(best.table.cite.member)
    parts = [f"{member}, shifted by {best.slide:#x}" if best.slide else member]
    if best.table.kind is TableKind.KALLSYMS and not any(f.modules for f in fit):
        parts.append("of another boot, so that functions of modules have no names from it")
    parts += filter(None, [best.doubt, best.told])
    return "; ".join(parts)


def _nameless_modules(image: KernelImage, best: TableFit, names: _Names) -> Iterable[Problem]:
    module = module_of(image, names.addresses)[names.open]
    found = sorted({image.modules[n].name.strip("[]") for n in module.tolist() if n != NOWHERE})
    if found:
        some = ", ".join([*map(module_name, found[:5]), *(["..."] if len(found) > 5 else [])])
        text = (
            f"functions of modules have no names ({some}):"
            " only /proc/kallsyms of the boot that was recorded, or the modules' own files, have them"
        )
        yield Problem(best.table.cite, text, count=int((module != NOWHERE).sum()))


Readings = Mapping[str, Sequence[TaggedRecord]]
Reread = Callable[[set[str]], Readings]
GONE = "changed since it was read, so its names are missing"


def symbolize_profiles(
    readings: Readings, detector: Detector, again: Reread
) -> tuple[dict[str, Sequence[TaggedRecord]], list[Problem]]:
    """The readings with named kernel functions and without tables, and what is to be said about those.

    Lists are looked into only if a recording asks for names, and then all of them once; those that were left where they
    are have to be read `again`.
    """
    problems: dict[Problem, None] = {}
    named: dict[str, Sequence[TaggedRecord]] = {}
    tables: list[SymbolTable] | None = None
    for member, found in readings.items():
        kept = [reading for reading in found if not isinstance(reading.record, SymbolList | SymbolTable)]
        for number, reading in enumerate(kept):
            if isinstance(reading.record, Profile) and reading.record.kernel is not None:
                if tables is None:
                    tables, list_problems = _all_tables(readings, detector, again)
                    problems |= dict.fromkeys(list_problems)
                profile, notices = symbolize(reading.record, tables)
                if any(_has_names_of(other.record, profile) for rows in readings.values() for other in rows):
                    notices = [replace(problem, hides=False) for problem in notices]
                problems |= dict.fromkeys(notices)
                kept[number] = replace(reading, record=profile)
        named[member] = kept
    return named, list(problems)


def _has_names_of(other: Record, profile: Profile) -> bool:
    """Whether another file renders all samples of the same recording with the kernel's functions by name."""
    return (
        isinstance(other, Profile)
        and other.kernel is None
        and other.reader != profile.reader
        and other.event.split(":")[0] == profile.event.split(":")[0]
        and 0 < other.ledger.read == profile.ledger.read
        and any(frame.kernel and frame.name != UNKNOWN for frame in other.frames)
    )


def _all_tables(readings: Readings, detector: Detector, again: Reread) -> tuple[list[SymbolTable], list[Problem]]:
    """All tables of the input, and what is wrong with the lists of which they are made."""
    left = {member for member, found in readings.items() if any(map(_is_left, found))}
    more = again(left) if left else {}
    whole = {m: [*(one for one in readings[m] if not _is_left(one)), *more.get(m, ())] for m in left}
    readings = {**readings, **whole}
    tables: list[SymbolTable] = []
    problems = [Problem(Citation(m), GONE, ProblemKind.UNREADABLE) for m in sorted(left - set(more))]
    for reading in (reading for found in readings.values() for reading in found):
        made: Iterable[Record] = ()
        if isinstance(reading.record, SymbolTable):
            made = (reading.record,)
        elif isinstance(reading.record, SymbolList):
            made = detector.guard(reading.reader, reading.record.cite, _table_of_list(reading.record))
        for record in made:
            if isinstance(record, SymbolTable):
                tables.append(_with_release(record, readings))
            elif isinstance(record, Problem):
                problems.append(record)
    return tables, problems


def _is_left(reading: TaggedRecord) -> bool:
    return isinstance(reading.record, SymbolList) and not reading.record.whole


def _table_of_list(listed: SymbolList) -> Iterator[Record]:
    """The table of a list, and what is odd about it."""
    table, odd = kallsyms.read(listed)
    yield table
    yield from odd


def _with_release(table: SymbolTable, readings: Readings) -> SymbolTable:
    """/proc/kallsyms does not say of which kernel it is; the rest of the same copy of the host's files does."""
    member = table.cite.member
    if table.release or table.build_id or system_path(member) != "proc/kallsyms":
        return table
    releases = {
        str(fact.value)
        for other, found in readings.items()
        if root_of(other) == root_of(member) and system_path(other) is not None
        for fact in (reading.record for reading in found)
        if isinstance(fact, Fact) and fact.name == "kernel.release"
    }
    return replace(table, release=releases.pop()) if len(releases) == 1 else table
