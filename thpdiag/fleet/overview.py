"""The overview of a fleet in bounded memory: counts, most severe hosts, strongest outliers, and the CI gate.

Suppressions and baselines are applied to small findings made of the rows of the store. Entries of these files without
effect are known only after all hosts were seen.
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
    """Yield the findings of a host (a row of `StoreReader.fleet`), each with the entry that accepts it, if any."""
    names = {name for name in (row["host"], row["case"]) if name}
    judge.see(names, (finding[key] for finding in row["findings"] for key in ("rule", "mechanism")))
    for finding in row["findings"]:
        yield finding, judge.entry(Finding.model_construct(**{key: finding[key] for key in _JUDGED_KEYS}), names)


def is_verdict_accepted(row: Row, judged: Iterable[tuple[Row, Acceptance | None]]) -> bool:
    """Whether the finding of a row's verdict is accepted; if its rule has several findings, whether all are."""
    entries = [entry for finding, entry in judged if finding["rule"] == row["rule"]]
    return bool(entries) and all(entries)


FAILED, INCOMPLETE = 1, 5


@dataclass(frozen=True, slots=True)
class Gate:
    """The counts that decide the exit code of a triage run.

    `failing`: findings of at least severity `fail_on` that are not accepted; `failing_hosts`: the hosts with one.
    `undecided`: hosts with an undecided rule, and bundles without a host. `incomplete`: bundles with a status other
    than `ok`. With `fail_on_missing` an undecided host is a failure.
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
        """Whether the gate fails because of undecided rules."""
        return self.fail_on_missing and self.undecided > 0

    @property
    def exit_code(self) -> int:
        """The exit code; a failing finding takes precedence over incomplete bundles."""
        if self.failing or self.missing:
            return FAILED
        return INCOMPLETE if self.incomplete else 0


MAX_LISTED: Final = 50  # hosts, outliers, histories and failed bundles that are listed individually
MAX_VALUES_COUNTED: Final = 10_000  # different values of a customer-defined attribute that are counted separately
FOUND: Final = "found"
UNKNOWN: Final = "unknown"
VERDICTS: Final = (FOUND, "cannot_tell", "nothing_found", "not_applicable")  # in the order of reports
_DIGITS: Final = re.compile(r"\d+")
Item = TypeVar("Item")
Verdict = tuple[str | None, str | None, str | None, str | None]  # verdict, mechanism, severity, confidence


def severity_order(host: FleetHost) -> tuple[int, int, int, int, str, int]:
    """The sort key of hosts: verdict, findings that are not accepted first, severity, confidence, name."""
    order = VERDICTS.index(host.verdict) if host.verdict in VERDICTS else len(VERDICTS)
    confidence = CONFIDENCES.index(host.confidence) if host.confidence in CONFIDENCES else -1
    return order, int(host.accepted), -rank(host.severity), -confidence, natural_key(host.label), host.number


def natural_key(name: str) -> str:
    """The sort key of a name with numbers: web2 before web10."""
    return _DIGITS.sub(lambda digits: digits[0].zfill(12), name)


class FirstItems(Generic[Item]):
    """The first `MAX_LISTED` of many items in sorted order, and the total count."""

    def __init__(self, key: Callable[[Item], Any]) -> None:
        self.total, self._key = 0, key
        self._kept: list[Item] = []

    @property
    def items(self) -> list[Item]:
        self._kept = nsmallest(MAX_LISTED, self._kept, key=self._key)
        return self._kept

    def add(self, items: Iterable[Item]) -> None:
        for item in items:
            self.total += 1
            self._kept.append(item)
            if len(self._kept) > 2 * MAX_LISTED:
                self._kept = self.items


class ValueCounts:
    """The number of hosts with each value; `rest` counts hosts with values beyond `MAX_VALUES_COUNTED`."""

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
    """Return a text on one line with control characters made visible; empty for None. Cached, since texts repeat."""
    return prose(text) if text else ""


class Fleet:
    """A store with the addresses of host pages and the judge of accepted findings, as the input of reports."""

    def __init__(
        self, store: StoreReader, judge: Judge, fail_on: str, page: Callable[[Row], str] = lambda row: "",
        *, fail_on_missing: bool = False,
    ) -> None:  # fmt: skip
        self.store, self.judge, self.page = store, judge, page
        self.fail_on, self.fail_on_missing = fail_on, fail_on_missing
        self._overview: Overview | None = None

    def is_accepted(self, row: Row) -> bool:
        """Whether the finding of a row's verdict is accepted."""
        return bool(self.judge.entries) and is_verdict_accepted(row, judge_findings(row, self.judge))

    @property
    def acceptances(self) -> Iterator[str]:
        """The entries that accept findings, as text: label, end date, reason, file."""
        for entry in self.judge.entries:
            until = f", until {entry.expires}" if entry.expires else ""
            yield f"{entry.label}{until}: {entry.reason} ({Path(entry.place).name})"

    def hosts(self) -> Iterator[FleetHost]:
        return hosts_of_store(self.store, self.page, self.is_accepted)

    def histories(self) -> Iterator[History]:
        """The histories with at least one event."""
        return (history for history in histories(self.store, self.page) if history.eventful)

    @cached_property
    def survey(self) -> Survey:
        return survey(self.store)

    @property
    def overview(self) -> Overview:
        return self._overview or self.make_overview()

    def make_overview(self, visit: Callable[..., None] = lambda host, outliers, first: None) -> Overview:
        """Build the overview in one pass over all hosts. `visit` gets each host, its outliers, and as `first` whether
        it is the first host of its bundle."""
        self._overview = Overview(self, visit)
        return self._overview


class Overview:
    """The counts of a fleet. `verdicts` counts hosts by verdict, mechanism, severity and confidence.

    A host counts once for each of its bundles, since two machines may have the same name; `names` counts hashes.
    """

    def __init__(self, fleet: Fleet, visit: Callable[..., None]) -> None:
        self._fleet = fleet
        self._failing = self._failing_hosts = self._undecided = self.accepted = 0
        self.statuses: Counter[str] = Counter()
        self.verdicts: Counter[Verdict] = Counter()
        self.kernels, self.distributions, self.apps = ValueCounts(), ValueCounts(), ValueCounts()
        self.failed: FirstItems[FleetHost] = FirstItems(lambda host: host.number)
        self.found: FirstItems[FleetHost] = FirstItems(severity_order)
        self.outliers: FirstItems[Outlier] = FirstItems(
            lambda outlier: (outlier.rank, outlier.host.number, outlier.name)
        )
        self.histories: FirstItems[History] = FirstItems(lambda history: history.name)
        self._show_rules_to_judge()
        names, last = SpilledTexts(fleet.store.spill_file), None
        for host in hosts_of_store(fleet.store, fleet.page, self._judge):
            outliers, first = list(fleet.survey.outliers(host)), host.bundle != last
            last = host.bundle
            if first:
                self.statuses[host.status] += 1
                self.failed.add([] if host.status == OK else [host.summary])
            if host.known:
                names[hash(host.label)] = ""
                self._add(host)
                self.outliers.add(outliers)
            visit(host, outliers, first=first)
        self.histories.add(fleet.histories())
        self.names = len(names)

    def _show_rules_to_judge(self) -> None:
        """Let the judge see one complete document, since that also names rules without findings."""
        store, judge = self._fleet.store, self._fleet.judge
        bundle = next((row["bundle"] for row in store.names()), None) if judge.entries else None
        if bundle is not None:
            rules = (store.document(bundle) or {}).get("rules") or ()
            judge.see((), (rule.get(key) for rule in rules for key in ("id", "mechanism")))

    def _judge(self, row: Row) -> bool:
        """Add a row to the counts of the gate; return whether the finding of its verdict is accepted."""
        fail_on, judged = self._fleet.fail_on, list(judge_findings(row, self._fleet.judge))
        failing = sum(
            not entry and fail_on != NEVER and rank(finding["severity"]) >= rank(fail_on) for finding, entry in judged
        )
        self._failing += failing
        self._failing_hosts += bool(failing)
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
            self.found.add([host.summary])

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
        """The number of bundles without a complete result."""
        return self.bundles - self.statuses[OK]

    @property
    def hosts(self) -> int:
        return self.verdicts.total()

    @property
    def headline(self) -> str:
        """`30 bundles, 30 hosts (5 names)`."""
        names = f" ({plural(self.names, 'name')})" if self.names < self.hosts else ""
        return f"{plural(self.bundles, 'bundle')}, {plural(self.hosts, 'host')}{names}"
