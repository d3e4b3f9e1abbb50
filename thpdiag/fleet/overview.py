"""What is said of a fleet first, in memory that has a bound: numbers, gravest hosts, furthest outliers, the gate.

What suppressions and baselines accept is judged on small documents made of the rows of the store. What of the files had
no effect is known once all hosts were seen, and not of any bundle alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from heapq import nsmallest
from pathlib import Path
from typing import Annotated, Any, Final, Generic, TypeVar

from pydantic import PlainSerializer

from thpdiag.fleet.hosts import OK, FleetHost, hosts_of_store
from thpdiag.fleet.outliers import History, Outlier, Survey, histories, survey
from thpdiag.model.finding import CONFIDENCES
from thpdiag.model.result import Finding
from thpdiag.report.baseline import Acceptance, Judge
from thpdiag.report.escaping import prose
from thpdiag.report.messages import plural
from thpdiag.report.presentation import NEVER, rank
from thpdiag.store.reading import Row, StoreReader
from thpdiag.store.spill import SpilledTexts

_JUDGED_KEYS = ("rule", "mechanism", "entity", "fingerprint", "severity", "confidence")


def judge_findings(row: Row, judge: Judge) -> Iterator[tuple[Row, Acceptance | None]]:
    """The findings of a host, a row of `StoreReader.fleet`, each with what accepts it."""
    names = {name for name in (row["host"], row["case"]) if name}
    judge.see(names, (finding[key] for finding in row["findings"] for key in ("rule", "mechanism")))
    for finding in row["findings"]:
        judged = Finding.model_construct(**{key: finding[key] for key in _JUDGED_KEYS})
        yield finding, judge.entry(judged, names)


def is_verdict_accepted(row: Row, judged: Iterable[tuple[Row, Acceptance | None]]) -> bool:
    """Whether the finding of the verdict of a row is accepted; of several of its rule all of them."""
    leading = [entry for finding, entry in judged if finding["rule"] == row["rule"]]
    return bool(leading) and all(leading)


FAILED, INCOMPLETE = 1, 5


@dataclass(frozen=True, slots=True)
class Gate:
    """`failing` are findings as grave as `fail_on` or graver that nobody accepts, `failing_hosts` the hosts with one.

    `undecided` are hosts with a rule that could not be decided, and bundles of which nothing could be. `incomplete` are
    bundles that did not end `ok`. `fail_on_missing`: what is undecided is a failure.
    """

    fail_on: str
    failing: int = 0
    failing_hosts: int = 0
    undecided: int = 0
    incomplete: int = 0
    bundles: int = 0
    fail_on_missing: Annotated[bool, PlainSerializer(lambda asked: "yes" if asked else "", str)] = False

    @property
    def missing(self) -> bool:
        """Whether it fails for what could not be decided."""
        return self.fail_on_missing and self.undecided > 0

    @property
    def exit_code(self) -> int:
        """A finding wins over a partly failed batch."""
        if self.failing or self.missing:
            return FAILED
        return INCOMPLETE if self.incomplete else 0


MAX_LISTED: Final = 50  # hosts, outliers, histories and failed bundles that are told one by one
MAX_VALUES_COUNTED: Final = 10_000  # different values that are counted of what customers name
FOUND: Final = "found"
UNKNOWN: Final = "unknown"
VERDICTS: Final = (FOUND, "cannot_tell", "nothing_found", "not_applicable")  # as somebody looks at hosts
_DIGITS: Final = re.compile(r"\d+")
Item = TypeVar("Item")
Verdict = tuple[str | None, str | None, str | None, str | None]  # with mechanism, severity and confidence


def gravity(host: FleetHost) -> tuple[int, int, int, int, str, int]:
    """The order of hosts: what was found and nobody accepts, gravest and surest first; then names."""
    order = VERDICTS.index(host.verdict) if host.verdict in VERDICTS else len(VERDICTS)
    sure = CONFIDENCES.index(host.confidence) if host.confidence in CONFIDENCES else -1
    return order, int(host.accepted), -rank(host.severity), -sure, natural_key(host.label), host.number


def natural_key(name: str) -> str:
    """A name as it is sorted: web2 before web10."""
    return _DIGITS.sub(lambda digits: digits[0].zfill(12), name)


class FirstItems(Generic[Item]):
    """Of many the first `MAX_LISTED` in an order, and how many there are."""

    def __init__(self, key: Callable[[Item], Any]) -> None:
        self.all, self._key = 0, key
        self._kept: list[Item] = []

    @property
    def items(self) -> list[Item]:
        self._kept = nsmallest(MAX_LISTED, self._kept, key=self._key)
        return self._kept

    def add(self, items: Iterable[Item]) -> None:
        for item in items:
            self.all += 1
            self._kept.append(item)
            if len(self._kept) > 2 * MAX_LISTED:
                self._kept = self.items


class ValueCounts:
    """How many hosts have each value; `rest` are those with one of more values than are counted apart."""

    def __init__(self) -> None:
        self.hosts: Counter[str] = Counter()
        self.rest = 0

    def add(self, value: str | None, hosts: int = 1) -> None:
        value = visible_line(value) or UNKNOWN
        if value in self.hosts or len(self.hosts) < MAX_VALUES_COUNTED:
            self.hosts[value] += hosts
        else:
            self.rest += hosts


@lru_cache(maxsize=512)
def visible_line(text: str | None) -> str:
    """A text on one line with nothing hidden in it; nothing for None. Kernels and mechanisms are the same all over."""
    return prose(text) if text else ""


class Fleet:
    """A store as it is reported: with the addresses of pages, and what the judge accepts.

    What is asked of it more than once is kept; all of it is small.
    """

    def __init__(
        self, store: StoreReader, judge: Judge, fail_on: str, page: Callable[[Row], str] = lambda row: "",
        *, fail_on_missing: bool = False,
    ) -> None:  # fmt: skip
        self.store, self.judge, self.page = store, judge, page
        self.fail_on, self.fail_on_missing = fail_on, fail_on_missing
        self._overview: Overview | None = None

    def is_accepted(self, row: Row) -> bool:
        """Whether somebody accepts the finding of the verdict of a row."""
        return bool(self.judge.entries) and is_verdict_accepted(row, judge_findings(row, self.judge))

    @property
    def acceptances(self) -> Iterator[str]:
        """What accepts findings, until when and why."""
        for entry in self.judge.entries:
            until = f", until {entry.expires}" if entry.expires else ""
            yield f"{entry.label}{until}: {entry.reason} ({Path(entry.place).name})"

    def hosts(self) -> Iterator[FleetHost]:
        return hosts_of_store(self.store, self.page, self.is_accepted)

    def histories(self) -> Iterator[History]:
        """Of hosts with several bundles those of which something is to be told."""
        return (history for history in histories(self.store, self.page) if history.eventful)

    @cached_property
    def survey(self) -> Survey:
        return survey(self.store)

    @property
    def overview(self) -> Overview:
        return self._overview or self.look()

    def look(self, watch: Callable[..., None] = lambda host, outliers, first: None) -> Overview:
        """One walk over all hosts for the overview; `watch` is called with each, what differs, and if it is the first
        of its bundle."""
        self._overview = Overview(self, watch)
        return self._overview


class Overview:
    """`verdicts` counts hosts by verdict, mechanism, severity and confidence, `statuses` counts bundles.

    A host counts with each of its bundles, since two of one name can be two machines; `names` are kept as hashes.
    """

    def __init__(self, fleet: Fleet, watch: Callable[..., None]) -> None:
        self._fleet = fleet
        self._failing = self._failing_hosts = self._undecided = self.accepted = 0
        self.statuses: Counter[str] = Counter()
        self.verdicts: Counter[Verdict] = Counter()
        self.kernels, self.distributions, self.apps = ValueCounts(), ValueCounts(), ValueCounts()
        self.failed: FirstItems[FleetHost] = FirstItems(lambda host: host.number)
        self.found: FirstItems[FleetHost] = FirstItems(gravity)
        self.outliers: FirstItems[Outlier] = FirstItems(lambda one: (one.rank, one.host.number, one.name))
        self.histories: FirstItems[History] = FirstItems(lambda history: history.name)
        self._see_rules()
        names, last = SpilledTexts(fleet.store.aside), None
        for host in hosts_of_store(fleet.store, fleet.page, self._judge):
            outliers, first = list(fleet.survey.outliers(host)), host.bundle != last
            last = host.bundle
            if first:
                self.statuses[host.status] += 1
                self.failed.add([] if host.status == OK else [host.bare])
            if host.known:
                names[hash(host.label)] = ""
                self._add(host)
                self.outliers.add(outliers)
            watch(host, outliers, first=first)
        self.histories.add(fleet.histories())
        self.names = len(names)

    def _see_rules(self) -> None:
        """Have the judge see one whole document, which names rules without findings too."""
        store, judge = self._fleet.store, self._fleet.judge
        whole = next((row["bundle"] for row in store.names()), None) if judge.entries else None
        if whole is not None:
            rules = (store.document(whole) or {}).get("rules") or ()
            judge.see((), (rule.get(key) for rule in rules for key in ("id", "mechanism")))

    def _judge(self, row: Row) -> bool:
        """Count what of a row the gate is about; whether the finding of its verdict is accepted."""
        fail_on, judged = self._fleet.fail_on, list(judge_findings(row, self._fleet.judge))
        grave = sum(
            not entry and fail_on != NEVER and rank(finding["severity"]) >= rank(fail_on) for finding, entry in judged
        )
        self._failing += grave
        self._failing_hosts += bool(grave)
        self._undecided += row["place"] is None or bool(row["undecided"])
        return is_verdict_accepted(row, judged)

    def _add(self, host: FleetHost) -> None:
        self.verdicts[host.verdict, host.mechanism, host.severity, host.confidence] += 1
        self.kernels.add(host.kernel)
        self.distributions.add(host.os or host.platform)
        for app in host.apps:
            self.apps.add(app)
        if host.verdict == FOUND:
            self.accepted += host.accepted
            self.found.add([host.bare])

    @property
    def gate(self) -> Gate:
        return Gate(
            self._fleet.fail_on, self._failing, self._failing_hosts, self._undecided, self.incomplete, self.bundles,
            self._fleet.fail_on_missing,
        )  # fmt: skip

    @property
    def bundles(self) -> int:
        return self.statuses.total()

    @property
    def incomplete(self) -> int:
        """Bundles without a complete result."""
        return self.bundles - self.statuses[OK]

    @property
    def hosts(self) -> int:
        return self.verdicts.total()

    @property
    def headline(self) -> str:
        """`30 bundles, 30 hosts (5 names)`."""
        names = f" ({plural(self.names, 'name')})" if self.names < self.hosts else ""
        return f"{plural(self.bundles, 'bundle')}, {plural(self.hosts, 'host')}{names}"
