"""The list of all cases: searched without script, fifty a page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from thpdiag.serve.pages.answering import endpoint
from thpdiag.serve.pages.shown import shown
from thpdiag.serve.pages.told import VERDICTS
from thpdiag.serve.server import Server
from thpdiag.serve.storage.cases import Case
from thpdiag.serve.storage.search import PAGE, Question, Search

PATH: Final = "/cases"
FIELDS: Final = ("host", "verdict", "mechanism", "rule", "since", "until")
LONGEST: Final = 255  # characters of what is asked for
DIGITS: Final = 15  # of a case's number
WRONG_DATE: Final = "{}: {!r} is not a date like 2026-11-20."
WRONG_ORDER: Final = "The first day is after the last."


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for as it was written, by all names of fields; what it means, and what is wrong with it."""

    written: dict[str, str]
    question: Question
    mistakes: tuple[str, ...]

    @property
    def given(self) -> dict[str, str]:
        """Without what is empty."""
        return {name: text for name, text in self.written.items() if text}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One page of the list; `newer` and `older` are queries of the pages beside it, empty if there are none."""

    cases: list[Case]
    newer: str = ""
    older: str = ""


def routes(server: Server) -> list[BaseRoute]:
    return [Route(PATH, endpoint(server, listed))]


def listed(request: Request, server: Server) -> Response:
    asked = read(request.query_params)
    search = server.storage.search
    leaf = Leaf([]) if asked.mistakes else turned(search, asked, request.query_params)
    return shown(
        request, server, "cases.html", title="Cases", status=400 if asked.mistakes else 200,
        asked=asked, leaf=leaf, number=0 if asked.mistakes else search.count(asked.question),
        verdicts=VERDICTS, mechanisms=_mechanisms(server, asked), rules=sorted(rule.id for rule in server.rules),
    )  # fmt: skip


def _mechanisms(server: Server, asked: Asked) -> list[str]:
    """Those of all rules, and the one that is asked for: older cases may have others."""
    known = {rule.file.mechanism for rule in server.rules}
    return sorted(filter(None, {*known, asked.written["mechanism"]}))


def read(query: QueryParams) -> Asked:
    """What a query asks for; what is empty is not asked for."""
    written = {name: query.get(name, "").strip()[:LONGEST] for name in FIELDS}
    days, mistakes = {}, []
    for name in ("since", "until"):
        try:
            days[name] = _start(written[name]) if written[name] else None
        except ValueError:
            mistakes.append(WRONG_DATE.format(name.capitalize(), written[name]))
            written[name] = ""  # a date field takes nothing else
    first, last = days.get("since"), days.get("until")
    if first is not None and last is not None and first > last:
        mistakes.append(WRONG_ORDER)
    question = Question(
        host=written["host"], verdict=written["verdict"], mechanism=written["mechanism"],
        rule=written["rule"].upper(), since=None if first is None else first.timestamp(),
        until=None if last is None else (last + timedelta(days=1)).timestamp(),
    )  # fmt: skip
    return Asked(written, question, tuple(mistakes))


def turned(search: Search, asked: Asked, query: QueryParams) -> Leaf:
    """The page that a query names: `below` and `above` are numbers of cases at its edges."""
    below, above = _number(query.get("below", "")), _number(query.get("above", ""))
    if above is not None:
        found = search.page(asked.question, limit=PAGE + 1, above=above)
        if len(found) > PAGE:
            return _leaf(asked, found[1:], newer=True, older=True)
        below = None  # nearly at the beginning: all of the first page
    found = search.page(asked.question, below, PAGE + 1)
    return _leaf(asked, found[:PAGE], newer=below is not None, older=len(found) > PAGE)


def _leaf(asked: Asked, cases: list[Case], *, newer: bool, older: bool) -> Leaf:
    if not cases:
        return Leaf(cases, newer=urlencode(asked.given) if newer else "")
    return Leaf(
        cases,
        urlencode({**asked.given, "above": cases[0].number}) if newer else "",
        urlencode({**asked.given, "below": cases[-1].number}) if older else "",
    )


def _start(day: str) -> datetime:
    """The beginning of a day in UTC."""
    if len(day) != len("2026-11-20"):  # other forms of ISO 8601, which no date field sends
        raise ValueError(day)
    begin = date.fromisoformat(day)
    if not 1970 <= begin.year < 9999:
        raise ValueError(day)
    return datetime(begin.year, begin.month, begin.day, tzinfo=UTC)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None
