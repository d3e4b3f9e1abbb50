"""What is said of a fleet first, in memory that has a bound: numbers, the gravest hosts, the furthest outliers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from heapq import nsmallest
from typing import Any, Final, Generic, TypeVar

from thpdiag.accepted.baseline import CONFIDENCES
from thpdiag.accepted.judge import Judge
from thpdiag.reports.severities import rank
from thpdiag.reports.verdict import plural
from thpdiag.triage.fleet.acceptance import learn, verdict_accepted
from thpdiag.triage.fleet.gate import Gate, gate
from thpdiag.triage.fleet.hosts import OK, FleetHost, hosts
from thpdiag.triage.fleet.outliers import Outlier, Survey, survey
from thpdiag.triage.fleet.over_time import History, histories
from thpdiag.triage.store.aside import Notes
from thpdiag.triage.store.reading import Reading, Row

MOST: Final = 50  # hosts, outliers, histories and failed bundles that are told one by one
_KEPT: Final = 2 * MOST  # at a time
FOUND: Final = "found"
Item = TypeVar("Item")


class First(Generic[Item]):
    """Of many the first `MOST` in an order, and how many there are."""

    def __init__(self, key: Callable[[Item], Any]) -> None:
        self.all, self._key = 0, key
        self._kept: list[Item] = []

    @property
    def items(self) -> list[Item]:
        self._kept = nsmallest(MOST, self._kept, key=self._key)
        return self._kept

    def add(self, items: Iterable[Item]) -> None:
        for item in items:
            self.all += 1
            self._kept.append(item)
            if len(self._kept) > _KEPT:
                self._kept = self.items


class Fleet:
    """A store as it is reported: with the addresses of pages, and what the judge accepts.

    What is asked of it more than once is kept; all of it is small.
    """

    def __init__(
        self, store: Reading, judge: Judge, fail_on: str, page: Callable[[Row], str] = lambda row: "",
        fail_on_missing: str = "",
    ) -> None:  # fmt: skip
        self.store, self.judge, self.page = store, judge, page
        self._fail_on, self._fail_on_missing = fail_on, fail_on_missing

    def accepted(self, row: Row) -> bool:
        """Whether somebody accepts the finding of the verdict of a row of `Reading.fleet`."""
        return verdict_accepted(row, self.judge)

    def hosts(self) -> Iterator[FleetHost]:
        return hosts(self.store, self.page, self.accepted)

    def histories(self) -> Iterator[History]:
        """Of hosts with several bundles those of which something is to be told."""
        return (history for history in histories(self.store, self.page) if history.eventful)

    @cached_property
    def gate(self) -> Gate:
        """Has the judge see all of the fleet."""
        learn(self.store, self.judge)
        return gate(self.store, self._fail_on, self.judge, self._fail_on_missing)

    @cached_property
    def survey(self) -> Survey:
        return survey(self.store)

    @cached_property
    def overview(self) -> Overview:
        return Overview(self)


class Overview:
    """`verdicts` counts hosts by verdict, mechanism, severity and confidence, `statuses` counts bundles.

    A host counts with each of its bundles, since two of one name can be two machines; `names` are kept as hashes.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.gate = fleet.gate
        self.statuses: Counter[str] = Counter()
        self.verdicts: Counter[tuple[str | None, str | None, str | None, str | None]] = Counter()
        self.accepted = 0
        self._names = Notes(fleet.store.aside)
        self.failed: First[FleetHost] = First(lambda host: host.number)
        self.found: First[FleetHost] = First(gravity)
        self.outliers: First[Outlier] = First(lambda one: (one.rank, one.host.number, one.name))
        self.histories: First[History] = First(lambda history: history.name)
        last = None
        for host in fleet.hosts():
            if host.bundle != last:
                self._bundle(host)
            last = host.bundle
            if host.known:
                self._host(host)
                self.outliers.add(fleet.survey.outliers(host))
        self.histories.add(fleet.histories())
        self.names = len(self._names)

    @property
    def hosts(self) -> int:
        return self.verdicts.total()

    @property
    def said(self) -> str:
        """`30 bundles, 30 hosts (5 names)`."""
        names = f" ({plural(self.names, 'name')})" if self.names < self.hosts else ""
        return f"{plural(self.statuses.total(), 'bundle')}, {plural(self.hosts, 'host')}{names}"

    def _bundle(self, host: FleetHost) -> None:
        self.statuses[host.status] += 1
        if host.status != OK:
            self.failed.add([host.bare])

    def _host(self, host: FleetHost) -> None:
        self._names[hash(host.label)] = ""
        self.verdicts[host.verdict, host.mechanism, host.severity, host.confidence] += 1
        if host.verdict == FOUND:
            self.accepted += host.accepted
            self.found.add([host.bare])


def gravity(host: FleetHost) -> tuple[Any, ...]:
    """What nobody accepted first, the gravest and surest before the others."""
    sure = CONFIDENCES.index(host.confidence) if host.confidence in CONFIDENCES else -1
    return host.accepted, -rank(host.severity), -sure, host.label, host.number
