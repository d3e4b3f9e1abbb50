"""Quantities: numbers as tools print them (decimal comma, suffixes, rounding) and as the kernel prints them.

What a tool printed rounded or cut carries the size of the last printed digit (`resolution`), so that a rule can ask
for an effect that is larger than it. In /proc and /sys stand plain decimal digits, the unit if any behind a blank.
Negative, huge and broken numbers are None: the caller says so in a Problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

NAN = float("nan")
MAX_QUANTITY = 2.0**60  # base units; more than any host has bytes
MAX_NUMBER_CHARS = 32  # characters of a number
CACHED_TEXTS = 4096  # texts of numbers that are kept
CACHED_CELLS = 1 << 15  # of a column; a list has seldom more than some thousands of rows
BINARY = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50, "e": 2**60}
DECIMAL = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15}

_NUMBER = re.compile(r"(\d{1,18})(?:[.,](\d{1,9}))?", re.ASCII)
_SUFFIXED = re.compile(r"(\d{1,18})(?:[.,](\d{1,9}))?(?:([A-Za-z])(?:i[Bb]?|[Bb])?)?", re.ASCII)


class Quantity(NamedTuple):
    """A number in base units and the quantum it was printed in."""

    value: float
    resolution: float


def parse_number(text: str) -> float | None:
    """A plain number that is not negative, with decimal point or comma."""
    if len(text) <= 18 and text.isascii() and text.isdigit():
        return float(text)
    found = _NUMBER.fullmatch(text)
    if not found:
        return None
    value = float(f"{found[1]}.{found[2] or 0}")
    return value if value <= MAX_QUANTITY else None


@lru_cache(CACHED_TEXTS)
def _in_units(text: str, unit: float) -> Quantity | None:
    """With binary suffixes; lists say the same sizes again and again."""
    return _parse(text, unit, BINARY)


def parse_quantity(text: str, unit: float = 1, suffixes: dict[str, int] = BINARY) -> Quantity | None:
    """A number with an optional suffix (`1.2g`, `12,3m`, `564K`); without one it is in `unit`.

    A suffix is absolute: `1.2g` is 1.2 GiB whatever `unit` is.
    """
    if len(text) <= 18 and text.isascii() and text.isdigit():
        value = float(text) * unit
        return Quantity(value, float(unit)) if value <= MAX_QUANTITY else None
    if len(text) > MAX_NUMBER_CHARS:
        return None
    return _in_units(text, unit) if suffixes is BINARY else _parse(text, unit, suffixes)


def _parse(text: str, unit: float, suffixes: dict[str, int]) -> Quantity | None:
    found = _SUFFIXED.fullmatch(text)
    if not found:
        return None
    suffix = (found[3] or "").lower()
    scale = suffixes.get(suffix) if suffix else unit
    if scale is None:
        return None
    value = float(f"{found[1]}.{found[2] or 0}") * scale
    return Quantity(value, scale / 10 ** len(found[2] or "")) if value <= MAX_QUANTITY else None


def parse_percent(text: str) -> float | None:
    """A percentage of one CPU as a ratio, which several threads take above 1."""
    return _ratio(text) if len(text) <= MAX_NUMBER_CHARS else None


@lru_cache(CACHED_TEXTS)
def _ratio(text: str) -> float | None:
    value = parse_number(text)
    return None if value is None else value / 100


def parse_share(text: str) -> float | None:
    """A percentage as a ratio; a little above 100 is rounding of the tool and becomes 1."""
    return _share(text) if len(text) <= MAX_NUMBER_CHARS else None


@lru_cache(4 * CACHED_TEXTS)  # there are ten thousand with two decimals
def _share(text: str) -> float | None:
    value = parse_number(text.rstrip("%"))
    return None if value is None or value > 101 else min(value / 100, 1.0)


class Column(NamedTuple):
    """A column of a table: its metric, how its cells are read, and the base units of what that gives.

    `quantum` is that of the metric where cells are read as plain numbers; 0: they are exact.
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
    """Columns of one kind, by their titles."""
    return {title: Column(metric, parse, factor, quantum) for title, metric in names.items()}


@dataclass(slots=True)
class Readings:
    """Values of one row, and the quanta of those that were printed rounded."""

    values: dict[str, float] = field(default_factory=dict)
    resolution: dict[str, float] = field(default_factory=dict)

    def take(self, table: Mapping[str, Column], cells: Mapping[str, str], scale: float = 1) -> list[str]:
        """Reads the cells that the table names, and says which of them hold no number that can be."""
        return [
            title
            for title, column in table.items()
            if title in cells and not self.put(column, column.parse(cells[title]), scale)
        ]

    def put(self, column: Column, found: Quantity | float | None, scale: float = 1) -> bool:
        """Whether it is a number that can be; `scale` makes a rate of a count."""
        value, quantum = (found.value, found.resolution) if isinstance(found, Quantity) else (found, column.quantum)
        factor = column.factor * scale
        if value is None or value * factor > MAX_QUANTITY:
            return False
        self.values[column.metric] = value * factor
        if quantum:
            self.resolution[column.metric] = quantum * (factor if isinstance(found, Quantity) else 1)
        return True


class Cells(dict[str, tuple[float, float]]):
    """Value and quantum (0: exact) by the text of a column's cell; the value is NAN itself where no number can be.

    Listings say the same again and again, so what was read is kept.
    """

    def __init__(self, column: Column) -> None:
        self._column = column

    def __missing__(self, text: str) -> tuple[float, float]:
        parsed, factor, quantum = self._column.parse(text), self._column.factor, self._column.quantum
        value, quantum = (
            (parsed.value, parsed.resolution * factor) if isinstance(parsed, Quantity) else (parsed, quantum)
        )
        possible = value is not None and value * factor <= MAX_QUANTITY
        if len(self) >= CACHED_CELLS:
            self.clear()
        self[text] = found = (value * factor if value is not None and possible else NAN), quantum
        return found


Numbers = dict[str, Sequence[float]]  # by metric, one per row


class ListingCells:
    """What the cells of one format's listings say, column by column."""

    def __init__(self) -> None:
        self._columns: dict[Column, Cells] = {}

    def read(self, columns: Mapping[str, Column], cells: Mapping[str, Sequence[str]]) -> tuple[Numbers, Numbers] | None:
        """Values and quanta (of those that are not exact) of one or more rows; None if a cell holds no number."""
        values, quanta = Numbers(), Numbers()
        for title, column in columns.items():
            if title not in cells:
                continue
            known = self._columns.setdefault(column, Cells(column))
            values[column.metric], rounded = zip(*map(known.__getitem__, cells[title]), strict=True)
            if any(rounded):
                quanta[column.metric] = rounded
        return None if any(NAN in column for column in values.values()) else (values, quanta)


MAX_COUNTER = 2**63  # the kernel's unsigned longs beyond this are counters that went below zero
MAX_KIB = 2**53  # what a double counts exactly

NOT_A_COUNT = "not a number from 0 to 2^63; the value is left out"


def parse_count(text: str | bytes) -> int | None:
    """A plain count, None if the text is anything else: signed, fractional, empty, or larger than a counter can be."""
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        return None
    value = int(text)
    return value if value < MAX_COUNTER else None


def parse_size(text: str) -> int | None:
    """A size in bytes of `1700 kB`, as the kernel prints KiB; None without the unit or for more than memory can be."""
    value = parse_count(text.removesuffix("kB").strip()) if text.endswith("kB") else None
    return None if value is None or value > MAX_KIB else value * 1024


def parse_kib(text: bytes) -> int | None:
    """The same of `   15712 kB` in bytes, as recordings copy it by the million."""
    parts = text.split()
    value = parse_count(parts[0]) if len(parts) == 2 and parts[1] == b"kB" else None
    return None if value is None or value > MAX_KIB else value * 1024


def parse_fraction(text: str) -> float | None:
    """A number with an optional fraction and no sign, None if the text is anything else."""
    before, _, after = text.partition(".")
    if parse_count(before) is None or (after and parse_count(after[:18]) is None):
        return None
    return float(text)
