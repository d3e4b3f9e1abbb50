"""The lines of top's summary, through its generations and languages."""

from __future__ import annotations

import re
from dataclasses import dataclass

from thpdiag.readers.elements.cpu_parts import plausible, with_sums
from thpdiag.readers.elements.quantities import number, quantity

CPU = re.compile(r"%?C[Pp][Uu](?:\(s\)|\d{1,5})?\s{0,2}:(?=\s*\d)")
MEMORY = re.compile(r"(?:([KMGTPE])iB\s+([^\W\d]{2,12})|(Mem|Swap))\s?:\s+(?=\d)")
UPTIME = re.compile(r"\bup\s+(?:(\d{1,6}) days?,\s+)?(?:(\d{1,3}):(\d\d)|(\d{1,3}) min)")

_PART = re.compile(r"(\d{1,3}[.,]\d{1,2})\s?%?\s?([^\W\d]{2,10})")
_SIZE = re.compile(r"(\d{1,15}(?:[.,]\d{1,3})?)([kmgKMG]?)(\+?)\s?([^\W\d]+(?:/[^\W\d]+)?)")
MODES = {
    "us": "user", "user": "user", "sy": "system", "system": "system", "ni": "nice", "nice": "nice", "id": "idle",
    "idle": "idle", "wa": "iowait", "iowait": "iowait", "hi": "irq", "si": "softirq", "st": "steal",
}  # fmt: skip
ORDER = ("user", "system", "nice", "idle", "iowait", "irq", "softirq", "steal")
TOTAL = {"Mem": "node_memory_MemTotal_bytes", "Swap": "node_memory_SwapTotal_bytes"}
FREE = {"Mem": "node_memory_MemFree_bytes", "Swap": "node_memory_SwapFree_bytes"}
UNIT = {"": 2**10, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}


@dataclass(frozen=True, slots=True)
class CpuLine:
    """`cpu` is the number of one CPU, empty for all; `old` is the line if it has the layout of procps 3.2."""

    values: dict[str, float]
    cpu: str
    old: str


def cpu_values(text: str) -> CpuLine | None:
    """The shares of a CPU line, None if they are no shares of one whole. Translated modes go by their order."""
    head, _, rest = text.partition(":")
    found = _PART.findall(rest)
    parts: dict[str, float] = {}
    for index, (value, word) in enumerate(found):
        mode = MODES.get(word) or (ORDER[index] if len(found) == len(ORDER) else "")
        share = number(value)
        if mode and share is not None:
            parts[mode] = share / 100
    if not plausible(parts):
        return None
    digits = re.sub(r"\D", "", head)
    return CpuLine(with_sums(parts), digits, "" if text.startswith("%") else text)


def memory_values(text: str, row: str) -> dict[str, float]:
    """Sizes of the Mem or Swap line (`row`: by order, the words are translated). A cut number (`+`) is not known."""
    found = MEMORY.match(text)
    if not found:
        return {}
    row = next((word for word in found.group(2, 3) if word in TOTAL), row)
    values: dict[str, float] = {}
    for index, (digits, suffix, cut, word) in enumerate(_SIZE.findall(text[found.end() :])):
        name = _size_name(row, index, word)
        size = quantity(digits + suffix, UNIT[found[1] or ""])
        if name and size and not cut:
            values[name] = size.value
    return values


def _size_name(row: str, index: int, word: str) -> str:
    if index == 0:  # total stands first in every generation and language
        return TOTAL[row]
    if word == "free":
        return FREE[row]
    return {"buffers": "node_memory_Buffers_bytes", "avail": "node_memory_MemAvailable_bytes"}.get(
        word, "node_memory_Cached_bytes" if word == "cached" and row == "Swap" else ""
    )


def uptime_seconds(text: str) -> int | None:
    """`up 10 days,  3:04`, `up  1:18`, `up 22 min`, to the minute."""
    found = UPTIME.search(text)
    if not found:
        return None
    days, hours, minutes, only = (int(part or 0) for part in found.groups())
    return days * 86400 + hours * 3600 + (minutes + only) * 60
