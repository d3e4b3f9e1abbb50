"""The long tables of a fleet's page as HTML: hosts, what differs, what changed, bundles without a complete result.

They are most of the page: end tags that may be left out are. A table is cut into leaves of 200 rows that fold by
themselves, so that a browser without scripts can show 10,000. A script takes the rows out of the leaves and shows those
that are asked for; what it needs to know of a column stands in the head: `data-facet` names a filter, `data-order` the
values from first to last, `data-many` that a cell has several values, `data-number` that `data-v` of the cell is what
to sort by, `data-plain` that there is no sorting by it, `data-notes` that notes stand below the value, and what to call
that there are none.

Whatever a host calls itself passes `esc` before it becomes part of the page: made visible, then escaped. Attributes
have our own words and numbers only; the one exception is the address of a host's page, which is quoted.

How a group lies is shown as a strip: a box from quartile to quartile for numbers, a divided bar for values. Strips are
pictures of what stands beside them in words, so they say nothing to a screen reader. Looks are in the attributes; the
style of the page only changes them for the dark.
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

LEAF: Final = 200


class Column(NamedTuple):
    """A heading, and what a script needs to know of its cells, as attributes of ours."""

    heading: str
    attributes: str = ""


class Table(NamedTuple):
    """`name` is its id, `rows` what is counted in headings (`hosts`), `one` a single of them."""

    name: str
    rows: str
    one: str
    columns: tuple[Column, ...]


def table_leaves(table: Table, rows: Iterable[str], total: int) -> Iterator[Markup]:
    """The table as pieces of HTML: one leaf for each 200 rows, the first unfolded; few rows do not fold."""
    cells = "".join(f"<th scope=col{f' {c.attributes}' if c.attributes else ''}>{c.heading}" for c in table.columns)
    head = f"<thead><tr>{cells}<tbody>\n"
    left, first = iter(rows), 1
    while leaf := list(islice(left, LEAF)):
        last = first + len(leaf) - 1
        span = f"{table.rows} {first:,} to {last:,}" if total > LEAF else table.rows
        inner = (
            f'<div class="scroll" role="region" tabindex="0" aria-label="Table of {span}">\n<table>{head}'
            f"{''.join(leaf)}</table>\n</div>\n"
        )
        if total > LEAF:
            opened, label = " open" if first == 1 else "", f"{span[:1].upper()}{span[1:]}"
            inner = f'<details class="leaf" name="{table.name}"{opened}><summary>{label}</summary>\n{inner}</details>\n'
        yield Markup(inner)
        first = last + 1


SEVEREST_FIRST: Final = tuple(reversed(SEVERITIES))
CONFIDENCES: Final = tuple(reversed(SUREST_LAST))
NONE: Final = "–"  # there can be none, which is not the same as unknown
# Notes of a result.
ACCEPTED, OVER = "accepted", "over"
EARLIER, UNORDERED = "there is a later bundle", "one of several bundles"


def esc(text: str | None) -> str:
    """A text on one line as HTML, with nothing hidden in it; nothing for None."""
    return str(escape(visible_line(text)))


def verdict_words(status: str | None) -> str:
    """A verdict in words; one that this version does not know is unknown."""
    return status.replace("_", " ") if status in VERDICTS else UNKNOWN


def result_words(verdict: str | None, severity: str | None) -> str:
    """Severity of what was found, else the verdict in words."""
    if verdict == FOUND:
        return severity if severity in SEVERITIES else FOUND
    return verdict_words(verdict)


def page_href(page: str) -> str:
    """The address of a file beside the page as an attribute: a name with a colon leads to no other scheme."""
    return quote(page.encode("utf-8", "surrogatepass"), safe="/")


def describe_numbers(group: NumberDistribution, unit: str | None) -> str:
    """How numbers lie."""
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
    """Its name, which leads to its page, and below it its bundle."""
    name = esc(host.label)
    if host.page:
        name = f'<a href="{page_href(host.page)}">{name}</a>'
    elif host.label != host.path:
        name = f"<span>{name}</span>"
    return f"{name} <small>{esc(host.path)}</small>" if host.label != host.path else name


def host_row(host: FleetHost, notes: Sequence[str] = ()) -> str:
    """`notes` stand below its result."""
    words, missing = result_words(host.verdict, host.severity), UNKNOWN if host.verdict == FOUND else NONE
    graded = f" class={words}" if words in SEVERITIES else ""
    below = f" <small>{', '.join(notes)}</small>" if notes else ""
    apps = " ".join(f"<i>{esc(app)}</i>" for app in host.apps)
    return (
        f"<tr><td>{host_cell(host)}<td><b{graded}>{words}</b>{below}<td>{esc(host.sentence)}"
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
_CLASSES: Final = ("b1", "b3", "b4", "b5", "b6")  # of the style: the second colour is that of the host itself
_MAX_LINEAR_RATIO: Final = 20.0  # times the median, from which on a scale is logarithmic
_MIN_SHARE: Final = 0.001  # of the highest number: what is below lies close to zero on such a scale
_MIN_BOX_WIDTH: Final = 5.0  # a box is as wide as this at least, or it would be behind its median


def box_strip(value: float, group: NumberDistribution) -> str:
    """From the least to the most a line, between the quartiles a box with the median, and a dot for the host."""
    place = _strip_scale(group, value)
    least, lower, median, upper, most, own = (
        round(place(number), 1) for number in (group.least, group.lower, group.median, group.upper, group.most, value)
    )
    wide = max(upper - lower, _MIN_BOX_WIDTH)
    left = round((lower + upper - wide) / 2, 1)
    return (
        f"{_STRIP_START}"
        f'<path class="s8" d="M{least} 8H{most}" stroke="#57606a"/>'
        f'<rect class="b1" x="{left}" y="3" width="{round(wide, 1)}" height="10" fill="#2b6cb0"/>'
        f'<path class="middle" d="M{median} 1V15" stroke="#1b1f24" stroke-width="1.5"/>'
        f'<circle class="b2" cx="{own}" cy="8" r="4" fill="#b0370a"/></svg>'
    )


def bar_strip(value: str, group: ValueDistribution) -> str:
    """The shares of the values, the most frequent first; that of the host in its own colour, visible however small."""
    at, parts = 0.0, []
    for number, (one, hosts) in enumerate(group.counts):
        width = (STRIP_WIDTH - 4) * hosts / group.n
        look, colour = ("b2", "#b0370a") if one == value else (_CLASSES[number], _COLOURS[number])
        parts.append(_strip_part(at, max(width - 1, 2), look, colour))
        at += width
    if group.others:
        own = all(one != value for one, _ in group.counts)
        parts.append(_strip_part(at, max(STRIP_WIDTH - 4 - at, 2), *(("b2", "#b0370a") if own else ("b8", "#57606a"))))
    return f"{_STRIP_START}{''.join(parts)}</svg>"


_STRIP_START: Final = (
    f'<svg class="strip" viewBox="0 0 {STRIP_WIDTH} {STRIP_HEIGHT}" width="{STRIP_WIDTH}" height="{STRIP_HEIGHT}" '
    'aria-hidden="true">'
)


def _strip_part(at: float, width: float, look: str, colour: str) -> str:
    return f'<rect class="{look}" x="{at:.1f}" y="3" width="{width:.1f}" height="10" fill="{colour}"/>'


def _strip_scale(group: NumberDistribution, value: float) -> Callable[[float], float]:
    """From a number to its place in the strip; where few are many times the others, their logarithms."""
    low, high = min(group.least, value), max(group.most, value)
    wide = low >= 0 and high > _MAX_LINEAR_RATIO * group.median
    unit = max(group.median, high * _MIN_SHARE)
    shape = (lambda number: math.log1p(number / unit)) if wide and unit else float
    first, last = shape(low), shape(high)
    if not last > first or not math.isfinite(last - first):
        return lambda number: STRIP_WIDTH / 2
    return lambda number: _MARGIN + (STRIP_WIDTH - 2 * _MARGIN) * (shape(number) - first) / (last - first)


def outlier_row(one: Outlier) -> str:
    """Picture and words of the distribution; the distance of a number is its modified z-score."""
    group, number = one.distribution, ""
    if isinstance(group, ValueDistribution):
        picture, score = bar_strip(str(one.value), group), ""
        distance = f"{one.same or 0:,} of {group.n:,}"
    else:
        number = f" data-v={float(one.value):.6g}"
        picture, score = (
            box_strip(float(one.value), group),
            "" if one.score is None else f" data-v={abs(one.score):.2f}",
        )
        distance = "at least half are the same" if one.score is None else f"{one.score:+.1f}"
    size = plural(one.hosts, "host") + ("" if group.n == one.hosts else f", {group.n:,} of them with this data")
    return (
        f"<tr><td>{host_cell(one.host)}<td>{esc(one.title)}<td{number}>{esc(quantity(one.value, one.unit))}"
        f"{_window_below(one.window)}<td>{picture} <small>{esc(describe_distribution(one))}</small>"
        f"<td><span>{esc(one.group.definition)}</span> <small>{size}</small><td{score}>{distance}\n"
    )


def _window_below(window: str) -> str:
    """The time that a rate is of, below it."""
    return f" <small>{esc(window)}</small>" if window else ""


def describe_distribution(one: Outlier) -> str:
    """The distribution in words."""
    group = one.distribution
    if not isinstance(group, ValueDistribution):
        return describe_numbers(group, one.unit)
    rest = [f"{group.others:,} with other values"] if group.others else []
    return join_words([*(f"{hosts:,} {value}" for value, hosts in group.counts), *rest])


LAST_DAY: Final = 99_999_999  # the day of what has none: it stands below all others
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
KeyedRow = tuple[tuple[Any, ...], str]


def change_rows(history: History) -> Iterator[KeyedRow]:
    """Each with its place among all: the latest day first, then verdicts, settings of huge pages, kernels, others."""
    name = f"<span>{esc(history.name)}</span> <small>{plural(history.bundles, 'bundle')}</small>"
    for number, change in enumerate(history.changes):
        other = " <small>the bundles were not judged by the same rules or version</small>" if change.other_rules else ""
        cells = (esc(change.before), esc(change.after) + other, _sightings(change.last, change.first))
        yield _change_key(history, change.first, change.name, number), _change_row(name, change.name, *cells)
    for number, far in enumerate(history.far):
        value, whole = f"{esc(quantity(far.value, far.unit))}{_window_below(far.window)}", far.distribution
        words = f"{esc(describe_numbers(whole, far.unit))}, in {whole.n:,} bundles"
        before = f"{box_strip(far.value, whole)} <small>{words}</small>"
        row = _change_row(name, far.title, before, value, _sightings(far.seen))
        yield _change_key(history, far.seen, far.name, number), row
    for number, one in enumerate(history.differences):
        values = join_words([f"{value} in {bundles:,}" for value, bundles in one.counts])
        row = _change_row(name, one.name, esc(values), "their order is not known", "")
        yield _change_key(history, Sighting("", None, ""), one.name, number), row


def _change_row(host: str, what: str, before: str, after: str, seen: str) -> str:
    return f"<tr><td>{host}<td>{esc('kernel release' if what == KERNEL else what)}<td>{before}<td>{after}<td>{seen}\n"


def _sightings(*places: Sighting) -> str:
    """The bundles, the last in which it was as before and the first in which it was not, with their times."""
    words = ("until", "since") if len(places) > 1 else ("in",)
    told = []
    for word, place in zip(words, places, strict=True):
        name, recorded = esc(place.path), place.recorded or ""
        link = f'<a href="{page_href(place.page)}">{name}</a>' if place.page else name
        clock = (" UTC" if recorded.endswith("Z") else " of its own clock") if recorded else ""
        when = f"{recorded.replace('T', ' ').removesuffix('Z')}{clock}"
        told.append(f"<span>{word} {link}</span> <small>{esc(when)}</small>")
    return " ".join(told)


def _change_key(history: History, seen: Sighting, name: str, number: int) -> tuple[Any, ...]:
    found = _DAY.match(seen.recorded or "")
    day = LAST_DAY - int("".join(found.groups())) if found else LAST_DAY
    order = (VERDICT, "thp.", KERNEL, "node_", "Anon")
    kind = next((place for place, prefix in enumerate(order) if name.startswith(prefix)), len(order))
    return day, kind, natural_key(history.name), name, history.name, -number
