"""What all cases have in common: a list of hosts, and the page that `thpdiag triage report` makes, in a frame.

The page of triage is made of what customers sent, so its frame has an origin of its own and no session here: links to
cases stand in the list beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from thpdiag.reports.html.script import policy_for
from thpdiag.reports.severities import SEVERITIES
from thpdiag.serve.access.audit import Action
from thpdiag.serve.access.headers import download_headers, report_headers
from thpdiag.serve.fleet.kept import Kept, Look
from thpdiag.serve.fleet.making import FILES, PAGE, Listed, hosts
from thpdiag.serve.pages.answering import endpoint, failed, note
from thpdiag.serve.pages.shown import shown
from thpdiag.serve.pages.told import VERDICTS
from thpdiag.serve.server import Server
from thpdiag.triage.fleet.page import looks, script

PATH: Final = "/fleet"
LEAF: Final = 50  # hosts
LONGEST: Final = 255  # characters of what is searched for
PATIENCE: Final = 3.0  # seconds
AGAIN: Final = 3  # seconds until a page that is being made is looked for again
NOT_YET: Final = "The fleet is being put together. Try again in a moment."
NO_CASES: Final = "There are no cases yet, and so there is no fleet."
SEARCHED: Final = ("label", "path", "kernel", "os", "mechanism", "rule")


@dataclass(frozen=True, slots=True)
class Asked:
    """Which hosts somebody wants to see; `result` is a severity or a verdict."""

    words: str
    result: str
    leaf: int

    @classmethod
    def of(cls, query: QueryParams) -> Asked:
        result, leaf = query.get("result", ""), query.get("page", "")
        known = result in SEVERITIES or result in VERDICTS
        number = int(leaf) if leaf.isascii() and leaf.isdigit() and len(leaf) < 7 else 1
        return cls(query.get("q", "").strip()[:LONGEST], result if known else "", max(1, number))

    def fits(self, host: Listed) -> bool:
        if self.result and self.result not in (host.verdict, host.severity):
            return False
        text = " ".join(getattr(host, name) or "" for name in SEARCHED).lower()
        return all(word in text for word in self.words.lower().split())

    def address(self, leaf: int) -> str:
        told = {"q": self.words, "result": self.result, "page": str(leaf) if leaf > 1 else ""}
        query = urlencode({name: text for name, text in told.items() if text})
        return f"{PATH}?{query}" if query else PATH


@dataclass(frozen=True, slots=True)
class Leaf:
    """One page of the list; how many hosts there are in all, and how many of them fit."""

    hosts: list[Listed]
    fitting: int
    all: int


def routes(server: Server) -> list[BaseRoute]:
    kept = Kept(server.storage, server.clock)
    return [
        Route(PATH, endpoint(server, partial(listed, kept))),
        Route(f"{PATH}/page", endpoint(server, partial(framed, kept))),
        *(Route(f"{PATH}/{name}", endpoint(server, partial(saved, kept, name))) for name in FILES.values()),
    ]


def listed(kept: Kept, request: Request, server: Server) -> Response:
    look, asked = kept.look(PATIENCE), Asked.of(request.query_params)
    leaf = turned(look, asked)
    answer = shown(
        request, server, "fleet.html", title="Fleet", look=look, asked=asked, leaf=leaf,
        last=max(1, -(-leaf.fitting // LEAF)), severities=SEVERITIES[::-1], verdicts=VERDICTS, files=FILES,
    )  # fmt: skip
    if look.waits:
        answer.headers["Refresh"] = str(AGAIN)
    return answer


def framed(kept: Kept, request: Request, server: Server) -> Response:
    """The page of triage under the policy that stands in it."""
    headers = report_headers(policy_for(looks(), script()))
    return _file(request, server, kept.look(PATIENCE), PAGE, {**headers, "Content-Type": "text/html; charset=utf-8"})


def saved(kept: Kept, name: str, request: Request, server: Server) -> Response:
    answer = _file(request, server, kept.look(PATIENCE), name, download_headers(name))
    if answer.status_code == 200:
        note(request, server, Action.DOWNLOAD, name)
    return answer


def turned(look: Look, asked: Asked) -> Leaf:
    """The hosts of a page of the list; one line after the other, so that a long list takes no memory."""
    found: list[Listed] = []
    fitting = 0
    for host in hosts(look.made.folder) if look.made else ():
        if asked.fits(host):
            fitting += 1
            if (asked.leaf - 1) * LEAF < fitting <= asked.leaf * LEAF:
                found.append(host)
    return Leaf(found, fitting, look.made.hosts if look.made else 0)


def _file(request: Request, server: Server, look: Look, name: str, headers: dict[str, str]) -> Response:
    file = look.made.folder / name if look.made else None
    if file is None or not file.is_file():  # it goes with a case that is deleted
        answer = failed(request, server, 503, look.mistake or NOT_YET if look.cases else NO_CASES)
        answer.headers["Retry-After"] = str(AGAIN)
        return answer
    return FileResponse(file, headers=headers)
