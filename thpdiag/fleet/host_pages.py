"""The pages of hosts in the output folder: `hosts/` and the first digits of the bundle's sha256.

A page ends with a mark of all that it is made of: version of thpdiag, analysis, run, what is accepted. One that is
there with the same mark is not made again, whatever the clock says.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from hashlib import sha256
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Final

from jinja2 import TemplateError

from thpdiag import __version__
from thpdiag.errors import StoreError
from thpdiag.fleet.atomic_file import atomic_file
from thpdiag.fleet.ci import MALFORMED
from thpdiag.fleet.overview import judge_findings
from thpdiag.model.document import compact, plain_document
from thpdiag.report import html
from thpdiag.report.baseline import Judge
from thpdiag.report.presentation import rank
from thpdiag.sandbox.preload import WorkerDiedError, WorkerPool
from thpdiag.store.reading import Row, StoreReader
from thpdiag.store.spill import SpilledTexts

PAGES_FOLDER: Final = "hosts"
MIN_DIGITS: Final = 12
PAGES_PER_TASK: Final = 16  # pages that a process makes at a time
MIN_PAGES_FOR_POOL: Final = 64  # pages from which on further processes are worth their start
POOL_BROKEN: Final = (
    "a process that wrote pages was killed, perhaps for lack of memory; finished pages stay, and "
    "`thpdiag triage report` continues with the rest"
)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_PAGE: Final = re.compile(rf"[0-9a-f]{{{MIN_DIGITS},64}}\.html")


class Pages(StrEnum):
    """Which bundles have a page: those with a finding graver than `info`, all with a result, none."""

    FINDINGS = "findings"
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class HostPage:
    """A page to be made. `bundle` is the number of its bundle in the store, `mark` says what it is made of."""

    bundle: int
    path: str
    address: str
    mark: str


def plan_pages(store: StoreReader, judge: Judge, which: Pages, addresses: SpilledTexts) -> Iterator[HostPage]:
    """The pages that a fleet has, in the order of paths, each noted with its bundle among the `addresses`.

    Of two bundles with the same first digits one has more.
    """
    taken = SpilledTexts(store.aside)
    for bundle, rows in groupby(store.fleet() if which is not Pages.NONE else (), key=lambda row: row["bundle"]):
        hosts = list(rows)
        name = hosts[0]["sha256"]
        if which is Pages.ALL:
            wanted = hosts[0]["place"] is not None
        else:
            wanted = any(rank(finding["severity"]) > rank("info") for host in hosts for finding in host["findings"])
        if wanted and _SHA256.fullmatch(name):
            short = next(name[:digits] for digits in range(MIN_DIGITS, 65) if name[:digits] not in taken)
            taken[short], address = "", f"{PAGES_FOLDER}/{short}.html"
            addresses[bundle] = address
            yield HostPage(bundle, hosts[0]["path"], address, _mark(hosts, judge))


def make_pages(place: Path, store: Path, pages: Iterable[HostPage], judge: Judge, jobs: int) -> list[HostPage]:
    """Make the pages that are not there as they should be; those that cannot be made are returned.

    They go to the folder `place`; `store` is the file of the store. What a result that is damaged raises costs its own
    page only.
    """
    (place / PAGES_FOLDER).mkdir(exist_ok=True)
    left = (page for page in pages if not _is_current(place / page.address, page.mark))
    first = list(islice(left, MIN_PAGES_FOR_POOL))
    to_make = chain(first, left)
    if jobs == 1 or len(first) < MIN_PAGES_FOR_POOL:
        return _make_portion(place, store, judge, to_make)
    failed: list[HostPage] = []
    running: deque[Future[list[HostPage]]] = deque()
    # Each worker sets itself up with `partial(_make_portion, ...)`: a connection of SQLite is of one process.
    with WorkerPool(jobs, partial(partial, _make_portion, place, store, judge), (__name__,)) as pool:
        try:
            while portion := list(islice(to_make, PAGES_PER_TASK)):
                running.append(pool.submit(portion))
                if len(running) > 2 * jobs:
                    failed += running.popleft().result()
            return failed + [page for future in running for page in future.result()]
        except WorkerDiedError as error:
            raise StoreError(POOL_BROKEN) from error


def remove_pages(place: Path) -> None:
    """Remove the pages of hosts, so that all are made anew."""
    for page in (place / PAGES_FOLDER).glob("*.html"):
        if _PAGE.fullmatch(page.name):
            page.unlink()


def _make_portion(place: Path, store: Path, judge: Judge, pages: Iterable[HostPage]) -> list[HostPage]:
    """Make pages; those that cannot be made are returned."""
    with StoreReader.at(store) as reader:
        return [page for page in pages if not _make_page(reader, place, judge, page)]


def _make_page(store: StoreReader, place: Path, judge: Judge, page: HostPage) -> bool:
    """Whether the page could be made."""
    document = store.document(page.bundle)
    try:
        text = html.render(judge.mark_document(document) if judge.entries and document else document or {})
    except (*MALFORMED, TemplateError):  # it has not the form of the schema
        return False
    with atomic_file(place / page.address) as out:
        out.write(f"{text}{page.mark}")
    return True


def _mark(hosts: Sequence[Row], judge: Judge) -> str:
    """A comment for the end of the page."""
    accepted = [
        plain_document(entry.mark()) if entry else None for host in hosts for _, entry in judge_findings(host, judge)
    ]
    first = hosts[0]
    made_of = [__version__, *(first[name] for name in ("sha256", "tool_version", "rules_digest", "options", "begun"))]
    whole_of = compact({"": [made_of, accepted, judge.options if judge.entries else {}]})
    return f"<!-- made of {sha256(whole_of.encode()).hexdigest()} -->\n"


def _is_current(file: Path, mark: str) -> bool:
    """Whether the file ends with the mark."""
    try:
        with file.open("rb") as page:
            page.seek(-len(mark), os.SEEK_END)
            return page.read() == mark.encode()
    except OSError:
        return False
