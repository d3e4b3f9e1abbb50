"""What is made of a fleet, in a child: the page of triage, its files for programs, and a list for a page of ours.

Nothing of it is a link on the page: that is shown in a frame of an origin of its own, which has no session here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from shutil import rmtree
from typing import Final

from thpdiag.fleet.formats import FLEET_FORMATS
from thpdiag.fleet.overview import Fleet, gravity
from thpdiag.fleet.page import write_page
from thpdiag.report.baseline import Judge
from thpdiag.report.presentation import NEVER
from thpdiag.sandbox.outcome import Answer
from thpdiag.serve.fleet.rows import AnalysisKey, read_spool
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import Analysis
from thpdiag.store.schema import set_temporary_folder
from thpdiag.store.store import Store

SPOOL_FILE: Final = "spool"
PAGE_FILE, HOSTS_FILE = "page.html", "hosts.jsonl"
RESULTS_SOURCE: Final = "the database of the server that made it"
DOWNLOAD_FILES: Final = {"csv": "fleet.csv", "json": "fleet.json"}


@dataclass(frozen=True, slots=True)
class ListedHost:
    """A host in the list. `path` is the name of its bundle, `page` the address of its case."""

    label: str
    page: str
    path: str
    status: str
    verdict: str | None
    rule: str | None
    mechanism: str | None
    severity: str | None
    confidence: str | None
    state: str | None
    sentence: str | None
    kernel: str | None
    os: str | None
    platform: str | None
    recorded: str | None


def make_fleet(folder: Path) -> Answer:
    """Make all of it in this folder, where the spool is; the answer is the number of hosts."""
    place, spool = folder / "store", folder / SPOOL_FILE
    set_temporary_folder(folder)
    pages = _fill_store(spool, place)
    with closing(StoreReader.at(place)) as store:
        fleet = Fleet(store, Judge([], date.min, {}), NEVER)
        with (folder / PAGE_FILE).open("w", encoding="utf-8", errors="backslashreplace") as out:
            write_page(fleet, out, RESULTS_SOURCE)
        fleet.page = lambda row: pages[row["sha256"]]
        for form, name in DOWNLOAD_FILES.items():
            with (folder / name).open("w", encoding="utf-8", errors="backslashreplace", newline="") as out:
                FLEET_FORMATS[form](fleet, out)
        number = _write_hosts(fleet, folder / HOSTS_FILE)
    rmtree(place)
    spool.unlink()
    return Answer(str(number).encode())


def _fill_store(spool: Path, place: Path) -> dict[str, str]:
    """A store of triage with a run for each analysis; the addresses of cases by their contents."""
    pages: dict[str, str] = {}
    analyses: dict[AnalysisKey, None] = {}
    for case in read_spool(spool):
        pages[case.result.sha256] = f"/cases/{case.id}"
        analyses[case.analysis] = None
    for analysis in analyses:
        version, digest, options = analysis
        with closing(Store.open(place, Analysis(version, digest, json.loads(options)))) as store:
            store.put_all(case.result for case in read_spool(spool) if case.analysis == analysis)
    return pages


def _write_hosts(fleet: Fleet, file: Path) -> int:
    """The list, the gravest first; only lines are sorted, so that a long one takes little memory."""
    names = tuple(ListedHost.__dataclass_fields__)
    known = (host for host in fleet.hosts() if host.known)
    lines = [(gravity(host), json.dumps([getattr(host, name) for name in names])) for host in known]
    lines.sort(key=lambda pair: pair[0])
    with file.open("w", encoding="ascii") as out:
        out.writelines(f"{line}\n" for _, line in lines)
    return len(lines)


def read_hosts(folder: Path) -> Iterator[ListedHost]:
    """The list, the gravest first."""
    with (folder / HOSTS_FILE).open(encoding="ascii") as lines:
        yield from (ListedHost(*json.loads(line)) for line in lines)
