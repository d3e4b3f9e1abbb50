"""What collectl's columns are in our names, and how it shortens numbers to fit them."""

from __future__ import annotations

import re

from thpdiag.readers.elements.quantities import DECIMAL, LARGEST, Quantity, number, quantity

# column -> (metric, what the number is): `size` counts KiB with absolute suffixes (564K, 24G); `rate` counts
# KiB/s, and its suffixes count from there (1205K are 1205 MiB/s)
BYTES = {
    "Free": ("node_memory_MemFree_bytes", "size"),
    "Buff": ("node_memory_Buffers_bytes", "size"),
    "Cach": ("node_memory_Cached_bytes", "size"),
    "Inac": ("node_memory_Inactive_file_bytes", "size"),  # the last line of /proc/meminfo that begins so
    "Slab": ("node_memory_Slab_bytes", "size"),
    "Map": ("collectl_map_bytes", "size"),
    "KBRead": ("block_in_bytes:rate", "rate"),
    "KBWrit": ("block_out_bytes:rate", "rate"),
}
ORDERS = 11
_INNER = re.compile(r"(\d{1,3})([gtpGTP])(\d{1,3})", re.ASCII)
_WRAPPED = re.compile(r"\.(10?)[gtpGTP]$")


def quantum(text: str, unit: str = "size") -> Quantity | None:
    """A number of bytes as collectl prints it; the value is the lower end of what it may stand for.

    `1G` begins at 1000 MiB, which have no room in three characters. Fractions (-oG, -og) are rounded thousandths of a
    remainder that goes to 1023; those of 1000 and more are printed as .1 or g10, which thus say nothing.
    """
    if inner := _INNER.fullmatch(text):
        text = f"{inner[1]}.{inner[3]}{inner[2]}"
    if unit == "size":
        found = quantity(text, unit=1024)
        if found and (wrapped := _WRAPPED.search(text)):
            return Quantity(found.value, found.resolution * 10 ** len(wrapped[1]))
        return found
    found = quantity(text, unit=1)
    if found is None or found.value * 1024 > LARGEST:
        return None
    return Quantity(found.value * 1024, found.resolution * 1024)


def rate(text: str) -> Quantity | None:
    """Events per second, shortened by thousands."""
    return quantity(text, suffixes=DECIMAL)


def fragments(text: str) -> list[Quantity] | None:
    """Free blocks by order from the Fragments column."""
    if len(text) != ORDERS or not (text.isascii() and text.isalnum() and text == text.lower()):
        return None
    return [_blocks(sign) for sign in text]


def _blocks(sign: str) -> Quantity:
    if (exact := number(sign)) is not None:
        return Quantity(exact, 1)
    if sign <= "i":
        return Quantity(10.0 * (ord(sign) - ord("a") + 1), 10)
    if sign <= "r":
        return Quantity(100.0 * (ord(sign) - ord("j") + 1), 100)
    power = 10.0 ** (3 + ord(sign) - ord("s"))
    return Quantity(power, 9 * power)
