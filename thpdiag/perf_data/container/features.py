"""The header's features: who recorded, where, when, and the names of the events.

Source: tools/perf/util/header.c. Behind the data of a file stands a table of places, one per bit that is set in the
header; in a pipe each feature is a record (HEADER_FEATURE). Strings are a u32 length and that many bytes, with zeros.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import IntEnum

from thpdiag.perf_data.columns import Features
from thpdiag.perf_data.container.events import Events
from thpdiag.perf_data.container.header import Order

SIZE_SAID = 1 << 15  # PERF_RECORD_MISC_BUILD_ID_SIZE
CUT_KERNEL = "nel.kallsyms]"  # the name as it looks where the records have no pid (before 2.6.34)
NO_TIME = (1 << 64) - 1
MOST_BUILD_IDS = 1 << 16
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


class Feature(IntEnum):
    """HEADER_*."""

    BUILD_ID = 2
    HOSTNAME = 3
    OSRELEASE = 4
    VERSION = 5
    ARCH = 6
    NRCPUS = 7
    CPUDESC = 8
    TOTAL_MEM = 10
    CMDLINE = 11
    EVENT_DESC = 12
    SAMPLE_TIME = 21
    DIR_FORMAT = 24
    CLOCK_DATA = 29


class Cursor:
    """Numbers and strings from bytes; what is not whole raises struct.error."""

    def __init__(self, raw: bytes, order: Order) -> None:
        self.raw = raw
        self.order = order
        self.at = 0

    def numbers(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(self.order + form, self.raw, self.at)
        self.at += struct.calcsize(self.order + form)
        return found

    def bytes(self, count: int) -> bytes:
        if count > len(self.raw) - self.at:
            raise struct.error("fewer bytes than said")
        self.at += count
        return self.raw[self.at - count : self.at]

    def text(self) -> str:
        return string(self.bytes(self.numbers("I")[0]))


def string(raw: bytes) -> str:
    """Up to the first zero byte; what would move a cursor or hide text becomes a mark that something stood there."""
    text = raw.split(b"\0", 1)[0].decode("utf-8", "replace")
    return text if text.isprintable() else _UNSEEN.sub("\ufffd", text)


def build_ids(raw: bytes, order: Order) -> Iterator[tuple[str, str]]:
    """Name and id of build_id records that follow each other, as in the feature and in HEADER_BUILD_ID."""
    at = 0
    while at + 36 <= len(raw):
        _, misc, size = struct.unpack_from(order + "IHH", raw, at)
        if size < 36 or at + size > len(raw):
            return
        name = string(raw[at + 36 : at + size])
        begin = at + 12
        if name == CUT_KERNEL:
            name, begin = f"[ker{name}", at + 8
        length = min(raw[begin + 20], 20) if misc & SIZE_SAID else 20
        yield name, raw[begin : begin + length].hex()
        at += size


def _named(field: str) -> Callable[[Features, Cursor], Features]:
    def read(known: Features, cursor: Cursor) -> Features:
        return replace(known, **{field: cursor.text()})  # type: ignore[arg-type]

    return read


def _cpus(known: Features, cursor: Cursor) -> Features:
    available, online = cursor.numbers("2I")
    return replace(known, cpus_available=available, cpus_online=online)


def _memory(known: Features, cursor: Cursor) -> Features:
    return replace(known, total_memory_kb=cursor.numbers("Q")[0])


def _command_line(known: Features, cursor: Cursor) -> Features:
    count = cursor.numbers("I")[0]
    words: list[str] = []
    while len(words) < count and cursor.at < len(cursor.raw):
        words.append(cursor.text())
    return replace(known, command_line=tuple(words))


def _sample_times(known: Features, cursor: Cursor) -> Features:
    """Both are 0, or the highest number, where perf did not see the samples' times (compressed, without times)."""
    first, last = cursor.numbers("2Q")
    return replace(known, sample_times=(first, last) if 0 < first <= last < NO_TIME else None)


def _clock_data(known: Features, cursor: Cursor) -> Features:
    _, clock, wall, ticks = cursor.numbers("2I2Q")
    return replace(known, clock_id=clock, clock_data=(clock, wall, ticks))


READERS: dict[int, Callable[[Features, Cursor], Features]] = {
    Feature.HOSTNAME: _named("hostname"),
    Feature.OSRELEASE: _named("release"),
    Feature.VERSION: _named("version"),
    Feature.ARCH: _named("arch"),
    Feature.NRCPUS: _cpus,
    Feature.CPUDESC: _named("cpu_description"),
    Feature.TOTAL_MEM: _memory,
    Feature.CMDLINE: _command_line,
    Feature.SAMPLE_TIME: _sample_times,
    Feature.CLOCK_DATA: _clock_data,
}


def _event_names(cursor: Cursor, events: Events) -> None:
    """EVENT_DESC: for each event its attribute, the number of its ids, its name and the ids."""
    count, size = cursor.numbers("2I")
    for position in range(min(count, len(events))):
        cursor.bytes(size)
        own = cursor.numbers("I")[0]
        name = cursor.text()
        ids = cursor.bytes(8 * own)
        events.rename(struct.unpack(f"{cursor.order}{own}Q", ids), name, position)


class FeatureTable:
    """What was learned so far."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._build_ids: dict[str, str] = {}
        self._known = Features()

    @property
    def known(self) -> Features:
        return replace(self._known, build_ids=self._build_ids)

    def add(self, number: int, raw: bytes, order: Order) -> bool:
        """One feature; False where its bytes are not what it should be. Some are there and empty."""
        if not raw:
            return True
        cursor = Cursor(raw, order)
        try:
            if number == Feature.BUILD_ID:
                self.add_build_ids(raw, order)
            elif number == Feature.EVENT_DESC:
                _event_names(cursor, self._events)
            elif read := READERS.get(number):
                self._known = read(self._known, cursor)
        except struct.error:
            return False
        return True

    def add_build_ids(self, raw: bytes, order: Order) -> None:
        for name, number in build_ids(raw, order):
            if len(self._build_ids) < MOST_BUILD_IDS:
                self._build_ids[name] = number
