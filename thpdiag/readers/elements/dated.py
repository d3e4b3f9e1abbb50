"""The time of a block, given to what was read in it: only if it is one snapshot, not a loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from thpdiag.model import Sample, Subject
from thpdiag.reader import Source


def dated(source: Source, samples: Iterable[Sample]) -> Iterator[Sample]:
    """The samples with the time of the block, if they are one snapshot of it.

    When an entity (the system, a zone, a process) comes a second time, the one time line above says nothing about
    when the later ones were taken; then none of them gets a time and only their order is known.
    """
    held: list[Sample] = []
    seen: set[Subject] = set()
    rows = iter(samples)
    for sample in rows:
        key = (sample.kind, sample.entity)
        if key in seen:
            yield from held
            yield sample
            yield from rows
            return
        seen.add(key)
        held.append(sample)
    for sample in held:
        yield replace(sample, time=source.time)
