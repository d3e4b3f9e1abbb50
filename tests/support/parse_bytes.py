"""Records of bytes without a file, and invariants of records of any bytes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from thpdiag.bundle import Limits, Member
from thpdiag.bundle.codecs import CHUNK, Stream
from thpdiag.detect import Detector, TaggedRecord
from thpdiag.detect.transcript import clean_lines, looks_like_html
from thpdiag.model import Event, Fact, Moment, Problem, Profile, Record, Sample, Series
from thpdiag.model.parser import Parser, Source
from thpdiag.parsers import all_parsers

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # a command's name may hold a line feed, a line a tab

STRICT = Detector(all_parsers(), strict=True)


def member(data: bytes, path: str = "mail.txt") -> Member:
    """Return a member with the bytes."""
    chunks = (data[at : at + CHUNK] for at in range(0, len(data), CHUNK))
    return Member(path, len(data), Stream(chunks), Limits())


def readings(data: bytes, path: str = "mail.txt") -> list[TaggedRecord]:
    """Return what the pipeline reads of them; a mistake of a parser is raised."""
    given = member(data, path)
    return list(STRICT.read(given.path, given.lines(), given.head().decode("utf-8", "replace")))


def alone(reader: Parser, data: bytes, path: str = "") -> list[Record]:
    """Return what one parser makes of them as a complete file, even if detection would not select it."""
    given = member(data)
    lines = ((line.number, line.text) for line in clean_lines(given.lines(), markup=looks_like_html("")))
    return list(reader.read(Source(given.path, path=path), lines))


def line_count(data: bytes) -> int:
    """Return the number of lines of the bytes, as intake counts them."""
    return max((number for number, _ in member(data).lines()), default=0)


def faults(records: Iterable[Record], lines: int) -> Iterator[str]:
    """Return what is wrong with records of a text with this number of lines; empty if nothing is."""
    for record in (row for r in records for row in (r if isinstance(r, Series) else (r,))):
        cite = record.cite
        if cite.line is not None and not 1 <= cite.line <= lines:
            yield f"cites line {cite.line} of {lines}: {record!r:.200}"
        if not all(math.isfinite(number) for number in _numbers(record)):
            yield f"has a number that is not finite: {record!r:.300}"
        if any(_CONTROL.search(text) for text in _texts(record)):
            yield f"holds a control character: {record!r:.300}"
        if isinstance(record, Profile):
            yield from _odd_profile(record, lines)


def _numbers(record: Record) -> Iterator[float]:
    for moment in (getattr(record, name, None) for name in ("time", "start", "end")):
        if isinstance(moment, Moment):
            yield moment.seconds
    match record:
        case Fact(value=int() | float()):
            yield float(record.value) if abs(record.value) < 1e300 else math.inf
        case Sample():
            yield from map(float, record.values.values())
            yield from map(float, record.resolution.values())
        case Profile():
            yield from record.rows.weight.tolist()
            yield record.ledger.unlisted


def _texts(record: Record) -> Iterator[str]:
    yield record.cite.text
    match record:
        case Fact():
            yield from (str(record.value), *(v for _, v in record.labels))
        case Sample():
            yield from (v for _, v in record.entity)
        case Event():
            yield from (*record.fields.values(), *record.stack)
        case Problem():
            yield record.text
        case Profile():
            yield from (
                record.event,
                *record.facts.values(),
                *(f.name for f in record.frames),
                *(t.comm for t in record.tasks),
                *record.chains.texts,
            )


def _odd_profile(profile: Profile, lines: int) -> Iterator[str]:
    chains, rows = profile.chains, profile.rows
    if not all(1 <= line <= lines for line in chains.lines.tolist()):
        yield "a stack cites a line that does not exist"
    if any(weight < 0 for weight in rows.weight.tolist()) or profile.ledger.unlisted < 0:
        yield "a stack weighs less than nothing"
    if not all(0 <= frame < len(profile.frames) for frame in chains.frames.tolist()):
        yield "a stack holds a frame that does not exist"
    if not all(0 <= chain < len(chains) for chain in rows.chain.tolist()):
        yield "a row has a stack that does not exist"
    if not all(0 <= task < len(profile.tasks) for task in rows.task.tolist()):
        yield "a row has a task that does not exist"
    ledger = profile.ledger
    if not 0 <= ledger.kept <= ledger.read:
        yield f"keeps {ledger.kept} of {ledger.read} samples"
