"""The long tables of the fleet page as HTML: hosts, outliers, changes, bundles without a complete result.

The tables are most of the page, so optional end tags are omitted. A table is split into leaves of 200 rows that can be
folded, so that a browser without scripts can show 10,000 rows. A script collects the rows of all leaves and filters and
sorts them. Attributes of the column headings configure it: `data-facet` names a filter, `data-order` lists its values,
`data-many` marks cells with several values, `data-number` sorting by `data-v` of the cell, `data-plain` no sorting,
`data-notes` notes below the value, with the name of the filter value for cells without notes.

Every text from a bundle passes `esc`, which makes control characters visible and escapes HTML. Attributes contain only
constants and numbers, except for the address of a host page, which is URL-quoted.

The distribution of a group is drawn as a strip: a box plot for numbers, a divided bar for values. The text next to it
has the same content, so strips are hidden from screen readers. Colours are in the attributes; the style sheet changes
them only for dark mode.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from markupsafe import Markup, escape

from thpdiag.fleet.hosts import FleetHost, join_words
from thpdiag.fleet.outliers import KERNEL, VERDICT, History, NumberDistribution, Outlier, Sighting, ValueDistribution
from thpdiag.fleet.overview import FOUND, UNKNOWN, VERDICTS, natural_key, visible_line
from thpdiag.model.finding import CONFIDENCES as SUREST_LAST
from thpdiag.model.finding import SEVERITIES
from thpdiag.report.messages import plural
from thpdiag.report.quantity import quantity

LEAF_ROWS: Final = 200


class Column(NamedTuple):
    """A heading with the attributes that configure the script."""

    heading: str
    attributes: str = ""


class Table(NamedTuple):
    """A table: `name` is its id, `rows` and `one` are the plural and singular noun for its rows (`hosts`, `host`)."""

    name: str
    rows: str
    one: str
    columns: tuple[Column, ...]


def table_leaves(table: Table, rows: Iterable[str], total: int) -> Iterator[Markup]:
    """Yield the HTML of a table: one leaf for each 200 rows, the first one open; a single leaf is not folded."""
    cells = "".join(f"<th scope=col{f' {c.attributes}' if c.attributes else ''}>{c.heading}" for c in table.columns)
    head = f"<thead><tr>{cells}<tbody>\n"
    remaining, first = iter(rows), 1
    while leaf := list(islice(remaining, LEAF_ROWS)):
        last = first + len(leaf) - 1
        span = f"{table.rows} {first:,} to {last:,}" if total > LEAF_ROWS else table.rows
        html = (
            f'<div class="scroll" role="region" tabindex="0" aria-label="Table of {span}">\n<table>{head}'
            f"{''.join(leaf)}</table>\n</div>\n"
        )
        if total > LEAF_ROWS:
            opened, label = " open" if first == 1 else "", f"{span[:1].upper()}{span[1:]}"
            html = f'<details class="leaf" name="{table.name}"{opened}><summary>{label}</summary>\n{html}</details>\n'
        yield Markup(html)
        first = last + 1


SEVEREST_FIRST: Final = tuple(reversed(SEVERITIES))
CONFIDENCES: Final = tuple(reversed(SUREST_LAST))
NONE: Final = "–"  # for a value that a host does not have, in contrast to an unknown one
# Notes below a result.
ACCEPTED, OVER = "accepted", "over"
EARLIER, UNORDERED = "there is a later bundle", "one of several bundles"


def esc(text: str | None) -> str:
    """Return a text on one line as HTML, with control characters made visible; empty for None."""
    return str(escape(visible_line(text)))


def verdict_words(status: str | None) -> str:
    """Return a verdict in words; `unknown` for a verdict that this version does not know."""
    return status.replace("_", " ") if status in VERDICTS else UNKNOWN


def result_words(verdict: str | None, severity: str | None) -> str:
    """Return the severity of a finding, or the verdict in words."""
    if verdict == FOUND:
        return severity if severity in SEVERITIES else FOUND
    return verdict_words(verdict)


def page_href(page: str) -> str:
    """Return the address of a host page as an attribute; quoting prevents that a colon starts a URL scheme."""
    return quote(page.encode("utf-8", "surrogatepass"), safe="/")


def describe_numbers(group: NumberDistribution, unit: str | None) -> str:
    """Describe a distribution by its median, quartiles, minimum and maximum."""
    five = (group.least, group.lower, group.median, group.upper, group.most)
    least, lower, median, upper, most = (quantity(number, unit) for number in five)
    return f"median {median}, half of them {lower} to {upper}, all {least} to {most}"


_RESULTS: Final = (*SEVEREST_FIRST, FOUND, *map(verdict_words, VERDICTS[1:]), UNKNOWN)
HOST_TABLE: Final = Table("hosts", "hosts", "host", (
    Column("Host"),
    Column(
        "Result",
        f'data-facet="Severity" data-order="{"|".join(_RESULTS)}" '
        f'data-found="{"|".join((*SEVEREST_FIRST, FOUND))}" data-notes="no note"',
    ),
    Column("Diagnosis"),
    Column("Mechanism", 'data-facet="Mechanism"'),
    Column("Confidence", f'data-facet="Confidence" data-order="{"|".join(CONFIDENCES)}"'),
    Column("Kernel", 'data-facet="Kernel"'),
    Column("Distribution", 'data-facet="Distribution"'),
    Column("Applications", 'data-facet="Application" data-many'),
))  # fmt: skip
OUTLIER_TABLE: Final = Table("outliers", "differences", "difference", (
    Column("Host"),
    Column("What", 'data-facet="What"'),
    Column("Value", "data-number"),
    Column("Values of the group", "data-plain"),
    Column("Compared with", 'data-facet="Compared with"'),
    Column("Distance", "data-number"),
))  # fmt: skip
CHANGE_TABLE: Final = Table("changes", "changes", "change", (
    Column("Host"), Column("What", 'data-facet="What"'), Column("Before"), Column("After"), Column("Seen in"),
))  # fmt: skip
INCOMPLETE_TABLE: Final = Table(
    "incomplete", "bundles without a complete result", "bundle without a complete result",
    (Column("Bundle"), Column("Status", 'data-facet="Status"'), Column("Reason"), Column("Attempts", "data-number")),
)  # fmt: skip


def host_cell(host: FleetHost) -> str:
    """Return the cell of a host: its name, linked to its page, and the bundle below it."""
    name = esc(host.label)
    if host.page:
        name = f'<a href="{page_href(host.page)}">{name}</a>'
    elif host.label != host.path:
        name = f"<span>{name}</span>"
    return f"{name} <small>{esc(host.path)}</small>" if host.label != host.path else name


def host_row(host: FleetHost, notes: Sequence[str] = ()) -> str:
    """Return the row of a host, with the notes below its result."""
    words, missing = result_words(host.verdict, host.severity), UNKNOWN if host.verdict == FOUND else NONE
    css_class = f" class={words}" if words in SEVERITIES else ""
    small = f" <small>{', '.join(notes)}</small>" if notes else ""
    apps = " ".join(f"<i>{esc(app)}</i>" for app in host.apps)
    return (
        f"<tr><td>{host_cell(host)}<td><b{css_class}>{words}</b>{small}<td>{esc(host.sentence)}"
        f"<td>{esc(host.mechanism) or missing}<td>{esc(host.confidence) or missing}<td>{esc(host.kernel) or UNKNOWN}"
        f"<td>{esc(host.os or host.platform) or UNKNOWN}<td>{apps or NONE}\n"
    )


def incomplete_row(host: FleetHost) -> str:
    return (
        f"<tr><td>{esc(host.path)}<td>{esc(host.status)}<td>{esc(host.reason) or UNKNOWN}"
        f"<td data-v={host.attempts:d}>{host.attempts:,}\n"
    )


STRIP_WIDTH: Final = 160
STRIP_HEIGHT: Final = 16
_MARGIN: Final = 4
_COLOURS: Final = ("#2b6cb0", "#17693a", "#7d3c98", "#8a6100", "#0f7b8a")
_CLASSES: Final = ("b1", "b3", "b4", "b5", "b6")  # CSS classes of the colours; b2 marks the host itself
_MAX_LINEAR_RATIO: Final = 20.0  # of maximum to median; above it the scale is logarithmic
_MIN_SHARE: Final = 0.001  # of the maximum: smaller numbers are close to zero on a logarithmic scale
_MIN_BOX_WIDTH: Final = 5.0  # so that the line of the median does not cover the box


def box_strip(value: float, group: NumberDistribution) -> str:
    """Return a box plot: a line from minimum to maximum, a box with the median, and a dot for the host."""
    scale = _strip_scale(group, value)
    least, lower, median, upper, most, dot = (
        round(scale(number), 1) for number in (group.least, group.lower, group.median, group.upper, group.most, value)
    )
    width = max(upper - lower, _MIN_BOX_WIDTH)
    left = round((lower + upper - width) / 2, 1)
    return (
        f"{_STRIP_START}"
        f'<path class="s8" d="M{least} 8H{most}" stroke="#57606a"/>'
        f'<rect class="b1" x="{left}" y="3" width="{round(width, 1)}" height="10" fill="#2b6cb0"/>'
        f'<path class="middle" d="M{median} 1V15" stroke="#1b1f24" stroke-width="1.5"/>'
        f'<circle class="b2" cx="{dot}" cy="8" r="4" fill="#b0370a"/></svg>'
    )


def bar_strip(value: str, group: ValueDistribution) -> str:
    """Return a bar with the shares of the values, the most frequent first; that of the host has its own colour."""
    x, parts = 0.0, []
    for number, (other, hosts) in enumerate(group.counts):
        width = (STRIP_WIDTH - 4) * hosts / group.n
        style = ("b2", "#b0370a") if other == value else (_CLASSES[number], _COLOURS[number])
        parts.append(_strip_part(x, max(width - 1, 2), *style))
        x += width
    if group.others:
        has_rare_value = all(other != value for other, _ in group.counts)
        style = ("b2", "#b0370a") if has_rare_value else ("b8", "#57606a")
        parts.append(_strip_part(x, max(STRIP_WIDTH - 4 - x, 2), *style))
    return f"{_STRIP_START}{''.join(parts)}</svg>"


_STRIP_START: Final = (
    f'<svg class="strip" viewBox="0 0 {STRIP_WIDTH} {STRIP_HEIGHT}" width="{STRIP_WIDTH}" height="{STRIP_HEIGHT}" '
    'aria-hidden="true">'
)


def _strip_part(x: float, width: float, css_class: str, colour: str) -> str:
    return f'<rect class="{css_class}" x="{x:.1f}" y="3" width="{width:.1f}" height="10" fill="{colour}"/>'


def _strip_scale(group: NumberDistribution, value: float) -> Callable[[float], float]:
    """Return the function from a number to its x coordinate; logarithmic if a few numbers are much larger."""
    low, high = min(group.least, value), max(group.most, value)
    is_logarithmic = low >= 0 and high > _MAX_LINEAR_RATIO * group.median
    unit = max(group.median, high * _MIN_SHARE)
    transform = (lambda number: math.log1p(number / unit)) if is_logarithmic and unit else float
    first, last = transform(low), transform(high)
    if not last > first or not math.isfinite(last - first):
        return lambda number: STRIP_WIDTH / 2
    return lambda number: _MARGIN + (STRIP_WIDTH - 2 * _MARGIN) * (transform(number) - first) / (last - first)


def outlier_row(outlier: Outlier) -> str:
    """Return the row of an outlier, with the distribution as strip and text."""
    group, value, unit = outlier.distribution, outlier.value, outlier.unit
    number = score = ""
    if isinstance(group, ValueDistribution):
        strip = bar_strip(str(value), group)
        distance = f"{outlier.same or 0:,} of {group.n:,}"
    else:
        strip, number = box_strip(float(value), group), f" data-v={float(value):.6g}"
        if outlier.score is None:
            distance = "at least half are the same"
        else:
            distance, score = f"{outlier.score:+.1f}", f" data-v={abs(outlier.score):.2f}"
    size = plural(outlier.hosts, "host") + ("" if group.n == outlier.hosts else f", {group.n:,} of them with this data")
    return (
        f"<tr><td>{host_cell(outlier.host)}<td>{esc(outlier.title)}<td{number}>{esc(quantity(value, unit))}"
        f"{_window_html(outlier.window)}<td>{strip} <small>{esc(describe_distribution(outlier))}</small>"
        f"<td><span>{esc(outlier.group.definition)}</span> <small>{size}</small><td{score}>{distance}\n"
    )


def _window_html(window: str) -> str:
    return f" <small>{esc(window)}</small>" if window else ""


def describe_distribution(outlier: Outlier) -> str:
    """Describe the distribution of the group in words."""
    group = outlier.distribution
    if not isinstance(group, ValueDistribution):
        return describe_numbers(group, outlier.unit)
    rest = [f"{group.others:,} with other values"] if group.others else []
    return join_words([*(f"{hosts:,} {value}" for value, hosts in group.counts), *rest])


LAST_DAY: Final = 99_999_999  # sort key of a change without a date: after all others
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
KeyedRow = tuple[tuple[Any, ...], str]


def change_rows(history: History) -> Iterator[KeyedRow]:
    """Yield the rows of a host with sort keys: the latest day first, then verdicts, THP settings, kernels, others."""
    name = f"<span>{esc(history.name)}</span> <small>{plural(history.bundles, 'bundle')}</small>"
    for number, change in enumerate(history.changes):
        other = " <small>the bundles were not judged by the same rules or version</small>" if change.other_rules else ""
        cells = (esc(change.before), esc(change.after) + other, _sightings(change.last, change.first))
        yield _change_key(history, change.first, change.name, number), _change_row(name, change.name, *cells)
    for number, far in enumerate(history.far):
        value, group = f"{esc(quantity(far.value, far.unit))}{_window_html(far.window)}", far.distribution
        words = f"{esc(describe_numbers(group, far.unit))}, in {group.n:,} bundles"
        before = f"{box_strip(far.value, group)} <small>{words}</small>"
        row = _change_row(name, far.title, before, value, _sightings(far.seen))
        yield _change_key(history, far.seen, far.name, number), row
    for number, difference in enumerate(history.differences):
        values = join_words([f"{value} in {bundles:,}" for value, bundles in difference.counts])
        row = _change_row(name, difference.name, esc(values), "their order is not known", "")
        yield _change_key(history, Sighting("", None, ""), difference.name, number), row


def _change_row(host: str, name: str, before: str, after: str, seen: str) -> str:
    return f"<tr><td>{host}<td>{esc('kernel release' if name == KERNEL else name)}<td>{before}<td>{after}<td>{seen}\n"


def _sightings(*sightings: Sighting) -> str:
    """Return the bundles with their times; for a change, the last one before it and the first one after it."""
    words = ("until", "since") if len(sightings) > 1 else ("in",)
    parts = []
    for word, sighting in zip(words, sightings, strict=True):
        name, recorded = esc(sighting.path), sighting.recorded or ""
        link = f'<a href="{page_href(sighting.page)}">{name}</a>' if sighting.page else name
        clock = (" UTC" if recorded.endswith("Z") else " of its own clock") if recorded else ""
        time = f"{recorded.replace('T', ' ').removesuffix('Z')}{clock}"
        parts.append(f"<span>{word} {link}</span> <small>{esc(time)}</small>")
    return " ".join(parts)


def _change_key(history: History, seen: Sighting, name: str, number: int) -> tuple[Any, ...]:
    match = _DAY.match(seen.recorded or "")
    day = LAST_DAY - int("".join(match.groups())) if match else LAST_DAY
    order = (VERDICT, "thp.", KERNEL, "node_", "Anon")
    kind = next((place for place, prefix in enumerate(order) if name.startswith(prefix)), len(order))
    return day, kind, natural_key(history.name), name, history.name, -number
