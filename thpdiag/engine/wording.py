"""Metric names and facts as people say them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from thpdiag.knowledge.vocabulary import term

_OWN = re.compile(r"node_(?:vmstat_(?P<counter>\w+)|memory_(?P<size>\w+)_bytes)")  # names of /proc/vmstat and meminfo
OF_STATUS = {"process_resident_memory_bytes": ("VmRSS",), "process_virtual_memory_bytes": ("VmSize",)}
_ASIDE = re.compile(r" \((?:labels?|fields|yes, no|total since boot)\b[^()]*(?:\([^()]*\)[^()]*)*\)")


def spelled(names: Sequence[str], entity: str = "") -> str:
    """Metrics for people: what the vocabulary says of them; what /proc/vmstat and meminfo name, by its name there."""
    told = " + ".join(map(_called, names)).replace("of the process", f"of {entity}" if entity else "of the process")
    return f"{told} of {entity}" if entity and entity not in told else told


def _called(name: str) -> str:
    if own := _OWN.fullmatch(name):
        return own["counter"] or own["size"]
    if order := re.fullmatch(r"node_buddyinfo_blocks_order(\d+)", name):
        return f"free blocks of order {order[1]}"
    return meaning(name)


def raw(name: str) -> tuple[str, ...]:
    """How /proc/vmstat, /proc/meminfo or a process's status name a metric; nothing where they do not."""
    if own := _OWN.fullmatch(name):
        return (own["counter"] or own["size"],)
    return OF_STATUS.get(name, ())


def meaning(name: str) -> str:
    """What the vocabulary says of a name, without what only rules need to know."""
    known = term(name)
    return _ASIDE.sub("", known.means) if known else name


def fact_text(name: str, labels: str, value: str) -> str:
    """A fact as a sentence: settings as the kernel names them, other facts by what they mean."""
    if name == "setting.contradiction":
        return value
    if name == "boot.transparent_hugepage":
        return f"the boot line has transparent_hugepage={value}"
    known = term(name)
    if name.startswith(("thp.", "sysctl.")) and known and known.kind == "setting":
        place = name.removeprefix("sysctl.").replace("thp.khugepaged.", "thp.khugepaged/")
        return f"{place}{' of ' + labels if labels else ''} is {value}"
    return f"{meaning(name).removeprefix('whether ')}{', ' + labels if labels else ''}: {value}"
