"""Numbers as the kernel prints them in /proc and /sys: decimal digits, without sign, the unit if any behind a blank."""

from __future__ import annotations

LARGEST = 2**63  # the kernel's unsigned longs beyond this are counters that went below zero
LARGEST_KIB = 2**53  # what a double counts exactly

NOT_A_COUNT = "not a number from 0 to 2^63; the value is left out"


def whole(text: str | bytes) -> int | None:
    """A plain count, None if the text is anything else: signed, fractional, empty, or larger than a counter can be."""
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        return None
    value = int(text)
    return value if value < LARGEST else None


def size(text: str) -> int | None:
    """A size in bytes of `1700 kB`, as the kernel prints KiB; None without the unit or for more than memory can be."""
    value = whole(text.removesuffix("kB").strip()) if text.endswith("kB") else None
    return None if value is None or value > LARGEST_KIB else value * 1024


def kib(text: bytes) -> int | None:
    """The same of `   15712 kB` in bytes, as recordings copy it by the million."""
    parts = text.split()
    value = whole(parts[0]) if len(parts) == 2 and parts[1] == b"kB" else None
    return None if value is None or value > LARGEST_KIB else value * 1024


def fraction(text: str) -> float | None:
    """A number with an optional fraction and no sign, None if the text is anything else."""
    before, _, after = text.partition(".")
    if whole(before) is None or (after and whole(after[:18]) is None):
        return None
    return float(text)
