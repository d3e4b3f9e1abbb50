"""Columns of collectl's output formats: their titles by metric, shortened numbers, and the time before a row.

    10:33:08 ...        20261120 10:33:08.004 ...        11/20 10:33:08 ...

Times (-oT, -oD, -od) are the host's wall clock; only -oD includes the year. `inactive` of the host is the last line of
/proc/meminfo with that prefix, Inactive(file) since 2.6.28; that of a NUMA node is the sum.
Source: collectl formatit.ph, lexpr.ph, 3.5 to 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from thpdiag.model import Clock, Moment
from thpdiag.parsers._time import DayClock, date_seconds, day_seconds
from thpdiag.parsers._units import DECIMAL, Column, Quantity, columns, parse_number, parse_quantity

KIB = 1024.0
PLOT, LEXPR, VERBOSE = range(3)
# Titles of a line of /proc/meminfo in the plot format, lexpr and the verbose form; empty if the form does not have it.
MEMORY = {
    "MemTotal": ("Tot", "tot", "Total"),
    "MemFree": ("Free", "free", "Free"),
    "Buffers": ("Buf", "buf", "Buff"),
    "Cached": ("Cached", "cached", "Cached"),
    "Slab": ("Slab", "slab", "Slab"),
    "Mapped": ("Map", "map", "Mapped"),
    "AnonPages": ("Anon", "anon", "Anon"),
    "AnonHugePages": ("AnonH", "anonH", "AnonH"),
    "Inactive_file": ("Inactive", "inactive", "Inact"),
    "Committed_AS": ("Commit", "", ""),
    "Mlocked": ("Locked", "locked", ""),
    "Dirty": ("Dirty", "dirty", ""),
    "SwapTotal": ("SwapTot", "", ""),
    "SwapFree": ("SwapFree", "", ""),
    "SUnreclaim": ("SUnreclaim", "sunreclaim", ""),
}
NODE_MEMORY = {
    "MemUsed": ("Used", "used", "Used"),
    "MemFree": ("Free", "free", "Free"),
    "Slab": ("Slab", "slab", "Slab"),
    "Mapped": ("Mapped", "map", "Mapped"),
    "AnonPages": ("Anon", "anon", "Anon"),
    "AnonHugePages": ("AnonH", "anonH", "AnonH"),
    "Inactive": ("Inactive", "inact", "Inact"),
    "Active": ("", "act", ""),
    "Mlocked": ("", "lock", "Locked"),
}
RATES = {  # per second, truncated to whole numbers
    "swap_in_bytes:rate": ("SwapIn", "swapinfo.in", ""),
    "swap_out_bytes:rate": ("SwapOut", "swapinfo.out", ""),
    "node_vmstat_pgfault:rate": ("PageFaults", "pageinfo.fault", "Fault"),
    "node_vmstat_pgmajfault:rate": ("PageMajFaults", "pageinfo.majfault", "MajFt"),
    "node_vmstat_pgpgin:rate": ("PageIn", "pageinfo.in", ""),
    "node_vmstat_pgpgout:rate": ("PageOut", "pageinfo.out", ""),
    "block_in_bytes:rate": ("ReadKBTot", "disktotals.readkbs", ""),
    "block_out_bytes:rate": ("WriteKBTot", "disktotals.writekbs", ""),
    "node_context_switches_total:rate": ("Ctx/sec", "ctxint.ctx", "Ctxsw"),
    "node_intr_total:rate": ("Intrpt/sec", "ctxint.int", "Intr"),
}
MODES = {
    "User": "user", "Nice": "nice", "Sys": "system", "Wait": "iowait", "Irq": "irq", "Soft": "softirq",
    "Steal": "steal", "Idle": "idle",
}  # fmt: skip


def titles(names: Mapping[str, tuple[str, ...]], form: int, metric: str = "{}") -> dict[str, str]:
    """Return the metrics by their titles in one form."""
    return {forms[form]: metric.format(name) for name, forms in names.items() if forms[form]}


def sizes(names: Mapping[str, tuple[str, ...]], form: int, metric: str) -> dict[str, Column]:
    """Return columns in KiB as the kernel prints them, or shortened in the verbose form."""
    metrics = titles(names, form, metric)
    return columns(metrics, size) if form == VERBOSE else columns(metrics, factor=KIB)


def rates(form: int) -> dict[str, Column]:
    """Return columns of events or KiB per second; shortened in the verbose form."""
    if form == VERBOSE:
        return columns(titles(RATES, form), rate)
    return {
        title: Column(name, factor=KIB, quantum=KIB) if "bytes" in name else Column(name, quantum=1)
        for title, name in titles(RATES, form).items()
    }


ORDERS = 11
_INNER = re.compile(r"(\d{1,3})([gtpGTP])(\d{1,3})", re.ASCII)
_WRAPPED = re.compile(r"\.(10?)[gtpGTP]$")


def size(text: str) -> Quantity | None:
    """Parse a number of KiB as collectl prints it, with absolute suffixes; the value is the lower end of its range.

    `1G` begins at 1000 MiB, which do not fit into three characters. Fractions (-oG, -og) are rounded thousandths of a
    remainder up to 1023; a remainder of 1000 and more is printed as .1 or g10, so these have a coarser resolution.
    """
    text = inner_unit(text)
    quantity = parse_quantity(text, unit=1024)
    if quantity and (wrapped := _WRAPPED.search(text)):
        return Quantity(quantity.value, quantity.resolution * 10 ** len(wrapped[1]))
    return quantity


def inner_unit(text: str) -> str:
    """Convert `9g37` to `9.37g`."""
    inner = _INNER.fullmatch(text)
    return f"{inner[1]}.{inner[3]}{inner[2]}" if inner else text


def kib_rate(text: str) -> Quantity | None:
    """Parse KiB per second; suffixes multiply KiB (1205K is 1205 MiB/s)."""
    return parse_quantity(inner_unit(text), unit=1)


def rate(text: str) -> Quantity | None:
    """Parse events per second, shortened by thousands."""
    return parse_quantity(text, suffixes=DECIMAL)


BRIEF: Mapping[str, Column] = {
    "Free": Column("node_memory_MemFree_bytes", size),
    "Buff": Column("node_memory_Buffers_bytes", size),
    "Cach": Column("node_memory_Cached_bytes", size),
    "Inac": Column("node_memory_Inactive_file_bytes", size),
    "Slab": Column("node_memory_Slab_bytes", size),
    "Map": Column("collectl_map_bytes", size),
    "KBRead": Column("block_in_bytes:rate", kib_rate, KIB),
    "KBWrit": Column("block_out_bytes:rate", kib_rate, KIB),
    "inter": Column("node_intr_total:rate", rate),
    "ctxsw": Column("node_context_switches_total:rate", rate),
}


def fragments(text: str) -> list[Quantity] | None:
    """Parse the Fragments column to free blocks by order: 0-9 exact, a-i tens, j-r hundreds, from s on thousands."""
    if len(text) != ORDERS or not (text.isascii() and text.isalnum() and text == text.lower()):
        return None
    return [_blocks(sign) for sign in text]


def _blocks(sign: str) -> Quantity:
    if (exact := parse_number(sign)) is not None:
        return Quantity(exact, 1)
    if sign <= "i":
        return Quantity(10.0 * (ord(sign) - ord("a") + 1), 10)
    if sign <= "r":
        return Quantity(100.0 * (ord(sign) - ord("j") + 1), 100)
    power = 10.0 ** (3 + ord(sign) - ord("s"))
    return Quantity(power, 9 * power)


TIME = re.compile(r"(?:(\d{8}|\d\d/\d\d)\s+)?(\d\d:\d\d:\d\d(?:\.\d+)?)\s+")
WAITING = re.compile(r"waiting for (\d+(?:\.\d+)?) second sample")  # the first line of any output


def row_moment(match: re.Match[str], days: DayClock) -> Moment | None:
    """Return the time of a match of `TIME`; `days` counts midnights if there is no date with a year."""
    date, clock = match.groups()
    seconds = day_seconds(clock)
    if seconds is None:
        return None
    if date and len(date) == 8:
        midnight = date_seconds(int(date[:4]), int(date[4:6]), int(date[6:]))
        return None if midnight is None else Moment(midnight + seconds, Clock.LOCAL)
    return days.at(seconds)
