"""Which hosts of which cases a fleet consists of.

Of a content that was analysed several times the last case counts, and of a host the case whose data is the latest. Two
cases are of one host if they name it the same, unless installers give that name or one bundle has two hosts of it.
Where it is not known of all of them when their data was, the case that was made last counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Engine, func, select

from thpdiag.knowledge.host_names import given
from thpdiag.serve.storage.database import reading
from thpdiag.serve.storage.form import bundle, case, finding, host
from thpdiag.triage.store.rows import FINDING, HOST, Cells

MOST: Final = 20_000  # cases, the last ones: what a child can make a page of in a minute
PORTION: Final = 200  # cases that are read at once

Place = tuple[int, int]  # the case's number, and the host's place in it


@dataclass(frozen=True, slots=True)
class State:
    """Which cases there are: with any that comes or goes another one. `numbers` is the sum of their numbers."""

    cases: int
    numbers: int
    last: int
    last_id: str


@dataclass(frozen=True, slots=True)
class Named:
    """A host of a case: how it is called and when its data was, if that is known."""

    place: Place
    sha256: str
    name: str | None
    recorded: str | None


@dataclass(frozen=True, slots=True)
class Part:
    """A case with those of its hosts that are in the fleet, each with its findings, in the cells of a triage store."""

    id: str
    sha256: str
    name: str
    size: int
    status: str
    reason: str
    tool_version: str
    rules_digest: str
    options: str
    hosts: tuple[tuple[Cells, tuple[Cells, ...]], ...]


_OF_CASE: Final = ("id", "sha256", "name", "status", "reason", "tool_version", "rules_digest", "options")


def state(engine: Engine) -> State:
    with reading(engine) as connection:
        last = connection.execute(select(case.c.number, case.c.id).order_by(case.c.number.desc()).limit(1)).first()
        if last is None:
            return State(0, 0, 0, "")
        return State(*_counted(connection, last.number), last.number, last.id)


def whole(engine: Engine, then: State) -> bool:
    """Whether all cases of a state are still there, whatever has come since.

    SQLite gives the number of the last case again once that is deleted; the id it does not.
    """
    with reading(engine) as connection:
        last = connection.scalar(select(case.c.id).where(case.c.number == then.last)) or ""
        return (*_counted(connection, then.last), last) == (then.cases, then.numbers, then.last_id)


def parts(engine: Engine, then: State, most: int = MOST) -> Iterator[Part]:
    """The fleet of a state, case by case in the order in which they were made; without cases that are gone by now."""
    wanted = latest(_named(engine, then, most))
    numbers = sorted({number for number, _ in wanted})
    for at in range(0, len(numbers), PORTION):
        with reading(engine) as connection:
            found = list(_parts(connection, numbers[at : at + PORTION], wanted))
        yield from found


def latest(hosts: Iterable[Named]) -> set[Place]:
    """Where what counts of each host stands; they come in the order in which their cases were made."""
    cases: dict[str, list[Named]] = {}
    for one in hosts:
        others = cases.setdefault(one.sha256, [])
        if others and others[0].place[0] != one.place[0]:
            others.clear()
        others.append(one)
    alone: set[Place] = set()
    same: dict[str, list[Named]] = {}
    doubtful: set[str] = set()
    for of_case in cases.values():
        often = Counter(one.name for one in of_case)
        for one in of_case:
            if one.name is None or given(one.name):
                alone.add(one.place)
            else:
                same.setdefault(one.name, []).append(one)
                doubtful.update([one.name] if often[one.name] > 1 else [])
    for name, several in same.items():
        alone.update([one.place for one in several] if name in doubtful else [_last(several).place])
    return alone


def _last(several: list[Named]) -> Named:
    """By their data if all of it has a time on one clock; UTC has a Z behind it, local times have not."""
    clocks = {one.recorded[-1:] == "Z" if one.recorded else None for one in several}
    known = len(clocks) == 1 and None not in clocks
    return max(several, key=lambda one: ((one.recorded or "") if known else "", one.place))


def _counted(connection: Connection, last: int) -> tuple[int, int]:
    counted = select(func.count(), func.coalesce(func.sum(case.c.number), 0)).where(case.c.number <= last)
    cases, numbers = connection.execute(counted).one()
    return int(cases), int(numbers)


def _named(engine: Engine, then: State, most: int) -> list[Named]:
    """All hosts of the last cases."""
    numbers = select(case.c.number).where(case.c.number <= then.last)
    first = numbers.order_by(case.c.number.desc()).offset(most - 1).limit(1)
    columns = (host.c.case, host.c.place, case.c.sha256, host.c.name, host.c.recorded)
    with reading(engine) as connection:
        begin = connection.scalar(first) or 0
        found = select(*columns).join(case, host.c.case == case.c.number).where(case.c.number.between(begin, then.last))
        rows = connection.execute(found.order_by(host.c.case, host.c.place))
        return [Named((row[0], row[1]), *row[2:]) for row in rows]


def _parts(connection: Connection, numbers: list[int], wanted: set[Place]) -> Iterator[Part]:
    hosts: dict[int, dict[int, Cells]] = {}
    for number, place, *cells in connection.execute(
        select(host.c.case, host.c.place, *(host.c[name] for name in HOST))
        .where(host.c.case.in_(numbers)).order_by(host.c.case, host.c.place)
    ):  # fmt: skip
        if (number, place) in wanted:
            hosts.setdefault(number, {})[place] = tuple(None if cell is None else str(cell) for cell in cells)
    findings: dict[Place, list[Cells]] = {}
    of_them = select(finding.c.case, finding.c.host, *(finding.c[name] for name in FINDING))
    in_order = (finding.c.case, finding.c.host, finding.c.place)
    for number, place, *cells in connection.execute(of_them.where(finding.c.case.in_(numbers)).order_by(*in_order)):
        findings.setdefault((number, place), []).append(tuple(cells))
    columns = (*(case.c[name] for name in _OF_CASE), bundle.c.size)
    cases = select(case.c.number, *columns).join(bundle, case.c.sha256 == bundle.c.sha256)
    for row in connection.execute(cases.where(case.c.number.in_(numbers)).order_by(case.c.number)).mappings():
        number = row["number"]
        told = tuple((cells, tuple(findings.get((number, at), ()))) for at, cells in hosts.get(number, {}).items())
        yield Part(**{name: row[name] for name in (*_OF_CASE, "size")}, hosts=told)
