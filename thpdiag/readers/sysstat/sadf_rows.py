"""sadf's rows: what all its forms have in common. The readers are `sadf` and `sadc`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from thpdiag.bundle.stamps import stamp
from thpdiag.model import Event, Moment, Record, Sample
from thpdiag.reader import Source
from thpdiag.readers.elements.oddities import Oddities
from thpdiag.readers.sysstat.sar_tables import table

NAME = "sadf"


@lru_cache(maxsize=4096)
def moment(text: str) -> Moment | None:
    """`2026-11-20 03:35:44 UTC`, an epoch (-U), or local time without a zone (-T, -t)."""
    return stamp(text)


@dataclass(slots=True)
class Rows:
    """Makes Samples and events of rows, whatever form they stood in. `machine` tells the size of a page."""

    source: Source
    odd: Oddities
    reader: str = NAME
    machine: str = ""
    _restarts: set[Moment | None] = field(default_factory=set)

    def row(
        self, at: tuple[int, str], time: Moment | None, columns: Sequence[str], cells: Sequence[str]
    ) -> Iterator[Sample]:
        """The Sample of a row of a table, if it is of use."""
        known = table(tuple(columns), self.machine)
        if known is None:
            return
        found = known.row(cells)
        if isinstance(found, str):
            self.odd.note(*at, found)
        elif found is not None:
            cite = self.source.cite(*at)
            yield Sample(found.kind, found.values, cite, self.reader, found.entity, time, found.resolution)

    def restart(self, at: tuple[int, str], time: Moment | None, cpus: str) -> Iterator[Event]:
        """A restart of the host; every block of rows tells it again."""
        if time not in self._restarts:
            self._restarts.add(time)
            fields: Mapping[str, str] = {"cpus": cpus} if cpus else {}
            yield Event("restart", self.source.cite(*at), time, fields)


def samples(records: Iterator[Record]) -> Iterator[Sample]:
    return (record for record in records if isinstance(record, Sample))
