"""PERF_RECORD_SAMPLE as columns: fields fetched for all samples of a window at once.

Source: include/uapi/linux/perf_event.h. Up to the period every field has a fixed place, which the event's sample_type
decides. The numbers of PERF_SAMPLE_READ are next (several where the group is read together), then the call chain;
what follows (raw data, branches, registers, stacks) is not looked at. Numbers that a record is too short for make
the sample odd; it is counted, and nothing outside the record is taken for its content.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from thpdiag.perf_data.columns import Samples
from thpdiag.perf_data.container.attributes import ReadFormat
from thpdiag.perf_data.container.events import Layout, Tables
from thpdiag.perf_data.container.view import View, Words
from thpdiag.ragged import starts_of

SHORT = "the record is shorter than its event says"
OVERLONG = "the call chain is longer than the record"
STRANGE = "of an event that the recording does not describe"
MOST_WORDS = 1 << 13  # a record has no more


@dataclass(slots=True)
class Part:
    """Samples of one layout: places of the records, of their chains, and the columns."""

    at: Words
    begins: Words
    lengths: Words
    pid: NDArray[np.int32]
    tid: NDArray[np.int32]
    cpu: NDArray[np.int32]
    time: NDArray[np.uint64]
    period: NDArray[np.uint64]
    ip: NDArray[np.uint64]
    event: NDArray[np.int32]
    offset: NDArray[np.int64]
    timed: NDArray[np.bool_]


def _read_shape(read_format: int) -> tuple[int, int, bool]:
    """What stands in PERF_SAMPLE_READ: words of times, words of each event; True where it begins with how many events.

    Without such a number it is of one event.
    """
    times = bool(read_format & ReadFormat.ENABLED) + bool(read_format & ReadFormat.RUNNING)
    each = 1 + bool(read_format & ReadFormat.ID) + bool(read_format & ReadFormat.LOST)
    return times, each, bool(read_format & ReadFormat.GROUP)


def _read_words(view: View, at: Words, shape: Layout, room: Words) -> Words | int:
    """How many words PERF_SAMPLE_READ takes in each sample; at most too many by one where it does not fit."""
    if shape.read_format is None:
        return 0
    times, each, group = _read_shape(shape.read_format)
    if not group:
        return times + each
    count = np.minimum(view.words(at, shape.variable), np.uint64(MOST_WORDS)).astype(np.int64)
    return np.minimum(1 + times + each * count, room + 1)


def _chains(view: View, at: Words, shape: Layout, odd: Counter[str]) -> tuple[NDArray[np.bool_] | None, Words, Words]:
    """Where the chains begin and how long they are, for samples that fit; the mask says which (None: all)."""
    room = view.lengths(at) - shape.variable  # words behind the fixed fields
    begins = at + shape.variable + _read_words(view, at, shape, room)
    room = room - (begins - at - shape.variable)
    short = room < int(shape.chain)
    if not shape.chain:
        lengths = np.zeros(len(at), np.int64)
        overlong = np.zeros(len(at), np.bool_)
    else:
        begins = np.where(short, 0, begins) if (some := bool(short.any())) else begins
        room = np.where(short, 0, room - 1) if some else room - 1
        lengths = np.minimum(view.words(begins, 0), np.uint64(MOST_WORDS)).astype(np.int64)
        overlong = lengths > room
        begins = begins + 1
    bad = short | overlong
    if not bad.any():
        return None, begins, lengths
    odd[SHORT] += int(short.sum())
    odd[OVERLONG] += int((overlong & ~short).sum())
    return ~bad, begins[~bad], lengths[~bad]


def _part(
    view: View, at: Words, event: NDArray[np.int32], offset: NDArray[np.int64], shape: Layout, odd: Counter[str]
) -> Part:
    kept, begins, lengths = _chains(view, at, shape, odd)
    if kept is not None:
        at, event, offset = at[kept], event[kept], offset[kept]
    n = len(at)
    none = np.full(n if not (shape.tid and shape.cpu) else 0, -1, np.int32)
    zero = np.zeros(n if not (shape.time and shape.ip) else 0, np.uint64)
    return Part(
        at=at,
        begins=begins,
        lengths=lengths,
        pid=view.halves(at, shape.tid, 0) if shape.tid else none,
        tid=view.halves(at, shape.tid, 1) if shape.tid else none,
        cpu=view.halves(at, shape.cpu, 0) if shape.cpu else none,
        time=view.words(at, shape.time) if shape.time else zero,
        period=view.words(at, shape.period) if shape.period else np.ones(n, np.uint64),
        ip=view.words(at, shape.ip) if shape.ip else zero,
        event=event,
        offset=offset,
        timed=np.full(n, bool(shape.time)),
    )


def _joined(parts: list[Part]) -> Part:
    """Samples of several layouts in the order of the file."""
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate([part.at for part in parts]), kind="stable")
    columns = {f.name: np.concatenate([getattr(part, f.name) for part in parts])[order] for f in fields(Part)}
    return Part(**columns)


def _flat(view: View, begins: Words, lengths: Words) -> NDArray[np.uint64]:
    """All chains one after another. They stand in the order of the file and apart, so that a mask picks them out."""
    edges = np.zeros(2 * len(begins) + 1, np.int64)
    edges[1::2] = lengths
    edges[0:-1:2] = begins
    edges[2:-1:2] -= begins[:-1] + lengths[:-1]
    inside = np.zeros(len(edges), np.bool_)
    inside[1::2] = True
    mask = np.repeat(inside, edges)
    return view.u64[: len(mask)][mask].astype(np.uint64, copy=False)


def no_samples() -> Samples:
    none = np.zeros(0, np.int32)
    numbers = np.zeros(0, np.uint64)
    return Samples(
        event=none,
        pid=none,
        tid=none,
        cpu=none,
        time=numbers,
        timed=np.zeros(0, np.bool_),
        period=numbers,
        ip=numbers,
        misc=np.zeros(0, np.uint16),
        offset=np.zeros(0, np.int64),
        chain=numbers,
        starts=np.zeros(1, np.int64),
    )


def _events(view: View, at: Words, tables: Tables, odd: Counter[str]) -> tuple[NDArray[np.int32], Words | None]:
    """The event of each sample, and which samples have one (None: all)."""
    if not tables.id_place:
        return np.zeros(len(at), np.int32), None
    event = tables.events(view.words(at, tables.id_place))
    event[view.lengths(at) <= tables.id_place] = -1
    if not (event < 0).any():
        return event, None
    known = np.flatnonzero(event >= 0)
    odd[STRANGE] += len(at) - len(known)
    return event[known], known


def samples(view: View, at: Words, offset: NDArray[np.int64], tables: Tables, odd: Counter[str]) -> Samples:
    """The sample records at these places; `offset` is where each stands in the file."""
    event, known = _events(view, at, tables, odd)
    if known is not None:
        at, offset = at[known], offset[known]
    if not len(at):
        return no_samples()
    if len(tables.layouts) == 1:
        part = _part(view, at, event, offset, tables.layouts[0], odd)
    else:
        of = tables.layout_of[event]
        own = [(shape, np.flatnonzero(of == number)) for number, shape in enumerate(tables.layouts)]
        part = _joined([_part(view, at[i], event[i], offset[i], shape, odd) for shape, i in own if len(i)])
    return Samples(
        event=part.event,
        pid=part.pid,
        tid=part.tid,
        cpu=part.cpu,
        time=part.time,
        timed=part.timed,
        period=part.period,
        ip=part.ip,
        misc=view.misc(part.at),
        offset=part.offset,
        chain=_flat(view, part.begins, part.lengths),
        starts=starts_of(part.lengths),
    )
