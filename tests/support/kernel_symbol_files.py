"""Recordings with unnamed kernel functions, and tables to name them."""

from __future__ import annotations

from collections.abc import Sequence

from thpdiag.model import (
    Citation,
    Frame,
    KernelImage,
    Ledger,
    Profile,
    StackCounts,
    Stacks,
    SymbolList,
    SymbolTable,
    TableKind,
    Task,
)
from thpdiag.perf import kallsyms

BASE = 0xFFFFFFFF81000000
SLIDE = 0x1A200000
RELEASE = "5.14.0-427.el9.x86_64"
BUILD_ID = "48dc540c8b76393804ca8088dbfa7d42911a9444"
PROGRAM = Frame("[unknown]", "libc.so.6", kernel=False, address=0x123)
FUNCTIONS = {"_text": 0, "clear_page_erms": 0x1000, "compact_zone": 0x2000, "do_huge_pmd_anonymous_page": 0x3000}


def table(
    functions: dict[str, int] | None = None,
    member: str = "kallsyms",
    kind: TableKind = TableKind.KALLSYMS,
    *,
    base: int = BASE,
    release: str = "",
    build_id: str = "",
    more: str = "",
) -> SymbolTable:
    """Return a table of functions at `base` plus their offsets, and further lines unchanged."""
    text = "".join(f"{base + at:016x} T {name}\n" for name, at in (functions or FUNCTIONS).items()) + more
    found, problems = kallsyms.read(SymbolList(Citation(member), kind, (text.encode(),), 0, release, build_id))
    assert problems == []
    return found


def recording(
    chains: Sequence[Sequence[int | Frame]], image: KernelImage | None, *, ledger: Ledger | None = None
) -> Profile:
    """Return one sample of each chain, leaf first: addresses in the kernel, or other frames."""
    frames: dict[Frame, int] = {}
    counts = StackCounts()
    cite = Citation("perf.data")
    for chain in chains:
        known = [f if isinstance(f, Frame) else Frame("[unknown]", "[kernel.kallsyms]", True, f) for f in chain]
        counts.add([frames.setdefault(frame, len(frames)) for frame in known], 1.0, 1, cite, Task("redis", 7, 7))
    return Profile(
        reader="perf_data",
        event="cycles",
        frames=tuple(frames),
        chains=counts.chains(),
        tasks=counts.tasks(),
        rows=counts.rows(),
        stacks=Stacks.FULL,
        cite=cite,
        ledger=ledger or Ledger(),
        facts={"release": RELEASE},
        kernel=image,
    )


def samples(profile: Profile) -> dict[str, int]:
    """Return samples by chain, leaf first."""
    found: dict[str, int] = {}
    for chain, number in zip(profile.rows.chain.tolist(), profile.rows.samples.tolist(), strict=True):
        key = " < ".join(profile.names(chain))
        found[key] = found.get(key, 0) + number
    return found
