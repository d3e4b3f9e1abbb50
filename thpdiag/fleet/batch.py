"""The run loop of triage: submit items to workers as they are listed, store results as they come."""

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
LIST_INTERVAL_S: Final = 0.1  # between two polls of the list while workers have room
MAX_WAITING: Final = 1000  # listed items that wait for a worker: half a megabyte, however long the list is
SETTLE_S: Final = 1.0  # head start of the list, so that the first bundle can be a big one
_SEVERITY: Final = FINDING_FIELDS.index("severity")


@dataclass(slots=True)
class Tally:
    """The progress of a run. `bundles` counts those listed so far, which are all once `listed` is true.

    `statuses` counts results of this run; `hosts`, `findings` and `incomplete` cover the store, with earlier runs.
    """

    bundles: int = 0
    listed: bool = False
    skipped: int = 0
    duplicates: int = 0  # bundles with the content of another one
    statuses: Counter[str] = field(default_factory=Counter)
    hosts: int = 0
    incomplete: int = 0  # bundles without a complete result
    findings: Counter[str | None] = field(default_factory=Counter)  # by severity

    @property
    def done(self) -> int:
        """Bundles that need no more work."""
        return self.skipped + self.duplicates + self.statuses.total()

    def set_totals(self, stored: Totals) -> None:
        """Set the counts to those of the store."""
        self.hosts, self.incomplete, self.findings = stored.hosts, stored.incomplete, Counter(stored.findings)

    def count(self, result: PackedResult) -> None:
        """Count a result that was stored."""
        self.statuses[result.status] += 1
        self.incomplete += result.status != COMPLETE
        self.hosts += len(result.hosts)
        for _, findings in result.hosts:
            self.findings.update(severity for finding in findings if (severity := finding[_SEVERITY]))


class Executor(Protocol):
    """Workers for items: processes of this machine, or a cluster."""

    @property
    def room(self) -> int:
        """How many items may be submitted at a time: slightly more than run at once, to bound memory."""

    def submit(self, item: BundleItem, /) -> Any:
        """Begin or queue an item; return a future, of concurrent.futures or of Dask."""

    def collect(self, future: Any, item: BundleItem, attempt: int) -> list[ItemResult] | None:
        """Return the results of an item that is done, or None if it must be tried again."""

    def check_alive(self) -> None:
        """Raise an error if no more results can come. Called about once a second."""


def run_batch(items: Iterable[BundleItem], executor: Executor, store: Store, watch: Callable[[Tally], object]) -> Tally:
    """Work on all items, the largest first, and store each result as it comes; `watch` is called with the progress."""
    tally = Tally()
    tally.set_totals(store.totals_of_run())

    def count_items() -> Iterator[BundleItem]:
        for item in items:
            tally.bundles += 1
            yield item
        tally.listed = True

    with Prefetch(count_items()) as prefetch:
        prefetch.settle()
        for done in run_items(executor, prefetch):
            if done is not None:
                _store_results(*done, store, tally)
            watch(tally)
    tally.set_totals(store.totals())
    watch(tally)
    return tally


def _store_results(item: BundleItem, results: Sequence[ItemResult], store: Store, tally: Tally) -> None:
    tally.bundles += len(results) - 1  # an archive of archives has several bundles
    for result in results:
        if not isinstance(result, PackedResult):
            tally.skipped += 1
        elif store.put(replace(result, reason=prose(result.reason))):
            tally.count(result)
        else:
            tally.duplicates += 1
    unread = {one.path for one in results if one.sha256 == unread_key(one.path)}
    store.forget_unread({item.label, *(one.path for one in results)} - unread)


def run_items(executor: Executor, prefetch: Prefetch) -> Iterator[tuple[BundleItem, list[ItemResult]] | None]:
    """Yield each item with its results (several for an archive of archives); None about once a second meanwhile."""
    numbers, done = count(), SimpleQueue[int]()
    running: dict[int, tuple[Any, BundleItem, int]] = {}

    def submit(item: BundleItem, attempt: int) -> None:
        number = next(numbers)
        future = executor.submit(item)
        running[number] = (future, item, attempt)
        future.add_done_callback(lambda _: done.put(number))  # from any thread

    last_check = time.monotonic()
    while True:
        while len(running) < executor.room and (item := prefetch.take()) is not None:
            submit(item, 1)
        if not running and prefetch.is_over:
            return
        if time.monotonic() - last_check >= CHECK_INTERVAL_S:
            executor.check_alive()
            last_check = time.monotonic()
            yield None
        has_room = len(running) < executor.room and not prefetch.listed
        try:
            future, item, attempt = running.pop(done.get(timeout=LIST_INTERVAL_S if has_room else CHECK_INTERVAL_S))
        except Empty:
            continue
        results = executor.collect(future, item, attempt)
        if results is None:
            submit(item, attempt + 1)
        else:
            yield item, results


class Prefetch:
    """A priority queue that a thread fills from the list of bundles, so that a slow list (a pipe, an object store) does
    not delay the workers. A context manager. `count` items were listed so far, all of them once `listed` is true.

    The largest known bundle comes first, so that no large one runs alone at the end. A bundle of unknown size (a folder
    that was not walked, an address) may be the largest and comes before all others. Leaving the context does not wait
    for a list that hangs: its thread is a daemon.
    """

    def __init__(self, items: Iterable[BundleItem], max_waiting: int = MAX_WAITING) -> None:
        self.listed = False
        self.count = 0
        self._max_waiting = max_waiting
        self._waiting: list[tuple[float, int, BundleItem]] = []  # a heap by rank, then by number
        self._error: BaseException | None = None
        self._closed = False
        self._changed = Condition()
        self._thread = Thread(target=self._list, args=(items,), daemon=True, name="list")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def settle(self, seconds: float = SETTLE_S) -> None:
        """Wait until the list has ended or the queue is full, at most for these seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self.listed or len(self._waiting) >= self._max_waiting, seconds)

    def take(self) -> BundleItem | None:
        """Remove and return the largest item, of equal ones the first; None if the queue is empty. Raises the error of
        the list."""
        with self._changed:
            if self._error is not None:
                raise self._error
            if not self._waiting:
                return None
            self._changed.notify_all()
            return heappop(self._waiting)[2]

    @property
    def is_over(self) -> bool:
        """Whether all items were taken."""
        with self._changed:
            return self.listed and not self._waiting and self._error is None

    def _list(self, items: Iterable[BundleItem]) -> None:
        error: BaseException | None = None
        try:
            for item in items:
                with self._changed:
                    self._changed.wait_for(lambda: self._closed or len(self._waiting) < self._max_waiting)
                    if self._closed:
                        return
                    rank = math.inf if item.refused else -item.size or -math.inf  # a refused item takes no time
                    heappush(self._waiting, (rank, self.count, item))
                    self.count += 1
                    self._changed.notify_all()
        except BaseException as failure:  # `take` raises it in the main thread
            error = failure
        with self._changed:
            self._error, self.listed = error, True
            self._changed.notify_all()
