"""One pass over a fleet: what is counted, and the rows of the page in its order, in memory that has a bound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from thpdiag.triage.fleet.bundles_of_host import Several, bundles_of_hosts
from thpdiag.triage.fleet.hosts import OK, FleetHost
from thpdiag.triage.fleet.page.rows import gravity, host_row, incomplete_row, natural, result
from thpdiag.triage.fleet.page.words import FOUND, UNKNOWN, VERDICTS, shown, verdict
from thpdiag.triage.store.aside import First, Notes
from thpdiag.triage.store.reading import Reading

ACCEPTED, OVER = "accepted", "over"
EARLIER, UNORDERED = "there is a later bundle", "one of several bundles"
MOST: Final = 10_000  # hosts, and bundles without a complete result, that a page shows; counts are of all
KINDS: Final = 10_000  # different values that are counted of what customers name


@dataclass(slots=True)
class Values:
    """How many hosts have each value; `rest` are those with one of more values than are counted apart."""

    number: Counter[str] = field(default_factory=Counter)
    rest: int = 0

    def add(self, value: str | None) -> None:
        value = shown(value) or UNKNOWN
        if value in self.number or len(self.number) < KINDS:
            self.number[value] += 1
        else:
            self.rest += 1

    def __getitem__(self, value: str) -> int:
        return self.number[value]

    def frequent(self) -> list[tuple[str, int]]:
        return sorted(self.number.items(), key=lambda pair: (-pair[1], pair[0]))

    def ordered(self, first: Sequence[str]) -> list[tuple[str, int]]:
        """Values as they are ordered, then what is not in the order."""
        others = sorted(set(self.number) - set(first))
        return [(value, self.number[value]) for value in (*first, *others) if value in self.number]


class Summary:
    """Every host of every bundle counts, since two of one name can be two machines; `names` has hashes of the names.

    `noted` counts the notes of findings; these are counted in `severities` too. Rows and names are kept beside the
    store, not in memory.
    """

    def __init__(self, store: Reading) -> None:
        self.bundles = 0
        self.noted: Counter[str] = Counter()
        self.names = Notes(store.aside)
        self.hosts, self.incomplete = First(store.aside, MOST), First(store.aside, MOST)
        self.statuses, self.verdicts, self.severities = Values(), Values(), Values()
        self.mechanisms, self.confidences = Values(), Values()
        self.kernels, self.distributions, self.applications = Values(), Values(), Values()
        self._several = several_bundles(store)
        self._last: int | None = None

    @property
    def found(self) -> int:
        return self.verdicts[VERDICTS[FOUND]]

    @property
    def failed(self) -> int:
        """Bundles without a complete result."""
        return self.bundles - self.statuses[OK]

    def add(self, host: FleetHost) -> None:
        """Hosts come as in the store: those of one bundle one after the other."""
        if host.bundle != self._last:
            self._last = host.bundle
            self._bundle(host)
        if host.known:
            self._host(host)

    def _bundle(self, host: FleetHost) -> None:
        self.bundles += 1
        self.statuses.add(host.status)
        if host.status != OK:
            self.incomplete.add((host.status, natural(host.path), host.number), lambda: incomplete_row(host))

    def _host(self, host: FleetHost) -> None:
        notes = self._notes(host)
        self.names[hash(host.label)] = ""
        self.hosts.add(gravity(host), lambda: host_row(host, notes))
        self.verdicts.add(verdict(host.verdict))
        if host.verdict == FOUND:
            self.noted.update(notes)
            self.severities.add(result(host))
            self.mechanisms.add(host.mechanism)
            self.confidences.add(host.confidence)
        self.kernels.add(host.kernel)
        self.distributions.add(host.os or host.platform)
        for app in host.apps:
            self.applications.add(app)

    def _notes(self, host: FleetHost) -> list[str]:
        """What is to be known of a result beside it."""
        holds = {
            ACCEPTED: host.accepted,
            OVER: host.state == "past",
            self._several.note((host.bundle, host.place)): True,
            "incomplete": host.status != OK,
        }
        return [note for note, is_so in holds.items() if is_so and note]


def several_bundles(store: Reading) -> Several:
    """What is to be known of rows of hosts with several bundles: that there is a later one, if their order is known."""
    found = Several(store)
    for one in bundles_of_hosts(store):
        for record in one.records[:-1] if one.ordered else one.records:
            found.add(record.place, EARLIER if one.ordered else UNORDERED)
    return found
