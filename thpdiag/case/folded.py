"""What was read of one member, kept small: a recorder's day is millions of rows and says most things many times.

Rows become columns, and of what a listing says of a process in the same words each time, or the first line of each
report of the host, only the first is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from thpdiag.model import Fact, Sample
from thpdiag.recognise import Reading

MANY = 500_000  # numbers; below, rows stay rows, which costs less than to load numpy
EACH = 10  # numbers take as much memory as what else there is of a row
BANNER = frozenset(("host.name", "kernel.release", "cpu.count"))  # OSWatcher has a first line of sysstat per report


def folded(readings: Iterable[Reading]) -> list[Reading]:
    """The same readings, rows as columns where they are many."""
    rest = iter(readings)
    held = []
    numbers = 0
    for reading in rest:
        held.append(reading)
        numbers += EACH + (len(reading.record.values) if isinstance(reading.record, Sample) else 0)
        if numbers >= MANY:
            break
    else:
        return held
    from thpdiag.recordings.columns import Columns

    columns: dict[tuple[str, tuple[str, str]], Columns] = {}
    said: set[tuple[object, ...]] = set()
    last: dict[tuple[object, ...], object] = {}
    kept: list[Reading] = []
    for reading in chain(_emptied(held), rest):
        record = reading.record
        if isinstance(record, Sample):
            of = (reading.reader, reading.group)
            columns.setdefault(of, Columns()).add(record)
        elif not isinstance(record, Fact) or (_is_new(record, reading, said) and _differs(record, reading, last)):
            kept.append(reading)
    for (reader, group), rows in columns.items():
        kept += (Reading(series, reader, group) for series in rows.series())
    return kept


def _emptied(held: list[Reading]) -> Iterator[Reading]:
    """What a list holds, which it then no longer does."""
    held.reverse()
    while held:
        yield held.pop()


def _is_new(fact: Fact, reading: Reading, said: set[tuple[object, ...]]) -> bool:
    if not fact.name.startswith("process."):
        return True
    words = (fact.name, fact.value, fact.labels, reading.group)
    if words in said:
        return False
    said.add(words)
    return True


def _differs(fact: Fact, reading: Reading, last: dict[tuple[object, ...], object]) -> bool:
    """Whether a first line says something else of the host than the first line before it."""
    if fact.name not in BANNER or fact.time is not None:
        return True
    key = (fact.name, reading.reader, reading.group)
    if last.get(key) == fact.value:
        return False
    last[key] = fact.value
    return True
