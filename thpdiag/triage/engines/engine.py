"""What every engine is: it works on items and gives what came of each, in the order in which it came."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from thpdiag.triage.item import Item
from thpdiag.triage.work import Done
from thpdiag.triage.worklist.ahead import Ahead


@dataclass(frozen=True, slots=True)
class Ended:
    """The results of an item: one, of an archive of archives several."""

    item: Item
    results: list[Done]


class Begun(Protocol):
    """An item that is worked on: a future, of whatever library."""

    def add_done_callback(self, call: Callable[[Any], object], /) -> None:
        """Have this called, from any thread, once it has ended."""


class Engine(Protocol):
    """Used as a context; leaving it ends all that it began."""

    def results(self, ahead: Ahead) -> Iterator[Ended | None]:
        """Of each item what came of it; None now and then while nothing ends."""


class Machine(Protocol):
    """What an engine must be able to do for `flow`."""

    @property
    def room(self) -> int:
        """How many items it should have at a time: few more than it works on, so that a million cost no memory."""

    def begin(self, item: Item) -> Begun:
        """Begin with an item; it may wait."""

    def ended(self, begun: Any, item: Item, attempt: int) -> list[Done] | None:
        """The results of an item that has ended; None if it is to be tried again."""

    def look(self) -> None:
        """Called every second or so: raise if nothing can come any more."""
