"""Records of perf.data from bytes, and invariants of them for any bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import numpy as np

from thpdiag.model import Problem, ProblemKind, Profile, Record
from thpdiag.model.parser import BulkParser, Content, Foreign, Source
from thpdiag.parsers import bulk_parsers

CHUNK = 64 * 1024
MOST_PROBLEMS = 40
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@cache
def reader() -> BulkParser:
    return next(r for r in bulk_parsers() if r.name == "perf_data")


def read(data: bytes, chunk: int = CHUNK) -> list[Record | Foreign]:
    chunks = (data[at : at + chunk] for at in range(0, len(data), chunk))
    return list(reader().read(Source("perf.data"), Content(chunks, len(data))))


def samples(records: list[Record | Foreign]) -> int:
    """Return the number of samples read, of all events."""
    return sum(r.ledger.read for r in records if isinstance(r, Profile))


def faults(records: list[Record | Foreign]) -> Iterator[str]:
    """Return what is wrong with the records; empty if nothing is."""
    problems = [r for r in records if isinstance(r, Problem)]
    if len(problems) > MOST_PROBLEMS:
        yield f"{len(problems)} problems"
    for record in records:
        match record:
            case Foreign():
                yield "lines for other readers"
            case Problem() if record.kind is ProblemKind.BUG or CONTROL.search(record.text):
                yield f"an odd problem: {record!r:.300}"
            case Profile():
                yield from _odd_columns(record)
                yield from _odd_sums(record)


def _odd_columns(profile: Profile) -> Iterator[str]:
    """Yield indices that are out of range."""
    chains, rows = profile.chains, profile.rows
    if chains.starts[0] != 0 or chains.starts[-1] != len(chains.frames) or (np.diff(chains.starts) < 0).any():
        yield "chains that do not follow one another"
    for name, column, length in (
        ("frame", chains.frames, len(profile.frames)),
        ("chain", rows.chain, len(chains)),
        ("task", rows.task, len(profile.tasks)),
    ):
        if len(column) and not 0 <= column.min() <= column.max() < length:
            yield f"a {name} that does not exist"
    if len(rows) and min(rows.cpu.min(), rows.bin.min()) < -1:
        yield "a CPU or bin below unknown"


def _odd_sums(profile: Profile) -> Iterator[str]:
    """Yield a ledger that does not account for every sample, and weights that are not numbers."""
    rows, ledger = profile.rows, profile.ledger
    if not np.isfinite(rows.weight).all() or (len(rows) and rows.weight.min() < 0):
        yield "a weight that is none"
    if ledger.read != ledger.kept + sum(ledger.odd.values()) or min([0, *ledger.odd.values()]) < 0:
        yield f"samples unaccounted for: {ledger}"
    if ledger.kept != rows.samples.sum():
        yield f"rows of {rows.samples.sum()} samples, {ledger.kept} kept"
    if any(CONTROL.search(text) for text in (profile.event, *profile.facts.values(), *(t.comm for t in profile.tasks))):
        yield "a control character"


def check(data: bytes) -> list[Record | Foreign]:
    """Read hostile bytes: no exception, no fault."""
    records = read(data)
    assert list(faults(records)) == []
    return records
