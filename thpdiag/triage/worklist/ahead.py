"""The work list as it comes in: a thread of its own lists, so that a slow list (a pipe, an object store) delays nobody.

The biggest bundle that is known goes first, so that none is left to be waited for at the end. One whose size is not
known (a folder that was not walked, an address) may be the biggest, and goes before those that are known.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable
from heapq import heappop, heappush
from struct import Struct
from threading import Condition, Thread
from types import TracebackType
from typing import Final, Self

from thpdiag.triage.item import Item

MOST: Final = 2000  # items that wait: a few hundred kilobytes, however long the list is
_ORDER: Final = Struct(">QQ")  # bytes that compare as the numbers do
_LAST: Final = (1 << 64) - 1
BEGIN: Final = 1.0  # seconds for the list before the first bundle, which is better a big one


class Ahead:
    """To be used as a context. `found` items were listed so far, all of them once `listed`.

    Leaving it does not wait for a list that says nothing: its thread ends with the program.
    """

    def __init__(self, items: Iterable[Item], most: int = MOST) -> None:
        self.found = 0
        self.listed = False
        self._most = most
        self._waiting: list[bytes] = []
        self._error: BaseException | None = None
        self._left = False
        self._changed = Condition()
        self._thread = Thread(target=self._list, args=(items,), daemon=True, name="list")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._changed:
            self._left = True
            self._changed.notify_all()

    def settle(self, seconds: float = BEGIN) -> None:
        """Wait until as many items are listed as may wait, or all of them, or for this long."""
        with self._changed:
            self._changed.wait_for(lambda: self.listed or self._full(), seconds)

    def take(self) -> Item | None:
        """The biggest of those that wait, the earlier of equal ones; None if none does now. An error of the list."""
        with self._changed:
            if self._error is not None:
                raise self._error
            if not self._waiting:
                return None
            self._changed.notify_all()
            return _item(heappop(self._waiting))

    @property
    def over(self) -> bool:
        """Whether all were taken."""
        with self._changed:
            return self.listed and not self._waiting and self._error is None

    def _full(self) -> bool:
        return len(self._waiting) >= self._most

    def _list(self, items: Iterable[Item]) -> None:
        with _End(self):
            for item in items:
                with self._changed:
                    self._changed.wait_for(lambda: self._left or not self._full())
                    if self._left:
                        return
                    heappush(self._waiting, _entry(item, self.found))
                    self.found += 1
                    self._changed.notify_all()

    def end(self, error: BaseException | None) -> None:
        """Nothing more comes."""
        with self._changed:
            self._error, self.listed = error, True
            self._changed.notify_all()


class _End:
    """The end of a list; an error is kept for who takes from it."""

    def __init__(self, ahead: Ahead) -> None:
        self._ahead = ahead

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        self._ahead.end(error)
        return True


def _entry(item: Item, number: int) -> bytes:
    """An item as it waits, in a third of the memory: its place in the order, then all of it."""
    return _ORDER.pack(_rank(item), number) + marshal.dumps((item.place, item.told, item.size, item.refused))


def _item(entry: bytes) -> Item:
    return Item(*marshal.loads(entry[_ORDER.size :]))


def _rank(item: Item) -> int:
    """Small numbers come first."""
    if item.refused:
        return _LAST  # no work at all
    return max(_LAST - 1 - item.size, 1) if item.size else 0
