"""The fleet page: a store as one HTML page that fetches nothing, works without scripts, and is reproducible.

The page is streamed: the summary with its tables of counts, the long tables, and how it was made. The rows of the long
tables are sorted in a spill file, and their number is limited.
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
from thpdiag.fleet.outliers import Outlier, most_frequent
from thpdiag.fleet.overview import FOUND, UNKNOWN, VERDICTS, Fleet, Overview, ValueCounts, natural_key, severity_order
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

MAX_REASONS: Final = 8  # statuses of failed bundles that the summary lists
SHOWN_ROWS: Final = 6  # rows of a table of counts that are not folded
MAX_ROWS: Final = 200  # rows of a table of counts; the others are only counted
MAX_ANALYSES: Final = 50  # acceptances, and also incidents of runs, that are listed
RESULTS_BESIDE: Final = "results.sqlite in the same folder"  # where triage stores results
_NOTES: Final = (
    (ACCEPTED, "is", "are", "accepted by suppression or baseline"),
    (OVER, "was", "were", "over at the end of the bundle"),
    (EARLIER, "is", "are", "of hosts with a later bundle"),
    (UNORDERED, "is", "are", "of hosts with several bundles in unknown order"),
)


class CountTable(NamedTuple):
    """The number of hosts with each value, with a bar; `title` is also that of the filter in the table of hosts.

    The rows `few` are shown, `more` are folded; `left_out` describes the omitted values. `folded` applies to the whole
    table.
    """

    title: str
    few: Sequence[tuple[str, int, Markup]]
    more: Sequence[tuple[str, int, Markup]]
    left_out: str
    folded: bool


class Summary:
    """The texts of the first screen. `notes` counts the notes of findings."""

    def __init__(self, overview: Overview, notes: Mapping[str, int]) -> None:
        self._overview, self._notes = overview, notes
        self._verdicts: Counter[str] = Counter()
        self._severities: Counter[str] = Counter()
        mechanisms, confidences = ValueCounts(), ValueCounts()
        for (verdict, mechanism, severity, confidence), hosts in overview.verdicts.items():
            self._verdicts[verdict_words(verdict)] += hosts
            if verdict == FOUND:
                self._severities[result_words(verdict, severity)] += hosts
                mechanisms.add(mechanism, hosts)
                confidences.add(confidence, hosts)
        # Title, counts, uncounted hosts, order of the values (None for the most frequent first), folded or not.
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
        """The colour of the first screen: the highest severity, or `nothing_found` if that holds for every host."""
        overview = self._overview
        healthy = self._verdicts["nothing found"] + self._verdicts["not applicable"]
        fallback = "nothing_found" if overview.bundles and not overview.incomplete and healthy == overview.hosts else ""
        return next((grade for grade in SEVEREST_FIRST if self._severities[grade]), fallback)

    @property
    def _finding_rows(self) -> str:
        found = self._overview.found.total
        return f"{found:,} with a finding" if found else "none with a finding"

    @property
    def title(self) -> str:
        """The title of the browser tab."""
        return f"Triage of {plural(self._overview.bundles, 'bundle')}: {self._finding_rows}"

    @property
    def headline(self) -> str:
        """The number of bundles, hosts, and hosts with a finding by severity."""
        if not self._overview.bundles:
            return "No bundle was read."
        if not self._overview.hosts:
            return f"{plural(self._overview.bundles, 'bundle')}, and no host in any of them."
        words = {**{grade: grade for grade in SEVEREST_FIRST}, FOUND: "of unknown severity"}
        grades = [f"{self._severities[grade]:,} {word}" for grade, word in words.items() if self._severities[grade]]
        return f"{self._overview.headline}: {self._finding_rows}{f' ({join_words(grades)})' if grades else ''}."

    def sentences(self) -> Iterator[str]:
        """Sentences below the headline: findings that need no action, and the verdicts of the other hosts."""
        for note, singular, many, rest in _NOTES:
            if count := self._notes[note]:
                yield f"{plural(count, 'finding')} of these {singular if count == 1 else many} {rest}."
        words = [word for word in (*map(verdict_words, VERDICTS[1:]), UNKNOWN) if self._verdicts[word]]
        if words:
            others = join_words([f"{self._verdicts[word]:,} {word}" for word in words])
            yield f"{'The other hosts' if self._overview.found.total else 'Hosts'}: {others}."

    @property
    def incomplete(self) -> str:
        """The number of bundles without a complete result, by status; empty if there are none."""
        failed = self._overview.incomplete
        if not failed:
            return ""
        counts = [(status, number) for status, number in most_frequent(self._overview.statuses) if status != OK]
        words = [f"{number:,} {status}" for status, number in counts[:MAX_REASONS]]
        others = sum(number for _, number in counts[MAX_REASONS:])
        words += [f"{others:,} others"] if others else []
        return f"{plural(failed, 'bundle')} without a complete result: {join_words(words)}."

    def counts(self) -> Iterator[CountTable]:
        """The tables of counts in the order of the page, without empty ones."""
        for title, counted, uncounted, order, folded in self._counts:
            if order is None:
                values = most_frequent(counted)
            else:
                values = [(value, counted[value]) for value in (*order, *sorted(set(counted) - set(order)))]
                values = [(value, hosts) for value, hosts in values if hosts]
            highest = max((hosts for _, hosts in values), default=1)
            rows = [(value, hosts, count_bar(hosts / highest)) for value, hosts in values[:MAX_ROWS]]
            few = len(rows) if len(rows) <= SHOWN_ROWS + 1 else SHOWN_ROWS
            rest = values[MAX_ROWS:]
            others = f"{len(rest):,} other values with {sum(hosts for _, hosts in rest) + uncounted:,} hosts"
            if rows:
                yield CountTable(title, rows[:few], rows[few:], others if rest else "", folded)


def count_bar(share: float) -> Markup:
    """Return a bar of this share of the full length, at least 1 %."""
    width = max(1, round(100 * share))
    return Markup(
        f'<svg class="bar" viewBox="0 0 100 8" width="100" height="8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="b1" width="{width}" height="8" fill="#2b6cb0"/></svg>'
    )


def describe_analyses(fleet: Fleet, results: str = RESULTS_BESIDE) -> Iterator[tuple[str, str]]:
    """Yield terms with descriptions of how the results were made; `results` is the place of the results.

    Start times of runs are left out for a store that was put together only for this page.
    """
    begun: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)  # by version, rules, options
    bundles: Counter[tuple[str, str, str]] = Counter()
    for run in fleet.store.runs():
        options = sorted(run["options"].items())
        words = [f"{name}={value if isinstance(value, str) else compact(value)}" for name, value in options]
        key = (run["tool_version"], run["rules_digest"], ", ".join(words) or "none that change the analysis")
        begun[key].append(run["begun"])
        bundles[key] += run["bundles"]
    for key, moments in begun.items():
        version, digest, options_text = key
        yield "thpdiag", f"{version}, {plural(bundles[key], 'bundle')}"
        yield "Rules", digest
        yield "Options", options_text
        if results == RESULTS_BESIDE:
            ends = [moment.replace("T", " ").replace("+00:00", " UTC") for moment in (moments[0], moments[-1])]
            several = f"{len(moments):,} runs, the first {ends[0]}, the last {ends[1]}"
            yield "Begun", ends[0] if len(moments) == 1 else several
    acceptances = list(fleet.acceptances) or ["no suppression, no baseline"]
    more = len(acceptances) - MAX_ANALYSES
    for text in [*acceptances[:MAX_ANALYSES], *([f"and {more:,} more"] if more > 0 else [])]:
        yield "Accepted", text
    for time, kind in fleet.store.marks()[-MAX_ANALYSES:]:
        yield "Events of a run", f"{kind}, {time}"
    yield "This page", f"fetches nothing and is complete without its script; its results are in {results}"


SCRIPT_PARTS: Final = ("elements.js", "columns.js", "listing.js", "page.js")
MAX_HOST_ROWS: Final = 10_000  # rows of the tables of hosts and of incomplete bundles; counts cover all
MAX_DIFFERENCES: Final = 2_000  # rows of the tables of outliers and of changes
OUTLIER_NOTE: Final = (
    "A host is compared with hosts of the same applications, platform, and kernels if at least "
    f"{MIN_HOSTS} of them have the data, otherwise with a larger group. The host itself is red. "
    "A rate covers the recorded time of its bundle, which differs between bundles."
)
HISTORY_NOTE: Final = (
    "Hosts with several bundles, latest first. Bundles with the same host name are treated as one host, even if "
    "they come from two machines."
)


def write_page(fleet: Fleet, out: TextIO, results: str = RESULTS_BESIDE) -> None:
    """Write the page of all hosts; `results` describes the place of the results."""
    store, note_counts, spill = fleet.store, Counter[str](), fleet.store.spill_file
    bundle_notes = SpilledTexts(spill)  # for hosts with a later bundle, or with several in unknown order
    for host_bundles in bundles_of_hosts(store):
        for record in host_bundles.records[:-1] if host_bundles.ordered else host_bundles.records:
            bundle_notes[record.key] = EARLIER if host_bundles.ordered else UNORDERED
    hosts, incomplete = SpilledFirst(spill, MAX_HOST_ROWS), SpilledFirst(spill, MAX_HOST_ROWS)
    differences, changes = SpilledFirst(spill, MAX_DIFFERENCES), SpilledFirst(spill, MAX_DIFFERENCES)

    def add(host: FleetHost, outliers: Iterable[Outlier], *, first: bool) -> None:
        if first and host.status != OK:
            incomplete.add((host.status, natural_key(host.path), host.number), partial(incomplete_row, host))
        if host.known:
            notes = list(_notes(host, bundle_notes.get(host.key)))
            note_counts.update(notes if host.verdict == FOUND else ())
            hosts.add(severity_order(host), partial(host_row, host, notes))
        for outlier in outliers:
            differences.add((*outlier.rank, host.number, outlier.name), partial(outlier_row, outlier))

    overview = fleet.make_overview(add)
    for history in fleet.histories():
        for key, row in change_rows(history):
            changes.add(key, partial(str, row))
    lists = (
        (HOST_TABLE, "Hosts, worst first", "", hosts),
        (OUTLIER_TABLE, "Outliers", OUTLIER_NOTE, differences),
        (CHANGE_TABLE, "What changed over time", HISTORY_NOTE, changes),
        (INCOMPLETE_TABLE, "Bundles without a complete result", "", incomplete),
    )
    template = _environment().get_template("page.html")
    pieces = template.generate(
        summary=Summary(overview, note_counts), bundles=overview.bundles, lists=lists, leaves=table_leaves,
        made=describe_analyses(fleet, results), style=Markup(page_style()), script=Markup(page_script()),
        policy=policy_for(page_style(), page_script()),
    )  # fmt: skip
    out.writelines(pieces)


def _notes(host: FleetHost, bundle_note: str | None) -> Iterator[str]:
    """Yield the notes below the result of a host."""
    if host.accepted:
        yield ACCEPTED
    if host.state == "past":
        yield OVER
    if bundle_note:
        yield bundle_note
    if host.status != OK:
        yield "incomplete"


@cache
def page_style() -> str:
    """Return the style of all pages of thpdiag with the additions of this one."""
    return style() + _read_part("page.css")


@cache
def page_script() -> str:
    return join_scripts(_read_part("script", part) for part in SCRIPT_PARTS)


def _read_part(*path: str) -> str:
    return files(__package__).joinpath(*path).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    return environment(ChoiceLoader([PackageLoader(__package__, "."), PackageLoader("thpdiag.report.html", ".")]))
