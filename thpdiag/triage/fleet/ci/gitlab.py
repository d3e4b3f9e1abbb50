"""Code Quality of a store: one list of issues, the gravest first, then what could not be told or came to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from thpdiag.reports.gitlab import INCOMPLETE, NO_RESULT, cannot_tell, issue, unfinished
from thpdiag.reports.json import listed, written
from thpdiag.reports.located import Fingerprints, undecided
from thpdiag.reports.presentation import Presentation
from thpdiag.reports.severities import rank
from thpdiag.triage.fleet.ci.bundle import Bundle
from thpdiag.triage.fleet.ci.spool import Spools

LAST: Final = -2  # behind findings of unknown severity


class GitLab:
    def __init__(self, presentation: Presentation, spools: Spools) -> None:
        self._issues, self._prints = spools.ranked(), Fingerprints()

    def add(self, bundle: Bundle) -> None:
        issues = [(rank(one.finding["severity"]), issue(one)) for one in bundle.found]
        open_ones = undecided(bundle.hosts)
        issues += [(LAST, cannot_tell(host, path, self._prints, bundle.path)) for host, path in open_ones]
        if not bundle.whole or not bundle.hosts:
            kind = INCOMPLETE if bundle.hosts else NO_RESULT
            issues.append((LAST, unfinished(bundle.path, kind, bundle.why, self._prints)))
        for weight, one in issues:
            self._issues.add(weight, written(one))

    def pieces(self) -> Iterator[str]:
        yield from listed(self._issues.texts())
        yield "\n"

    def warnings(self) -> Iterator[str]:
        return iter(())
