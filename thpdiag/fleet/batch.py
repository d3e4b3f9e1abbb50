"""A batch from its work list to its store: items into a machine and results out of it, both as they come."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from queue import Empty, SimpleQueue
from threading import Condition, Thread
from types import TracebackType
from typing import Any, Final, Protocol, Self

from thpdiag.fleet.sources.item import BundleItem
from thpdiag.fleet.work import ItemResult
from thpdiag.report.escaping import prose
from thpdiag.store.reading import Totals
from thpdiag.store.results import FINDING_FIELDS, PackedResult, unread_key
from thpdiag.store.store import Store

COMPLETE: Final = "ok"
CHECK_INTERVAL_S: Final = 1.0
LIST_INTERVAL_S: Final = 0.1  # after which the list is asked again while there is room
MAX_WAITING: Final = 1000  # items that wait: half a megabyte, however long the list is
SETTLE_S: Final = 1.0  # seconds for the list before the first bundle, which is better a big one
_SEVERITY: Final = FINDING_FIELDS.index("severity")


@dataclass(slots=True)
class Tally:
    """How far a run has come. `found` bundles so far, all of them once `listed`; `statuses` are of this run.

    `hosts`, `findings` and `incomplete` are of all that is stored, also by earlier runs.
    """

    found: int = 0
    listed: bool = False
    skipped: int = 0
    twice: int = 0  # the same content came under another name
    statuses: Counter[str] = field(default_factory=Counter)
    hosts: int = 0
    incomplete: int = 0  # bundles without a complete result
    findings: Counter[str | None] = field(default_factory=Counter)  # by severity

    @property
    def done(self) -> int:
        """Bundles that need no more work."""
        return self.skipped + self.twice + self.statuses.total()

    def take_stock(self, stored: Totals) -> None:
        """Begin with, or end with, what the store holds."""
        self.hosts, self.incomplete, self.findings = stored.hosts, stored.incomplete, Counter(stored.findings)

    def count(self, result: PackedResult) -> None:
        """One more result that was stored."""
        self.statuses[result.status] += 1
        self.incomplete += result.status != COMPLETE
        self.hosts += len(result.hosts)
        for _, findings in result.hosts:
            self.findings.update(severity for finding in findings if (severity := finding[_SEVERITY]))


class Machine(Protocol):
    """What works on items: processes of this machine, or a cluster."""

    @property
    def room(self) -> int:
        """How many items it should have at a time: few more than it works on, so that a million cost no memory."""

    def submit(self, item: BundleItem, /) -> Any:
        """Begin with an item; it may wait. The answer is a future, of whatever library."""

    def collect(self, begun: Any, item: BundleItem, attempt: int) -> list[ItemResult] | None:
        """The results of an item that has ended; None if it is to be tried again."""

    def look(self) -> None:
        """Called every second or so: raise if nothing can come any more."""


def run_batch(items: Iterable[BundleItem], machine: Machine, store: Store, watch: Callable[[Tally], object]) -> Tally:
    """Do all items, the biggest first, and store what comes of each as it comes. `watch` is called now and then."""
    tally = Tally()
    tally.take_stock(store.totals_of_run())

    def count_items() -> Iterator[BundleItem]:
        for item in items:
            tally.found += 1
            yield item
        tally.listed = True

    with Prefetch(count_items()) as ahead:
        ahead.settle()
        for ended in run_items(machine, ahead):
            if ended is not None:
                _store_results(*ended, store, tally)
            watch(tally)
    tally.take_stock(store.totals())
    watch(tally)
    return tally


def _store_results(item: BundleItem, results: Sequence[ItemResult], store: Store, tally: Tally) -> None:
    tally.found += len(results) - 1  # an archive of archives turns out to be several
    for result in results:
        if not isinstance(result, PackedResult):
            tally.skipped += 1
        elif store.put(replace(result, reason=prose(result.reason))):
            tally.count(result)
        else:
            tally.twice += 1
    again = {one.path for one in results if one.sha256 == unread_key(one.path)}
    store.forget_unread({item.label, *(one.path for one in results)} - again)


def run_items(machine: Machine, ahead: Prefetch) -> Iterator[tuple[BundleItem, list[ItemResult]] | None]:
    """The results of each item (of an archive of archives several); None now and then while nothing ends."""
    numbers, ended = count(), SimpleQueue[int]()
    running: dict[int, tuple[Any, BundleItem, int]] = {}

    def begin(item: BundleItem, attempt: int) -> None:
        number = next(numbers)
        begun = machine.submit(item)
        running[number] = (begun, item, attempt)
        begun.add_done_callback(lambda _: ended.put(number))  # from any thread

    looked = time.monotonic()
    while True:
        while len(running) < machine.room and (item := ahead.take()) is not None:
            begin(item, 1)
        if not running and ahead.is_over:
            return
        if time.monotonic() - looked >= CHECK_INTERVAL_S:
            machine.look()
            looked = time.monotonic()
            yield None
        more = len(running) < machine.room and not ahead.listed
        try:
            begun, item, attempt = running.pop(ended.get(timeout=LIST_INTERVAL_S if more else CHECK_INTERVAL_S))
        except Empty:
            continue
        results = machine.collect(begun, item, attempt)
        if results is None:
            begin(item, attempt + 1)
        else:
            yield item, results


class Prefetch:
    """The work list as it comes in: a thread of its own lists, so that a slow list (a pipe, an object store) delays
    nobody. To be used as a context. `found` items were listed so far, all of them once `listed`.

    The biggest bundle that is known goes first, so that none is left to be waited for at the end. One whose size is not
    known (a folder that was not walked, an address) may be the biggest, and goes before those that are known. Leaving
    it does not wait for a list that says nothing: its thread ends with the program.
    """

    def __init__(self, items: Iterable[BundleItem], most: int = MAX_WAITING) -> None:
        self.found = 0
        self.listed = False
        self._most = most
        self._waiting: list[tuple[float, int, BundleItem]] = []  # a heap by rank, then by number
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

    def settle(self, seconds: float = SETTLE_S) -> None:
        """Wait until as many items are listed as may wait, or all of them, or for this long."""
        with self._changed:
            self._changed.wait_for(lambda: self.listed or len(self._waiting) >= self._most, seconds)

    def take(self) -> BundleItem | None:
        """The biggest of those that wait, the earlier of equal ones; None if none does now. An error of the list."""
        with self._changed:
            if self._error is not None:
                raise self._error
            if not self._waiting:
                return None
            self._changed.notify_all()
            return heappop(self._waiting)[2]

    @property
    def is_over(self) -> bool:
        """Whether all were taken."""
        with self._changed:
            return self.listed and not self._waiting and self._error is None

    def _list(self, items: Iterable[BundleItem]) -> None:
        error: BaseException | None = None
        try:
            for item in items:
                with self._changed:
                    self._changed.wait_for(lambda: self._left or len(self._waiting) < self._most)
                    if self._left:
                        return
                    rank = math.inf if item.refused else -item.size or -math.inf  # what is refused is no work
                    heappush(self._waiting, (rank, self.found, item))
                    self.found += 1
                    self._changed.notify_all()
        except BaseException as failure:  # raised again in the thread that takes
            error = failure
        with self._changed:
            self._error, self.listed = error, True
            self._changed.notify_all()
