"""What a fleet's page says in words: the first screen with its tables of counts, and how the page was made."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from thpdiag.fleet.hosts import OK, join_words
from thpdiag.fleet.overview import FOUND, UNKNOWN, VERDICTS, Fleet, Overview, ValueCounts
from thpdiag.fleet.page.rows import (
    ACCEPTED,
    CONFIDENCES,
    EARLIER,
    OVER,
    SEVEREST_FIRST,
    UNORDERED,
    result_words,
    verdict_words,
)
from thpdiag.model.document import compact
from thpdiag.report.messages import plural

MAX_REASONS: Final = 8  # ways in which bundles failed that are told at once
SHOWN_ROWS: Final = 6  # values of which a table shows all at once
MAX_ROWS: Final = 200  # values that a page names; of the others it tells the number
MAX_ANALYSES: Final = 50  # acceptances, and things that befell runs, that are told one by one
RESULTS_BESIDE: Final = "results.sqlite in the same folder"  # where triage puts them
_NOTES: Final = (
    (ACCEPTED, "is", "are", "accepted by suppression or baseline"),
    (OVER, "was", "were", "over at the end of the bundle"),
    (EARLIER, "is", "are", "of a name with a later bundle"),
    (UNORDERED, "is", "are", "of names with several bundles in an order that is not known"),
)


class CountTable(NamedTuple):
    """How many hosts have each value, with a bar; `title` is also that of the filter in the table of hosts.

    `few` are shown, `more` folded; `left_out` tells of values that are not named, `folded` that all of it is for who
    asks.
    """

    title: str
    few: Sequence[tuple[str, int, Markup]]
    more: Sequence[tuple[str, int, Markup]]
    left_out: str
    folded: bool


class Summary:
    """The words of the first screen. `noted` counts the notes of findings."""

    def __init__(self, overview: Overview, noted: Mapping[str, int]) -> None:
        self._overview, self._noted = overview, noted
        self._verdicts: Counter[str] = Counter()
        self._severities: Counter[str] = Counter()
        mechanisms, confidences = ValueCounts(), ValueCounts()
        for (verdict, mechanism, severity, confidence), hosts in overview.verdicts.items():
            self._verdicts[verdict_words(verdict)] += hosts
            if verdict == FOUND:
                self._severities[result_words(verdict, severity)] += hosts
                mechanisms.add(mechanism, hosts)
                confidences.add(confidence, hosts)
        # The values that come first, in this order; None for the most frequent first.
        self._counts: Sequence[tuple[str, Counter[str], int, Sequence[str] | None, bool]] = (
            ("Verdict", self._verdicts, 0, [verdict_words(status) for status in VERDICTS], False),
            ("Severity", self._severities, 0, (*SEVEREST_FIRST, FOUND), False),
            ("Confidence", confidences.hosts, confidences.rest, (*CONFIDENCES, UNKNOWN), False),
            ("Mechanism", mechanisms.hosts, mechanisms.rest, None, False),
            ("Kernel", overview.kernels.hosts, overview.kernels.rest, None, True),
            ("Distribution", overview.distributions.hosts, overview.distributions.rest, None, True),
            ("Application", overview.apps.hosts, overview.apps.rest, None, True),
        )

    @property
    def grade(self) -> str:
        """The colour of the first screen: of the gravest finding, or of all is well if that is known of every host."""
        overview = self._overview
        well = self._verdicts["nothing found"] + self._verdicts["not applicable"]
        alright = "nothing_found" if overview.bundles and not overview.incomplete and well == overview.hosts else ""
        return next((grade for grade in SEVEREST_FIRST if self._severities[grade]), alright)

    @property
    def _found(self) -> str:
        found = self._overview.found.all
        return f"{found:,} with a finding" if found else "none with a finding"

    @property
    def title(self) -> str:
        """The same in one line, for the tab of a browser."""
        return f"Triage of {plural(self._overview.bundles, 'bundle')}: {self._found}"

    @property
    def headline(self) -> str:
        """How many bundles, hosts, hosts with a finding, by severity."""
        if not self._overview.bundles:
            return "No bundle was read."
        if not self._overview.hosts:
            return f"{plural(self._overview.bundles, 'bundle')}, and no host in any of them."
        words = {**{grade: grade for grade in SEVEREST_FIRST}, FOUND: "of unknown severity"}
        grades = [f"{self._severities[grade]:,} {word}" for grade, word in words.items() if self._severities[grade]]
        return f"{self._overview.headline}: {self._found}{f' ({join_words(grades)})' if grades else ''}."

    def sentences(self) -> Iterator[str]:
        """Below it: what of the findings needs no hands, the other hosts, and what is missing."""
        for note, one, many, rest in _NOTES:
            if count := self._noted[note]:
                yield f"{plural(count, 'finding')} of these {one if count == 1 else many} {rest}."
        words = [word for word in (*map(verdict_words, VERDICTS[1:]), UNKNOWN) if self._verdicts[word]]
        if words:
            others = join_words([f"{self._verdicts[word]:,} {word}" for word in words])
            yield f"{'The other hosts' if self._overview.found.all else 'Hosts'}: {others}."

    @property
    def incomplete(self) -> str:
        """How many bundles have no complete result, and why; empty if all have."""
        failed = self._overview.incomplete
        if not failed:
            return ""
        why = [(status, number) for status, number in _most_frequent(self._overview.statuses) if status != OK]
        words = [f"{number:,} {status}" for status, number in why[:MAX_REASONS]]
        others = sum(number for _, number in why[MAX_REASONS:])
        words += [f"{others:,} others"] if others else []
        return f"{plural(failed, 'bundle')} without a complete result: {join_words(words)}."

    def counts(self) -> Iterator[CountTable]:
        """In the order of the page; a table without a value is left out."""
        for title, counted, uncounted, order, folded in self._counts:
            if order is None:
                values = _most_frequent(counted)
            else:
                values = [(value, counted[value]) for value in (*order, *sorted(set(counted) - set(order)))]
                values = [(value, hosts) for value, hosts in values if hosts]
            most = max((hosts for _, hosts in values), default=1)
            rows = [(value, hosts, count_bar(hosts / most)) for value, hosts in values[:MAX_ROWS]]
            few = len(rows) if len(rows) <= SHOWN_ROWS + 1 else SHOWN_ROWS
            rest = values[MAX_ROWS:]
            others = f"{len(rest):,} other values with {sum(hosts for _, hosts in rest) + uncounted:,} hosts"
            if rows:
                yield CountTable(title, rows[:few], rows[few:], others if rest else "", folded)


def _most_frequent(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def count_bar(share: float) -> Markup:
    """A bar as long as a share of the longest one, visible however short."""
    width = max(1, round(100 * share))
    return Markup(
        f'<svg class="bar" viewBox="0 0 100 8" width="100" height="8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="b1" width="{width}" height="8" fill="#2b6cb0"/></svg>'
    )


def describe_analyses(fleet: Fleet, results: str = RESULTS_BESIDE) -> Iterator[tuple[str, str]]:
    """Terms with what is to be told of them; `results` says where the results are.

    When the runs began is told of a store that a batch has made, not of one that was put together for this page.
    """
    begun: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)  # by what changes a result
    bundles: Counter[tuple[str, str, str]] = Counter()
    for run in fleet.store.runs():
        told = sorted(run["options"].items())
        words = [f"{name}={value if isinstance(value, str) else compact(value)}" for name, value in told]
        key = (run["tool_version"], run["rules_digest"], ", ".join(words) or "none that change the analysis")
        begun[key].append(run["begun"])
        bundles[key] += run["bundles"]
    for key, moments in begun.items():
        version, digest, options = key
        yield "thpdiag", f"{version}, {plural(bundles[key], 'bundle')}"
        yield "Rules", digest
        yield "Options", options
        if results == RESULTS_BESIDE:
            ends = [moment.replace("T", " ").replace("+00:00", " UTC") for moment in (moments[0], moments[-1])]
            several = f"{len(moments):,} runs, the first {ends[0]}, the last {ends[1]}"
            yield "Begun", ends[0] if len(moments) == 1 else several
    acceptances = list(fleet.acceptances) or ["no suppression, no baseline"]
    more = len(acceptances) - MAX_ANALYSES
    for text in [*acceptances[:MAX_ANALYSES], *([f"and {more:,} more"] if more > 0 else [])]:
        yield "Accepted", text
    for at, kind in fleet.store.marks()[-MAX_ANALYSES:]:
        yield "Befell a run", f"{kind}, {at}"
    yield "This page", f"fetches nothing and is complete without its script; its results are in {results}"
