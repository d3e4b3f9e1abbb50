"""Lists of cases: by host, verdict, mechanism, rule and time, the latest first, page by page.

A case with several hosts is found by any of them; all that is asked of a host must hold of the same one.
"""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Engine, Select, func, select

from thpdiag.serve.storage.cases import Case, rows
from thpdiag.serve.storage.database import reading
from thpdiag.serve.storage.form import case, finding, host
from thpdiag.serve.storage.texts import LONGEST, short

PAGE: Final = 50
_ANY: Final = host.alias("any_host")  # beside the one that leads
_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@dataclass(frozen=True, slots=True)
class Question:
    """What is empty or None is not asked for.

    `host` is a part of a host's name, in capitals or not (of ASCII letters); `same_host` is the whole name. `rule` is
    of any finding; `since` and `until` are of when the case was made.
    """

    host: str = ""
    same_host: str | None = None
    verdict: str = ""
    mechanism: str = ""
    rule: str = ""
    sha256: str = ""
    since: float | None = None
    until: float | None = None


class Search:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def page(
        self, question: Question, below: int | None = None, limit: int = PAGE, above: int | None = None
    ) -> list[Case]:
        """The latest cases; the next page is that `below` the number of the last one of this.

        With `above` they are those that come just before that number in the list: the way back. Latest first too.
        """
        wanted = rows(*_conditions(question)).limit(limit)
        if below is not None:
            wanted = wanted.where(case.c.number < below)
        if above is not None:
            wanted = wanted.where(case.c.number > above)
        order = case.c.number.desc() if above is None else case.c.number.asc()
        with reading(self._engine) as connection:
            found = [Case(*row) for row in connection.execute(wanted.order_by(order))]
        return found if above is None else found[::-1]

    def count(self, question: Question) -> int:
        with reading(self._engine) as connection:
            return int(connection.scalar(select(func.count()).select_from(case).where(*_conditions(question))) or 0)


def _conditions(question: Question) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if question.sha256:
        found.append(case.c.sha256 == question.sha256)
    if question.since is not None:
        found.append(case.c.made >= question.since)
    if question.until is not None:
        found.append(case.c.made < question.until)
    of_host = _of_host(question)
    if of_host:
        found.append(case.c.number.in_(_cases(question, of_host)))
    return found


def _cases(question: Question, of_host: list[ColumnElement[bool]]) -> Select[tuple[int]]:
    """The numbers of cases of such hosts, found once: a subquery per case would read an index anew for each."""
    wanted = select(_ANY.c.case).where(*of_host)
    if question.rule:
        wanted = wanted.join(finding, (finding.c.case == _ANY.c.case) & (finding.c.host == _ANY.c.place))
    return wanted


def _of_host(question: Question) -> list[ColumnElement[bool]]:
    found = [_ANY.c[name] == value for name in ("verdict", "mechanism") if (value := getattr(question, name))]
    if question.same_host is not None:
        found.append(_ANY.c.name == question.same_host)
    if question.host:
        part = short(question.host)[:LONGEST].translate(_LOWER)
        found.append(func.lower(_ANY.c.name).contains(part, autoescape=True))
    if question.rule:
        found.append(finding.c.rule == question.rule)
    return found
