"""A whole store as one HTML page: nothing fetched, complete without script, the same bytes for the same store.

The page is written piece by piece: what it says in words (the first screen with its tables of counts, and how it was
made), then the long tables. The rows that it shows wait for their order in a file, and there is a most of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Final, NamedTuple, TextIO

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from thpdiag.fleet.hosts import MIN_HOSTS, OK, FleetHost, bundles_of_hosts, join_words
from thpdiag.fleet.outliers import Outlier
from thpdiag.fleet.overview import FOUND, UNKNOWN, VERDICTS, Fleet, Overview, ValueCounts, gravity, natural_key
from thpdiag.fleet.page.rows import (
    ACCEPTED,
    CHANGE_TABLE,
    CONFIDENCES,
    EARLIER,
    HOST_TABLE,
    INCOMPLETE_TABLE,
    OUTLIER_TABLE,
    OVER,
    SEVEREST_FIRST,
    UNORDERED,
    change_rows,
    host_row,
    incomplete_row,
    outlier_row,
    result_words,
    table_leaves,
    verdict_words,
)
from thpdiag.model.document import compact
from thpdiag.report.html import environment, join_scripts, policy_for, style
from thpdiag.report.messages import plural
from thpdiag.store.spill import SpilledFirst, SpilledTexts

MAX_REASONS: Final = 8  # ways in which bundles failed that are told at once
SHOWN_ROWS: Final = 6  # values of which a table shows all at once
MAX_ROWS: Final = 200  # values that a page names; of the others it tells the number
MAX_ANALYSES: Final = 50  # acceptances, and things that befell runs, that are told one by one
RESULTS_BESIDE: Final = "results.sqlite in the same folder"  # where triage puts them
_NOTES: Final = (
    (ACCEPTED, "is", "are", "accepted by suppression or baseline"),
    (OVER, "was", "were", "over at the end of the bundle"),
    (EARLIER, "is", "are", "of hosts with a later bundle"),
    (UNORDERED, "is", "are", "of hosts with several bundles in unknown order"),
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
    def _finding_rows(self) -> str:
        found = self._overview.found.all
        return f"{found:,} with a finding" if found else "none with a finding"

    @property
    def title(self) -> str:
        """The same in one line, for the tab of a browser."""
        return f"Triage of {plural(self._overview.bundles, 'bundle')}: {self._finding_rows}"

    @property
    def headline(self) -> str:
        """How many bundles, hosts, hosts with a finding, by severity."""
        if not self._overview.bundles:
            return "No bundle was read."
        if not self._overview.hosts:
            return f"{plural(self._overview.bundles, 'bundle')}, and no host in any of them."
        words = {**{grade: grade for grade in SEVEREST_FIRST}, FOUND: "of unknown severity"}
        grades = [f"{self._severities[grade]:,} {word}" for grade, word in words.items() if self._severities[grade]]
        return f"{self._overview.headline}: {self._finding_rows}{f' ({join_words(grades)})' if grades else ''}."

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
        yield "Events of a run", f"{kind}, {at}"
    yield "This page", f"fetches nothing and is complete without its script; its results are in {results}"


SCRIPT_PARTS: Final = ("elements.js", "columns.js", "listing.js", "page.js")
MAX_HOST_ROWS: Final = 10_000  # hosts, and bundles without a complete result, that a page shows; counts are of all
MAX_DIFFERENCES: Final = 2_000  # of hosts from their like that a page shows
COMPARED: Final = (
    "A host is compared with hosts of the same applications, platform, and kernels if at least "
    f"{MIN_HOSTS} of them have the data, otherwise with a larger group. The host itself is red. "
    "A rate covers the recorded time of its bundle, which differs between bundles."
)
JOINED: Final = (
    "Hosts with several bundles, latest first. Bundles with the same host name are treated as one host, even if "
    "they come from two machines."
)


def write_page(fleet: Fleet, out: TextIO, results: str = RESULTS_BESIDE) -> None:
    """Write the page of all hosts; `results` says where a reader finds the results."""
    store, noted = fleet.store, Counter[str]()
    several = SpilledTexts(store.aside)  # there is a later bundle, or several in an order that is not known
    for one in bundles_of_hosts(store):
        for record in one.records[:-1] if one.ordered else one.records:
            several[record.key] = EARLIER if one.ordered else UNORDERED
    hosts, incomplete = SpilledFirst(store.aside, MAX_HOST_ROWS), SpilledFirst(store.aside, MAX_HOST_ROWS)
    apart, changes = SpilledFirst(store.aside, MAX_DIFFERENCES), SpilledFirst(store.aside, MAX_DIFFERENCES)

    def add(host: FleetHost, outliers: Iterable[Outlier], *, first: bool) -> None:
        if first and host.status != OK:
            incomplete.add((host.status, natural_key(host.path), host.number), partial(incomplete_row, host))
        if host.known:
            notes = list(_notes(host, several.get(host.key)))
            noted.update(notes if host.verdict == FOUND else ())
            hosts.add(gravity(host), partial(host_row, host, notes))
        for outlier in outliers:
            apart.add((*outlier.rank, host.number, outlier.name), partial(outlier_row, outlier))

    overview = fleet.look(add)
    for history in fleet.histories():
        for key, row in change_rows(history):
            changes.add(key, partial(str, row))
    lists = (
        (HOST_TABLE, "Hosts, worst first", "", hosts),
        (OUTLIER_TABLE, "Outliers", COMPARED, apart),
        (CHANGE_TABLE, "What changed over time", JOINED, changes),
        (INCOMPLETE_TABLE, "Bundles without a complete result", "", incomplete),
    )
    template = _environment().get_template("page.html")
    pieces = template.generate(
        summary=Summary(overview, noted), bundles=overview.bundles, lists=lists, leaves=table_leaves,
        made=describe_analyses(fleet, results), style=Markup(page_style()), script=Markup(page_script()),
        policy=policy_for(page_style(), page_script()),
    )  # fmt: skip
    out.writelines(pieces)


def _notes(host: FleetHost, several: str | None) -> Iterator[str]:
    """What is to be known of a result beside it."""
    if host.accepted:
        yield ACCEPTED
    if host.state == "past":
        yield OVER
    if several:
        yield several
    if host.status != OK:
        yield "incomplete"


@cache
def page_style() -> str:
    """The style of all our pages, and what this one has of its own."""
    return style() + _read_part("page.css")


@cache
def page_script() -> str:
    return join_scripts(_read_part("script", part) for part in SCRIPT_PARTS)


def _read_part(*path: str) -> str:
    return files(__package__).joinpath(*path).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    return environment(ChoiceLoader([PackageLoader(__package__, "."), PackageLoader("thpdiag.report.html", ".")]))
