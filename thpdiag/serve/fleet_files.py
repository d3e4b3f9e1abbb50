"""Which hosts of which cases a fleet consists of, and what a child makes of them: the page of triage, files, a list.

Of a content that was analysed several times the last case counts, and of a host the case whose data is the latest. Two
cases are of one host if they name it the same, unless installers give that name or one bundle has two hosts of it.
Where it is not known of all of them when their data was, the case that was made last counts.

Nothing of what is made is a link on the page: that is shown in a frame of an origin of its own, which has no session
here.
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

MAX_CASES: Final = 60_000  # the last ones: what a child can make a page of within its limits, also on a busy machine
CASES_PER_QUERY: Final = 200
_RESULT_COLUMNS: Final = (case.c.sha256, case.c.name, bundle.c.size, case.c.status, case.c.reason)
HostKey = tuple[int, int]  # the case's number, and the host's place in it
AnalysisKey = tuple[str, ...]  # version of thpdiag, digest of the rules, options as JSON


@dataclass(frozen=True, slots=True)
class CaseState:
    """Which cases there are: with any that comes or goes another one. `numbers` is the sum of their numbers."""

    cases: int
    numbers: int
    last: int
    last_id: str


@dataclass(frozen=True, slots=True)
class NamedHost:
    """A host of a case: how it is called and when its data was, if that is known."""

    place: HostKey
    sha256: str
    name: str | None
    recorded: str | None


@dataclass(frozen=True, slots=True)
class FleetCase:
    """A case with those of its hosts that are in the fleet, each with its findings, in the cells of a triage store."""

    id: str
    analysis: AnalysisKey
    result: PackedResult


def case_state(engine: Engine) -> CaseState:
    with read_transaction(engine) as connection:
        last = connection.execute(select(case.c.number, case.c.id).order_by(case.c.number.desc()).limit(1)).first()
        if last is None:
            return CaseState(0, 0, 0, "")
        return CaseState(*_count_cases(connection, last.number), last.number, last.id)


def is_complete(engine: Engine, then: CaseState) -> bool:
    """Whether all cases of a state are still there, whatever has come since.

    SQLite gives the number of the last case again once that is deleted; the id it does not.
    """
    with read_transaction(engine) as connection:
        last = connection.scalar(select(case.c.id).where(case.c.number == then.last)) or ""
        return (*_count_cases(connection, then.last), last) == (then.cases, then.numbers, then.last_id)


def _count_cases(connection: Connection, last: int) -> tuple[int, int]:
    counted = select(func.count(), func.coalesce(func.sum(case.c.number), 0)).where(case.c.number <= last)
    cases, numbers = connection.execute(counted).one()
    return int(cases), int(numbers)


def fleet_cases(engine: Engine, then: CaseState, most: int = MAX_CASES) -> Iterator[FleetCase]:
    """The fleet of a state, case by case in the order in which they were made; without cases that are gone by now."""
    wanted = latest_hosts(_named_hosts(engine, then, most))
    numbers = sorted({number for number, _ in wanted})
    for at in range(0, len(numbers), CASES_PER_QUERY):
        with read_transaction(engine) as connection:
            cases = list(_read_cases(connection, numbers[at : at + CASES_PER_QUERY], wanted))
        yield from cases


def _named_hosts(engine: Engine, then: CaseState, most: int) -> list[NamedHost]:
    """All hosts of the last cases."""
    numbers = select(case.c.number).where(case.c.number <= then.last)
    first = func.coalesce(numbers.order_by(case.c.number.desc()).offset(most - 1).limit(1).scalar_subquery(), 0)
    columns = (host.c.case, host.c.place, case.c.sha256, host.c.name, host.c.recorded)
    named = select(*columns).join(case, host.c.case == case.c.number).where(case.c.number.between(first, then.last))
    rows = fetch_rows(engine, named.order_by(host.c.case, host.c.place))
    return [NamedHost((number, place), *cells) for number, place, *cells in rows]


def latest_hosts(hosts: Iterable[NamedHost]) -> set[HostKey]:
    """Where what counts of each host stands; they come in the order in which their cases were made."""
    by_content: dict[str, list[NamedHost]] = {}
    for named in hosts:
        of_content = by_content.setdefault(named.sha256, [])
        if of_content and of_content[0].place[0] != named.place[0]:
            of_content.clear()
        of_content.append(named)
    places: set[HostKey] = set()
    by_name: dict[str, list[NamedHost]] = {}
    doubtful: set[str] = set()
    for of_content in by_content.values():
        often = Counter(named.name for named in of_content)
        for named in of_content:
            if named.name is None or is_default_hostname(named.name):
                places.add(named.place)
            else:
                by_name.setdefault(named.name, []).append(named)
                doubtful.update([named.name] if often[named.name] > 1 else [])
    for name, several in by_name.items():
        places.update([named.place for named in several] if name in doubtful else [_latest_of_host(several).place])
    return places


def _latest_of_host(several: list[NamedHost]) -> NamedHost:
    """By their data if all of it has a time on one clock; UTC has a Z behind it, local times have not."""
    clocks = {named.recorded[-1:] == "Z" if named.recorded else None for named in several}
    known = len(clocks) == 1 and None not in clocks
    return max(several, key=lambda named: ((named.recorded or "") if known else "", named.place))


def _read_cases(connection: Connection, numbers: list[int], wanted: set[HostKey]) -> Iterator[FleetCase]:
    hosts: dict[int, dict[int, Cells]] = {}
    of_host = select(host.c.case, host.c.place, *(host.c[name] for name in HOST_FIELDS)).where(host.c.case.in_(numbers))
    for number, place, *cells in connection.execute(of_host.order_by(host.c.case, host.c.place)):
        if (number, place) in wanted:
            hosts.setdefault(number, {})[place] = tuple(None if cell is None else str(cell) for cell in cells)
    findings: dict[HostKey, list[Cells]] = {}
    keys = (finding.c.case, finding.c.host)
    of_finding = select(*keys, *(finding.c[name] for name in FINDING_FIELDS)).where(finding.c.case.in_(numbers))
    for number, place, *cells in connection.execute(of_finding.order_by(*keys, finding.c.place)):
        findings.setdefault((number, place), []).append(tuple(cells))
    analysis = (case.c.tool_version, case.c.rules_digest, case.c.options)
    cases = select(case.c.number, case.c.id, *analysis, *_RESULT_COLUMNS).join(bundle, case.c.sha256 == bundle.c.sha256)
    for number, key, *analysed_by, sha256, name, size, status, reason in connection.execute(
        cases.where(case.c.number.in_(numbers)).order_by(case.c.number)
    ):
        places = hosts.get(number, {}).items()
        rows = tuple((cells, tuple(findings.get((number, place), ()))) for place, cells in places)
        yield FleetCase(key, tuple(analysed_by), PackedResult(sha256, name, size, status, reason, hosts=rows))


def write_spool(file: Path, cases: Iterable[FleetCase]) -> None:
    """A line of JSON per case: the server writes the file, a child without a database reads it."""
    with file.open("w", encoding="ascii") as out:
        for one in cases:
            result = one.result
            cells = (result.sha256, result.path, result.size, result.status, result.reason, result.hosts)
            out.write(f"{json.dumps((one.id, one.analysis, cells))}\n")


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
    for one in read_spool(spool):
        pages[one.result.sha256] = f"/cases/{one.id}"
        analyses[one.analysis] = None
    for analysis in analyses:
        version, digest, options = analysis
        with closing(Store.open(place, Analysis(version, digest, json.loads(options)))) as store:
            store.put_all(one.result for one in read_spool(spool) if one.analysis == analysis)
    return pages


def _write_hosts(fleet: Fleet, file: Path) -> int:
    """The list, the gravest first; only lines are sorted, so that a long one takes little memory."""
    names = tuple(ListedHost.__dataclass_fields__)
    known = (host for host in fleet.hosts() if host.known)
    lines = [(severity_order(host), json.dumps([getattr(host, name) for name in names])) for host in known]
    lines.sort(key=lambda pair: pair[0])
    with file.open("w", encoding="ascii") as out:
        out.writelines(f"{line}\n" for _, line in lines)
    return len(lines)


def read_hosts(folder: Path) -> Iterator[ListedHost]:
    """The list, the gravest first."""
    with (folder / HOSTS_FILE).open(encoding="ascii") as lines:
        yield from (ListedHost(*json.loads(line)) for line in lines)
