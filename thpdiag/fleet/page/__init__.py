"""A whole store as one HTML page: nothing fetched, complete without script, the same bytes for the same store.

The page is written piece by piece. The rows that it shows wait for their order in a file, and there is a most of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, partial
from importlib.resources import files
from typing import Final, TextIO

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from thpdiag.fleet.hosts import MIN_HOSTS, OK, FleetHost, bundles_of_hosts
from thpdiag.fleet.outliers import Outlier
from thpdiag.fleet.overview import FOUND, Fleet, gravity, natural_key
from thpdiag.fleet.page.rows import (
    ACCEPTED,
    CHANGE_TABLE,
    EARLIER,
    HOST_TABLE,
    INCOMPLETE_TABLE,
    OUTLIER_TABLE,
    OVER,
    UNORDERED,
    change_rows,
    host_row,
    incomplete_row,
    outlier_row,
    table_leaves,
)
from thpdiag.fleet.page.summary import RESULTS_BESIDE, Summary, describe_analyses
from thpdiag.report.html import environment, join_scripts, policy_for, style
from thpdiag.store.spill import SpilledFirst, SpilledTexts

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
