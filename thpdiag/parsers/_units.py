"""Quantities: numbers as tools print them (decimal comma, suffixes, rounding) and as the kernel prints them.

A number that a tool rounded or truncated carries the size of its last printed digit (`resolution`), so that a rule can
require an effect larger than that. /proc and /sys print plain decimal digits, and a unit, if any, after a blank.
Negative, oversized and malformed numbers parse to None; the caller reports them as a Problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

NAN = float("nan")
MAX_QUANTITY = 2.0**60  # base units; more than any host has bytes
MAX_NUMBER_CHARS = 32
CACHED_TEXTS = 4096  # parsed numbers kept per cache
CACHED_CELLS = 1 << 15  # parsed cells kept per column; a listing seldom has more than a few thousand rows
BINARY = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50, "e": 2**60}
DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}

_NUMBER = re.compile(r"(\d{1,18})(?:[.,](\d{1,9}))?", re.ASCII)
_SUFFIXED = re.compile(r"(\d{1,18})(?:[.,](\d{1,9}))?(?:([A-Za-z])(?:i[Bb]?|[Bb])?)?", re.ASCII)


class Quantity(NamedTuple):
    """A number in base units, and the size of its last printed digit in base units."""

    value: float
    resolution: float


def parse_number(text: str) -> float | None:
    """Parse a plain non-negative number with a decimal point or comma; None if it is not one."""
    if len(text) <= 18 and text.isascii() and text.isdigit():
        return float(text)
    match = _NUMBER.fullmatch(text)
    if not match:
        return None
    value = float(f"{match[1]}.{match[2] or 0}")
    return value if value <= MAX_QUANTITY else None


@lru_cache(CACHED_TEXTS)
def _parse_binary(text: str, unit: float) -> Quantity | None:
    """Parse with binary suffixes. Cached, because listings repeat the same sizes."""
    return _parse_suffixed(text, unit, BINARY)


def parse_quantity(text: str, unit: float = 1, suffixes: dict[str, int] = BINARY) -> Quantity | None:
    """Parse a number with an optional suffix (`1.2g`, `12,3m`, `564K`).

    `unit` applies only to a number without a suffix: `1.2g` is 1.2 GiB for every `unit`.
    """
    if len(text) <= 18 and text.isascii() and text.isdigit():
        value = float(text) * unit
        return Quantity(value, float(unit)) if value <= MAX_QUANTITY else None
    if len(text) > MAX_NUMBER_CHARS:
        return None
    return _parse_binary(text, unit) if suffixes is BINARY else _parse_suffixed(text, unit, suffixes)


def _parse_suffixed(text: str, unit: float, suffixes: dict[str, int]) -> Quantity | None:
    match = _SUFFIXED.fullmatch(text)
    if not match:
        return None
    suffix = (match[3] or "").lower()
    scale = suffixes.get(suffix) if suffix else unit
    if scale is None:
        return None
    value = float(f"{match[1]}.{match[2] or 0}") * scale
    return Quantity(value, scale / 10 ** len(match[2] or "")) if value <= MAX_QUANTITY else None


def parse_percent(text: str) -> float | None:
    """Parse a percentage of one CPU to a ratio; a process with several threads can exceed 1."""
    return _ratio(text) if len(text) <= MAX_NUMBER_CHARS else None


@lru_cache(CACHED_TEXTS)
def _ratio(text: str) -> float | None:
    value = parse_number(text)
    return None if value is None else value / 100


def parse_share(text: str) -> float | None:
    """Parse a percentage to a ratio; values up to 101 are rounding of the tool and become 1."""
    return _share(text) if len(text) <= MAX_NUMBER_CHARS else None


@lru_cache(4 * CACHED_TEXTS)  # ten thousand different percentages exist with two decimals
def _share(text: str) -> float | None:
    value = parse_number(text.rstrip("%"))
    return None if value is None or value > 101 else min(value / 100, 1.0)


class Column(NamedTuple):
    """A column of a table: its metric, the parser of its cells, and the factor from the parsed value to base units.

    `quantum` is the resolution of the metric if `parse` returns plain numbers; 0 if they are exact.
    """

    metric: str
    parse: Callable[[str], Quantity | float | None] = parse_number
    factor: float = 1
    quantum: float = 0


def columns(
    names: Mapping[str, str],
    parse: Callable[[str], Quantity | float | None] = parse_number,
    factor: float = 1,
    quantum: float = 0,
) -> dict[str, Column]:
    """Return columns that differ only in title and metric, by title."""
    return {title: Column(metric, parse, factor, quantum) for title, metric in names.items()}


@dataclass(slots=True)
class Readings:
    """Values of one row by metric, and the resolution of those that were printed rounded."""

    values: dict[str, float] = field(default_factory=dict)
    resolution: dict[str, float] = field(default_factory=dict)

    def take(self, table: Mapping[str, Column], cells: Mapping[str, str], scale: float = 1) -> list[str]:
        """Parse the cells of the columns in `table`; return the titles of cells without a plausible number."""
        return [
            title
            for title, column in table.items()
            if title in cells and not self.put(column, column.parse(cells[title]), scale)
        ]

    def put(self, column: Column, parsed: Quantity | float | None, scale: float = 1) -> bool:
        """Store a parsed value; return False if it is missing or too large. `scale` turns a count into a rate."""
        value, quantum = (parsed.value, parsed.resolution) if isinstance(parsed, Quantity) else (parsed, column.quantum)
        factor = column.factor * scale
        if value is None or value * factor > MAX_QUANTITY:
            return False
        self.values[column.metric] = value * factor
        if quantum:
            self.resolution[column.metric] = quantum * (factor if isinstance(parsed, Quantity) else 1)
        return True


class Cells(dict[str, tuple[float, float]]):
    """Cache of (value, quantum) by the text of a cell of one column; quantum 0 is exact.

    Listings repeat the same cells. The value of a cell without a plausible number is the object `NAN` itself, so that
    `NAN in values` finds it by identity.
    """

    def __init__(self, column: Column) -> None:
        self._column = column

    def __missing__(self, text: str) -> tuple[float, float]:
        parsed, factor, quantum = self._column.parse(text), self._column.factor, self._column.quantum
        value, quantum = (
            (parsed.value, parsed.resolution * factor) if isinstance(parsed, Quantity) else (parsed, quantum)
        )
        if len(self) >= CACHED_CELLS:
            self.clear()
        is_plausible = value is not None and value * factor <= MAX_QUANTITY
        self[text] = cell = (value * factor if value is not None and is_plausible else NAN), quantum
        return cell


Numbers = dict[str, Sequence[float]]  # by metric, one per row


class ListingCells:
    """Parsed cells of the listings of one format, cached by column."""

    def __init__(self) -> None:
        self._columns: dict[Column, Cells] = {}

    def read(self, columns: Mapping[str, Column], cells: Mapping[str, Sequence[str]]) -> tuple[Numbers, Numbers] | None:
        """Return the values, and the quanta of inexact columns, of one or more rows; None if a cell has no number."""
        values, quanta = Numbers(), Numbers()
        for title, column in columns.items():
            if title not in cells:
                continue
            cache = self._columns.setdefault(column, Cells(column))
            values[column.metric], column_quanta = zip(*map(cache.__getitem__, cells[title]), strict=True)
            if any(column_quanta):
                quanta[column.metric] = column_quanta
        return None if any(NAN in column for column in values.values()) else (values, quanta)


MAX_COUNTER = 2**63  # a larger unsigned long of the kernel is a counter that went below zero
MAX_KIB = 2**53  # the largest integer range that a double represents exactly

NOT_A_COUNT = "not a number from 0 to 2^63; the value is left out"


def parse_count(text: str | bytes) -> int | None:
    """Parse a plain count; None if the text is signed, fractional, empty, or larger than a counter can be."""
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        return None
    value = int(text)
    return value if value < MAX_COUNTER else None


def parse_size(text: str) -> int | None:
    """Parse `1700 kB`, as the kernel prints KiB, to bytes; None without the unit or above `MAX_KIB`."""
    value = parse_count(text.removesuffix("kB").strip()) if text.endswith("kB") else None
    return None if value is None or value > MAX_KIB else value * 1024


def parse_kib(text: bytes) -> int | None:
    """Parse `   15712 kB` given as bytes, without decoding: recordings contain millions of such cells."""
    parts = text.split()
    value = parse_count(parts[0]) if len(parts) == 2 and parts[1] == b"kB" else None
    return None if value is None or value > MAX_KIB else value * 1024


def parse_fraction(text: str) -> float | None:
    """Parse a number with an optional fraction and no sign; None if the text is anything else."""
    before, _, after = text.partition(".")
    if parse_count(before) is None or (after and parse_count(after[:18]) is None):
        return None
    return float(text)
