"""Pages of cases: the list, searched without script; one case with its report and what can be done with it; a case
beside another, as a rule of the same host, the older one first."""

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
    read_case,
    render_page,
)
from thpdiag.serve.pages.work import STATE_WORDS, can_ask, link_words, verdict_blocks, what_changed, work_of
from thpdiag.serve.server import Server
from thpdiag.serve.storage.bundles import Bundle
from thpdiag.serve.storage.cases import CASES_PER_PAGE, Case, CaseCount, CaseFilter, Cases
from thpdiag.serve.storage.retention import Terms

DOWNLOADS: Final = (  # as the API has them, in words
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
MAX_OTHER_CASES: Final = 20  # of the same host or bundle that are listed
LIMIT: Final = CASES_PER_PAGE + 1  # one more says whether there are older ones
NO_CASES: Final = CaseCount(0)
MAX_QUERY_CHARS: Final = 255
MAX_DIGITS: Final = 15  # of a case's number
QUERY_FIELDS: Final = ("q", "host", "verdict", "mechanism", "rule", "since", "until", "state", "assignee")
NO_OTHER_CASE: Final = "The case to compare with does not exist. It may have been deleted or have expired."
SAME_CASE: Final = "This is the same case twice. Choose another one of the host."
NO_FORM: Final = "The stored result of this case does not have the form of a result. Analyze the bundle again."


@dataclass(frozen=True, slots=True)
class CaseFile:
    """One file of a case, under its name in the result; `recognised` says whether anything was read of it."""

    name: str
    bundle: Bundle
    recognised: bool


@dataclass(frozen=True, slots=True)
class CaseContext:
    """What stands beside a case: its files, what its findings cite, its other versions, other cases."""

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
        """When the first of its files went, if one did: then it cannot be judged again."""
        return min((file.bundle.removed for file in self.files if file.bundle.removed is not None), default=None)

    @property
    def latest(self) -> Case | None:
        """The version of a case that counts, if it is another one."""
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
    named = case.host and host_title(case.host) != NAMELESS  # cases without a name are of nobody knows which hosts
    same_host = _other_cases(server, case, CaseFilter(same_host=case.host)) if named else []
    same_bundle = _other_cases(server, case, CaseFilter(sha256=case.sha256))
    own = {case.id, *(version.id for version in versions)}
    same_host, same_bundle = ([one for one in others if one.id not in own] for others in (same_host, same_bundle))
    around = CaseContext(_files(server, case, document), findings, versions, same_host, same_bundle)
    title = ": ".join(filter(None, (case_title(case), case_sentence(case))))
    blocks, asks = verdict_blocks(document), can_ask(document)
    return render_page(
        request, server, "case.html",
        title=title, case=case, around=around, formats=DOWNLOADS, limit=server.intake.limit, blocks=blocks, asks=asks,
        outdated=case.tool_version != server.analysis.tool_version or case.rules_digest != server.analysis.rules_digest,
        changes=_changes(server, case, versions, document), work=work_of(server, case, request.state.principal),
        link_words=link_words, login=server.access.mode is not Mode.NONE, expiry=_expiry(case, around, server.terms),
    )  # fmt: skip


def _expiry(case: Case, around: CaseContext, terms: Terms) -> str:
    """The days on which the case and its files are deleted."""
    stored = [file.bundle.stored for file in around.files]
    files = f", its files {format_day(min(stored) + terms.bundles)}" if stored and around.removal_time is None else ""
    return format_day(case.made + terms.cases) + files


def _changes(server: Server, case: Case, versions: list[Case], document: Mapping[str, Any]) -> list[str]:
    """What this version says otherwise than the one before it."""
    before = next((other for other in versions if other.number < case.number), None)
    return [] if before is None else what_changed(server.storage.cases.document(before.id) or {}, document)


def _files(server: Server, case: Case, document: Mapping[str, Any]) -> list[CaseFile]:
    """The files of a case, and whether the result speaks of anything that was read of them."""
    hosts = document.get("cases") or [document]
    read = {
        given["member"]
        for host in hosts
        for given in (host.get("inputs", ()) if isinstance(host, Mapping) else ())
        if isinstance(given, Mapping) and given.get("reader") and isinstance(given.get("member"), str)
    }
    first = {member.partition("/")[0] for member in read}
    found = server.storage.bundles.files(case.sha256)
    return [CaseFile(one.name, known, one.name in first if one.name else bool(read)) for one, known in found]


def _other_cases(server: Server, case: Case, question: CaseFilter) -> list[Case]:
    """The latest others that fit."""
    fitting = server.storage.cases.page(question, limit=MAX_OTHER_CASES + 1)
    return [other for other in fitting if other.id != case.id][:MAX_OTHER_CASES]


def case_report(request: Request, server: Server) -> Response:
    """The report's own page, for a frame of ours: an origin of its own, its own script only."""
    case, document = read_case(request, server)
    try:
        page = render(document)
    except DOCUMENT_ERRORS:
        raise PageError(500, NO_FORM, "No report") from None
    server.record_action(request, Action.DOWNLOAD, case.id)
    return HTMLResponse(page, headers=report_headers(policy()))


def set_kept(request: Request, server: Server) -> Response:
    """Have retention spare the case, or no longer; the last part of the address says which."""
    key, kept = request.path_params["id"], request.url.path.endswith("/keep")
    if not server.storage.cases.set_kept(key, kept=kept):
        raise not_found(NO_CASE)
    server.record_action(request, Action.KEEP if kept else Action.RELEASE, key)
    return RedirectResponse(f"/cases/{key}", 303)


def delete_case(request: Request, server: Server) -> Response:
    """Asks first; the form of the page that asks says that somebody is sure."""
    case = find_case(request, server)
    if request.query_params.get("sure") != "yes":
        alone = not _other_cases(server, case, CaseFilter(sha256=case.sha256))
        return render_page(request, server, "delete.html", title="Delete this case?", case=case, alone=alone)
    if not server.storage.removal.delete_case(case.id):
        raise not_found(NO_CASE)
    server.record_action(request, Action.DELETE, case.id)
    return RedirectResponse("/cases", 303)


@dataclass(frozen=True, slots=True)
class CaseQuery:
    """What was asked for as it was written, by all names of fields; what it means, and what is wrong with it."""

    written: dict[str, str]
    question: CaseFilter
    mistakes: tuple[str, ...]

    @property
    def given(self) -> dict[str, str]:
        """Without what is empty."""
        return {name: text for name, text in self.written.items() if text}


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of a list of `size` cases; `newer` and `older` are queries of those beside it, empty if there are none."""

    cases: list[Case]
    size: CaseCount = NO_CASES
    newer: str = ""
    older: str = ""


def case_list(request: Request, server: Server) -> Response:
    asked, cases = parse_query(request.query_params), server.storage.cases
    known = {rule.file.mechanism for rule in server.rules} | {asked.written["mechanism"]}  # older cases may have others
    return render_page(
        request,
        server,
        "cases.html",
        title="Cases",
        status=400 if asked.mistakes else 200,
        asked=asked,
        leaf=ListPage([]) if asked.mistakes else list_page(cases, asked, request.query_params),
        verdicts=VERDICTS,
        mechanisms=sorted(filter(None, known)),
        rules=sorted(rule.id for rule in server.rules),
        states=STATE_WORDS,
        assignees=server.storage.work.assignees(),
    )


def parse_query(query: QueryParams) -> CaseQuery:
    """What a query asks for; what is empty is not asked for."""
    written = {name: query.get(name, "").strip()[:MAX_QUERY_CHARS] for name in QUERY_FIELDS}
    days: dict[str, datetime | None] = {}
    mistakes = []
    for name in ("since", "until"):
        try:
            days[name] = _start_of_day(written[name]) if written[name] else None
        except ValueError:
            mistakes.append(f"{name.capitalize()}: {written[name]!r} is not a date like 2026-11-20.")
            written[name] = ""  # a date field takes nothing else
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
    """The beginning of a day in UTC."""
    begin = date.fromisoformat(day)
    if len(day) != len("2026-11-20") or not 1970 <= begin.year < 9999:  # other forms of ISO 8601 no date field sends
        raise ValueError(day)
    return datetime(begin.year, begin.month, begin.day, tzinfo=UTC)


def list_page(cases: Cases, asked: CaseQuery, query: QueryParams) -> ListPage:
    """The page that a query names: `below` and `above` are numbers of cases at its edges."""
    below, above = _number(query.get("below", "")), _number(query.get("above", ""))
    first, found = below is None and above is None, list[Case]()
    if not first:
        found = cases.page(asked.question, below if above is None else None, LIMIT, above)
        first = above is not None and len(found) < LIMIT  # nearly at the beginning: all of the first page
    if first:
        found, size = cases.first_page(asked.question, LIMIT)
    else:
        size = cases.size(asked.question)
    newer, older = not first, len(found) == LIMIT
    if newer and above is not None:
        found = found[1:]
    shown = found[:CASES_PER_PAGE]
    if not shown:
        return ListPage([], size, newer=urlencode(asked.given) if newer else "")
    return ListPage(
        shown,
        size,
        urlencode({**asked.given, "above": shown[0].number}) if newer else "",
        urlencode({**asked.given, "below": shown[-1].number}) if older else "",
    )


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else None


def comparison_page(request: Request, server: Server) -> Response:
    """Our page around the comparison; it says which two cases they are."""
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
    """The comparison's own page."""
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
    """The two cases, the older first: by when their data was, if both are known in UTC."""
    one, other = find_case(request, server), server.storage.cases.find(request.query_params.get("with", ""))
    if other is None:
        raise not_found(NO_OTHER_CASE)
    if one.id == other.id:
        raise not_found(SAME_CASE)
    times = [one.recorded or "", other.recorded or ""]
    if all(time.endswith("Z") for time in times) and times[0] != times[1]:
        return (one, other) if times[0] < times[1] else (other, one)
    return (one, other) if one.number <= other.number else (other, one)


def _may_be_one_host(one: str, other: str) -> bool:
    """Whether two names may be of one host, with its domain or without."""
    same_start = one.partition(".")[0] == other.partition(".")[0]
    return one == other or (same_start and not ("." in one and "." in other))
