"""Cases: what came of the analysis of a bundle, under an id that nobody can guess.

The same bundle analysed again in the same way (version of thpdiag, rules, options) has the same case.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256 as digest
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Engine, Select, func, insert, select, update

from thpdiag.json_text import compact
from thpdiag.serve.storage.bundles import hold
from thpdiag.serve.storage.clock import Clock
from thpdiag.serve.storage.database import adding, reading, writing
from thpdiag.serve.storage.form import case, document, finding, host, job
from thpdiag.serve.storage.ids import is_id, new_id
from thpdiag.serve.storage.jobs import DONE, Claim, held
from thpdiag.triage.store.bundle import Analysis
from thpdiag.triage.store.packed import Packed
from thpdiag.triage.store.rows import FINDING, HOST, Cells

PORTION: Final = 100


@dataclass(frozen=True, slots=True)
class Case:
    """A case as lists show it: itself, and the host that leads. `recorded` is when the data was, as far as is known."""

    number: int
    id: str
    sha256: str
    name: str
    status: str
    reason: str
    made: float
    kept: bool
    tool_version: str
    rules_digest: str
    options: str
    host: str | None
    title: str | None
    kernel: str | None
    verdict: str | None
    rule: str | None
    mechanism: str | None
    severity: str | None
    confidence: str | None
    sentence: str | None
    undecided: int | None
    recorded: str | None


_OF_CASE: Final = tuple(Case.__dataclass_fields__)[:11]
_OF_HOST: Final = tuple(Case.__dataclass_fields__)[11:]


class Cases:
    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine, self._clock = engine, clock

    def found(self, key: str) -> Case | None:
        if not is_id(key):
            return None
        with reading(self._engine) as connection:
            row = connection.execute(rows().where(case.c.id == key)).first()
        return None if row is None else Case(*row)

    def document(self, key: str) -> dict[str, Any] | None:
        """The result document as it was made; None for a case that is not there."""
        if not is_id(key):
            return None
        with reading(self._engine) as connection:
            whole = select(document.c.packed).join(case, document.c.case == case.c.number).where(case.c.id == key)
            packed = connection.scalar(whole)
        return None if packed is None else _unpacked(packed)

    def documents(self) -> Iterator[tuple[Case, dict[str, Any]]]:
        """All of them in the order in which they were made, in memory that does not grow with their number."""
        last = 0
        whole = rows().add_columns(document.c.packed).join(document, document.c.case == case.c.number)
        while True:
            with reading(self._engine) as connection:
                portion = whole.where(case.c.number > last).order_by(case.c.number).limit(PORTION)
                found = connection.execute(portion).all()
            yield from ((Case(*row[:-1]), _unpacked(row[-1])) for row in found)
            if not found:
                return
            last = found[-1][0]

    def counts(self) -> dict[str, int]:
        """How many cases there are by the verdict of the host that leads; empty where none is told."""
        leads = (host.c.case == case.c.number) & (host.c.place == 0)
        counted = select(host.c.verdict, func.count()).select_from(case.outerjoin(host, leads)).group_by(host.c.verdict)
        with reading(self._engine) as connection:
            return {told or "": int(number) for told, number in connection.execute(counted)}

    def keep(self, key: str) -> bool:
        """Have retention spare it, and its bundle; False if it is not there."""
        return self._set_kept(key, kept=True)

    def release(self, key: str) -> bool:
        return self._set_kept(key, kept=False)

    def complete(self, claim: Claim, result: Packed, analysis: Analysis) -> str | None:
        """Store what came of a job and end it, both or none; the id of the case.

        None if the job is no longer this claim's: it was claimed again, or its bundle was deleted meanwhile. A result
        without a document is no case: such a job fails.
        """
        if result.document is None:
            raise ValueError("no document: the job has failed")
        now = self._clock()
        with writing(self._engine) as connection:
            hold(connection, claim.job.sha256)  # first, as everybody does: two who hold and wait would wait for ever
            row = connection.execute(select(job.c.number, job.c.name).where(held(claim)).with_for_update()).first()
            if row is None:
                return None
            number, key = self._case(connection, claim.job.sha256, row.name, result, analysis)
            ended = {"state": DONE, "case": number, "claim": None, "ended": now, "reason": result.reason, "stage": ""}
            connection.execute(update(job).where(job.c.number == row.number).values(ended))
        return key

    def _set_kept(self, key: str, *, kept: bool) -> bool:
        if not is_id(key):
            return False
        with writing(self._engine) as connection:
            return connection.execute(update(case).where(case.c.id == key).values(kept=kept)).rowcount > 0

    def _case(
        self, connection: Connection, sha256: str, name: str, result: Packed, analysis: Analysis
    ) -> tuple[int, str]:
        """Number and id of the case, which is added unless the same analysis has made it already."""
        made = {
            "id": new_id(), "sha256": sha256, "analysis": analysis_key(analysis), "tool_version": analysis.tool_version,
            "rules_digest": analysis.rules_digest, "options": analysis.options_text, "name": name,
            "status": result.status, "reason": result.reason, "made": self._clock(), "kept": False,
        }  # fmt: skip
        add = adding(connection, case).values(made).on_conflict_do_nothing(index_elements=["sha256", "analysis"])
        added = connection.execute(add.returning(case.c.number, case.c.id)).first()
        if added is None:
            row = connection.execute(_numbers(sha256, analysis)).one()
            return row.number, row.id
        connection.execute(insert(document).values(case=added.number, packed=result.document))
        for place, (cells, findings) in enumerate(result.hosts):
            _add_host(connection, {"case": added.number, "place": place}, cells, findings)
        return added.number, added.id


def analysed(connection: Connection, sha256: str, analysis: Analysis) -> int | None:
    """The number of the case of a bundle, if this analysis has made one."""
    row = connection.execute(_numbers(sha256, analysis)).first()
    return None if row is None else int(row.number)


def rows(*where: ColumnElement[bool]) -> Select[Any]:
    """Cases with the host that leads, in the columns of `Case`."""
    told = [host.c["name" if name == "host" else name] for name in _OF_HOST]
    leads = (host.c.case == case.c.number) & (host.c.place == 0)
    return select(*(case.c[name] for name in _OF_CASE), *told).select_from(case.outerjoin(host, leads)).where(*where)


def analysis_key(analysis: Analysis) -> str:
    """One short text for all that changes a result but the bundle."""
    whole = compact({"": [analysis.tool_version, analysis.rules_digest, analysis.options_text]})
    return digest(whole.encode()).hexdigest()


def _numbers(sha256: str, analysis: Analysis) -> Select[tuple[int, str]]:
    same = (case.c.sha256 == sha256) & (case.c.analysis == analysis_key(analysis))
    return select(case.c.number, case.c.id).where(same)


def _add_host(connection: Connection, key: Mapping[str, int], cells: Cells, findings: tuple[Cells, ...]) -> None:
    told: dict[str, Any] = dict(zip(HOST, cells, strict=True))
    undecided = told["undecided"]
    connection.execute(insert(host).values({**told, **key, "undecided": None if undecided is None else int(undecided)}))
    of_host = {"case": key["case"], "host": key["place"]}
    if findings:
        rows = [{**of_host, "place": at, **dict(zip(FINDING, one, strict=True))} for at, one in enumerate(findings)]
        connection.execute(insert(finding), rows)


def _unpacked(packed: bytes) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(zlib.decompress(packed))
    return whole
