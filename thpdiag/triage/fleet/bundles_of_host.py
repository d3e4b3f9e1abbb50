"""Which bundles are of one host, and in which order their data was recorded.

Bundles are of one host if they name it the same. A name that installers give joins nothing, nor does one that two hosts
of one bundle have: those are two machines, so it is not known which of them another bundle is of. Other machines of the
same name are taken for one, which is why whoever shows this says that the name is all that joins them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from typing import Final

from thpdiag.knowledge.host_names import given
from thpdiag.triage.store.aside import Notes
from thpdiag.triage.store.reading import Reading

ZONES: Final = timedelta(hours=14)  # no local time is further from UTC

Place = tuple[int, int]  # the bundle's number in the store, and the host's place in it


@dataclass(frozen=True, slots=True)
class Record:
    """Where the row of a host is, and when its data was recorded."""

    place: Place
    recorded: str | None


@dataclass(frozen=True, slots=True)
class Bundles:
    """Of one host at least two, in the order of their data if that is known, else in the order of paths."""

    name: str
    records: Sequence[Record]
    ordered: bool


class Several:
    """The rows of hosts with several bundles, and a word for each. They are kept beside the store, not in memory."""

    def __init__(self, store: Reading) -> None:
        self._notes = Notes(store.aside)

    def __len__(self) -> int:
        return len(self._notes)

    def __contains__(self, place: tuple[int, int | None]) -> bool:
        return self.note(place) is not None

    def add(self, place: Place, note: str = "") -> None:
        self._notes[_key(place)] = note

    def note(self, place: tuple[int, int | None]) -> str | None:
        return self._notes.get(_key(place))


def bundles_of_hosts(store: Reading) -> Iterator[Bundles]:
    """All hosts with several bundles, by name; in memory are those of one name."""
    for name, rows in groupby(store.by_name(), key=lambda row: row["name"]):
        if given(name):
            continue
        records = [Record((row["bundle"], row["place"]), row["recorded"]) for row in rows]
        if _one_host(records):
            yield _bundles(name, records)


def earlier(store: Reading) -> Several:
    """The rows of hosts for which a later bundle of the same host stands; of unknown order, that of a later path."""
    found = Several(store)
    for host in bundles_of_hosts(store):
        for record in host.records[:-1]:
            found.add(record.place)
    return found


def _key(place: tuple[int, int | None]) -> str:
    return f"{place[0]}/{place[1]}"


def _one_host(records: Sequence[Record]) -> bool:
    """Whether they are several, and of as many bundles."""
    return len(records) > 1 and len({record.place[0] for record in records}) == len(records)


def _bundles(name: str, records: list[Record]) -> Bundles:
    in_order = sorted(records, key=lambda record: record.recorded or "")  # those without a time do not stand for later
    return Bundles(name, in_order, all(_before(one, other) for one, other in pairwise(in_order)))


def _before(one: Record, other: Record) -> bool:
    """Whether it is sure that one was recorded before the other."""
    first, second = _time(one.recorded), _time(other.recorded)
    if first is None or second is None:
        return False
    same_clock = first[1] == second[1]
    return second[0] - first[0] > (timedelta(0) if same_clock else ZONES)


def _time(recorded: str | None) -> tuple[datetime, bool] | None:
    """The time, and whether it is UTC."""
    try:
        return datetime.fromisoformat((recorded or "").removesuffix("Z")), (recorded or "").endswith("Z")
    except ValueError:
        return None
