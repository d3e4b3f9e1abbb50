"""What all cases have in common: a list of hosts, and the page that `thpdiag triage report` makes, in a frame.

The page of triage is made of what customers sent, so its frame has an origin of its own and no session here: links to
cases stand in the list beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from thpdiag.fleet.page import page_script, page_style
from thpdiag.model.finding import SEVERITIES
from thpdiag.report.html import policy_for
from thpdiag.serve.access.audit import Action
from thpdiag.serve.access.http import download_headers, report_headers
from thpdiag.serve.fleet import FleetView
from thpdiag.serve.fleet_files import DOWNLOAD_FILES, PAGE_FILE, ListedHost, read_hosts
from thpdiag.serve.pages.render import VERDICTS, PageError, format_time, render_page
from thpdiag.serve.server import Server

FLEET_PATH: Final = "/fleet"
HOSTS_PER_PAGE: Final = 50
MAX_QUERY_CHARS: Final = 255
WAIT_SECONDS: Final = 3.0
RETRY_SECONDS: Final = 3  # until a page that is being made is looked for again
NOT_YET: Final = "The fleet is being built since {}; it, or the reason why not, will be there by {}."
NOT_NOW: Final = "Sorry, {}. The next attempt is not before {}."
NO_CASES: Final = "There are no cases yet, so there is no fleet."
SEARCHED_FIELDS: Final = ("label", "path", "kernel", "os", "mechanism", "rule")


@dataclass(frozen=True, slots=True)
class FleetQuery:
    """Which hosts somebody wants to see; `result` is a severity or a verdict, `leaf` the number of the page."""

    words: str
    result: str
    leaf: int

    def fits(self, host: ListedHost) -> bool:
        if self.result and self.result not in (host.verdict, host.severity):
            return False
        text = " ".join(getattr(host, name) or "" for name in SEARCHED_FIELDS).lower()
        return all(word in text for word in self.words.lower().split())

    def address(self, leaf: int) -> str:
        fields = {"q": self.words, "result": self.result, "page": str(leaf) if leaf > 1 else ""}
        query = urlencode({name: text for name, text in fields.items() if text})
        return f"{FLEET_PATH}?{query}" if query else FLEET_PATH


def parse_query(query: QueryParams) -> FleetQuery:
    result, leaf = query.get("result", ""), query.get("page", "")
    known = result in SEVERITIES or result in VERDICTS
    number = int(leaf) if leaf.isascii() and leaf.isdigit() and len(leaf) < 7 else 1
    return FleetQuery(query.get("q", "").strip()[:MAX_QUERY_CHARS], result if known else "", max(1, number))


@dataclass(frozen=True, slots=True)
class FleetListPage:
    """One page of the list; how many hosts there are in all, and how many of them fit."""

    hosts: list[ListedHost]
    fitting: int
    all: int


def fleet_list(request: Request, server: Server) -> Response:
    look, asked = server.fleet.look(WAIT_SECONDS), parse_query(request.query_params)
    leaf = list_page(look, asked)
    answer = render_page(
        request,
        server,
        "fleet.html",
        title="Fleet",
        look=look,
        asked=asked,
        leaf=leaf,
        last=max(1, -(-leaf.fitting // HOSTS_PER_PAGE)),
        severities=SEVERITIES[::-1],
        verdicts=VERDICTS,
        files=DOWNLOAD_FILES,
    )
    if look.waits:
        answer.headers["Refresh"] = str(RETRY_SECONDS)
    return answer


def list_page(look: FleetView, asked: FleetQuery) -> FleetListPage:
    """The hosts of a page of the list; one line after the other, so that a long list takes no memory."""
    shown: list[ListedHost] = []
    fitting = 0
    for host in read_hosts(look.made.folder) if look.made else ():
        if asked.fits(host):
            fitting += 1
            if (asked.leaf - 1) * HOSTS_PER_PAGE < fitting <= asked.leaf * HOSTS_PER_PAGE:
                shown.append(host)
    return FleetListPage(shown, fitting, look.made.hosts if look.made else 0)


def fleet_report(_request: Request, server: Server) -> Response:
    """The page of triage under the policy that stands in it."""
    headers = report_headers(policy_for(page_style(), page_script())) | {"Content-Type": "text/html; charset=utf-8"}
    return _file_response(server, PAGE_FILE, headers)


def fleet_file(request: Request, server: Server) -> Response:
    name = request.url.path.rpartition("/")[2]
    answer = _file_response(server, name, download_headers(name))
    server.record_action(request, Action.DOWNLOAD, name)
    return answer


def _file_response(server: Server, name: str, headers: dict[str, str]) -> Response:
    look = server.fleet.look(WAIT_SECONDS)
    file = look.made.folder / name if look.made else None
    if file is None or not file.is_file():  # it goes with a case that is deleted
        raise PageError(503, _describe_delay(look), headers={"Retry-After": str(RETRY_SECONDS)})
    return FileResponse(file, headers=headers)


def _describe_delay(look: FleetView) -> str:
    """Why there is nothing to see yet, and until when."""
    if not look.cases:
        return NO_CASES
    if look.mistake:
        return NOT_NOW.format(look.mistake, format_time(look.until))
    return NOT_YET.format(format_time(look.since), format_time(look.until))
