"""A whole store as one HTML page: nothing fetched, complete without script, the same bytes for the same store.

The page is written piece by piece. The rows that it shows wait for their order in a file, and there is a most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Final, TextIO

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup

from thpdiag.reports.html import environment
from thpdiag.reports.html.script import joined, policy_for, style
from thpdiag.triage.fleet.hosts import hosts
from thpdiag.triage.fleet.outliers import Survey
from thpdiag.triage.fleet.outliers import survey as survey_of
from thpdiag.triage.fleet.over_time import histories
from thpdiag.triage.fleet.page import headline
from thpdiag.triage.fleet.page.changes import change_rows
from thpdiag.triage.fleet.page.counts import all_counts
from thpdiag.triage.fleet.page.differences import outlier_row
from thpdiag.triage.fleet.page.listings import listings
from thpdiag.triage.fleet.page.made import BESIDE, made
from thpdiag.triage.fleet.page.summary import Summary
from thpdiag.triage.fleet.page.words import GRAVEST
from thpdiag.triage.store.aside import First
from thpdiag.triage.store.reading import Reading, Row

PARTS: Final = ("elements.js", "columns.js", "listing.js", "page.js")
DIFFERENCES: Final = 2_000  # of hosts from their like that a page shows


def write_page(
    store: Reading,
    out: TextIO,
    *,
    page: Callable[[Row], str] = lambda row: "",
    accepted: Callable[[Row], bool] = lambda row: False,
    acceptances: Sequence[str] = (),
    survey: Survey | None = None,
    results: str = BESIDE,
) -> None:
    """Write the page of all hosts. `page` gives the address of a host's page beside this one, empty if there is none.

    `accepted` tells whether the finding of its verdict is accepted, `acceptances` what does so, for the page's end.
    `survey` is that of the store, if it was made before; `results` says where a reader finds the results.
    """
    survey = survey or survey_of(store)
    told, apart, changes = Summary(store), First(store.aside, DIFFERENCES), First(store.aside, DIFFERENCES)
    for host in hosts(store, page, accepted):
        told.add(host)
        for one in survey.outliers(host):
            apart.add((*one.rank, host.number, one.name), partial(outlier_row, one))
    for history in histories(store, page):
        for key, row in change_rows(history):
            changes.add(key, partial(str, row))
    template = _environment().get_template("page.html")
    pieces = template.generate(
        title=headline.title(told),
        headline=headline.headline(told),
        sentences=headline.sentences(told),
        incomplete=headline.incomplete(told),
        bundles=told.bundles,
        grade=_grade(told),
        counts=all_counts(told),
        lists=listings(told, apart, changes),
        made=made(store, acceptances, results),
        style=Markup(looks()),
        script=Markup(script()),
        policy=policy_for(looks(), script()),
    )
    out.writelines(pieces)


@cache
def looks() -> str:
    """The style of all our pages, and what this one has of its own."""
    return style() + _own("page.css")


@cache
def script() -> str:
    return joined(_own("script", part) for part in PARTS)


def _grade(told: Summary) -> str:
    """The colour of the first screen: that of the gravest finding, or of all is well if that is known of every host."""
    well = told.verdicts["nothing found"] + told.verdicts["not applicable"]
    alright = "nothing_found" if told.bundles and not told.failed and well == told.hosts.all else ""
    return next((grade for grade in GRAVEST if told.severities[grade]), alright)


def _own(*path: str) -> str:
    return files(__package__).joinpath(*path).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    return environment(ChoiceLoader([PackageLoader(__package__, "."), PackageLoader("thpdiag.reports.html", ".")]))
