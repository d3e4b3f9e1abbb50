"""Which kernel ran, and where it and its modules lay: from the kernel's map records and the header's build ids.

perf writes the kernel's image as a map of process -1 named `[kernel.kallsyms]_text`, whose offset is the runtime
address of `_text`; modules by the path of their file, or `[name]` where perf did not find it. Source:
tools/perf/util/synthetic-events.c, machine.c.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from thpdiag.model import Frame, KernelImage, Module
from thpdiag.model.profile import NAMELESS
from thpdiag.perf_data.columns import Features, Map
from thpdiag.perf_data.uapi import CPU_MODE, CpuMode

KERNEL = "[kernel.kallsyms]"
_COMPRESSED = (".gz", ".xz", ".zst", ".bz2")


def of_kernel(one: Map) -> bool:
    """Whether a map record is of the host's kernel or one of its modules."""
    return one.misc & CPU_MODE == CpuMode.KERNEL


def kernel_image(maps: Sequence[Map], features: Features) -> KernelImage:
    """The kernel as the recording tells it."""
    text = next((m for m in maps if m.name.startswith(KERNEL)), None)
    own = text.build_id if text else ""
    return KernelImage(
        release=features.release,
        build_id=own or features.build_ids.get(KERNEL, ""),
        symbol=(text.name.removeprefix(KERNEL) if text else "") or "_text",
        address=(text.offset or None) if text else None,
        modules=tuple(_modules(maps, features)),
    )


def kernel_frames(addresses: NDArray[np.uint64], image: KernelImage) -> list[Frame]:
    """A frame for each address (ascending), without a name; in its module where it lies in one."""
    modules = sorted(image.modules, key=lambda m: m.start)
    starts = np.array([m.start for m in modules], np.uint64)
    place = np.searchsorted(starts, addresses, "right") - 1
    names = [f"[{m.name}]" for m in modules]
    ends = [m.end for m in modules]
    return [
        Frame(NAMELESS, names[i] if i >= 0 and address < ends[i] else KERNEL, kernel=True, address=address)
        for address, i in zip(addresses.tolist(), place.tolist(), strict=True)
    ]


def _modules(maps: Sequence[Map], features: Features) -> Iterator[Module]:
    seen = set()
    for one in maps:
        name = module_name(one.name)
        if one.name.startswith((KERNEL, "[guest")) or not name or (key := (name, one.start)) in seen:
            continue
        seen.add(key)
        yield Module(name, one.start, one.start + one.length, one.build_id or features.build_ids.get(one.name, ""))


def module_name(name: str) -> str:
    """`nf_conntrack` for `[nf_conntrack]` and `/lib/modules/6.1.0/kernel/net/netfilter/nf-conntrack.ko.xz`."""
    base = name.rpartition("/")[2].strip("[]")
    for ending in _COMPRESSED:
        base = base.removesuffix(ending)
    return base.removesuffix(".ko").replace("-", "_")
