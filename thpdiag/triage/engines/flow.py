"""Items into a machine and results out of it, both as they come."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from queue import Empty, SimpleQueue
from typing import Final

from thpdiag.triage.engines.engine import Begun, Ended, Machine
from thpdiag.triage.item import Item
from thpdiag.triage.worklist.ahead import Ahead

LOOK: Final = 1.0  # seconds
LISTING: Final = 0.1  # seconds after which the list is asked again while there is room


def flow(machine: Machine, ahead: Ahead) -> Iterator[Ended | None]:
    """What came of each item; None now and then while nothing ends."""
    work = _Work(machine)
    looked = time.monotonic()
    while True:
        while work.room and (item := ahead.take()) is not None:
            work.begin(item, 1)
        if not work.running and ahead.over:
            return
        if time.monotonic() - looked >= LOOK:
            machine.look()
            looked = time.monotonic()
            yield None
        if (ended := work.ended(LISTING if work.room and not ahead.listed else LOOK)) is not None:
            yield ended


class _Work:
    """The items in a machine, by a number of their own."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._numbers = count()
        self._ended: SimpleQueue[int] = SimpleQueue()
        self.running: dict[int, tuple[Begun, Item, int]] = {}

    @property
    def room(self) -> bool:
        return len(self.running) < self._machine.room

    def begin(self, item: Item, attempt: int) -> None:
        number = next(self._numbers)
        begun = self._machine.begin(item)
        self.running[number] = (begun, item, attempt)
        begun.add_done_callback(lambda _: self._ended.put(number))

    def ended(self, seconds: float) -> Ended | None:
        """The next that ends within this time; one that is to be tried again is begun again."""
        try:
            begun, item, attempt = self.running.pop(self._ended.get(timeout=seconds))
        except Empty:
            return None
        found = self._machine.ended(begun, item, attempt)
        if found is None:
            self.begin(item, attempt + 1)
            return None
        return Ended(item, found)
