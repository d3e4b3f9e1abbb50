"""Inputs with parts removed: by member, parser, block, third of the samples, or name."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby

from analyze_bytes import sure
from thpdiag.detect import TaggedRecord
from thpdiag.host.reading import ParsedInput
from thpdiag.model import Event, Fact, Profile, Record, Sample

Readings = Mapping[str, Sequence[TaggedRecord]]


def variants(given: ParsedInput) -> Iterator[tuple[str, ParsedInput]]:
    """Yield reduced inputs with descriptions; every variant lacks at least one record."""
    for words, keep in cuts(given.readings):
        left = {m: [r for n, r in enumerate(rows) if keep(m, n, r)] for m, rows in given.readings.items()}
        if left != given.readings:
            yield words, ParsedInput({m: rows for m, rows in left.items() if rows}, given.inputs, given.problems)


def surer_findings(full: dict[str, str], rest: dict[str, str]) -> list[str]:
    """Return findings with a higher confidence in the reduced input than in the full one."""
    before = sure(full)
    return [f"{rule} {rest[rule]}" for rule, level in sure(rest).items() if level > before.get(rule, 0)]


Keep = Callable[[str, int, TaggedRecord], bool]


def cuts(readings: Readings) -> Iterator[tuple[str, Keep]]:
    """Return all possible cuts with descriptions and what they keep."""
    yield from _whole(readings)
    for member, rows in readings.items():
        yield from _blocks(member, rows)
        yield from _parts(member, rows)


def _whole(readings: Readings) -> Iterator[tuple[str, Keep]]:
    """Yield members, and names in all members."""
    for member in readings:
        yield f"member {member}", partial(_elsewhere, member)
    for name in sorted({_name(r.record) for rows in readings.values() for r in rows}):
        yield f"all {name}", partial(_other_name, name)
    yield "all settings", lambda m, n, r: not _name(r.record).startswith("fact thp.")
    yield "all events", lambda m, n, r: not isinstance(r.record, Event)
    yield "all facts", lambda m, n, r: not isinstance(r.record, Fact)
    yield "all samples", lambda m, n, r: not isinstance(r.record, Sample)


def _elsewhere(gone: str, member: str, _: int, __: TaggedRecord) -> bool:
    return member != gone


def _other_name(gone: str, _: str, __: int, reading: TaggedRecord) -> bool:
    return _name(reading.record) != gone


def _outside(own: str, gone: Container[int], member: str, number: int, _: TaggedRecord) -> bool:
    return member != own or number not in gone


def _name(record: Record) -> str:
    match record:
        case Fact():
            return f"fact {record.name}"
        case Event():
            return f"event {record.kind}"
        case Sample():
            return f"{record.kind} samples of {record.reader}"
        case Profile():
            return "profiles"
    return "problems"


def _blocks(member: str, rows: Sequence[TaggedRecord]) -> Iterator[tuple[str, Keep]]:
    """Yield each run of records of one parser, and everything before and after it."""
    at = 0
    for reader, group in groupby(rows, key=lambda r: r.reader):
        start, at = at, at + len(list(group))
        yield f"{member}: block {start} of {reader}", partial(_outside, member, range(start, at))
        if start:
            yield f"{member}: from {start} on", partial(_outside, member, range(start, len(rows)))
            yield f"{member}: up to {start}", partial(_outside, member, range(start))


def _parts(member: str, rows: Sequence[TaggedRecord]) -> Iterator[tuple[str, Keep]]:
    """Yield each third of the samples of a parser, and every second sample."""
    for reader in sorted({r.reader for r in rows if isinstance(r.record, Sample)}):
        places = [n for n, r in enumerate(rows) if r.reader == reader and isinstance(r.record, Sample)]
        for third in range(3):
            gone = frozenset(places[third * len(places) // 3 : (third + 1) * len(places) // 3])
            yield f"{member}: third {third} of {reader}", partial(_outside, member, gone)
            yield f"{member}: all but third {third} of {reader}", partial(_outside, member, frozenset(places) - gone)
        yield f"{member}: every second sample of {reader}", partial(_outside, member, frozenset(places[1::2]))
