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

from thpdiag.accepted.judge import Judge
from thpdiag.guard.outcome import Answer
from thpdiag.reports.severities import NEVER
from thpdiag.serve.fleet.latest import Part
from thpdiag.serve.fleet.spool import read
from thpdiag.triage.fleet.formats import FORMATS
from thpdiag.triage.fleet.hosts import FleetHost
from thpdiag.triage.fleet.overview import Fleet
from thpdiag.triage.fleet.page import write_page
from thpdiag.triage.fleet.page.rows import gravity
from thpdiag.triage.store.bundle import Analysis
from thpdiag.triage.store.packed import Packed
from thpdiag.triage.store.reading import Reading, Row
from thpdiag.triage.store.store import Store

SPOOL: Final = "spool"
PAGE, HOSTS = "page.html", "hosts.jsonl"
RESULTS: Final = "the database of the server that made it"
FILES: Final = {"csv": "fleet.csv", "json": "fleet.json"}


@dataclass(frozen=True, slots=True)
class Listed:
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


def make(folder: Path) -> Answer:
    """Make all of it in this folder, where the spool is; the answer is the number of hosts."""
    place = folder / "store"
    cases = _stored(folder / SPOOL, place)
    with closing(Reading.at(place)) as store:
        with (folder / PAGE).open("w", encoding="utf-8", errors="backslashreplace") as out:
            write_page(store, out, results=RESULTS)

        def page(row: Row) -> str:
            return f"/cases/{cases[row['sha256']]}"

        fleet = Fleet(store, Judge([], date.min, {}), NEVER, page)
        for form, name in FILES.items():
            with (folder / name).open("w", encoding="utf-8", errors="backslashreplace", newline="") as out:
                FORMATS[form](fleet, out)
        number = _listed(fleet, folder / HOSTS)
    rmtree(place)
    (folder / SPOOL).unlink()
    return Answer(str(number).encode())


def hosts(folder: Path) -> Iterator[Listed]:
    """The list, the gravest first."""
    with (folder / HOSTS).open(encoding="ascii") as lines:
        yield from (Listed(*json.loads(line)) for line in lines)


def _stored(spool: Path, place: Path) -> dict[str, str]:
    """The ids of cases by their contents, once their rows are in a store; a run for each analysis."""
    cases: dict[str, str] = {}
    analyses: dict[tuple[str, str, str], None] = {}
    for part in read(spool):
        cases[part.sha256] = part.id
        analyses[_analysis(part)] = None
    for version, digest, options in analyses:
        same = (_packed(part) for part in read(spool) if _analysis(part) == (version, digest, options))
        with closing(Store.open(place, Analysis(version, digest, json.loads(options)))) as store:
            store.put_all(same)
    return cases


def _analysis(part: Part) -> tuple[str, str, str]:
    return part.tool_version, part.rules_digest, part.options


def _packed(part: Part) -> Packed:
    return Packed(part.sha256, part.name, part.size, part.status, part.reason, hosts=part.hosts)


def _listed(fleet: Fleet, file: Path) -> int:
    found = sorted(((gravity(host), _told(host)) for host in fleet.hosts() if host.known), key=lambda pair: pair[0])
    with file.open("w", encoding="ascii") as out:
        out.writelines(f"{line}\n" for _, line in found)
    return len(found)


def _told(host: FleetHost) -> str:
    return json.dumps([getattr(host, name) for name in Listed.__dataclass_fields__])
