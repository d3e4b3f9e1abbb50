"""The names of the kernel's functions in a native recording, from the best table that the input has (perf.md 5.5).

perf.data has addresses only. Where no table fits, the kernel stays as one nameless function, so that its share is still
known, and the problem says which file the customer should send.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from thpdiag.derive.kernel_entries import entered
from thpdiag.derive.merged_frames import renamed
from thpdiag.derive.symbol_choice import Fit, Refusal, bounded, fits, module_of, module_tables
from thpdiag.derive.symbol_places import NOWHERE as _NONE
from thpdiag.derive.symbol_places import places
from thpdiag.knowledge.symbols import normalise
from thpdiag.model import Citation, Frame, KernelImage, Problem, ProblemKind, Profile, SymbolTable, TableKind

Addresses = NDArray[np.uint64]
Ints = NDArray[np.int64]

KERNEL = "[kernel.kallsyms]"
UNKNOWN = "[unknown]"
_MOST_NAMED = 3  # tables that do not fit and are named in the problem


@dataclass(slots=True)
class _Names:
    """For each address the table (by number) and the place in it that names it, as far as known."""

    addresses: Addresses
    table: Ints
    place: Ints

    @property
    def open(self) -> NDArray[np.bool_]:
        missing: NDArray[np.bool_] = self.table == _NONE
        return missing

    def look(
        self, number: int, table: SymbolTable, slide: int, among: NDArray[np.bool_], *, kernel: bool, modules: bool
    ) -> None:
        """Name those of the marked addresses that have no name yet, by functions of the kernel, of modules, or both."""
        where = np.flatnonzero(self.open & among)
        place = places(table, self.addresses[where] - np.uint64(slide % 2**64))
        allowed = np.array([kernel] + [modules] * (len(table.modules) - 1))
        good = place >= 0
        good[good] = allowed[table.module[place[good]]]
        self.table[where[good]] = number
        self.place[where[good]] = place[good]


def symbolised(profile: Profile, tables: Sequence[SymbolTable]) -> tuple[Profile, list[Problem]]:
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
    fit, refused = fits(image, tables, addresses, partial(entered, profile))
    if not fit:
        nameless = Frame(UNKNOWN, KERNEL, kernel=True)
        missing = _missing(image, refused)
        plain = _renamed(profile, pending, [nameless], np.zeros(len(pending), np.int64))
        return _described(plain, f"none: {missing}"), [_request(profile.cite, missing)]
    names, used = _names(image, fit, tables, addresses)
    frames, numbers = _frames(image, used, names)
    named = _described(_renamed(profile, pending, frames, numbers), _source(fit), fit[0].doubt)
    return named, list(_nameless_modules(image, fit[0], names))


def _names(
    image: KernelImage, fit: Sequence[Fit], tables: Sequence[SymbolTable], addresses: Addresses
) -> tuple[_Names, list[SymbolTable]]:
    """Names from the best table; those of modules also from others, and from the modules' own files."""
    names = _Names(addresses, *(np.full(len(addresses), _NONE, np.int64) for _ in range(2)))
    everywhere = np.ones(len(addresses), np.bool_)
    used = [f.table for f in fit]
    for number, one in enumerate(fit):
        if number == 0 or one.modules:
            names.look(number, one.table, one.slide, everywhere, kernel=number == 0, modules=one.modules)
    files = module_tables(image, tables)
    for module in image.modules:
        if table := files.get(module.name):
            inside = (addresses >= bounded(module.start)) & (addresses < bounded(module.end))
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
            dso = KERNEL if key == -2 - _NONE else _module_dso(image.modules[-2 - key].name)
            frames.append(Frame(UNKNOWN, dso, kernel=True))
            continue
        table, place = used[key >> 40], key & (1 << 40) - 1
        module_name = table.modules[table.module[place]]
        dso = _module_dso(module_name) if module_name else KERNEL
        frames.append(Frame(normalise(table.name(place)) or UNKNOWN, dso, kernel=True))
    return frames, inverse.ravel()


def _module_dso(name: str) -> str:
    return f"[{name.strip('[]')}]"


def _renamed(profile: Profile, pending: Sequence[int], frames: Sequence[Frame], numbers: Ints) -> Profile:
    """The profile in which frame `pending[i]` is `frames[numbers[i]]`; the kernel is one frame if there is but one."""
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
    done = renamed(profile, tuple(kept), number, only)
    ledger = replace(profile.ledger, unknown_symbol=profile.ledger.unknown_symbol + _unknown(done, set(places)))
    return replace(done, ledger=ledger, kernel=None)


def _unknown(profile: Profile, renamed: set[int]) -> int:
    """Samples taken in a function of the kernel that has no name."""
    nameless = [i for i in renamed if profile.frames[i].name == UNKNOWN]
    chains = profile.chains
    filled = np.flatnonzero(np.diff(chains.starts))
    marked = np.zeros(len(chains), np.bool_)
    marked[filled] = np.isin(chains.frames[chains.starts[filled]], nameless)
    return int(profile.rows.samples[marked[profile.rows.chain]].sum())


def _described(profile: Profile, symbols: str, doubt: str = "") -> Profile:
    """`symbols_doubt` makes what the names prove weak evidence."""
    doubts = {"symbols_doubt": doubt} if doubt else {}
    return replace(profile, facts={**profile.facts, "symbols": symbols, **doubts})


def _source(fit: Sequence[Fit]) -> str:
    """Where the names come from, for a reader of the report."""
    best = fit[0]
    said = [f"{best.table.cite.member}, shifted by {best.slide:#x}" if best.slide else best.table.cite.member]
    if best.table.kind is TableKind.KALLSYMS and not any(f.modules for f in fit):
        said.append("of another boot, so that functions of modules have no names from it")
    said += filter(None, [best.doubt, best.told])
    return "; ".join(said)


def _nameless_modules(image: KernelImage, best: Fit, names: _Names) -> Iterable[Problem]:
    module = module_of(image, names.addresses)[names.open]
    found = sorted({image.modules[n].name.strip("[]") for n in module.tolist() if n != _NONE})
    if found:
        text = (
            f"functions of modules have no names ({', '.join(found[:5])}{', ...' if len(found) > 5 else ''}):"
            " only /proc/kallsyms of the boot that was recorded, or the modules' own files, tell them"
        )
        yield Problem(best.table.cite, text, count=int((module != _NONE).sum()))


def _missing(image: KernelImage, refused: Sequence[Refusal]) -> str:
    """Why there are no names."""
    kernel = f"kernel {image.release}" if image.release else "the recorded kernel"
    why = "".join(f"; {r.table.cite.member} {r.reason}" for r in refused[:_MOST_NAMED])
    more = f"; {len(refused) - _MOST_NAMED} more do not fit" if len(refused) > _MOST_NAMED else ""
    return f"no list of the symbols of {kernel} is in the input{why}{more}"


def _request(cite: Citation, missing: str) -> Problem:
    """What the customer should send."""
    text = (
        f"the kernel's functions have no names: {missing}."
        " Send from that host, before it is restarted, what root gets by `cat /proc/kallsyms > kallsyms-$(uname -r)`,"
        " or `perf script --no-inline -i perf.data > perf.script`, or `perf archive perf.data` (perf.data.tar.bz2)"
    )
    return Problem(cite, text, ProblemKind.UNREADABLE, hides=True)
