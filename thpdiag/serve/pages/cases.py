"""Pages of cases: the searchable list, a case with its report and actions, and the comparison of two cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from thpdiag.compare import page as comparison_html
from thpdiag.compare.document import document as compare
from thpdiag.report.html import policy, render
from thpdiag.report.messages import NAMELESS, host_title
from thpdiag.serve.access.audit import Action
from thpdiag.serve.access.http import report_headers
from thpdiag.serve.access.principals import Mode
from thpdiag.serve.pages.lines import DOCUMENT_ERRORS, CitedFinding, cited_findings
from thpdiag.serve.pages.render import (
    NO_CASE,
    VERDICTS,
    PageError,
    case_sentence,
    case_title,
    find_case,
    format_day,
    not_found,
    parse_number,
    read_case,
    render_page,
)
from thpdiag.serve.pages.work import STATE_WORDS, can_ask, case_work, link_words, verdict_blocks, what_changed
from thpdiag.serve.server import Server
from thpdiag.serve.storage.bundles import Bundle
from thpdiag.serve.storage.cases import CASES_PER_PAGE, Case, CaseCount, CaseFilter, Cases
from thpdiag.serve.storage.retention import Terms

DOWNLOADS: Final = (  # labels and file names of the reports of the API
    ("Web page", "report.html"),
    ("JSON", "report.json"),
    ("Text", "report.txt"),
    ("Markdown", "report.md"),
    ("CSV", "report.csv"),
    ("SARIF", "report.sarif"),
    ("JUnit", "report.xml"),
    ("GitLab Code Quality", "report.gitlab.json"),
    ("GitHub annotations", "report.github.txt"),
)
MAX_OTHER_CASES: Final = 20  # of the same host or bundle in a list
PAGE_LIMIT: Final = CASES_PER_PAGE + 1  # the additional one shows whether there are older ones
NO_CASES: Final = CaseCount(0)
MAX_QUERY_CHARS: Final = 255
MAX_DIGITS: Final = 15  # of the number of a case
QUERY_FIELDS: Final = ("q", "host", "verdict", "mechanism", "rule", "since", "until", "state", "assignee")
NO_OTHER_CASE: Final = "The case to compare with does not exist. It may have been deleted or have expired."
SAME_CASE: Final = "This is the same case twice. Choose another one of the host."
NO_FORM: Final = "The stored result of this case does not have the form of a result. Analyze the bundle again."


@dataclass(frozen=True, slots=True)
class CaseFile:
    """One file of a case, by its name in the result; `recognised`: whether a parser has read any of it."""

    name: str
    bundle: Bundle
    recognised: bool


@dataclass(frozen=True, slots=True)
class CaseContext:
    """The files of a case, citations of its findings, its other versions, and related cases."""

    files: list[CaseFile]
    findings: list[CitedFinding]
    versions: list[Case]
    same_host: list[Case]
    same_bundle: list[Case]

    @property
    def size(self) -> int:
        return sum(file.bundle.size for file in self.files)

    @property
    def removal_time(self) -> float | None:
        """When the first of its files was removed, if one was: then the case cannot be analysed again."""
        return min((file.bundle.removed for file in self.files if file.bundle.removed is not None), default=None)

    @property
    def latest(self) -> Case | None:
        """The latest version of the case, if it is another one."""
        return next((other for other in self.versions if not other.superseded), None)

    @property
    def places(self) -> int:
        return sum(len(finding.places) for finding in self.findings)


def case_page(request: Request, server: Server) -> Response:
    storage = server.storage
    case = find_case(request, server)
    document = storage.cases.document(case.id) or {}
    try:
        findings = cited_findings(document)
    except DOCUMENT_ERRORS:
        findings = []
    versions = _other_cases(server, case, CaseFilter(thread=case.thread))
    has_name = case.host and host_title(case.host) != NAMELESS  # hosts without a name cannot be matched
    same_host = _other_cases(server, case, CaseFilter(same_host=case.host)) if has_name else []
    same_bundle = _other_cases(server, case, CaseFilter(sha256=case.sha256))
    ids = {case.id, *(version.id for version in versions)}
    same_host, same_bundle = ([other for other in others if other.id not in ids] for others in (same_host, same_bundle))
    around = CaseContext(_files(server, case, document), findings, versions, same_host, same_bundle)
    title = ": ".join(filter(None, (case_title(case), case_sentence(case))))
    blocks, asks = verdict_blocks(document), can_ask(document)
    return render_page(
        request, server, "case.html",
        title=title, case=case, around=around, formats=DOWNLOADS, limit=server.intake.limit, blocks=blocks, asks=asks,
        outdated=case.tool_version != server.analysis.tool_version or case.rules_digest != server.analysis.rules_digest,
        changes=_changes(server, case, versions, document), work=case_work(server, case, request.state.principal),
        link_words=link_words, login=server.access.mode is not Mode.NONE, expiry=_expiry(case, around, server.terms),
    )  # fmt: skip


def _expiry(case: Case, around: CaseContext, terms: Terms) -> str:
    """Return the days on which the case and its files are deleted."""
    stored = [file.bundle.stored for file in around.files]
    files = f", its files {format_day(min(stored) + terms.bundles)}" if stored and around.removal_time is None else ""
    return format_day(case.made + terms.cases) + files


def _changes(server: Server, case: Case, versions: list[Case], document: Mapping[str, Any]) -> list[str]:
    """Return how the result differs from the previous version."""
    before = next((other for other in versions if other.number < case.number), None)
    return [] if before is None else what_changed(server.storage.cases.document(before.id) or {}, document)


def _files(server: Server, case: Case, document: Mapping[str, Any]) -> list[CaseFile]:
    """Return the files of a case, and whether the result has inputs from them that a parser has read."""
    hosts = document.get("cases") or [document]
    members = {
        item["member"]
        for host in hosts
        for item in (host.get("inputs", ()) if isinstance(host, Mapping) else ())
        if isinstance(item, Mapping) and item.get("reader") and isinstance(item.get("member"), str)
    }
    names = {member.partition("/")[0] for member in members}
    files = server.storage.bundles.files(case.sha256)
    return [CaseFile(part.name, row, part.name in names if part.name else bool(members)) for part, row in files]


def _other_cases(server: Server, case: Case, question: CaseFilter) -> list[Case]:
    """Return the latest other cases that match."""
    matches = server.storage.cases.page(question, limit=MAX_OTHER_CASES + 1)
    return [other for other in matches if other.id != case.id][:MAX_OTHER_CASES]


def case_report(request: Request, server: Server) -> Response:
    """Return the report for a frame: sandboxed with an origin of its own, and its own script only."""
    case, document = read_case(request, server)
    try:
        page = render(document)
    except DOCUMENT_ERRORS:
        raise PageError(500, NO_FORM, "No report") from None
    server.record_action(request, Action.DOWNLOAD, case.id)
    return HTMLResponse(page, headers=report_headers(policy()))


def set_kept(request: Request, server: Server) -> Response:
    """Exclude a case from retention or include it again, depending on the last part of the path."""
    key, kept = request.path_params["id"], request.url.path.endswith("/keep")
    if not server.storage.cases.set_kept(key, kept=kept):
        raise not_found(NO_CASE)
    server.record_action(request, Action.KEEP if kept else Action.RELEASE, key)
    return RedirectResponse(f"/cases/{key}", 303)


def delete_case(request: Request, server: Server) -> Response:
    """Delete a case after a confirmation page, whose form sets `sure`."""
    case = find_case(request, server)
    if request.query_params.get("sure") != "yes":
        is_only = not _other_cases(server, case, CaseFilter(sha256=case.sha256))
        return render_page(request, server, "delete.html", title="Delete this case?", case=case, alone=is_only)
    if not server.storage.removal.delete_case(case.id):
        raise not_found(NO_CASE)
    server.record_action(request, Action.DELETE, case.id)
    return RedirectResponse("/cases", 303)


@dataclass(frozen=True, slots=True)
class CaseQuery:
    """The fields of the search form as entered, the filter parsed from them, and error messages."""

    written: dict[str, str]
    question: CaseFilter
    mistakes: tuple[str, ...]

    @property
    def given(self) -> dict[str, str]:
        """The fields that are not empty."""
        return {name: text for name, text in self.written.items() if text}


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of a list of `size` cases; `newer` and `older` are queries of the adjacent pages, empty without one."""

    cases: list[Case]
    size: CaseCount = NO_CASES
    newer: str = ""
    older: str = ""


def case_list(request: Request, server: Server) -> Response:
    query, cases = parse_query(request.query_params), server.storage.cases
    mechanisms = {rule.file.mechanism for rule in server.rules} | {query.written["mechanism"]}  # of an older case
    return render_page(
        request,
        server,
        "cases.html",
        title="Cases",
        status=400 if query.mistakes else 200,
        asked=query,
        leaf=ListPage([]) if query.mistakes else list_page(cases, query, request.query_params),
        verdicts=VERDICTS,
        mechanisms=sorted(filter(None, mechanisms)),
        rules=sorted(rule.id for rule in server.rules),
        states=STATE_WORDS,
        assignees=server.storage.work.assignees(),
    )


def parse_query(query: QueryParams) -> CaseQuery:
    """Parse the fields of the search form; empty ones are ignored."""
    written = {name: query.get(name, "").strip()[:MAX_QUERY_CHARS] for name in QUERY_FIELDS}
    days: dict[str, datetime | None] = {}
    mistakes = []
    for name in ("since", "until"):
        try:
            days[name] = _start_of_day(written[name]) if written[name] else None
        except ValueError:
            mistakes.append(f"{name.capitalize()}: {written[name]!r} is not a date like 2026-11-20.")
            written[name] = ""  # a date input cannot show another text
    first, last = days.get("since"), days.get("until")
    if first is not None and last is not None and first > last:
        mistakes.append("The first day is after the last.")
    question = CaseFilter(
        host=written["host"],
        verdict=written["verdict"],
        mechanism=written["mechanism"],
        rule=written["rule"].upper(),
        since=None if first is None else first.timestamp(),
        until=None if last is None else (last + timedelta(days=1)).timestamp(),
        state=written["state"],
        words=written["q"],
        assignee=written["assignee"],
    )
    return CaseQuery(written, question, tuple(mistakes))


def _start_of_day(day: str) -> datetime:
    """Return the beginning of a day in UTC; ValueError if the date is not like 2026-11-20."""
    start = date.fromisoformat(day)
    if len(day) != len("2026-11-20") or not 1970 <= start.year < 9999:  # a date input sends no other ISO 8601 form
        raise ValueError(day)
    return datetime(start.year, start.month, start.day, tzinfo=UTC)


def list_page(cases: Cases, query: CaseQuery, params: QueryParams) -> ListPage:
    """Return a page of the list. `below` and `above` in `params` are the numbers of the adjacent cases."""
    below, above = (parse_number(params.get(name, ""), MAX_DIGITS) for name in ("below", "above"))
    is_first, found = below is None and above is None, list[Case]()
    if not is_first:
        found = cases.page(query.question, below if above is None else None, PAGE_LIMIT, above)
        is_first = above is not None and len(found) < PAGE_LIMIT  # fewer than a page above: show the full first page
    if is_first:
        found, size = cases.first_page(query.question, PAGE_LIMIT)
    else:
        size = cases.size(query.question)
    has_newer, has_older = not is_first, len(found) == PAGE_LIMIT
    if has_newer and above is not None:
        found = found[1:]
    shown = found[:CASES_PER_PAGE]
    if not shown:
        return ListPage([], size, newer=urlencode(query.given) if has_newer else "")
    newer = urlencode({**query.given, "above": shown[0].number}) if has_newer else ""
    older = urlencode({**query.given, "below": shown[-1].number}) if has_older else ""
    return ListPage(shown, size, newer, older)


def comparison_page(request: Request, server: Server) -> Response:
    """Return the page with the frame of the comparison."""
    before, after = _cases_of_request(request, server)
    return render_page(
        request,
        server,
        "compare.html",
        title="Before and after",
        before=before,
        after=after,
        asked=request.path_params["id"],
        other=request.query_params["with"],
        different=bool(before.host and after.host and not _may_be_one_host(before.host, after.host)),
    )


def comparison_report(request: Request, server: Server) -> Response:
    """Return the comparison for a frame."""
    pair = _cases_of_request(request, server)
    documents = [server.storage.cases.document(case.id) or {} for case in pair]
    try:
        page = comparison_html.render(compare(*documents))
    except DOCUMENT_ERRORS:
        raise PageError(500, NO_FORM, "No comparison") from None
    for case in pair:
        server.record_action(request, Action.DOWNLOAD, case.id)
    return HTMLResponse(page, headers=report_headers(comparison_html.policy()))


def _cases_of_request(request: Request, server: Server) -> tuple[Case, Case]:
    """Return the two cases, the older one first: by the time of the data if both are in UTC, otherwise by number."""
    left, right = find_case(request, server), server.storage.cases.find(request.query_params.get("with", ""))
    if right is None:
        raise not_found(NO_OTHER_CASE)
    if left.id == right.id:
        raise not_found(SAME_CASE)
    times = [left.recorded or "", right.recorded or ""]
    if all(time.endswith("Z") for time in times) and times[0] != times[1]:
        return (left, right) if times[0] < times[1] else (right, left)
    return (left, right) if left.number <= right.number else (right, left)


def _may_be_one_host(left: str, right: str) -> bool:
    """Whether two names may be of one host, with and without its domain."""
    same_start = left.partition(".")[0] == right.partition(".")[0]
    return left == right or (same_start and not ("." in left and "." in right))
