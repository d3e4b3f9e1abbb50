"""The pages of hosts in the output folder: `hosts/` and the first digits of the bundle's sha256.

A page ends with a mark of all that it is made of: version of thpdiag, analysis, run, what is accepted. One that is
there with the same mark is not made again, whatever the clock says.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from itertools import chain, groupby, islice
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Final

from jinja2 import TemplateError

from thpdiag import __version__
from thpdiag.accepted.judge import Judge
from thpdiag.errors import StoreError
from thpdiag.json_text import compact
from thpdiag.reports import html
from thpdiag.reports.severities import rank
from thpdiag.triage.fleet.acceptance import judged
from thpdiag.triage.store.aside import Notes
from thpdiag.triage.store.reading import Reading, Row
from thpdiag.triage.written import whole

FOLDER: Final = "hosts"
DIGITS: Final = 12
PORTION: Final = 16  # pages that a process makes at a time
WORTH: Final = 64  # pages from which on further processes are worth their start
ENDED: Final = (
    "a process that made pages was ended, for want of memory perhaps; what is made stays, and "
    "`thpdiag triage report` goes on with it"
)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
# What a document that has not the form of the schema can raise in those that read it.
ODD: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError, TemplateError)


class Pages(StrEnum):
    """Which bundles have a page: those with a finding graver than `info`, all with a result, none."""

    FINDINGS = "findings"
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Page:
    """A page to be made. `bundle` is the number of its bundle in the store, `mark` says what it is made of."""

    bundle: int
    path: str
    address: str
    mark: str


def planned(store: Reading, judge: Judge, which: Pages) -> Iterator[Page]:
    """The pages that a fleet has, in the order of paths. Of two bundles with the same first digits one has more."""
    taken = Notes(store.aside)
    for bundle, rows in groupby(store.fleet() if which is not Pages.NONE else (), key=lambda row: row["bundle"]):
        hosts = list(rows)
        name = hosts[0]["sha256"]
        if not _SHA256.fullmatch(name) or not _wanted(hosts, which):
            continue
        short = next(name[:digits] for digits in range(DIGITS, 65) if name[:digits] not in taken)
        taken[short] = ""
        yield Page(bundle, hosts[0]["path"], f"{FOLDER}/{short}.html", _mark(hosts, judge))


def make(place: Path, pages: Iterable[Page], judge: Judge, jobs: int) -> list[Page]:
    """Make the pages that are not there as they should be; those that cannot be made are returned.

    `place` is the folder of the store. What a result that is damaged raises costs its own page only.
    """
    (place / FOLDER).mkdir(exist_ok=True)
    left = (page for page in pages if not _made(place / page.address, page.mark))
    first = list(islice(left, WORTH))
    if jobs == 1 or len(first) < WORTH:
        with Reading.at(place) as store:
            return [page for page in (*first, *left) if not _make(store, place, judge, page)]
    return list(_shared(place, chain(first, left), judge, jobs))


def _shared(place: Path, pages: Iterator[Page], judge: Judge, jobs: int) -> Iterator[Page]:
    """By several processes, which begin with nothing of this one: a connection of SQLite is of one process."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, spawn, _begin, (place, judge)) as pool:
        running: set[Future[list[Page]]] = set()
        try:
            while portion := list(islice(pages, PORTION)):
                with _undisturbed():
                    running.add(pool.submit(_portion, portion))
                if len(running) > 2 * jobs:
                    ended, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from chain.from_iterable(future.result() for future in ended)
            yield from chain.from_iterable(future.result() for future in running)
        except BrokenExecutor as error:
            raise StoreError(ENDED) from error
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """A process that is begun within never hears Ctrl-C, which is for us; not even while it loads the program."""
    resource_tracker.ensure_running()  # beginning it would let the signal through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_HERE: list[tuple[Path, Judge]] = []  # of a process that makes pages: what it was begun with


def _begin(place: Path, judge: Judge) -> None:
    _HERE.append((place, judge))


def _portion(pages: Sequence[Page]) -> list[Page]:
    place, judge = _HERE[-1]
    with Reading.at(place) as store:
        return [page for page in pages if not _make(store, place, judge, page)]


def _make(store: Reading, place: Path, judge: Judge, page: Page) -> bool:
    """Whether the page could be made."""
    document = store.document(page.bundle)
    try:
        text = html.render(judge.marked(document) if judge.entries and document else document or {})
    except ODD:
        return False
    with whole(place / page.address) as out:
        out.write(f"{text}{page.mark}")
    return True


def _wanted(hosts: Sequence[Row], which: Pages) -> bool:
    if which is Pages.ALL:
        return hosts[0]["place"] is not None
    return any(rank(finding["severity"]) > rank("info") for host in hosts for finding in host["findings"])


def _mark(hosts: Sequence[Row], judge: Judge) -> str:
    """A comment for the end of the page."""
    accepted = [entry.mark() if entry else None for host in hosts for _, entry in judged(host, judge)]
    first = hosts[0]
    made_of = [__version__, *(first[name] for name in ("sha256", "tool_version", "rules_digest", "options", "begun"))]
    whole_of = compact({"": [made_of, accepted, judge.options if judge.entries else {}]})
    return f"<!-- made of {sha256(whole_of.encode()).hexdigest()} -->\n"


def _made(file: Path, mark: str) -> bool:
    """Whether the file ends with the mark."""
    try:
        with file.open("rb") as page:
            page.seek(-len(mark), os.SEEK_END)
            return page.read() == mark.encode()
    except OSError:
        return False
