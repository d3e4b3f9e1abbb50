"""The processes of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from thpdiag.triage.engines.engine import Ended
from thpdiag.triage.engines.flow import flow
from thpdiag.triage.engines.workers import Results, Workers, finished
from thpdiag.triage.item import Item
from thpdiag.triage.work import Done
from thpdiag.triage.worklist.ahead import Ahead

AHEAD: Final = 4  # items per worker that are handed over before they are worked on


class Local(Workers):
    """As many processes as are asked for, and no more than there are bundles."""

    @property
    def room(self) -> int:
        return self._count * AHEAD

    def results(self, ahead: Ahead) -> Iterator[Ended | None]:
        ahead.settle()
        if ahead.listed:
            self._count = max(min(self._count, ahead.found), 1)
        yield from flow(self, ahead)

    def begin(self, item: Item) -> Results:
        return self.submit(item)

    def ended(self, begun: Results, item: Item, attempt: int) -> list[Done] | None:
        self.settled()
        return finished(begun, item, attempt)
