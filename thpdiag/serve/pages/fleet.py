"""The fleet: a list of the hosts of all cases, and the page of `thpdiag triage report` in a frame.

The triage page contains customer data, so its frame has an origin of its own and no session; links to cases are in the
list next to it.
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
from thpdiag.serve.pages.render import VERDICTS, PageError, format_time, parse_number, render_page
from thpdiag.serve.server import Server

FLEET_PATH: Final = "/fleet"
HOSTS_PER_PAGE: Final = 50
MAX_QUERY_CHARS: Final = 255
WAIT_SECONDS: Final = 3.0
RETRY_SECONDS: Final = 3  # after which a page that is being built is requested again
NOT_YET: Final = "The fleet is being built since {}; it, or the reason why not, will be there by {}."
NOT_NOW: Final = "Sorry, {}. The next attempt is not before {}."
NO_CASES: Final = "There are no cases yet, so there is no fleet."
SEARCHED_FIELDS: Final = ("label", "path", "kernel", "os", "mechanism", "rule")


@dataclass(frozen=True, slots=True)
class FleetQuery:
    """Filter and page of the list; `result` is a severity or a verdict, `leaf` the number of the page."""

    words: str
    result: str
    leaf: int

    def matches(self, host: ListedHost) -> bool:
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
    is_known = result in SEVERITIES or result in VERDICTS
    words = query.get("q", "").strip()[:MAX_QUERY_CHARS]
    return FleetQuery(words, result if is_known else "", parse_number(leaf, 6) or 1)


@dataclass(frozen=True, slots=True)
class FleetListPage:
    """One page of the list, the number of matching hosts and of all hosts."""

    hosts: list[ListedHost]
    fitting: int
    all: int


def fleet_list(request: Request, server: Server) -> Response:
    view, query = server.fleet.view(WAIT_SECONDS), parse_query(request.query_params)
    leaf = list_page(view, query)
    answer = render_page(
        request,
        server,
        "fleet.html",
        title="Fleet",
        look=view,
        asked=query,
        leaf=leaf,
        last=max(1, -(-leaf.fitting // HOSTS_PER_PAGE)),
        severities=SEVERITIES[::-1],
        verdicts=VERDICTS,
        files=DOWNLOAD_FILES,
    )
    if view.waits:
        answer.headers["Refresh"] = str(RETRY_SECONDS)
    return answer


def list_page(view: FleetView, query: FleetQuery) -> FleetListPage:
    """Return a page of the list; lines are read one by one, so that memory use is constant."""
    shown: list[ListedHost] = []
    matching = 0
    for host in read_hosts(view.made.folder) if view.made else ():
        if query.matches(host):
            matching += 1
            if (query.leaf - 1) * HOSTS_PER_PAGE < matching <= query.leaf * HOSTS_PER_PAGE:
                shown.append(host)
    return FleetListPage(shown, matching, view.made.hosts if view.made else 0)


def fleet_report(_request: Request, server: Server) -> Response:
    """Return the triage page with its own content security policy."""
    headers = report_headers(policy_for(page_style(), page_script())) | {"Content-Type": "text/html; charset=utf-8"}
    return _file_response(server, PAGE_FILE, headers)


def fleet_file(request: Request, server: Server) -> Response:
    name = request.url.path.rpartition("/")[2]
    answer = _file_response(server, name, download_headers(name))
    server.record_action(request, Action.DOWNLOAD, name)
    return answer


def _file_response(server: Server, name: str, headers: dict[str, str]) -> Response:
    view = server.fleet.view(WAIT_SECONDS)
    file = view.made.folder / name if view.made else None
    if file is None or not file.is_file():  # deleted with a case
        raise PageError(503, _describe_delay(view), headers={"Retry-After": str(RETRY_SECONDS)})
    return FileResponse(file, headers=headers)


def _describe_delay(view: FleetView) -> str:
    """Describe why there is no page, and until when."""
    if not view.cases:
        return NO_CASES
    if view.mistake:
        return NOT_NOW.format(view.mistake, format_time(view.until))
    return NOT_YET.format(format_time(view.since), format_time(view.until))
