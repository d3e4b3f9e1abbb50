"""JUnit of a store: a suite for each host of each bundle, named by the host.

A second bundle of a host has its path behind the name. A bundle that nothing came of has a suite with its path as name
and an error for a verdict. GitLab parses no more than 500,000 test cases of a report on gitlab.com; there is one for
each rule, so that is told from some 5,000 hosts on, and nothing is left out: Jenkins reads them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from thpdiag.reports import verdict
from thpdiag.reports.junit import CLOSING, Names, opening, suite, without_result
from thpdiag.reports.presentation import Presentation
from thpdiag.triage.fleet.ci.bundle import Bundle
from thpdiag.triage.fleet.ci.spool import Spools

MOST_CASES: Final = 500_000


class JUnit:
    def __init__(self, presentation: Presentation, spools: Spools) -> None:
        self._presentation, self._suites = presentation, spools.one()
        self._names, self._hosts = Names(), set[str]()
        self._counts: Counter[str] = Counter()

    def add(self, bundle: Bundle) -> None:
        why = "" if bundle.whole else f"incomplete: {bundle.why}"
        suites = [
            suite(host, self._named(verdict.name(host), bundle), self._presentation, bundle.path, why)
            for host in bundle.hosts
        ]
        if not bundle.hosts:
            suites = [without_result(self._names(bundle.path), bundle.status, bundle.reason, bundle.path)]
        for one in suites:
            self._suites.add(one.text)
            self._counts.update(one.counts)

    def pieces(self) -> Iterator[str]:
        yield opening([self._counts])
        yield from self._suites.pieces()
        yield CLOSING

    def warnings(self) -> Iterator[str]:
        if self._counts["tests"] > MOST_CASES:
            yield f"JUnit: {self._counts['tests']:,} test cases; gitlab.com reads {MOST_CASES:,} of a report at most"

    def _named(self, host: str, bundle: Bundle) -> tuple[str, str]:
        again = host in self._hosts
        self._hosts.add(host)
        return self._names(f"{host} ({bundle.path})" if again else host)
