"""Names of kernel functions in a native perf recording, from the best symbol table of the input.

Kernel symbol tables may be anywhere in the input and are read on demand. A table is matched by its own properties
(build id, release, slide), not by the host it was found with, because a customer may send kallsyms separately from the
recording. perf.data contains addresses only: without a fitting table, the kernel stays one unnamed function, so that
its share is still known, and a problem states which file the customer should send.

Slide: with KASLR the kernel has another address after every boot. The recording has the address of `_text`; the
difference to `_text` of the table is the slide. /proc/kallsyms of the same boot has slide 0 and is valid for modules
too. A wrong table gives plausible names, so build ids and releases must agree if both sides have them, and the slide
must be one that KASLR produces (x86: multiples of 2 MiB, kernel CONFIG_PHYSICAL_ALIGN; on other architectures of a
page).

Call chains: if the kernel of a table is unknown, all of its names may be wrong. But the outermost kernel function of
any chain is the entry of a system call, of a page fault or of an interrupt, or the beginning of a thread, and the next
one is its first C function; a table of another kernel has other functions there. A table of nearly the same build may
have the entries at the same place (x86 aligns them to 2 MiB, arch/x86/kernel/vmlinux.lds.S), but not the functions that
they call. Names: arch/x86/entry/, arch/x86/kernel/entry_64.S (until 4.1), arch/x86/kernel/head_64.S,
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

PAGE_BYTES = 4096  # bytes
NO_FUNCTION = -1
NO_MODULE = -1
_X86_KERNEL = 0xFFFFFFFF80000000  # __START_KERNEL_map; no other architecture uses addresses this high
_X86_MODULES = 0xFFFFFFFFC0000000
_X86_SLIDE_STEP = 2 * 1024 * 1024
_MIN_INSIDE_SHARE = 0.5  # of the kernel's addresses; a table of another kernel may contain as many
_MIN_SURE_INSIDE_SHARE = 0.99  # required if nothing else shows that the table fits
_MIN_ENTRY_SHARE = 0.5  # of the call chains; unwinding may stop before the entry
_MAX_WRONG_ENTRY_SHARE = 0.1  # of the call chains, with a table of another kernel
_KIND_RANKS = {TableKind.KALLSYMS: 0, TableKind.SYSTEM_MAP: 1, TableKind.VMLINUX: 2}
KERNEL = "[kernel.kallsyms]"
UNKNOWN = "[unknown]"
_MAX_NAMED_TABLES = 3  # rejected tables that the problem names
_CUT_SALT = 0x9E3779B97F4A7C15  # added to the key of a truncated chain
MIN_CHAINS = 5
_ENTRY = re.compile(
    r"entry_.*|do_int80.*|do_fast_syscall_32|system_call.*|sysenter.*|sysret.*|ia32_.*|tracesys.*|int_.*|stub_.*"
    r"|ret_from_.*|retint_.*|child_rip|kernel_thread_helper|kthread|secondary_startup.*|start_secondary.*"
    r"|x86_64_start_.*|start_kernel|rest_init|cpu_idle|cpu_bringup.*|asm_.*|.*page_fault.*|.*_interrupt|.*_interrupt_common.*"
    r"|common_interrupt.*|irq_entries_start|.*nmi|error_entry|xen_.*callback.*|hypervisor_callback|general_protection"
    r"|el[01].*|vectors|__primary_switched|data_access_.*|instruction_access_.*|pgm_check.*|__do_syscall|ext_int.*|io_int.*"
    r"|__ret_from_fork"
)
_FIRST_C_FUNCTION = re.compile(
    r"do_.*|__do_.*|(?i:sys)_.*|__\w+_sys_.*|x64_sys_call|exc_.*|sysvec_.*|smp_.*|irqentry_.*|syscall_.*|exit_to_user_.*|.*kthread.*"
    r"|worker_thread|start_.*|cpu_.*|rest_init|x86_64_.*|schedule_tail|el[01].*|invoke_syscall|handle_.*|xen_.*|kernel_init|prepare_exit.*"
    r"|__.*_interrupt|timer_interrupt|system_call_.*|trace_.*page_fault|ret_from_fork.*"
)


def find_functions(table: SymbolTable, addresses: Addresses) -> Ints:
    """Return the index of the function that contains each address, `NO_FUNCTION` outside of all.

    A function extends to the next one. The last one of the kernel or of a module extends to the end of the page after
    it, as in perf (tools/perf/util/symbol.c, symbols__fixup_end).
    """
    if not len(table.addresses):
        return np.full(len(addresses), NO_FUNCTION, np.int64)
    index = np.searchsorted(table.addresses, addresses, "right") - 1
    function = np.maximum(index, 0)
    following = np.minimum(function + 1, len(table.addresses) - 1)
    is_last = (following == function) | (table.module[following] != table.module[function])
    start, page = table.addresses[function], np.uint64(PAGE_BYTES)
    is_beyond = is_last & (addresses - start >= page + (page - start % page) % page)
    is_unnamed = table.ends[function] <= table.starts[function]
    return np.where((index < 0) | is_beyond | is_unnamed, NO_FUNCTION, index)


@dataclass(frozen=True, slots=True)
class TableFit:
    """A table that may be used: runtime address = address in the table + `slide`.

    `modules`: its addresses of modules are valid too. `doubt` states why it may be wrong, if it may. `evidence` states
    what shows that it is right, if this is not the release or build id.
    """

    table: SymbolTable
    slide: int
    modules: bool
    doubt: str = ""
    evidence: str = ""

    @property
    def rank(self) -> tuple[bool, bool, int, bool, bool]:
        """A sort key; the best table has the lowest."""
        kind = _KIND_RANKS[self.table.kind]
        return bool(self.doubt), bool(self.evidence), kind, not self.table.build_id, self.slide != 0


@dataclass(frozen=True, slots=True)
class RejectedTable:
    """A table that must not be used, and the reason, as the end of a sentence about it."""

    table: SymbolTable
    reason: str


def fitting_tables(
    profile: Profile, image: KernelImage, tables: Sequence[SymbolTable], addresses: Addresses
) -> tuple[list[TableFit], list[RejectedTable]]:
    """Return the kernel tables that fit a recording with these addresses, best first, and those that do not."""
    fits: list[TableFit] = []
    rejected: list[RejectedTable] = []
    is_x86 = image.address is not None and image.address >= _X86_KERNEL
    for table in tables:
        if table.kind is TableKind.MODULE:
            continue
        result = _judge_table(image, table, addresses)
        if isinstance(result, TableFit) and result.doubt:  # the call chains decide, if there are enough
            share = entry_share(profile, table, result.slide)
            if share is not None and share >= _MIN_ENTRY_SHARE:
                result = replace(result, doubt="", evidence="which fits the recorded call chains")
            elif share is not None and share < _MAX_WRONG_ENTRY_SHARE and is_x86:
                result = RejectedTable(table, "is of another kernel: call chains would not start at a kernel entry")
        if isinstance(result, TableFit):
            fits.append(result)
        else:
            rejected.append(result)
    return sorted(fits, key=lambda fit: fit.rank), rejected


def module_tables(image: KernelImage, tables: Sequence[SymbolTable]) -> dict[str, SymbolTable]:
    """Return for each mapped module the table of its file, by build id, else by name and release."""
    files: dict[str, list[SymbolTable]] = {}
    for table in tables:
        if table.kind is TableKind.MODULE:
            files.setdefault(module_key(table.modules[-1]), []).append(table)
    by_module = {}
    for module in image.modules if files else ():
        for table in files.get(module_key(module.name), ()):
            is_same = same_build(table.build_id, module.build_id)
            if is_same or (is_same is None and table.release == image.release):
                by_module[module.name] = table
                break
    return by_module


def module_of(image: KernelImage, addresses: Addresses) -> Ints:
    """Return the index of the module that contains each address, `NO_MODULE` if none does."""
    if not image.modules:
        return np.full(len(addresses), NO_MODULE, np.int64)
    starts = np.array([to_address(module.start) for module in image.modules], np.uint64)
    ends = np.array([to_address(module.end) for module in image.modules], np.uint64)
    order = np.argsort(starts, kind="stable")
    index = order[np.maximum(np.searchsorted(starts[order], addresses, "right") - 1, 0)]
    return np.where((addresses >= starts[index]) & (addresses < ends[index]), index, NO_MODULE)


def module_key(module: str) -> str:
    """Return a module's normalised name: files may be named with `-` where the kernel uses `_`."""
    return module.strip("[]").replace("-", "_")


def same_build(left: str, right: str) -> bool | None:
    """Whether two build ids are the same, None if one is unknown. Recordings pad short ones with zeros."""
    return left.rstrip("0") == right.rstrip("0") if left and right else None


def to_address(address: int) -> np.uint64:
    """Return an address clamped to 64 bits, because a damaged file may contain any number."""
    return np.uint64(min(max(address, 0), 2**64 - 1))


def _judge_table(image: KernelImage, table: SymbolTable, addresses: Addresses) -> TableFit | RejectedTable:
    if table.zeroed:
        return RejectedTable(table, "has only addresses of 0 (kptr_restrict hid them)")
    if not len(table.addresses):
        return RejectedTable(table, "lists no functions")
    is_same = same_build(table.build_id, image.build_id)
    if is_same is False:
        return RejectedTable(table, f"is of another kernel (build id {table.build_id}, recorded {image.build_id})")
    if not is_same and table.release and image.release and table.release != image.release:
        return RejectedTable(table, f"is of another kernel ({quoted(table.release)}, recorded {quoted(image.release)})")
    is_identified = bool(is_same) or bool(table.release and image.release)
    return _place_table(image, table, addresses, is_identified=is_identified)


def _place_table(
    image: KernelImage, table: SymbolTable, addresses: Addresses, *, is_identified: bool
) -> TableFit | RejectedTable:
    """Return the table with its slide."""
    anchor = dict(table.anchors).get(image.symbol)
    if image.address is None or anchor is None:
        inside = _share_inside(image, table, 0, addresses)
        if not is_identified or inside < _MIN_SURE_INSIDE_SHARE:
            return RejectedTable(table, f"cannot be placed: where {image.symbol} lay is not known")
        return TableFit(table, 0, modules=False, doubt=f"where {image.symbol} lay is not known, no slide is assumed")
    slide = image.address - anchor
    if slide % (_X86_SLIDE_STEP if image.address >= _X86_KERNEL else PAGE_BYTES):
        return RejectedTable(table, f"is of another kernel: {image.symbol} is {slide:#x} away, an impossible distance")
    same_boot = table.kind is TableKind.KALLSYMS and slide == 0
    modules_agree = _modules_agree(image, table) if same_boot else None
    if is_identified or modules_agree:
        return TableFit(table, slide, modules=same_boot and modules_agree is not False)
    if _share_inside(image, table, slide, addresses) < _MIN_INSIDE_SHARE:
        return RejectedTable(table, "is of another kernel: most of what was recorded lies outside of it")
    doubt = "no release or build ID on both sides; accepted because the address of the kernel matches"
    return TableFit(table, slide, modules=same_boot and modules_agree is not False, doubt=doubt)


def _share_inside(image: KernelImage, table: SymbolTable, slide: int, addresses: Addresses) -> float:
    """Return the share of the kernel's own addresses that lie in the table's kernel functions."""
    is_kernel = np.ones(len(addresses), np.bool_)
    if image.address is not None and image.address >= _X86_KERNEL:
        is_kernel &= addresses < np.uint64(_X86_MODULES)
    is_kernel &= module_of(image, addresses) == NO_MODULE
    functions = table.addresses[table.module == 0]
    if not is_kernel.any() or not len(functions):
        return 0.0
    first, last = to_address(int(functions[0]) + slide), to_address(int(functions[-1]) + slide + PAGE_BYTES)
    inside = (addresses[is_kernel] >= first) & (addresses[is_kernel] < last)
    return float(inside.mean())


def _modules_agree(image: KernelImage, table: SymbolTable) -> bool | None:
    """Whether the mapped modules contain the table's functions of these modules; None without a common module.

    The core of a module is mapped as one range that contains its first function.
    """
    modules = {module.name.strip("[]"): module for module in image.modules}
    common = [number for number, name in enumerate(table.modules) if name and name in modules]
    if not common:
        return None
    numbers, first = np.unique(table.module, return_index=True)
    lowest = dict(zip(numbers.tolist(), table.addresses[first].tolist(), strict=True))
    hits = sum(modules[table.modules[n]].start <= lowest.get(n, 0) < modules[table.modules[n]].end for n in common)
    return bool(2 * hits > len(common))


def entry_share(profile: Profile, table: SymbolTable, slide: int) -> float | None:
    """Return the share of chains of at least three kernel functions that begin with an entry and its first C function.

    None if there are too few chains. Truncated chains do not count.
    """
    addresses = [f.address if f.kernel and f.address is not None else 0 for f in profile.frames]
    frame_addresses, chains = np.array(addresses, np.uint64), profile.chains
    kernel = (frame_addresses != 0)[chains.frames]
    positions = np.flatnonzero(kernel)  # of kernel frames among the frames of all chains
    kernel_counts = np.concatenate([[0], np.cumsum(kernel)])
    ends = kernel_counts[chains.starts[1:]]
    is_complete = ends - kernel_counts[chains.starts[:-1]] > 2
    if chains.cut is not None:
        is_complete &= ~chains.cut
    last = ends[is_complete]
    if len(last) < MIN_CHAINS:
        return None
    function = find_functions(table, frame_addresses - np.uint64(slide % 2**64))
    begins = np.ones(len(last), np.bool_)
    outermost = (chains.frames[positions[last - 1]], _ENTRY), (chains.frames[positions[last - 2]], _FIRST_C_FUNCTION)
    for frames, names in outermost:
        functions, index = np.unique(function[frames], return_inverse=True)
        hits = (p != NO_FUNCTION and names.fullmatch(normalise(table.name(p))) for p in functions.tolist())
        begins &= np.fromiter(hits, np.bool_)[index.ravel()]
    return float(begins.mean())


def replace_frames(profile: Profile, frames: tuple[Frame, ...], number: Array[np.int32], merged: int = -1) -> Profile:
    """Return the profile with other frames: `number` maps old frame numbers to new ones.

    Chains that become equal are merged at the place of the first; truncated and complete chains stay distinct.
    Consecutive repetitions of the frame `merged` become one.
    """
    values, starts = number[profile.chains.frames], profile.chains.starts
    if merged >= 0:
        keep = np.ones(len(values), np.bool_)
        keep[1:] = (values[1:] != merged) | (values[:-1] != merged)
        keep[starts[:-1][starts[:-1] < len(values)]] = True
        values, starts = values[keep], starts_of(keep)[starts]
    keys, cut = keys_of(values, starts), profile.chains.cut
    if cut is not None:
        keys[cut] += np.uint64(_CUT_SALT)
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
    """The index of the table, and of the function in it, that names each address; `NO_FUNCTION` if unknown."""

    addresses: Addresses
    table: Ints
    function: Ints

    @property
    def unnamed(self) -> Bools:
        mask: Bools = self.table == NO_FUNCTION
        return mask

    def fill(self, number: int, table: SymbolTable, slide: int, marked: Bools, *, kernel: bool, modules: bool) -> None:
        """Name the unnamed addresses among the marked ones, by functions of the kernel, of modules, or both."""
        rows = np.flatnonzero(self.unnamed & marked)
        function = find_functions(table, self.addresses[rows] - np.uint64(slide % 2**64))
        allowed = np.array([kernel] + [modules] * (len(table.modules) - 1))
        valid = function >= 0
        valid[valid] = allowed[table.module[function[valid]]]
        self.table[rows[valid]] = number
        self.function[rows[valid]] = function[valid]


def symbolize(profile: Profile, tables: Sequence[SymbolTable]) -> tuple[Profile, list[Problem]]:
    """Return the profile with names for its kernel functions, and the problems with the tables.

    A profile with `kernel` None is returned unchanged.
    """
    image = profile.kernel
    if image is None:
        return profile, []
    pending = [i for i, frame in enumerate(profile.frames) if frame.kernel and frame.address is not None]
    if not pending:
        return replace(profile, kernel=None), []
    addresses = np.array([profile.frames[i].address for i in pending], np.uint64)
    fits, rejected = fitting_tables(profile, image, tables, addresses)
    if not fits:
        kernel = f"kernel {quoted(image.release)}" if image.release else "the recorded kernel"
        why = "".join(f"; {path_name(r.table.cite.member)} {r.reason}" for r in rejected[:_MAX_NAMED_TABLES])
        more = f"; {len(rejected) - _MAX_NAMED_TABLES} more do not fit" if len(rejected) > _MAX_NAMED_TABLES else ""
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
    names, used = _name_addresses(image, fits, tables, addresses)
    frames, numbers = _distinct_frames(image, used, names)
    named = _name_frames(profile, pending, frames, numbers, _describe_source(fits))
    if fits[0].doubt:  # makes what the names prove weak evidence
        named = replace(named, facts={**named.facts, "symbols_doubt": fits[0].doubt})
    return named, list(_unnamed_module_problems(image, fits[0], names))


def _name_addresses(
    image: KernelImage, fits: Sequence[TableFit], tables: Sequence[SymbolTable], addresses: Addresses
) -> tuple[_Names, list[SymbolTable]]:
    """Return names from the best table; names of modules also from other tables and from the modules' own files."""
    names = _Names(addresses, *(np.full(len(addresses), NO_FUNCTION, np.int64) for _ in range(2)))
    all_addresses = np.ones(len(addresses), np.bool_)
    used = [f.table for f in fits]
    for number, table_fit in enumerate(fits):
        if number == 0 or table_fit.modules:
            flags = {"kernel": number == 0, "modules": table_fit.modules}
            names.fill(number, table_fit.table, table_fit.slide, all_addresses, **flags)
    files = module_tables(image, tables)
    for module in image.modules:
        if table := files.get(module.name):
            inside = (addresses >= to_address(module.start)) & (addresses < to_address(module.end))
            names.fill(len(used), table, module.start, inside, kernel=False, modules=True)
            used.append(table)
    return names, used


def _distinct_frames(image: KernelImage, used: Sequence[SymbolTable], names: _Names) -> tuple[list[Frame], Ints]:
    """Return the distinct functions, and for each address the index of its function."""
    module = module_of(image, names.addresses)
    keys = np.where(names.unnamed, -2 - module, names.table << 40 | names.function)
    distinct, inverse = np.unique(keys, return_inverse=True)
    frames = []
    for key in distinct.tolist():
        if key < 0:
            name, module_name = UNKNOWN, "" if key == -2 - NO_MODULE else image.modules[-2 - key].name
        else:
            table, function = used[key >> 40], key & (1 << 40) - 1
            name, module_name = normalise(table.name(function)) or UNKNOWN, table.modules[table.module[function]]
        frames.append(Frame(name, f"[{module_name.strip('[]')}]" if module_name else KERNEL, kernel=True))
    return frames, inverse.ravel()


def _name_frames(
    profile: Profile, pending: Sequence[int], frames: Sequence[Frame], numbers: Ints, source: str
) -> Profile:
    """Return the profile in which frame `pending[i]` is `frames[numbers[i]]`.

    If all kernel functions are unnamed, consecutive ones become one frame. The ledger counts the samples in unnamed
    kernel functions.
    """
    is_pending = np.zeros(len(profile.frames), np.bool_)
    is_pending[list(pending)] = True
    kept = [frame for frame, is_removed in zip(profile.frames, is_pending.tolist(), strict=True) if not is_removed]
    known = {frame: i for i, frame in enumerate(kept) if frame.kernel}
    indices = []
    for frame in frames:
        if (index := known.setdefault(frame, len(kept))) == len(kept):
            kept.append(frame)
        indices.append(index)
    number = np.cumsum(~is_pending, dtype=np.int32) - np.int32(1)
    number[is_pending] = np.array(indices, np.int32)[numbers]
    merged = indices[0] if len(frames) == 1 and frames[0].name == UNKNOWN else -1
    renamed = replace_frames(profile, tuple(kept), number, merged)
    chains, rows = renamed.chains, renamed.rows
    unnamed = [index for index in set(indices) if kept[index].name == UNKNOWN]
    non_empty = np.flatnonzero(np.diff(chains.starts))
    starts_unnamed = np.zeros(len(chains), np.bool_)
    starts_unnamed[non_empty] = np.isin(chains.frames[chains.starts[non_empty]], unnamed)
    unknown = profile.ledger.unknown_symbol + int(rows.samples[starts_unnamed[rows.chain]].sum())
    ledger = replace(profile.ledger, unknown_symbol=unknown)
    return replace(renamed, ledger=ledger, kernel=None, facts={**profile.facts, "symbols": sentence(source)})


def _describe_source(fits: Sequence[TableFit]) -> str:
    """Return the source of the names, for the report."""
    best = fits[0]
    member = path_name(best.table.cite.member)
    parts = [f"{member}, shifted by {best.slide:#x}" if best.slide else member]
    if best.table.kind is TableKind.KALLSYMS and not any(f.modules for f in fits):
        parts.append("of another boot, so that functions of modules have no names from it")
    parts += filter(None, [best.doubt, best.evidence])
    return "; ".join(parts)


def _unnamed_module_problems(image: KernelImage, best: TableFit, names: _Names) -> Iterable[Problem]:
    module = module_of(image, names.addresses)[names.unnamed]
    modules = sorted({image.modules[n].name.strip("[]") for n in module.tolist() if n != NO_FUNCTION})
    if modules:
        listed = ", ".join([*map(module_name, modules[:5]), *(["..."] if len(modules) > 5 else [])])
        text = (
            f"functions of modules have no names ({listed}):"
            " only /proc/kallsyms of the boot that was recorded, or the modules' own files, have them"
        )
        yield Problem(best.table.cite, text, count=int((module != NO_FUNCTION).sum()))


Readings = Mapping[str, Sequence[TaggedRecord]]
Reread = Callable[[set[str]], Readings]
CHANGED_MEMBER = "changed since it was read, so its names are missing"


def symbolize_profiles(
    readings: Readings, detector: Detector, reread: Reread
) -> tuple[dict[str, Sequence[TaggedRecord]], list[Problem]]:
    """Return the readings with named kernel functions and without symbol tables, and the problems with the tables.

    Symbol lists are parsed only if a recording needs names, and then all of them; those that were not kept in memory
    are read a second time with `reread`.
    """
    problems: dict[Problem, None] = {}
    named: dict[str, Sequence[TaggedRecord]] = {}
    tables: list[SymbolTable] | None = None
    for member, readings_of_member in readings.items():
        kept = [reading for reading in readings_of_member if not isinstance(reading.record, SymbolList | SymbolTable)]
        for number, reading in enumerate(kept):
            if isinstance(reading.record, Profile) and reading.record.kernel is not None:
                if tables is None:
                    tables, list_problems = _all_tables(readings, detector, reread)
                    problems |= dict.fromkeys(list_problems)
                profile, notices = symbolize(reading.record, tables)
                if any(_is_named_copy(other.record, profile) for rows in readings.values() for other in rows):
                    notices = [replace(problem, hides=False) for problem in notices]
                problems |= dict.fromkeys(notices)
                kept[number] = replace(reading, record=profile)
        named[member] = kept
    return named, list(problems)


def _is_named_copy(other: Record, profile: Profile) -> bool:
    """Whether another file has all samples of the same recording with names of kernel functions."""
    return (
        isinstance(other, Profile)
        and other.kernel is None
        and other.reader != profile.reader
        and other.event.split(":")[0] == profile.event.split(":")[0]
        and 0 < other.ledger.read == profile.ledger.read
        and any(frame.kernel and frame.name != UNKNOWN for frame in other.frames)
    )


def _all_tables(readings: Readings, detector: Detector, reread: Reread) -> tuple[list[SymbolTable], list[Problem]]:
    """Return all symbol tables of the input, and the problems with the lists they come from."""
    partial = {member for member, rows in readings.items() if any(map(_is_partial, rows))}
    reread_readings = reread(partial) if partial else {}
    complete = {m: [*(r for r in readings[m] if not _is_partial(r)), *reread_readings.get(m, ())] for m in partial}
    readings = {**readings, **complete}
    tables: list[SymbolTable] = []
    changed = sorted(partial - set(reread_readings))
    problems = [Problem(Citation(m), CHANGED_MEMBER, ProblemKind.UNREADABLE) for m in changed]
    for reading in (reading for rows in readings.values() for reading in rows):
        records: Iterable[Record] = ()
        if isinstance(reading.record, SymbolTable):
            records = (reading.record,)
        elif isinstance(reading.record, SymbolList):
            records = detector.guard(reading.reader, reading.record.cite, _table_of_list(reading.record))
        for record in records:
            if isinstance(record, SymbolTable):
                tables.append(_add_release(record, readings))
            elif isinstance(record, Problem):
                problems.append(record)
    return tables, problems


def _is_partial(reading: TaggedRecord) -> bool:
    return isinstance(reading.record, SymbolList) and not reading.record.whole


def _table_of_list(symbols: SymbolList) -> Iterator[Record]:
    """Yield the table of a list, and its problems."""
    table, problems = kallsyms.read(symbols)
    yield table
    yield from problems


def _add_release(table: SymbolTable, readings: Readings) -> SymbolTable:
    """Return the table with the kernel release of its capture: /proc/kallsyms itself does not contain it."""
    member = table.cite.member
    if table.release or table.build_id or system_path(member) != "proc/kallsyms":
        return table
    releases = {
        str(fact.value)
        for other, readings_of_member in readings.items()
        if root_of(other) == root_of(member) and system_path(other) is not None
        for fact in (reading.record for reading in readings_of_member)
        if isinstance(fact, Fact) and fact.name == "kernel.release"
    }
    return replace(table, release=releases.pop()) if len(releases) == 1 else table
