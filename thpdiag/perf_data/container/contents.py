"""Records of one buffer to one Window: what a pipe announces first, then samples, then all others."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from thpdiag.perf_data.columns import Samples, Window
from thpdiag.perf_data.container.attributes import attribute, attribute_length
from thpdiag.perf_data.container.events import MOST_EVENTS, Events
from thpdiag.perf_data.container.features import FeatureTable, string
from thpdiag.perf_data.container.header import Order
from thpdiag.perf_data.container.record_types import KNOWN, Kind
from thpdiag.perf_data.container.samples import no_samples, samples
from thpdiag.perf_data.container.side_records import SideRecords
from thpdiag.perf_data.container.troubles import Troubles
from thpdiag.perf_data.container.view import View, Words

ANNOUNCING = (Kind.HEADER_ATTR, Kind.EVENT_UPDATE, Kind.HEADER_FEATURE, Kind.HEADER_BUILD_ID)
NAME = 2  # PERF_EVENT_UPDATE__NAME
COUNTED = frozenset({int(Kind.SAMPLE), int(Kind.THROTTLE), int(Kind.FINISHED_ROUND)})  # and what SideRecords reads
UNDESCRIBED = "before any event was described"
OF_NO_TYPE = "of a type that is not known"


class Records(NamedTuple):
    """The records at `at`, of types `kinds`; `offset` is where they stand in the file."""

    at: Words
    kinds: NDArray[np.uint32]
    offset: NDArray[np.int64]

    def of(self, *kinds: int) -> Words:
        """Which of the records are of these types, in the order of the file."""
        return np.flatnonzero(np.isin(self.kinds, kinds))


class Contents:
    """What is known of a recording while it is read: events, features, and what could not be read."""

    def __init__(self, order: Order, troubles: Troubles) -> None:
        self.order = order
        self.events = Events()
        self.features = FeatureTable(self.events)
        self.troubles = troubles
        self._sides = SideRecords(order)

    def window(self, view: View, at: Words, offset: NDArray[np.int64]) -> Window:
        """The records at these places, `offset` where they stand in the file."""
        records = Records(at, view.kinds(at), offset)
        kinds, numbers = np.unique(records.kinds, return_counts=True)
        counts = dict(zip(kinds.tolist(), numbers.tolist(), strict=True))
        if any(kind in counts for kind in ANNOUNCING):
            self._announced(view, records)
        window = Window(no_samples())
        if Kind.SAMPLE in counts:
            window.samples = self._samples(view, records, window)
        window.throttled = counts.get(Kind.THROTTLE, 0)
        window.rounds = counts.get(Kind.FINISHED_ROUND, 0)
        for kind in counts.keys() - COUNTED - self._sides.readers.keys():
            name = Kind(kind).name if kind in KNOWN else OF_NO_TYPE
            window.others[name] = window.others.get(name, 0) + counts[kind]
        if counts.keys() & self._sides.readers.keys():
            self._tell(view, records, window)
        return window

    def _samples(self, view: View, records: Records, window: Window) -> Samples:
        mine = records.of(Kind.SAMPLE) if records.kinds.min() != records.kinds.max() else slice(None)
        at, offset = records.at[mine], records.offset[mine]
        if not len(self.events):
            window.odd[UNDESCRIBED] = len(at)
            return no_samples()
        if len(self.events) > 1 and not self.events.tables.id_place:
            self.troubles.odd("does not say which of its events a sample is of: all count as the first", len(at))
        odd: Counter[str] = Counter()
        found = samples(view, at, offset, self.events.tables, odd)
        window.odd.update(+odd)
        return found

    def _tell(self, view: View, records: Records, window: Window) -> None:
        mine = records.of(*self._sides.readers)
        at = records.at[mine]
        rows = zip(records.kinds[mine].tolist(), self._raw(view, at), self._times(view, at), strict=True)
        for kind, (raw, misc), time in rows:
            if not self._sides.tell(kind, raw, misc, time, window):
                self.troubles.damaged(f"{Kind(kind).name} records are too short for what they should say")

    def _times(self, view: View, at: Words) -> list[int]:
        """The times of the records' sample_id, 0 where there is none."""
        trailer = self.events.tables.time_from_end >> 3 if len(self.events) else 0
        lengths = view.lengths(at)
        there = (lengths > trailer) & (trailer > 0)
        times: list[int] = np.where(there, view.words(np.where(there, at + lengths - trailer, 0), 0), 0).tolist()
        return times

    def _announced(self, view: View, records: Records) -> None:
        mine = records.of(*ANNOUNCING)
        for kind, (raw, _) in zip(records.kinds[mine].tolist(), self._raw(view, records.at[mine]), strict=True):
            if not self._announce(kind, raw):
                self.troubles.damaged(f"{Kind(kind).name} records cannot be read")

    @staticmethod
    def _raw(view: View, at: Words) -> Iterator[tuple[bytes, int]]:
        """The bytes of these records and header.misc of each."""
        sizes = view.u16[3::4][at].tolist()
        places = (8 * at).tolist()
        whole = view.bytes.data
        rows = zip(places, sizes, view.misc(at).tolist(), strict=True)
        return ((bytes(whole[place : place + size]), misc) for place, size, misc in rows)

    def _announce(self, kind: int, raw: bytes) -> bool:
        """What stands in the header of a file comes as records in a pipe."""
        if kind == Kind.HEADER_ATTR:
            return self.add(raw[8:], raw[8 + attribute_length(raw[8:], self.order) :])
        if kind == Kind.HEADER_BUILD_ID:
            self.features.add_build_ids(raw, self.order)
            return True
        if len(raw) < 16:
            return False
        if kind == Kind.HEADER_FEATURE:
            return self.features.add(struct.unpack_from(self.order + "Q", raw, 8)[0], raw[16:], self.order)
        if len(raw) >= 24:
            what, number = struct.unpack_from(self.order + "2Q", raw, 8)
            self.events.rename([number], string(raw[24:]) if what == NAME else "")
        return len(raw) >= 24

    def add(self, raw: bytes, own: bytes) -> bool:
        """One more event: the bytes of its attribute and of its ids."""
        what = attribute(raw, self.order)
        if what is None:
            return False
        if not self.events.add(what, struct.unpack_from(f"{self.order}{len(own) // 8}Q", own)):
            self.troubles.limit(f"has more than {MOST_EVENTS} events: those after them are not read")
        return True
