"""The hosts of a fleet, selected from the database, and the files that a child builds from them.

Of a bundle that was analysed several times the last case is used, and of a host the case with the latest data. Two
cases belong to one host if they have the same host name, unless it is a default name of installers or one bundle has
two hosts of that name. If the time of the data is not known for all of them, the case that was made last is used.

The triage page contains no links to cases: it is shown in a frame with an origin of its own, which has no session.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from shutil import rmtree
from typing import Final

from sqlalchemy import Connection, Engine, func, select

from thpdiag.fleet.formats import FLEET_FORMATS
from thpdiag.fleet.overview import Fleet, severity_order
from thpdiag.fleet.page import write_page
from thpdiag.knowledge.paths import is_default_hostname
from thpdiag.report.baseline import Judge
from thpdiag.report.presentation import NEVER
from thpdiag.sandbox.outcome import Answer
from thpdiag.serve.storage.database import bundle, case, fetch_rows, finding, host, read_transaction
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import FINDING_FIELDS, HOST_FIELDS, Analysis, Cells, PackedResult
from thpdiag.store.schema import set_temporary_folder
from thpdiag.store.store import Store

MAX_CASES: Final = 60_000  # the latest ones; a child builds a page of these within its limits, also on a busy machine
CASES_PER_QUERY: Final = 200
_RESULT_COLUMNS: Final = (case.c.sha256, case.c.name, bundle.c.size, case.c.status, case.c.reason)
HostKey = tuple[int, int]  # number of the case, place of the host in it
AnalysisKey = tuple[str, ...]  # version of thpdiag, digest of the rules, options as JSON


@dataclass(frozen=True, slots=True)
class CaseState:
    """A fingerprint of the set of cases, different after each change. `numbers` is the sum of their numbers."""

    cases: int
    numbers: int
    last: int
    last_id: str


@dataclass(frozen=True, slots=True)
class NamedHost:
    """A host of a case with its name and the time of its data, if known."""

    place: HostKey
    sha256: str
    name: str | None
    recorded: str | None


@dataclass(frozen=True, slots=True)
class FleetCase:
    """A case with those of its hosts that are in the fleet and their findings, in the form of a triage store."""

    id: str
    analysis: AnalysisKey
    result: PackedResult


def case_state(engine: Engine) -> CaseState:
    with read_transaction(engine) as connection:
        last = connection.execute(select(case.c.number, case.c.id).order_by(case.c.number.desc()).limit(1)).first()
        if last is None:
            return CaseState(0, 0, 0, "")
        return CaseState(*_count_cases(connection, last.number), last.number, last.id)


def has_all_cases(engine: Engine, state: CaseState) -> bool:
    """Whether all cases of a state still exist; later ones are ignored.

    SQLite reuses the number of the last case once that is deleted, so its id is compared too.
    """
    with read_transaction(engine) as connection:
        last = connection.scalar(select(case.c.id).where(case.c.number == state.last)) or ""
        return (*_count_cases(connection, state.last), last) == (state.cases, state.numbers, state.last_id)


def _count_cases(connection: Connection, last: int) -> tuple[int, int]:
    counted = select(func.count(), func.coalesce(func.sum(case.c.number), 0)).where(case.c.number <= last)
    cases, numbers = connection.execute(counted).one()
    return int(cases), int(numbers)


def fleet_cases(engine: Engine, state: CaseState, max_cases: int = MAX_CASES) -> Iterator[FleetCase]:
    """Yield the fleet of a state, case by case in the order in which they were made, without deleted cases."""
    selected = latest_hosts(_named_hosts(engine, state, max_cases))
    numbers = sorted({number for number, _ in selected})
    for start in range(0, len(numbers), CASES_PER_QUERY):
        with read_transaction(engine) as connection:
            cases = list(_read_cases(connection, numbers[start : start + CASES_PER_QUERY], selected))
        yield from cases


def _named_hosts(engine: Engine, state: CaseState, max_cases: int) -> list[NamedHost]:
    """Return all hosts of the last cases."""
    numbers = select(case.c.number).where(case.c.number <= state.last)
    first = func.coalesce(numbers.order_by(case.c.number.desc()).offset(max_cases - 1).limit(1).scalar_subquery(), 0)
    columns = (host.c.case, host.c.place, case.c.sha256, host.c.name, host.c.recorded)
    named = select(*columns).join(case, host.c.case == case.c.number).where(case.c.number.between(first, state.last))
    rows = fetch_rows(engine, named.order_by(host.c.case, host.c.place))
    return [NamedHost((number, place), *cells) for number, place, *cells in rows]


def latest_hosts(hosts: Iterable[NamedHost]) -> set[HostKey]:
    """Return the keys of the latest data of each host. `hosts` are in the order in which their cases were made."""
    by_content: dict[str, list[NamedHost]] = {}
    for named in hosts:
        same_content = by_content.setdefault(named.sha256, [])
        if same_content and same_content[0].place[0] != named.place[0]:
            same_content.clear()
        same_content.append(named)
    places: set[HostKey] = set()
    by_name: dict[str, list[NamedHost]] = {}
    ambiguous: set[str] = set()
    for same_content in by_content.values():
        counts = Counter(named.name for named in same_content)
        for named in same_content:
            if named.name is None or is_default_hostname(named.name):
                places.add(named.place)
            else:
                by_name.setdefault(named.name, []).append(named)
                ambiguous.update([named.name] if counts[named.name] > 1 else [])
    for name, namesakes in by_name.items():
        places.update([named.place for named in namesakes] if name in ambiguous else [_latest_host(namesakes).place])
    return places


def _latest_host(namesakes: list[NamedHost]) -> NamedHost:
    """Return the latest by the time of the data if all times are in UTC (with a final Z) or all local, else by case."""
    clocks = {named.recorded[-1:] == "Z" if named.recorded else None for named in namesakes}
    is_comparable = len(clocks) == 1 and None not in clocks
    return max(namesakes, key=lambda named: ((named.recorded or "") if is_comparable else "", named.place))


def _read_cases(connection: Connection, numbers: list[int], selected: set[HostKey]) -> Iterator[FleetCase]:
    hosts: dict[int, dict[int, Cells]] = {}
    columns = (host.c.case, host.c.place, *(host.c[name] for name in HOST_FIELDS))
    host_rows = select(*columns).where(host.c.case.in_(numbers)).order_by(host.c.case, host.c.place)
    for number, place, *cells in connection.execute(host_rows):
        if (number, place) in selected:
            hosts.setdefault(number, {})[place] = tuple(None if cell is None else str(cell) for cell in cells)
    findings: dict[HostKey, list[Cells]] = {}
    keys = (finding.c.case, finding.c.host)
    finding_rows = select(*keys, *(finding.c[name] for name in FINDING_FIELDS)).where(finding.c.case.in_(numbers))
    for number, place, *cells in connection.execute(finding_rows.order_by(*keys, finding.c.place)):
        findings.setdefault((number, place), []).append(tuple(cells))
    analysis = (case.c.tool_version, case.c.rules_digest, case.c.options)
    cases = select(case.c.number, case.c.id, *analysis, *_RESULT_COLUMNS).join(bundle, case.c.sha256 == bundle.c.sha256)
    for number, key, *analysis_key, sha256, name, size, status, reason in connection.execute(
        cases.where(case.c.number.in_(numbers)).order_by(case.c.number)
    ):
        places = hosts.get(number, {}).items()
        rows = tuple((cells, tuple(findings.get((number, place), ()))) for place, cells in places)
        yield FleetCase(key, tuple(analysis_key), PackedResult(sha256, name, size, status, reason, hosts=rows))


def write_spool(file: Path, cases: Iterable[FleetCase]) -> None:
    """Write a line of JSON per case for the child, which has no access to the database."""
    with file.open("w", encoding="ascii") as out:
        for fleet_case in cases:
            result = fleet_case.result
            cells = (result.sha256, result.path, result.size, result.status, result.reason, result.hosts)
            out.write(f"{json.dumps((fleet_case.id, fleet_case.analysis, cells))}\n")


def read_spool(file: Path) -> Iterator[FleetCase]:
    with file.open(encoding="ascii") as lines:
        for line in lines:
            key, analysis, (sha256, name, size, status, reason, hosts) = json.loads(line)
            rows = tuple((tuple(host), tuple(map(tuple, findings))) for host, findings in hosts)
            yield FleetCase(key, tuple(analysis), PackedResult(sha256, name, size, status, reason, hosts=rows))


SPOOL_FILE: Final = "spool"
PAGE_FILE, HOSTS_FILE = "page.html", "hosts.jsonl"
RESULTS_SOURCE: Final = "the database of the server that made it"
DOWNLOAD_FILES: Final = {"csv": "fleet.csv", "json": "fleet.json"}


@dataclass(frozen=True, slots=True)
class ListedHost:
    """A row of the list of hosts. `path` is the name of its bundle, `page` the address of its case."""

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
    """Build all files in the folder of the spool; the answer is the number of hosts."""
    store_folder, spool = folder / "store", folder / SPOOL_FILE
    set_temporary_folder(folder)
    pages = _fill_store(spool, store_folder)
    with closing(StoreReader.at(store_folder)) as store:
        fleet = Fleet(store, Judge([], date.min, {}), NEVER)
        with (folder / PAGE_FILE).open("w", encoding="utf-8", errors="backslashreplace") as out:
            write_page(fleet, out, RESULTS_SOURCE)
        fleet.page = lambda row: pages[row["sha256"]]
        for format_name, name in DOWNLOAD_FILES.items():
            with (folder / name).open("w", encoding="utf-8", errors="backslashreplace", newline="") as out:
                FLEET_FORMATS[format_name](fleet, out)
        hosts = _write_hosts(fleet, folder / HOSTS_FILE)
    rmtree(store_folder)
    spool.unlink()
    return Answer(str(hosts).encode())


def _fill_store(spool: Path, folder: Path) -> dict[str, str]:
    """Create a triage store with a run for each analysis; return the addresses of cases by the digest of the bundle."""
    pages: dict[str, str] = {}
    analyses: dict[AnalysisKey, None] = {}
    for fleet_case in read_spool(spool):
        pages[fleet_case.result.sha256] = f"/cases/{fleet_case.id}"
        analyses[fleet_case.analysis] = None
    for analysis in analyses:
        version, digest, options = analysis
        with closing(Store.open(folder, Analysis(version, digest, json.loads(options)))) as store:
            store.put_all(row.result for row in read_spool(spool) if row.analysis == analysis)
    return pages


def _write_hosts(fleet: Fleet, file: Path) -> int:
    """Write the list of hosts, the most severe first. Only encoded lines are held in memory for sorting."""
    names = tuple(ListedHost.__dataclass_fields__)
    known = (host for host in fleet.hosts() if host.known)
    lines = [(severity_order(host), json.dumps([getattr(host, name) for name in names])) for host in known]
    lines.sort(key=lambda pair: pair[0])
    with file.open("w", encoding="ascii") as out:
        out.writelines(f"{line}\n" for _, line in lines)
    return len(lines)


def read_hosts(folder: Path) -> Iterator[ListedHost]:
    """Yield the hosts of the list, the most severe first."""
    with (folder / HOSTS_FILE).open(encoding="ascii") as lines:
        yield from (ListedHost(*json.loads(line)) for line in lines)
