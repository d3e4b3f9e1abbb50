"""Reports of a fleet as text, Markdown, CSV, JSON and in CI formats, written host by host while the store is read.

Text and Markdown have the same content: counts first, then the most severe hosts; long lists end with the number of
omitted entries. Text is for a terminal of 80 columns, Markdown for the summary of a CI job (GitHub takes 1 MiB): it has
headings, lists and code only, with the customer's names as code.

CSV has a row per host and one for each bundle without a host; RFC 4180, UTF-8. A text that a spreadsheet would take for
a formula gets a leading apostrophe.

JSON has a line per host, sorted keys, ASCII, the same bytes for the same store. `hosts` has all hosts in the order of
paths, each with its outliers; `over_time` has the hosts whose bundles differ.

All requested CI reports are made in one pass through the store; `thpdiag.report` has their writers.

    with ci_reports(store, ["junit", "sarif"], presentation, marks) as reports:
        for piece in reports["junit"].pieces(): ...

Bundles come in the order of their paths, so the same results give the same bytes in whatever order they were stored.
One document is in memory at a time, without the parts that no format shows; text for the end of a report is spilled to
disk. Memory grows only by a name per host and a fingerprint per finding.
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

MAX_ROWS: Final = 20  # entries of a list in text and Markdown
MAX_CELL_COLUMNS: Final = 24
MAX_TEXT_CHARS: Final = 400  # of a sentence or a name
EMPTY_CELL: Final = "-"
MAX_VALUES: Final = 3  # values of a group in a sentence
_GATE_WORDS: Final = {0: "passed", FAILED: "failed", INCOMPLETE: "not decided"}  # by exit code
SCHEMA: Final[Literal["thpdiag/fleet/1"]] = "thpdiag/fleet/1"


# Sentences for outliers, histories and the gate. They contain the customer's names unescaped; the writers escape them.


def describe_outlier(outlier: Outlier) -> str:
    """`thp.enabled is always on 1 of the 11 hosts with this data; never on 10 (12 hosts: redis on el8 with ...)`."""
    group, distribution = f"({plural(outlier.hosts, 'host')}: {outlier.group.definition})", outlier.distribution
    if isinstance(distribution, ValueDistribution):
        counts = distribution.counts[:MAX_VALUES]
        others = ", ".join(f"{value} on {count:,}" for value, count in counts if value != str(outlier.value))
        share = f"{outlier.same:,} of the {distribution.n:,} hosts with this data"
        return f"{outlier.title} is {outlier.value} on {share}; {others} {group}"
    value = " ".join(filter(None, (quantity(outlier.value, outlier.unit), outlier.window)))
    numbers = _describe_numbers(distribution, "hosts", outlier.unit)
    return f"{outlier.title}: {value}; {numbers}, {_describe_score(outlier.score)} {group}"


def describe_history(history: History) -> Iterator[str]:
    """Yield a sentence for each event, the changes in their order first."""
    yield from map(_describe_change, history.changes)
    for name, counts in ((difference.name, difference.counts) for difference in history.differences):
        yield f"{name} differs: {', '.join(f'{value} in {count:,}' for value, count in counts)}"
    yield from map(_describe_far_value, history.far)
    if history.more:
        yield f"and {history.more:,} more"


def describe_order(history: History) -> str:
    """Return the number of bundles, and whether their order is known."""
    known = "" if history.ordered else "; the order of their recordings is unknown"
    return f"{history.bundles:,} bundles name this host{known}"


def describe_gate(gate: Gate) -> str:
    """Return the outcome of `--fail-on` and `--fail-on-missing` as a sentence; empty without these options.

    The sentence counts bundles without a complete result, since these may have more findings.
    """
    parts = [_describe_failing(gate)] if gate.fail_on != NEVER else []
    if gate.missing:
        parts.append(f"on {gate.undecided:,} of the hosts and bundles some rule could not be decided")
    elif gate.fail_on_missing:
        parts.append("every rule could be decided")
    if not parts:
        return ""
    code = gate.exit_code
    if code == INCOMPLETE:
        parts.append(f"{plural(gate.incomplete, 'bundle')} without a complete result may have more")
    return f"Gate: {_GATE_WORDS[code]}, {'; '.join(parts)}."


def _describe_failing(gate: Gate) -> str:
    if not gate.failing:
        return f"no finding of severity {gate.fail_on} or above is not accepted"
    findings, hosts = plural(gate.failing, "finding"), plural(gate.failing_hosts, "host")
    verb = "is" if gate.failing == 1 else "are"
    return f"{findings} of severity {gate.fail_on} or above on {hosts} {verb} not accepted"


def _describe_numbers(group: NumberDistribution, members: str, unit: str | None) -> str:
    least, lower, median, upper, most = (
        quantity(value, unit) for value in (group.least, group.lower, group.median, group.upper, group.most)
    )
    middle = f"the median is {median}, half are from {lower} to {upper}"
    return f"of {group.n:,} {members} {middle}, all from {least} to {most}"


def _describe_score(score: float | None) -> str:
    return "and half of the others or more are the same" if score is None else f"modified z-score {score:.1f}"


def _describe_change(change: Change) -> str:
    places = f"between {_describe_sighting(change.last)} and {_describe_sighting(change.first)}"
    note = " (evaluated with other rules or options)" if change.name == VERDICT and change.other_rules else ""
    return f"{change.name}: {change.before} -> {change.after}, {places}{note}"


def _describe_far_value(far: FarValue) -> str:
    value = " ".join(filter(None, (quantity(far.value, far.unit), far.window)))
    numbers = _describe_numbers(far.distribution, "of its bundles", far.unit)
    return f"{far.title}: {value} in {_describe_sighting(far.seen)}; {numbers}, {_describe_score(far.score)}"


def _describe_sighting(seen: Sighting) -> str:
    if seen.recorded is None:
        return seen.path
    moment = seen.recorded.replace("T", " ").replace("Z", " UTC")
    return f"{seen.path} ({moment if moment.endswith('UTC') else f'{moment} local time'})"


class Entry(NamedTuple):
    """An entry of a list: host, bundle path, text; below it a sentence or events."""

    label: str
    path: str
    text: str
    past: str = ""  # states that the finding was over at the end of the bundle
    sentence: str = ""
    events: Sequence[str] = ()


class Section(NamedTuple):
    """A list in text and Markdown: its first entries, and the total number of entries."""

    heading: str
    entries: Sequence[Entry]
    total: int


def _sections(overview: Overview) -> Iterator[Section]:
    found, outliers = overview.found, overview.outliers
    yield Section("Hosts with a finding, worst first", [*map(_found_entry, found.items[:MAX_ROWS])], found.total)
    yield Section(
        "Outliers in each group of hosts",
        [Entry(item.host.label, item.host.path, describe_outlier(item)) for item in outliers.items[:MAX_ROWS]],
        outliers.total,
    )
    yield Section(
        "The same host over time, by name",
        [
            Entry(history.name, history.name, describe_order(history), events=list(describe_history(history)))
            for history in overview.histories.items[:MAX_ROWS]
        ],
        overview.histories.total,
    )
    yield Section(
        "Bundles without a complete result",
        [
            Entry(host.path, host.path, f"{host.status}: {host.reason}" if host.reason else host.status)
            for host in overview.failed.items[:MAX_ROWS]
        ],
        overview.failed.total,
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
    yield from fold(f"{overview.headline}: {overview.found.total:,} with a finding{accepted}{incomplete}.")
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
    """Yield the lines of a table with aligned columns; the first column is right-aligned."""
    table = [head, *rows]
    widths = [max(columns(row[column]) for row in table) for column in range(len(head))]
    for row in table:
        blanks = [" " * (width - columns(shown)) for shown, width in zip(row, widths, strict=True)]
        cells = [f"{shown}{blank}" for shown, blank in zip(row[1:], blanks[1:], strict=True)]
        yield "  ".join(["", f"{blanks[0]}{row[0]}", *cells])


def _shorten(text: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    return text if len(text) <= max_chars else f"{text[:max_chars]} ..."


def write_markdown(fleet: Fleet, out: TextIO) -> None:
    out.write("\n\n".join(_markdown_blocks(fleet.overview)) + "\n")


def _markdown_blocks(overview: Overview) -> Iterator[str]:
    yield "## thpdiag: fleet"
    accepted = f" ({overview.accepted:,} accepted)" if overview.accepted else ""
    incomplete = f", {plural(overview.incomplete, 'bundle')} without a complete result" if overview.incomplete else ""
    yield f"**{overview.headline}: {overview.found.total:,} with a finding{accepted}{incomplete}.**"
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


# Columns with the attribute of a host. `accepted` is `yes` or empty, `apps` are separated by commas, `differs` has the
# outliers, separated by `;`.
CSV_COLUMNS: Final = {
    "number": "number", "host": "name", "case": "title", "bundle": "path", "sha256": "sha256", "status": "status",
    "reason": "reason", "os": "os", "kernel": "kernel", "platform": "platform", "apps": "apps", "verdict": "verdict",
    "rule": "rule", "mechanism": "mechanism", "severity": "severity", "confidence": "confidence", "state": "state",
    "sentence": "sentence", "accepted": "accepted", "undecided": "undecided", "recorded": "recorded", "differs": "",
    "page": "page",
}  # fmt: skip


def write_csv(fleet: Fleet, out: TextIO) -> None:
    """Write a row per host. The stream must not translate line ends."""
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
    """The number of hosts with the same verdict."""

    verdict: str | None
    mechanism: str | None
    severity: str | None
    confidence: str | None
    hosts: int


@dataclass(frozen=True, slots=True)
class GroupSize:
    """A group of hosts that are compared with each other; `apps` is None for any applications."""

    definition: str
    apps: tuple[str, ...] | None
    hosts: int


@dataclass(frozen=True, slots=True)
class HostLine(FleetHost):
    """A host with its outliers."""

    outliers: Sequence[Outlier] = ()


@dataclass(frozen=True, slots=True)
class FleetDocument:
    """The combined results of many bundles. Unknown values are null or absent, never zero."""

    schema: Literal["thpdiag/fleet/1"]
    bundles: int
    statuses: Mapping[str, int]
    verdicts: Sequence[VerdictCount]
    gate: Gate
    groups: Sequence[GroupSize]
    hosts: Sequence[HostLine] = ()
    over_time: Sequence[History] = ()


def fleet_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a fleet document."""
    return TypeAdapter(FleetDocument).json_schema(mode="serialization")


def write_json(fleet: Fleet, out: TextIO) -> None:
    overview = fleet.overview
    verdicts = [VerdictCount(*parts, hosts) for parts, hosts in _ranked_verdicts(overview)]
    groups = [GroupSize(group.definition, group.apps, hosts) for group, hosts in fleet.survey.groups.items()]
    head = _plain_part(FleetDocument(SCHEMA, overview.bundles, overview.statuses, verdicts, overview.gate, groups))
    del head["hosts"], head["over_time"]  # these two are streamed
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
    """Return a part of the document in JSON types, without warnings, since a foreign store may have any value."""
    plain: dict[str, Any] = _adapter(part.__class__).dump_python(part, mode="json", warnings=False)
    return plain


_adapter = cache(TypeAdapter[Any])


def _json_lines(items: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    separator = "\n"
    for item in items:
        yield f"{separator}{compact(item)}"
        separator = ",\n"


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
# The exceptions that a document with an invalid form can cause in the code that reads it.
MALFORMED: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError)
CI_FORMATS: Final[Mapping[str, type[Writer]]] = MappingProxyType(
    {"github": GitHub, "gitlab": GitLab, "junit": JUnit, "sarif": Sarif}
)


def open_bundle(stored: StoredResult, presentation: Presentation, marks: Marks, prints: Fingerprints) -> Bundle:
    """Return a bundle with its findings. A refused bundle has none; its document states only the refusal."""
    result, analysis, document = stored.result, stored.analysis, stored.result.document
    tool = Tool.model_construct(version=analysis.tool_version, rules_digest=analysis.rules_digest)
    bundle = Bundle((), (), tool, result.path or result.sha256, result.status, result.reason)
    if document is None or bundle.status == REFUSED:
        return bundle
    try:
        hosts = messages.hosts(marks(_needed_parts(document)))
        return replace(bundle, hosts=hosts, findings=locate_findings(hosts, presentation, prints, bundle.path))
    except MALFORMED as error:
        return _damaged_bundle(bundle, error)


def _damaged_bundle(bundle: Bundle, error: Exception) -> Bundle:
    """Return the bundle without findings. Its document is invalid: it comes from a process that read hostile input."""
    reason = f"it has not the form of a result ({type(error).__name__}: {error})"
    return replace(bundle, hosts=(), findings=(), status=DAMAGED_RESULT, reason=reason)


def _needed_parts(document: Document) -> Document:
    needed = {key: value for key, value in document.items() if key not in UNUSED_KEYS}
    for key, unused in UNUSED_PARTS.items():
        needed[key] = [{name: part for name, part in row.items() if name not in unused} for row in needed.get(key, ())]
    needed["host"] = {"name": (needed.get("host") or {}).get("name")}
    return needed | ({"cases": list(map(_needed_parts, needed["cases"]))} if needed.get("cases") else {})


class _SpilledSpool:
    """Texts in a spill file, ordered by weight (implements `thpdiag.report.ci.Spool`)."""

    def __init__(self, spill: SpillFile) -> None:
        self._texts = SpilledFirst(spill)

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
    """Make the reports of these formats; `marks` returns a document with the accepted findings marked."""
    with closing(SpillFile(store.file.parent)) as spill:
        try:
            reports = {form: CI_FORMATS[form](presentation, lambda: _SpilledSpool(spill), many=True) for form in forms}
            prints = Fingerprints()
            for stored in store.current():
                bundle = open_bundle(stored, presentation, marks, prints)
                for report in reports.values():
                    try:
                        report.add(bundle)
                    except MALFORMED as error:
                        report.add(_damaged_bundle(bundle, error))
            spill.flush()
        except StoreFullError as error:
            raise StoreFullError(f"no room for reports in the folder of {store.file} ({error})") from error
        yield reports
