"""SARIF of a store: one run with the results of all bundles, the gravest first.

GitHub takes a file of 10 MB, packed with gzip, with 25,000 results in a run, and keeps the 5,000 gravest of them. What
does not fit is left out, the mildest first; a notification and a warning say how many. There is no category in it
(`automationDetails.id`): GitHub takes that of the upload, where several fleets can be told apart. A bundle that nothing
came of is a notification, and then the run has not been successful.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from thpdiag.reports import sarif
from thpdiag.reports.json import filled, listed, written
from thpdiag.reports.located import Located
from thpdiag.reports.presentation import Presentation
from thpdiag.reports.severities import rank
from thpdiag.reports.visible import prose
from thpdiag.triage.fleet.ci.bundle import Bundle
from thpdiag.triage.fleet.ci.spool import Spools

LARGEST: Final = 10_000_000  # bytes of the packed file
KEPT: Final = 5_000  # results that GitHub shows of those that it takes
AT_ONCE: Final = 100  # results between two looks at the size
MOST_HOSTS: Final = 10_000
FAILED: Final = len(sarif.LEVELS)  # before notifications of all levels
OPEN: Final = '"ruleIndex": -1'  # no string can look like it: a quote within one is written as \"


@dataclass(frozen=True, slots=True)
class Fitting:
    """How many of the results a file can hold, and the places of their rules."""

    count: int
    places: Mapping[str, int]


class Sarif:
    def __init__(self, presentation: Presentation, spools: Spools) -> None:
        self._presentation = presentation
        self._results, self._hosts = spools.ranked(), spools.ranked()
        self._rules, self._notifications = sarif.Rules(), sarif.Notifications()
        self._count = self._characters = self._count_of_hosts = self._failed = 0
        self._tool: Mapping[str, str] | None = None
        self._cut = 0

    def add(self, bundle: Bundle) -> None:
        results = [(rank(one.finding["severity"]), self._result(one)) for one in bundle.found]
        hosts = [written({**sarif.told(host), "bundle": prose(bundle.path)}) for host in bundle.hosts]
        self._notifications.add(bundle.hosts, bundle.path)
        for one in bundle.found:
            self._rules.add(one.finding)
        for weight, text in results:
            self._results.add(weight, text)
            self._characters += len(text)
        for host in hosts[: max(MOST_HOSTS - self._count_of_hosts, 0)]:
            self._hosts.add(0, host)
        if not bundle.whole or not bundle.hosts:
            self._failed += not bundle.hosts
            level, what = ("warning", "incomplete result") if bundle.hosts else ("error", "no result")
            told = sarif.notification(level, f"{bundle.path}: {what} ({bundle.why})", bundle.path)
            self._notifications.put(FAILED, told)
        self._count += len(results)
        self._count_of_hosts += len(hosts)
        self._tool = self._tool or bundle.tool

    def pieces(self) -> Iterator[str]:
        fitting = self._fitting()
        self._cut = self._count - fitting.count
        texts = (_placed(text, fitting.places) for text in islice(self._results.texts(), fitting.count))
        yield from filled(self._frame(), {"results": texts, "hosts": self._hosts.texts()})

    def warnings(self) -> Iterator[str]:
        """What is known once the pieces are there."""
        if self._cut:
            yield f"SARIF: {self._cut:,} {sarif.LEFT_OUT}"
        if self._count - self._cut > KEPT:
            yield f"SARIF: {self._count - self._cut:,} results; GitHub shows the {KEPT:,} gravest of them"

    def _result(self, one: Located) -> str:
        found = sarif.result(one, self._presentation)
        return f"{found['ruleId']}\n{written({**found, 'ruleIndex': -1})}"

    def _frame(self) -> dict[str, Any]:
        notified = [*sarif.left_out(self._cut), *self._notifications.listed()]
        if self._count_of_hosts > MOST_HOSTS:
            told = (
                f"{self._count_of_hosts - MOST_HOSTS:,} of {self._count_of_hosts:,} hosts are not in the list of hosts"
            )
            notified.append(sarif.notification("note", told))
        tool = self._tool or {"version": "", "rules_digest": ""}
        frame = sarif.log(tool, self._rules.listed(), notified)
        frame["runs"][0]["invocations"][0]["executionSuccessful"] = not self._failed
        return frame

    def _fitting(self) -> Fitting:
        """Of the results the gravest, as many as GitHub takes."""
        count = min(self._count, sarif.MOST_RESULTS)
        if self._characters > LARGEST:
            count = self._that_fit(count)
        self._rules.only({_rule(text) for text in islice(self._results.texts(), count)})
        return Fitting(count, self._rules.places())

    def _that_fit(self, most: int) -> int:
        """Packed as GitHub's uploader does it, with all that stands around them."""
        packer, size, fitting = zlib.compressobj(wbits=31), 0, 0
        for piece in filled(self._frame(), {"results": (), "hosts": self._hosts.texts()}):
            size += len(packer.compress(piece.encode()))
        places, texts = self._rules.places(), islice(self._results.texts(), most)
        while portion := list(islice(texts, AT_ONCE)):
            text = "".join(listed([_placed(text, places) for text in portion], depth=3))
            size += len(packer.compress(text.encode())) + len(packer.flush(zlib.Z_SYNC_FLUSH))
            if size > LARGEST:
                break
            fitting += len(portion)
        return fitting


def _rule(text: str) -> str:
    return text.partition("\n")[0]


def _placed(text: str, places: Mapping[str, int]) -> str:
    rule, _, result = text.partition("\n")
    return result.replace(OPEN, f'"ruleIndex": {places[rule]}', 1)
