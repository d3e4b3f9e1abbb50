"""The events of a recording: attributes, ids and names as they become known, and where their samples keep what.

Ids are how records say which event they belong to (tools/perf/util/evlist.c): an event opened on N CPUs has N of them.
Samples carry theirs at a place that all events share; records of other types carry it near their end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from thpdiag.perf_data.columns import EventInfo
from thpdiag.perf_data.container.attributes import Attribute, Flag
from thpdiag.perf_data.container.event_names import event_name
from thpdiag.perf_data.uapi import SampleType

MOST_EVENTS = 4096  # far more than perf can open; a recording that has more was made to hurt
NEAR = 1 << 16  # ids that lie this close together are looked up in a table
TRAILING = SampleType.TIME, SampleType.ID, SampleType.STREAM_ID, SampleType.CPU, SampleType.IDENTIFIER  # in this order


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the fields of a sample stand, in words of eight bytes from the record's header; 0: not recorded.

    `variable` is where what has no fixed place begins: the numbers of PERF_SAMPLE_READ, then the call chain.
    """

    ip: int
    tid: int
    time: int
    cpu: int
    period: int
    variable: int
    read_format: int | None
    chain: bool


def layout(sample_type: int, read_format: int) -> Layout:
    order = (
        SampleType.IDENTIFIER,
        SampleType.IP,
        SampleType.TID,
        SampleType.TIME,
        SampleType.ADDR,
        SampleType.ID,
        SampleType.STREAM_ID,
        SampleType.CPU,
        SampleType.PERIOD,
    )
    places, at = {}, 1
    for field in order:
        places[field] = at if sample_type & field else 0
        at += bool(sample_type & field)
    return Layout(
        ip=places[SampleType.IP],
        tid=places[SampleType.TID],
        time=places[SampleType.TIME],
        cpu=places[SampleType.CPU],
        period=places[SampleType.PERIOD],
        variable=at,
        read_format=read_format if sample_type & SampleType.READ else None,
        chain=bool(sample_type & SampleType.CALLCHAIN),
    )


def id_place(sample_type: int) -> int:
    """The word of a sample that holds the id; 0: none."""
    if sample_type & SampleType.IDENTIFIER:
        return 1
    if not sample_type & SampleType.ID:
        return 0
    before = SampleType.IP, SampleType.TID, SampleType.TIME, SampleType.ADDR
    return 1 + sum(bool(sample_type & field) for field in before)


def time_from_end(sample_type: int, flags: int) -> int:
    """How many bytes before the end of another record its time stands (sample_id_all); 0: it has none."""
    if not flags & Flag.SAMPLE_ID_ALL or not sample_type & SampleType.TIME:
        return 0
    return 8 * sum(bool(sample_type & field) for field in TRAILING)


def _info(what: Attribute, ids: tuple[int, ...], name: str) -> EventInfo:
    by_frequency = bool(what.flags & Flag.FREQUENCY)
    return EventInfo(
        name=name or event_name(what),
        ids=ids,
        sample_type=what.sample_type,
        read_format=what.read_format,
        frequency=what.rate if by_frequency else None,
        period=None if by_frequency else what.rate,
        clock=what.clock if what.flags & Flag.USE_CLOCKID else None,
        most_frames=what.most_frames,
        dwarf=bool(what.sample_type & SampleType.STACK_USER),
    )


class Tables:
    """What samples are looked up in, for the events known at one moment."""

    def __init__(self, attributes: Sequence[Attribute], of_id: Mapping[int, int]) -> None:
        numbers: dict[Layout, int] = {}
        of = [numbers.setdefault(layout(a.sample_type, a.read_format), len(numbers)) for a in attributes]
        self.layouts, self.layout_of = list(numbers), np.array(of, np.int32)
        self.id_place = id_place(attributes[0].sample_type) if len(attributes) > 1 else 0
        self.time_from_end = time_from_end(attributes[0].sample_type, attributes[0].flags)
        known = sorted(of_id.items())
        self._ids = np.array([number for number, _ in known], np.uint64)
        self._events = np.array([event for _, event in known], np.int32)

    @cached_property
    def _near(self) -> NDArray[np.int32] | None:
        """Event by distance from the lowest id, one more in front and behind for all others; -1: no event's."""
        if not len(self._ids) or int(self._ids[-1]) - int(self._ids[0]) >= NEAR:
            return None
        distance = (self._ids - self._ids[0]).astype(np.int64)
        table = np.full(int(distance[-1]) + 2, -1, np.int32)
        table[distance] = self._events
        return table

    def events(self, ids: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The event of each id, -1 where no event has it. What perf itself wrote has id 0: that of the first."""
        if not len(self._ids):
            return np.full(len(ids), -1, np.int32)
        if (table := self._near) is not None:
            distance = np.minimum(ids - self._ids[0], np.uint64(len(table) - 1)).astype(np.int64)
            found: NDArray[np.int32] = table[distance]
        else:
            at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
            found = np.where(self._ids[at] == ids, self._events[at], np.int32(-1))
        if (found < 0).any():
            found[(ids == 0) & (found < 0)] = 0
        return found


class Events:
    """Attributes in the order of the file, with ids and names."""

    def __init__(self) -> None:
        self._attributes: list[Attribute] = []
        self._ids: list[tuple[int, ...]] = []
        self._of_id: dict[int, int] = {}  # the event of each id: of several the last
        self._names: list[str] = []
        self._tables: Tables | None = None
        self._infos: tuple[EventInfo, ...] | None = None

    def __len__(self) -> int:
        return len(self._attributes)

    def add(self, what: Attribute, ids: tuple[int, ...]) -> bool:
        """One more event; False where there are too many."""
        last = self._of_id.get(ids[0]) if ids else None
        if last is not None and self._ids[last] == ids:
            return True  # repeated by perf inject
        if len(self._attributes) >= MOST_EVENTS:
            return False
        self._attributes.append(what)
        self._of_id |= dict.fromkeys(ids, len(self._ids))
        self._ids.append(ids)
        self._names.append("")
        self._tables = self._infos = None
        return True

    def rename(self, ids: Iterable[int], name: str, position: int | None = None) -> None:
        """The name of the event that has one of the ids, or else of that at the position."""
        found = next((self._of_id[number] for number in ids if number in self._of_id), position)
        if found is not None and found < len(self._names) and name:
            self._names[found] = name
            self._infos = None

    @property
    def infos(self) -> tuple[EventInfo, ...]:
        if self._infos is None:
            rows = zip(self._attributes, self._ids, self._names, strict=True)
            self._infos = tuple(_info(what, ids, name) for what, ids, name in rows)
        return self._infos

    @property
    def tables(self) -> Tables:
        """Only where there is an event."""
        if self._tables is None:
            self._tables = Tables(self._attributes, self._of_id)
        return self._tables
