"""Annotations of a store: the ten gravest of each kind, all bundles together.

What is told first: in a notice how many hosts have which verdict, and in one warning all bundles without a whole
result, since there may be more of them than GitHub shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from thpdiag.reports.github import VERDICT, Annotations, command
from thpdiag.reports.presentation import Presentation
from thpdiag.reports.verdict import plural
from thpdiag.reports.visible import prose
from thpdiag.triage.fleet.ci.bundle import Bundle
from thpdiag.triage.fleet.ci.spool import Spools

MOST_NAMED: Final = 20
VERDICTS: Final = {
    "found": "with a cause", "cannot_tell": "cannot tell", "nothing_found": "nothing found",
    "not_applicable": "without transparent huge pages",
}  # fmt: skip


class GitHub:
    def __init__(self, presentation: Presentation, spools: Spools) -> None:
        self._annotations = Annotations()
        self._verdicts, self._ends = Counter[str](), Counter[str]()
        self._named: list[str] = []
        self._bundles = 0

    def add(self, bundle: Bundle) -> None:
        verdicts = [host["verdict"]["status"] for host in bundle.hosts]
        self._annotations.add(bundle.hosts, bundle.found, bundle.path)
        self._bundles += 1
        self._verdicts.update(verdicts)
        if not bundle.whole or not bundle.hosts:
            self._ends[bundle.status] += 1
            if len(self._named) < MOST_NAMED:
                self._named.append(prose(f"{bundle.path}: {bundle.why}"))

    def pieces(self) -> Iterator[str]:
        if self._ends:
            self._annotations.put("warning", VERDICT, self._incomplete())
        told = [f"{self._verdicts[one]:,} {words}" for one, words in VERDICTS.items() if self._verdicts[one]]
        hosts = plural(self._verdicts.total(), "host")
        said = f"{hosts} in {plural(self._bundles, 'bundle')}: {', '.join(told) or 'none'}"
        self._annotations.put("notice", VERDICT + 1, command("notice", {"title": "thpdiag triage"}, said))
        yield from self._annotations.lines()

    def warnings(self) -> Iterator[str]:
        return iter(())

    def _incomplete(self) -> str:
        count = self._ends.total()
        ends = ", ".join(f"{number:,} {prose(end)}" for end, number in sorted(self._ends.items()))
        more = [f"and {count - len(self._named):,} more"] if count > len(self._named) else []
        title = {"title": f"thpdiag triage: no whole result of {plural(count, 'bundle')}"}
        return command("warning", title, "\n".join([ends, *self._named, *more]))
