"""A batch from its work list to its store: items, engine, results, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from thpdiag.reports.visible import prose
from thpdiag.triage.engines.engine import Ended, Engine
from thpdiag.triage.item import Item
from thpdiag.triage.store.packed import Packed, unread
from thpdiag.triage.store.store import Store
from thpdiag.triage.tally import Tally
from thpdiag.triage.worklist.ahead import Ahead

Watch = Callable[[Tally], object]


def batch(items: Iterable[Item], engine: Engine, store: Store, watch: Watch) -> Tally:
    """Do all items, the biggest first, and store what comes of each as it comes. `watch` is told now and then."""
    tally = Tally()
    with Ahead(_counted(items, tally)) as ahead:
        for ended in engine.results(ahead):
            if ended is not None:
                _stored(ended, store, tally)
            watch(tally)
    return tally


def _stored(ended: Ended, store: Store, tally: Tally) -> None:
    tally.found += len(ended.results) - 1  # an archive of archives turns out to be several
    for result in ended.results:
        if not isinstance(result, Packed):
            tally.skipped += 1
        elif store.put(replace(result, reason=prose(result.reason))):
            tally.count(result)
        else:
            tally.twice += 1
    again = {one.path for one in ended.results if one.sha256 == unread(one.path)}
    store.read({ended.item.told, *(one.path for one in ended.results)} - again)


def _counted(items: Iterable[Item], tally: Tally) -> Iterator[Item]:
    for item in items:
        tally.found += 1
        yield item
    tally.listed = True
