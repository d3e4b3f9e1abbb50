"""The fleet in text, Markdown, CSV, JSON and the formats of CI; all write as they read, host by host.

Text and Markdown tell the same, numbers first, then the gravest hosts; long lists end with how many more there are.
Text is for a terminal of 80 columns, Markdown for the summary of a CI job (GitHub takes 1 MiB): headings, lists and
code only, names of strangers as code.

CSV is a row per host, and one for each bundle without a host; RFC 4180, UTF-8. A text that a spreadsheet would take for
a formula begins with an apostrophe instead.

JSON has a line per host, sorted keys, ASCII, the same bytes for the same store. `hosts` are all of them,
in the order of paths, each with its outliers; `over_time` are hosts with several bundles of which something is to be
told.

Reports for CI services are made in one walk through the store, all that are wanted; `thpdiag.report` has their writers.

    with ci_reports(store, ["junit", "sarif"], presentation, marks) as made:
        for piece in made["junit"].pieces(): ...

Bundles come in the order of their paths, so that the same results give the same bytes whoever finished first. One
document is in memory at a time, without the parts that no format shows; what waits for the end waits on the disk. What
grows with the fleet in memory is a name per host and a fingerprint per finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TextIO

from pydantic import TypeAdapter

from thpdiag.errors import StoreFullError
from thpdiag.fleet.hosts import FleetHost
from thpdiag.fleet.outliers import (
    VERDICT,
    Change,
    FarValue,
    History,
    NumberDistribution,
    Outlier,
    Sighting,
    ValueDistribution,
)
from thpdiag.fleet.overview import FAILED, INCOMPLETE, Fleet, Gate, Overview, Verdict
from thpdiag.model.document import compact
from thpdiag.model.result import Tool
from thpdiag.report import AnyResult, messages
from thpdiag.report.ci import Bundle, Fingerprints, Writer, locate_findings
from thpdiag.report.escaping import code, csv_writer, paragraph, prose, visible
from thpdiag.report.github import GitHub
from thpdiag.report.gitlab import GitLab
from thpdiag.report.junit import JUnit
from thpdiag.report.layout import columns, fold
from thpdiag.report.messages import plural
from thpdiag.report.presentation import NEVER, PLAIN, Presentation
from thpdiag.report.quantity import quantity
from thpdiag.report.sarif import Sarif
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import StoredResult
from thpdiag.store.spill import SpilledFirst, SpillFile

MAX_ROWS: Final = 20  # of a list of text or Markdown; the overview has more for formats with more room
MAX_CELL_COLUMNS: Final = 24  # columns of a cell of the tables
MAX_TEXT_CHARS: Final = 400  # characters of a sentence or a name
EMPTY_CELL: Final = "-"
MAX_VALUES: Final = 3  # values that are told of a group
_ENDS: Final = {0: "passed", FAILED: "failed", INCOMPLETE: "not decided"}  # by exit code
SCHEMA: Final[Literal["thpdiag/fleet/1"]] = "thpdiag/fleet/1"


# Outliers, histories and the gate as sentences. Names of customers are in them as they are: writers make them safe.


def describe_outlier(one: Outlier) -> str:
    """`thp.enabled is always on 1 of the 11 hosts with this data; never on 10 (12 hosts: redis on el8 with ...)`."""
    group = f"({plural(one.hosts, 'host')}: {one.group.definition})"
    if isinstance(one.distribution, ValueDistribution):
        told = f"{one.title} is {one.value} on {one.same:,} of the {one.distribution.n:,} hosts with this data"
        counts = one.distribution.counts[:MAX_VALUES]
        others = ", ".join(f"{value} on {count:,}" for value, count in counts if value != str(one.value))
        return f"{told}; {others} {group}"
    value = " ".join(filter(None, (quantity(one.value, one.unit), one.window)))
    told = f"{one.title}: {value}; {_describe_numbers(one.distribution, 'hosts', one.unit)}"
    return f"{told}, {_describe_score(one.score)} {group}"


def describe_history(one: History) -> Iterator[str]:
    """A sentence for each event, the changes in their order first."""
    yield from map(_describe_change, one.changes)
    for name, counts in ((each.name, each.counts) for each in one.differences):
        yield f"{name} differs: {', '.join(f'{value} in {count:,}' for value, count in counts)}"
    yield from map(_describe_far, one.far)
    if one.more:
        yield f"and {one.more:,} more"


def describe_order(one: History) -> str:
    """How many bundles, and whether anybody knows which was first."""
    known = "" if one.ordered else "; the order of their recordings is unknown"
    return f"{one.bundles:,} bundles name this host{known}"


def describe_gate(found: Gate) -> str:
    """What `--fail-on` and `--fail-on-missing` came to; empty if nothing was to fail.

    What has no complete result is in the sentence: of that nobody knows whether it would have failed.
    """
    asked = [_describe_severe(found)] if found.fail_on != NEVER else []
    if found.missing:
        asked.append(f"on {found.undecided:,} of the hosts and bundles some rule could not be decided")
    elif found.fail_on_missing:
        asked.append("every rule could be decided")
    if not asked:
        return ""
    code = found.exit_code
    if code == INCOMPLETE:
        asked.append(f"{plural(found.incomplete, 'bundle')} without a complete result may have more")
    return f"Gate: {_ENDS[code]}, {'; '.join(asked)}."


def _describe_severe(found: Gate) -> str:
    if not found.failing:
        return f"no finding of severity {found.fail_on} or above is not accepted"
    findings, hosts = plural(found.failing, "finding"), plural(found.failing_hosts, "host")
    are = "is" if found.failing == 1 else "are"
    return f"{findings} of severity {found.fail_on} or above on {hosts} {are} not accepted"


def _describe_numbers(group: NumberDistribution, what: str, unit: str | None) -> str:
    least, lower, median, upper, most = (
        quantity(value, unit) for value in (group.least, group.lower, group.median, group.upper, group.most)
    )
    return f"of {group.n:,} {what} the median is {median}, half are from {lower} to {upper}, all from {least} to {most}"


def _describe_score(score: float | None) -> str:
    return "and half of the others or more are the same" if score is None else f"modified z-score {score:.1f}"


def _describe_change(one: Change) -> str:
    places = f"between {_describe_sighting(one.last)} and {_describe_sighting(one.first)}"
    told = f"{one.name}: {one.before} -> {one.after}, {places}"
    return f"{told} (evaluated with other rules or options)" if one.name == VERDICT and one.other_rules else told


def _describe_far(one: FarValue) -> str:
    value = " ".join(filter(None, (quantity(one.value, one.unit), one.window)))
    told = f"{one.title}: {value} in {_describe_sighting(one.seen)}"
    return f"{told}; {_describe_numbers(one.distribution, 'of its bundles', one.unit)}, {_describe_score(one.score)}"


def _describe_sighting(seen: Sighting) -> str:
    if seen.recorded is None:
        return seen.path
    moment = seen.recorded.replace("T", " ").replace("Z", " UTC")
    return f"{seen.path} ({moment if moment.endswith('UTC') else f'{moment} local time'})"


class Entry(NamedTuple):
    """A line of a list: whose it is, in which bundle, what is said; the answer or events below it."""

    label: str
    path: str
    text: str
    past: str = ""
    sentence: str = ""
    events: Sequence[str] = ()


class Section(NamedTuple):
    """A list of text and Markdown: its first entries, and how many there are."""

    heading: str
    entries: Sequence[Entry]
    total: int


def _sections(overview: Overview) -> Iterator[Section]:
    found, outliers = overview.found, overview.outliers
    yield Section("Hosts with a finding, worst first", [*map(_found_entry, found.items[:MAX_ROWS])], found.all)
    yield Section(
        "Outliers in each group of hosts",
        [Entry(one.host.label, one.host.path, describe_outlier(one)) for one in outliers.items[:MAX_ROWS]],
        outliers.all,
    )
    yield Section(
        "The same host over time, by name",
        [
            Entry(one.name, one.name, describe_order(one), events=list(describe_history(one)))
            for one in overview.histories.items[:MAX_ROWS]
        ],
        overview.histories.all,
    )
    yield Section(
        "Bundles without a complete result",
        [
            Entry(host.path, host.path, f"{host.status}: {host.reason}" if host.reason else host.status)
            for host in overview.failed.items[:MAX_ROWS]
        ],
        overview.failed.all,
    )


def _found_entry(host: FleetHost) -> Entry:
    weight = (host.severity, host.confidence, host.mechanism, "accepted" if host.accepted else "")
    past = "over at the end of the bundle" if host.state == "past" else ""
    return Entry(host.label, host.path, ", ".join(filter(None, weight)), past, host.sentence or "")


def _ranked_verdicts(overview: Overview) -> list[tuple[Verdict, int]]:
    return sorted(overview.verdicts.items(), key=lambda pair: (-pair[1], [part or "" for part in pair[0]]))


def write_text(fleet: Fleet, out: TextIO) -> None:
    out.writelines(f"{line.rstrip()}\n" for line in _text_lines(fleet.overview))


def _text_lines(overview: Overview) -> Iterator[str]:
    accepted = f", {overview.accepted:,} of them accepted" if overview.accepted else ""
    incomplete = f"; {plural(overview.incomplete, 'bundle')} without a complete result" if overview.incomplete else ""
    yield from fold(f"{overview.headline}: {overview.found.all:,} with a finding{accepted}{incomplete}.")
    if gate := describe_gate(overview.gate):
        yield from fold(gate)
    if overview.verdicts:
        yield from _text_heading("Hosts by verdict")
        verdicts = _ranked_verdicts(overview)
        rows = [(f"{hosts:,}", *map(_text_cell, parts)) for parts, hosts in verdicts[:MAX_ROWS]]
        yield from _text_table(("hosts", "verdict", "mechanism", "severity", "confidence"), rows)
        yield from _text_more(len(verdicts) - MAX_ROWS)
    for section in _sections(overview):
        if section.total:
            yield from _text_heading(section.heading)
            for entry in section.entries:
                yield from _text_entry(entry)
            yield from _text_more(section.total - MAX_ROWS)


def _text_entry(entry: Entry) -> Iterator[str]:
    name = visible(entry.label if entry.label == entry.path else f"{entry.label} ({entry.path})")
    text = ", ".join(filter(None, (_shorten(prose(entry.text)), entry.past)))
    yield from fold(f"{name}: {text}", "  ", "      ")
    if entry.sentence:
        yield from fold(_shorten(prose(entry.sentence)), "      ")
    for event in entry.events[:MAX_ROWS]:
        yield from fold(_shorten(prose(event)), "    ", "      ")
    yield from _text_more(len(entry.events) - MAX_ROWS, "    ")


def _text_heading(text: str) -> list[str]:
    return ["", text, "-" * columns(text)]


def _text_more(count: int, margin: str = "  ") -> list[str]:
    return [f"{margin}... and {count:,} more"] if count > 0 else []


def _text_cell(value: str | None) -> str:
    shown = _shorten(prose(value or ""), 2 * MAX_CELL_COLUMNS).replace("_", " ") or EMPTY_CELL
    while columns(shown) > MAX_CELL_COLUMNS:
        shown = f"{shown[:-4]}..."
    return shown


def _text_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their widest cell; the first has numbers."""
    table = [head, *rows]
    widths = [max(columns(row[at]) for row in table) for at in range(len(head))]
    for row in table:
        blanks = [" " * (width - columns(shown)) for shown, width in zip(row, widths, strict=True)]
        cells = [f"{shown}{blank}" for shown, blank in zip(row[1:], blanks[1:], strict=True)]
        yield "  ".join(["", f"{blanks[0]}{row[0]}", *cells])


def _shorten(text: str, most: int = MAX_TEXT_CHARS) -> str:
    return text if len(text) <= most else f"{text[:most]} ..."


def write_markdown(fleet: Fleet, out: TextIO) -> None:
    out.write("\n\n".join(_markdown_blocks(fleet.overview)) + "\n")


def _markdown_blocks(overview: Overview) -> Iterator[str]:
    yield "## thpdiag: fleet"
    accepted = f" ({overview.accepted:,} accepted)" if overview.accepted else ""
    incomplete = f", {plural(overview.incomplete, 'bundle')} without a complete result" if overview.incomplete else ""
    yield f"**{overview.headline}: {overview.found.all:,} with a finding{accepted}{incomplete}.**"
    if gate := describe_gate(overview.gate):
        yield f"**{gate}**"
    verdicts = []
    for parts, hosts in _ranked_verdicts(overview)[:MAX_ROWS]:
        words = ", ".join(part.replace("_", " ") for part in parts if part)
        verdicts.append(f"{plural(hosts, 'host')}: {_markdown_text(words or 'unknown')}")
    yield from _markdown_section("Hosts by verdict", verdicts, len(overview.verdicts))
    for heading, entries, total in _sections(overview):
        yield from _markdown_section(heading, list(map(_markdown_entry, entries)), total)


def _markdown_section(heading: str, rows: Sequence[str], total: int) -> Iterator[str]:
    if rows:
        more = [f"- ... and {total - len(rows):,} more"] if total > len(rows) else []
        yield f"### {heading}"
        yield "\n".join([*(f"- {row}" for row in rows), *more])


def _markdown_entry(entry: Entry) -> str:
    place = f" ({code(_shorten(entry.path))})" if entry.label != entry.path else ""
    name, text = f"{code(_shorten(entry.label))}{place}", _markdown_text(entry.text)
    if entry.sentence:
        text = f"{text}. {_markdown_text(entry.sentence)}"
    more = [f"... and {len(entry.events) - MAX_ROWS:,} more"] if len(entry.events) > MAX_ROWS else []
    events = [f"\n  - {_markdown_text(event)}" for event in (*entry.events[:MAX_ROWS], *more)]
    return f"{name}: {text}{''.join(events)}"


def _markdown_text(text: str) -> str:
    return paragraph(_shorten(text))


# Column, and the attribute of a host that it has; `accepted` is `yes` or empty, `apps` have commas between, `differs`
# is what differs from the others of its group, with `;` between.
CSV_COLUMNS: Final = {
    "number": "number", "host": "name", "case": "title", "bundle": "path", "sha256": "sha256", "status": "status",
    "reason": "reason", "os": "os", "kernel": "kernel", "platform": "platform", "apps": "apps", "verdict": "verdict",
    "rule": "rule", "mechanism": "mechanism", "severity": "severity", "confidence": "confidence", "state": "state",
    "sentence": "sentence", "accepted": "accepted", "undecided": "undecided", "recorded": "recorded", "differs": "",
    "page": "page",
}  # fmt: skip


def write_csv(fleet: Fleet, out: TextIO) -> None:
    """The stream is one without translation of line ends."""
    write = csv_writer(out)
    write(CSV_COLUMNS)
    for host in fleet.hosts():
        row = {column: getattr(host, name) for column, name in CSV_COLUMNS.items() if name}
        row["apps"], row["accepted"] = ",".join(host.apps), "yes" if host.accepted else ""
        row["differs"] = "; ".join(map(describe_outlier, fleet.survey.outliers(host)))
        values = (row[column] for column in CSV_COLUMNS)
        write(prose(value) if isinstance(value, str) else value for value in values)


@dataclass(frozen=True, slots=True)
class VerdictCount:
    """How many hosts have the same verdict."""

    verdict: str | None
    mechanism: str | None
    severity: str | None
    confidence: str | None
    hosts: int


@dataclass(frozen=True, slots=True)
class GroupSize:
    """Hosts that are compared with each other, and the applications that they have; None if whatever they run."""

    definition: str
    apps: tuple[str, ...] | None
    hosts: int


@dataclass(frozen=True, slots=True)
class HostLine(FleetHost):
    """A host with what differs from the others of its group."""

    outliers: Sequence[Outlier] = ()


@dataclass(frozen=True, slots=True)
class FleetDocument:
    """What the results of many bundles say together. What is unknown is null or absent, never zero."""

    schema: Literal["thpdiag/fleet/1"]
    bundles: int
    statuses: Mapping[str, int]
    verdicts: Sequence[VerdictCount]
    gate: Gate
    groups: Sequence[GroupSize]
    hosts: Sequence[HostLine] = ()
    over_time: Sequence[History] = ()


def fleet_schema() -> dict[str, Any]:
    """Its JSON Schema (draft 2020-12)."""
    return TypeAdapter(FleetDocument).json_schema(mode="serialization")


def write_json(fleet: Fleet, out: TextIO) -> None:
    overview = fleet.overview
    verdicts = [VerdictCount(*parts, hosts) for parts, hosts in _ranked_verdicts(overview)]
    groups = [GroupSize(group.definition, group.apps, hosts) for group, hosts in fleet.survey.groups.items()]
    head = _plain_part(FleetDocument(SCHEMA, overview.bundles, overview.statuses, verdicts, overview.gate, groups))
    del head["hosts"], head["over_time"]  # written as they are read
    out.write(f'{compact(head).removesuffix("}")},\n"hosts":[')
    out.writelines(
        _json_lines(
            {**_plain_part(host), "outliers": [*map(_plain_part, fleet.survey.outliers(host))]}
            for host in fleet.hosts()
        )
    )
    out.write('],\n"over_time":[')
    out.writelines(_json_lines(map(_plain_part, fleet.histories())))
    out.write("]}\n")


def _plain_part(part: Any) -> dict[str, Any]:
    """A part of the document as JSON has it; a store that somebody else made may have anything for a value."""
    found: dict[str, Any] = _adapter(part.__class__).dump_python(part, mode="json", warnings=False)
    return found


_adapter = cache(TypeAdapter[Any])


def _json_lines(items: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    between = "\n"
    for item in items:
        yield f"{between}{compact(item)}"
        between = ",\n"


FLEET_FORMATS: Final[Mapping[str, Callable[[Fleet, TextIO], None]]] = MappingProxyType(
    {"text": write_text, "json": write_json, "csv": write_csv, "markdown": write_markdown}
)


Document = Mapping[str, Any]
Marks = Callable[[Document], AnyResult]
UNUSED_KEYS: Final = ("timeline", "profiles", "notes", "ask")
UNUSED_PARTS: Final = {
    "rules": ("tree",),
    "ruled_out": ("evidence",),
    "inputs": ("problems", "first", "last", "sha256"),
}
REFUSED: Final = "refused"
DAMAGED_RESULT: Final = "damaged result"
# What a document that has not the form of the schema can raise in those that read it.
MALFORMED: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError)
CI_FORMATS: Final[Mapping[str, type[Writer]]] = MappingProxyType(
    {"github": GitHub, "gitlab": GitLab, "junit": JUnit, "sarif": Sarif}
)


def open_bundle(stored: StoredResult, presentation: Presentation, marks: Marks, prints: Fingerprints) -> Bundle:
    """A bundle with its findings.

    Of what was refused because nothing in it was recognized there is a document, which says no more than that.
    """
    result, tool, document = stored.result, stored.analysis, stored.result.document
    made_by = Tool.model_construct(version=tool.tool_version, rules_digest=tool.rules_digest)
    closed = Bundle((), (), made_by, result.path or result.sha256, result.status, result.reason)
    if document is None or closed.status == REFUSED:
        return closed
    try:
        hosts = messages.hosts(marks(_needed_parts(document)))
        return replace(closed, hosts=hosts, findings=locate_findings(hosts, presentation, prints, closed.path))
    except MALFORMED as error:
        return _damaged_bundle(closed, error)


def _damaged_bundle(bundle: Bundle, error: Exception) -> Bundle:
    """A document is from a process that read what strangers sent; one without the form of the schema is no result."""
    reason = f"it has not the form of a result ({type(error).__name__}: {error})"
    return replace(bundle, hosts=(), findings=(), status=DAMAGED_RESULT, reason=reason)


def _needed_parts(document: Document) -> Document:
    bare = {key: value for key, value in document.items() if key not in UNUSED_KEYS}
    for key, large in UNUSED_PARTS.items():
        bare[key] = [{name: part for name, part in one.items() if name not in large} for one in bare.get(key, ())]
    bare["host"] = {"name": (bare.get("host") or {}).get("name")}
    return bare | ({"cases": [_needed_parts(one) for one in bare["cases"]]} if bare.get("cases") else {})


class _Spilled:
    """Texts in the store's spill file by their weight (`thpdiag.report.ci.Spool`)."""

    def __init__(self, aside: SpillFile) -> None:
        self._texts = SpilledFirst(aside)

    def add(self, weight: int, text: str, /) -> None:
        self._texts.add((-weight,), partial(str, text))

    def texts(self) -> Iterable[str]:
        return self._texts


@contextmanager
def ci_reports(
    store: StoreReader,
    forms: Iterable[str],
    presentation: Presentation = PLAIN,
    marks: Marks = lambda document: document,
) -> Iterator[Mapping[str, Writer]]:
    """The reports of these formats; `marks` gives a document with what somebody accepts marked in it."""
    with closing(SpillFile(store.file.parent)) as aside:
        try:
            made = {form: CI_FORMATS[form](presentation, lambda: _Spilled(aside), many=True) for form in forms}
            prints = Fingerprints()
            for stored in store.current():
                bundle = open_bundle(stored, presentation, marks, prints)
                for report in made.values():
                    try:
                        report.add(bundle)
                    except MALFORMED as error:
                        report.add(_damaged_bundle(bundle, error))
            aside.flush()
        except StoreFullError as error:
            raise StoreFullError(f"no room for reports in the folder of {store.file} ({error})") from error
        yield made
