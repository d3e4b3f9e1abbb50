"""One recording may hold several hosts, one after the other (files appended) or in turn (rows of a fleet).

Columns are given behind the last row, when another host may have been named: so each host has columns of its own, and
its name is said again in front of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from thpdiag.model import Fact, Record, Series


class Gathers(Protocol):
    """What rows are put into."""

    def series(self) -> Iterator[Series]:
        """The columns."""
        ...


_Columns = TypeVar("_Columns", bound=Gathers)


class Hosts(Generic[_Columns]):
    """Columns by host; what follows a host's name is its, and so is what stands before the first."""

    def __init__(self, fresh: Callable[[], _Columns]) -> None:
        self._fresh = fresh
        self._found: dict[str, tuple[Fact, _Columns]] = {}
        self.now: _Columns = fresh()

    def named(self, record: Record) -> None:
        """Takes note if a record names a host."""
        if not isinstance(record, Fact) or record.name != "host.name":
            return
        name = str(record.value)
        if name not in self._found:
            self._found[name] = (record, self._fresh() if self._found else self.now)
        self.now = self._found[name][1]

    def series(self) -> Iterator[Record]:
        """The columns of each host behind its name."""
        if len(self._found) < 2:
            yield from self.now.series()
            return
        for name, columns in self._found.values():
            yield name
            yield from columns.series()
