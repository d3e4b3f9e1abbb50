"""free: memory and swap of the host at one moment, or every N seconds (-s N).

                   total        used        free      shared  buff/cache   available
    Mem:        24684096      404928    24297716        8816      361008    24279168
    Swap:              0           0           0

Units: KiB, with -m, -g, --kilo and so on others, which only the command shows: numbers without a suffix that are no
multiples of 4 are not KiB and not used unless the command is known; multiples of 4096, all of them, are bytes (-b),
for the kernel counts pages. -h prints suffixes (`3.7G`, `23Gi`, `361Mi`).
Tables of -s have an empty line between them and no time: they get one where the command and a time above it are known.
Varies: `buffers` and `cached` up to procps 3.3.9 (or with -w), with a `-/+ buffers/cache:` line; then `buff/cache`
and `available`. Source: procps free.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Moment, Record, Sample
from thpdiag.reader import Lines, Reader, Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.elements.quantities import Quantity, number, quantity
from thpdiag.readers.elements.typed_command import Typed, typed

HEADER = re.compile(r"\s+total\s+used\s+free\s+shared\s+buff")
ROW = re.compile(r"(?:(Mem|Swap)|Total|Low|High|-/\+ buffers/cache)\s?:(?:\s+-?\d\S*)+\s*$")
COLUMNS = {
    "total": "node_memory_MemTotal_bytes",
    "free": "node_memory_MemFree_bytes",
    "shared": "node_memory_Shmem_bytes",
    "buffers": "node_memory_Buffers_bytes",
    "cached": "node_memory_Cached_bytes",
    "available": "node_memory_MemAvailable_bytes",
}
SWAP = {
    "total": "node_memory_SwapTotal_bytes",
    "used": "node_memory_SwapUsed_bytes",
    "free": "node_memory_SwapFree_bytes",
}
MOST_IN_MIB = 100_000  # what is larger may be KiB
UNITS = {
    "b": 1, "bytes": 1, "k": 2**10, "kibi": 2**10, "m": 2**20, "mebi": 2**20, "g": 2**30, "gibi": 2**30,
    "tebi": 2**40, "kilo": 10**3, "mega": 10**6, "giga": 10**9, "tera": 10**12,
}  # fmt: skip


def _unit(command: Typed | None, rows: list[tuple[int, str]]) -> int | None:
    """Bytes per number without a suffix; None if unknown."""
    if command:
        return next((UNITS[name] for name in command.options if name in UNITS), 1024)
    found = [number(word) for _, text in rows for word in text.split()[1:]]
    numbers = [value for value in found if value is not None]
    if max(numbers, default=0) <= MOST_IN_MIB or any(value % 4 for value in numbers):
        return None
    return 1 if all(value % 4096 == 0 for value in numbers) else 1024  # whole pages: bytes


def belongs(text: str) -> bool:
    """Empty lines stand between the tables of -s."""
    return not text.strip() or bool(ROW.match(text) or HEADER.match(text))


def read(source: Source, lines: Lines) -> Iterator[Record]:
    """One Sample of the host per table."""
    odd = Oddities(source, "free")
    columns: list[str] = []
    tables: list[tuple[list[str], list[tuple[int, str]]]] = []
    for line, text in lines:
        if HEADER.match(text):
            columns = text.split()
            tables.append((columns, []))
        elif ROW.match(text):
            if not tables:
                tables.append((columns, []))
            tables[-1][1].append((line, text))
        elif text.strip():
            odd.note(line, text, "a line that is no row of free")
    command = typed(source.command, "free", with_value="sc")
    unit = _unit(command, [row for _, rows in tables for row in rows])
    step = number(command.options.get("s", "")) if command else None
    for place, (names, rows) in enumerate(tables):
        time = source.time if len(tables) == 1 or source.time is None or step else None
        yield from _table(source, odd, names, rows, unit, time.plus(place * step) if time and step else time)
    yield from odd.problems()


def _table(
    source: Source,
    odd: Oddities,
    columns: list[str],
    rows: list[tuple[int, str]],
    unit: int | None,
    time: Moment | None,
) -> Iterator[Sample]:
    values: dict[str, float] = {}
    resolution: dict[str, float] = {}
    for line, text in rows:
        for name, size in _row(odd, line, text, columns, unit):
            values[name], resolution[name] = size.value, size.resolution
    if values:
        yield Sample("system", values, source.cite(*rows[0]), "free", time=time, resolution=resolution)


def _row(odd: Oddities, line: int, text: str, columns: list[str], unit: int | None) -> Iterator[tuple[str, Quantity]]:
    kind, _, rest = text.partition(":")
    names = {"Mem": COLUMNS, "Swap": SWAP}.get(kind.strip(), {})
    for column, cell in zip(columns, rest.split(), strict=False):
        if column not in names:
            continue
        size = quantity(cell, unit or 1)
        if size is None:
            odd.note(line, text, "an impossible number of free: not used")
        elif unit or not cell.isdecimal():
            yield names[column], size
        elif size.value:
            odd.note(line, text, "the unit of free's numbers is not known: not used")


READER = Reader("free", "free memory table", read, opens=HEADER, continues=belongs)
