"""Output of free: memory and swap of the host at one moment, or every N seconds (-s N).

                   total        used        free      shared  buff/cache   available
    Mem:        24684096      404928    24297716        8816      361008    24279168
    Swap:              0           0           0

Units: KiB. -m, -g, --kilo and similar options select others, which only the command shows. Without a known command,
numbers without a suffix that are not multiples of 4 are not KiB and are not used; if all are multiples of 4096 they
are bytes (-b), because the kernel counts pages. -h prints suffixes (`3.7G`, `23Gi`, `361Mi`).
Tables of -s are separated by an empty line and have no time; they get one if the command and a time above it are known.
Varies: `buffers` and `cached` up to procps 3.3.9 (or with -w), with a `-/+ buffers/cache:` line; then `buff/cache`
and `available`. Source: procps free.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from thpdiag.model import Record, Sample
from thpdiag.model.parser import Lines, Parser, Source
from thpdiag.parsers._lines import Command, ParseErrors, any_of, parse_command, with_errors
from thpdiag.parsers._units import Column, Readings, parse_number, parse_quantity

HEADER = re.compile(r"\s*total\s+used\s+free\s+shared\s+buff")
ROW = re.compile(r"\s*(?:(Mem|Swap)|Total|Low|High|-/\+ buffers/cache)\s?:(?:\s+-?\d\S*)+\s*$")
METRICS = {
    "Mem": {
        "total": "node_memory_MemTotal_bytes",
        "free": "node_memory_MemFree_bytes",
        "shared": "node_memory_Shmem_bytes",
        "buffers": "node_memory_Buffers_bytes",
        "cached": "node_memory_Cached_bytes",
        "available": "node_memory_MemAvailable_bytes",
    },
    "Swap": {
        "total": "node_memory_SwapTotal_bytes",
        "used": "node_memory_SwapUsed_bytes",
        "free": "node_memory_SwapFree_bytes",
    },
}
MAX_NUMBER_IN_MIB = 100_000  # larger numbers may be KiB
UNITS = {"b": 1, "bytes": 1, "k": 2**10, "kibi": 2**10, "m": 2**20, "mebi": 2**20, "g": 2**30, "gibi": 2**30}
UNITS |= {"tebi": 2**40, "kilo": 10**3, "mega": 10**6, "giga": 10**9, "tera": 10**12}
Row = tuple[int, str]


def unit_of(command: Command | None, rows: list[Row]) -> int | None:
    """Return the unit, in bytes, of numbers without a suffix; None if unknown."""
    if command:
        return next((UNITS[name] for name in command.options if name in UNITS), 1024)
    parsed = [parse_number(word) for _, text in rows for word in text.split()[1:]]
    numbers = [value for value in parsed if value is not None]
    if max(numbers, default=0) <= MAX_NUMBER_IN_MIB or any(value % 4 for value in numbers):
        return None
    return 1 if all(value % 4096 == 0 for value in numbers) else 1024


def _tables(lines: Lines, errors: ParseErrors) -> list[tuple[list[str], list[Row]]]:
    """Return the titles and rows of each table."""
    tables: list[tuple[list[str], list[Row]]] = []
    for line, text in lines:
        if HEADER.match(text):
            tables.append((text.split(), []))
        elif ROW.match(text):
            if not tables:
                tables.append(([], []))
            tables[-1][1].append((line, text))
        elif text.strip():
            errors.note(line, text, "not a row of free")
    return tables


@with_errors("free")
def read(source: Source, lines: Lines, errors: ParseErrors) -> Iterator[Record]:
    """Yield one sample of the host per table."""
    tables = _tables(lines, errors)
    command = parse_command(source.command, "free", with_value="sc")
    unit = unit_of(command, [row for _, rows in tables for row in rows])
    step = parse_number(command.options.get("s", "")) if command else None
    for index, (titles, rows) in enumerate(tables):
        readings = Readings()
        for row in rows:
            _parse_row(readings, errors, row, titles, unit)
        if readings.values:
            time = source.time if len(tables) == 1 or step else None
            time = time.plus(index * step) if time and step else time
            yield Sample("system", readings.values, source.cite(*rows[0]), "free", (), time, readings.resolution)


def _parse_row(readings: Readings, errors: ParseErrors, row: Row, titles: list[str], unit: int | None) -> None:
    kind, _, rest = row[1].partition(":")
    metrics = METRICS.get(kind.strip(), {})
    for title, cell in zip(titles, rest.split(), strict=False):
        size = parse_quantity(cell, unit or 1) if title in metrics else None
        if title in metrics and size is None:
            errors.note(*row, "an impossible number of free: not used")
        elif size and (unit or not cell.isdecimal()):
            readings.put(Column(metrics[title]), size)
        elif size and size.value:
            errors.note(*row, "the unit of free's numbers is not known: not used")


PARSER = Parser("free", "free memory table", read, opens=HEADER, continues=any_of(ROW, HEADER, blank=True))
