"""Work on a case: the verdict for a ticket, the letter to the customer with the capture script, notes, state, ticket,
share links, its files, and a new analysis.

The verdict block is the first block of the terminal report; letter and script are those of `thpdiag ask`. The letter
ends with an address to which the customer sends the recorded data, valid for this case and a limited time. Notes are
Markdown without HTML and images; links are limited to http, https and mailto. Form fields are checked here, the CSRF
token by the gate.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)

from thpdiag.errors import StoreError
from thpdiag.export.customer import FILE, letter, missing_questions, with_script
from thpdiag.model.result import Result
from thpdiag.redact.document import redact_result
from thpdiag.redact.names import Names
from thpdiag.report import messages
from thpdiag.report.escaping import visible
from thpdiag.report.first_block import first_block
from thpdiag.report.html import policy, render
from thpdiag.report.layout import Line
from thpdiag.serve.access.audit import Action
from thpdiag.serve.access.http import download_headers, report_headers
from thpdiag.serve.access.principals import Principal, Scope
from thpdiag.serve.pages.lines import DOCUMENT_ERRORS
from thpdiag.serve.pages.render import (
    PageError,
    find_case,
    form_field,
    format_time,
    not_found,
    origin_of_request,
    parse_number,
    read_case,
    render_page,
)
from thpdiag.serve.server import Server
from thpdiag.serve.storage.cases import Case
from thpdiag.serve.storage.database import DAY
from thpdiag.serve.storage.uploads import FilesGoneError
from thpdiag.serve.storage.work import READ_LINK, REDACTED_LINK, STATES, UPLOAD_LINK, Link, Note

CUSTOMER_DAYS: Final = 14
NOTHING_TO_ASK: Final = "Nothing is missing: the verdict needs no further data."
NO_SCRIPT: Final = "No script can record what is missing. The letter says what to ask for."


@dataclass(frozen=True, slots=True)
class VerdictBlock:
    """The verdict block of one host, as text for a ticket and as HTML."""

    host: str
    text: str
    shown: Markup


def verdict_blocks(document: Mapping[str, Any]) -> list[VerdictBlock]:
    """Return the verdict block of each host, the leading one first; none for a malformed document."""
    try:
        blocks = [(messages.name(host), first_block(host).lines) for host in messages.hosts(document)]
    except DOCUMENT_ERRORS:
        return []
    return [
        VerdictBlock(host, "\n".join(map(visible, lines)), Markup("\n").join(map(_mark_line, lines)))
        for host, lines in blocks
    ]


def _mark_line(line: Line) -> Markup:
    label, rest = visible(line[: line.label]), visible(line[line.label :])
    if line.style:
        return Markup('<strong class="{}">{}</strong>').format(line.style, label + rest)
    return Markup("<strong>{}</strong>{}").format(label, rest) if label else Markup("{}").format(rest)


def can_ask(document: Mapping[str, Any]) -> bool:
    """Whether further data of the customer would improve the verdict."""
    try:
        return bool(missing_questions(document).hosts)
    except DOCUMENT_ERRORS:
        return False


def capture_script(request: Request, server: Server) -> Response:
    """Return the script that records missing data, as a download."""
    case, document = read_case(request, server)
    try:
        script = missing_questions(document).script()
    except DOCUMENT_ERRORS:
        script = ""
    if not script:
        raise PageError(409, NO_SCRIPT, "No script", (f"/cases/{case.id}", "The case"))
    return PlainTextResponse(script, headers=download_headers(FILE))


def customer_letter(request: Request, server: Server) -> Response:
    """Return the letter with a new upload link, which is shown once."""
    case, document = read_case(request, server)
    try:
        missing = missing_questions(document)
        text, script = letter(missing), missing.script()
    except DOCUMENT_ERRORS:
        missing = None
    if missing is None or not missing.hosts:
        raise PageError(409, NOTHING_TO_ASK, "No letter", (f"/cases/{case.id}", "The case"))
    secret, until = server.storage.links.add(
        case.thread, UPLOAD_LINK, CUSTOMER_DAYS * DAY, request.state.principal.name
    )
    server.record_action(request, Action.SHARE, case.id)
    address = f"{origin_of_request(request, server.access)}/s/{secret}"
    full_text = with_script(f"{text}\n{_sending(address, until, script=bool(script))}", script)
    return render_page(
        request, server, "letter.html",
        title="Letter to the customer", case=case, letter=full_text, until=until, script=bool(script), file=FILE,
    )  # fmt: skip


def _sending(address: str, until: float, *, script: bool) -> str:
    """Return the section of the letter that explains how to send files."""
    day = datetime.fromtimestamp(until, UTC)
    file = "thp-capture-HOST-DATE.tar.gz" if script else "FILE"
    return "\n".join(
        (
            "How to send it",
            f"    curl -fT {file} {quote(f'{address}/')}",
            f"or open {address} in a browser. The address takes",
            f"files for this case only, until {day:%Y-%m-%d %H:%M} UTC; do not share it.",
            "",
        )
    )


LINK_ENDED: Final = "This address is not valid, or has expired. Ask the person who sent it to you for a new one."


def customer_page(request: Request, server: Server, link: Link) -> Response:
    """Return the page where a customer uploads files by a link."""
    secret = request.path_params["secret"]
    return render_page(
        request, server, "customer.html",
        title="Send files", secret=secret, until=format_time(link.expires), limit=server.intake.limit,
        thanks="sent" in request.query_params,
        curl=f"curl -fT FILE {quote(f'{origin_of_request(request, server.access)}/s/{secret}/')}",
    )  # fmt: skip


MAX_NOTE_CHARS: Final = 20_000
MAX_NAME_CHARS: Final = 100
MAX_ADDRESS_CHARS: Final = 2_000
MAX_SHARE_DAYS: Final = 365
MAX_CHANGED: Final = 200  # changed cases in a list
BLOCK_BYTES: Final = 1 << 20
STATE_WORDS: Final = {"new": "new", "waiting": "waiting for customer", "solved": "solved"}
FILES_GONE: Final = "Files of this case are no longer stored: they expired."
NO_FILE: Final = "There is no such file of this case, or it is no longer stored."


@cache
def _markdown() -> MarkdownIt:
    """Return a CommonMark parser without HTML and images, which could load external content."""
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")


def render_note(text: str) -> Markup:
    """Render a note as HTML; links get `noopener noreferrer nofollow`."""
    markdown = _markdown()
    tokens = markdown.parse("\n".join(map(visible, text.splitlines())))
    for token in tokens:
        for child in token.children or ():
            if child.type == "link_open":
                if urlsplit(str(child.attrGet("href") or "")).scheme not in ("http", "https", "mailto"):
                    child.attrSet("href", "#")
                child.attrSet("rel", "noopener noreferrer nofollow")
        if token.type in ("heading_open", "heading_close"):
            token.tag = "h4"  # below the headings of the page
    return Markup(markdown.renderer.render(tokens, markdown.options, {}))


@dataclass(frozen=True, slots=True)
class ShownNote:
    note: Note
    html: Markup
    mine: bool


@dataclass(frozen=True, slots=True)
class CaseWork:
    """The part of the page of a case about the work on it."""

    notes: list[ShownNote]
    links: list[Link]
    assignees: list[str]
    states: Mapping[str, str]


def case_work(server: Server, case: Case, principal: Principal) -> CaseWork:
    storage = server.storage
    notes = [
        ShownNote(note, render_note(note.text), note.owner == principal.owner or principal.may(Scope.ADMIN))
        for note in storage.work.notes(case.thread)
    ]
    may_work = principal.may(Scope.WORK)
    links = storage.links.list_active(case.thread) if may_work else []
    return CaseWork(notes, links, storage.work.assignees() if may_work else [], STATE_WORDS)


def _redirect_to_case(case: Case, place: str) -> Response:
    return RedirectResponse(f"/cases/{case.id}#{place}", 303)


def _mistake(case: Case, words: str, status: int = 400, title: str = "Nothing was changed") -> PageError:
    return PageError(status, words, title, (f"/cases/{case.id}", "Back to the case"))


def add_note(request: Request, server: Server) -> Response:
    case, principal, text = find_case(request, server), request.state.principal, form_field(request, "text")
    if not text.strip() or len(text) > MAX_NOTE_CHARS:
        raise _mistake(case, f"A note has 1 to {MAX_NOTE_CHARS:,} characters.")
    server.storage.work.add_note(case.thread, principal.name, principal.owner, text.strip())
    server.record_action(request, Action.NOTE, case.id)
    return _redirect_to_case(case, "notes")


def delete_note(request: Request, server: Server) -> Response:
    case, principal = find_case(request, server), request.state.principal
    owner = None if principal.may(Scope.ADMIN) else principal.owner
    if not server.storage.work.delete_note(case.thread, request.path_params["note"], owner):
        raise not_found("There is no such note, or it belongs to another user.")
    server.record_action(request, Action.DELETE_NOTE, case.id)
    return _redirect_to_case(case, "notes")


def set_work(request: Request, server: Server) -> Response:
    case = find_case(request, server)
    state, assignee, ticket = (form_field(request, name).strip() for name in ("state", "assignee", "ticket"))
    if state not in STATES:
        raise _mistake(case, "The state of a case must be one of the list.")
    if len(assignee) > MAX_NAME_CHARS or (assignee and not assignee.isprintable()):
        raise _mistake(case, f"The owner of a case is a name of at most {MAX_NAME_CHARS} characters.")
    if not is_web_address(ticket):
        raise _mistake(case, "The ticket is an address that begins with https:// or http://.")
    server.storage.work.set(case.thread, state, assignee, ticket)
    server.record_action(request, Action.WORK, case.id)
    return _redirect_to_case(case, "work")


def is_web_address(text: str) -> bool:
    """Whether a text is empty or an address with http or https."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    is_plain = text.isprintable() and " " not in text and len(text) <= MAX_ADDRESS_CHARS
    return not text or (is_plain and parts.scheme in ("http", "https") and bool(parts.hostname))


def share(request: Request, server: Server) -> Response:
    """Create a link to the report, which is shown once."""
    case, redacted = find_case(request, server), bool(form_field(request, "redact"))
    days = parse_number(form_field(request, "days"), 4)
    if days is None or not 1 <= days <= MAX_SHARE_DAYS:
        raise _mistake(case, f"A link works for 1 to {MAX_SHARE_DAYS} days.")
    kind, principal = REDACTED_LINK if redacted else READ_LINK, request.state.principal
    secret, until = server.storage.links.add(case.thread, kind, days * DAY, principal.name)
    server.record_action(request, Action.SHARE, case.id)
    address = f"{origin_of_request(request, server.access)}/s/{secret}"
    return render_page(
        request, server, "shared.html", title="Link to the report", case=case, address=address, until=until,
        redacted=redacted,
    )  # fmt: skip


def end_link(request: Request, server: Server) -> Response:
    case = find_case(request, server)
    if not server.storage.links.end(case.thread, request.path_params["key"]):
        raise not_found("There is no such link. It may have ended already.")
    server.record_action(request, Action.END_SHARE, case.id)
    return _redirect_to_case(case, "share")


def link_page(request: Request, server: Server) -> Response:
    """Return the page of a share link: the report, or an upload page."""
    link = server.storage.links.find(request.path_params["secret"], UPLOAD_LINK, READ_LINK, REDACTED_LINK)
    if link is None:
        raise not_found(LINK_ENDED)
    if link.kind == UPLOAD_LINK:
        return customer_page(request, server, link)
    document = server.storage.cases.document(link.case) or {}
    try:
        page = render(redact_result(document, Names()) if link.kind == REDACTED_LINK else document)
    except DOCUMENT_ERRORS:
        raise PageError(500, "There is no report to show.", "No report") from None
    server.record_action(request, Action.DOWNLOAD, link.case)
    return HTMLResponse(page, headers=report_headers(policy()))


def get_file(request: Request, server: Server) -> Response:
    """Return an uploaded file of a case by its place in the list."""
    case, place = find_case(request, server), parse_number(request.path_params["place"], 5)
    files = _stored_files(server, case)
    if place is None or place >= len(files) or not files[place][1].is_file():
        raise not_found(NO_FILE)
    name, path = files[place]
    server.record_action(request, Action.DOWNLOAD, case.id)
    return FileResponse(path, headers=download_headers(name))


def get_files(request: Request, server: Server) -> Response:
    """Return all files of a case as a streamed tar archive."""
    case = find_case(request, server)
    files = _stored_files(server, case)
    if not all(path.is_file() for _, path in files):
        raise not_found(FILES_GONE)
    server.record_action(request, Action.DOWNLOAD, case.id)
    return StreamingResponse(_tar(files), headers=download_headers(f"thpdiag-{case.id[:8]}.tar"))


def _stored_files(server: Server, case: Case) -> list[tuple[str, Path]]:
    content = server.storage.content
    files = server.storage.bundles.files(case.sha256)
    return [(part.name or case.name or "bundle", content.path(part.sha256)) for part, _ in files]


def _tar(files: list[tuple[str, Path]]) -> Iterator[bytes]:
    for name, path in files:
        with path.open("rb") as file:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = path.stat().st_size, 0o600
            yield entry.tobuf(tarfile.PAX_FORMAT)
            while block := file.read(BLOCK_BYTES):
                yield block
            yield bytes(-entry.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def analyse_case(request: Request, server: Server) -> Response:
    """Queue an analysis of a case by the current rules and redirect to the job."""
    case = find_case(request, server)
    try:
        job = server.storage.analyse_again(case.id, server.analysis, request.state.principal.owner)
    except FilesGoneError:
        raise _mistake(case, FILES_GONE, 409, "This did not work") from None
    if job is None:
        words = "This case was made by this version of thpdiag and these rules already."
        raise _mistake(case, words, 409, "Nothing to do")
    server.record_action(request, Action.ANALYSE, case.id)
    server.wake()
    return RedirectResponse(f"/jobs/{job}", 303)


ANALYSES_PATH: Final = "/analyses"


def analyse_all(request: Request, server: Server) -> Response:
    """Queue analyses of all cases made by older rules; cases with missing files are counted."""
    queued = missing = 0
    for key in server.storage.cases.outdated_cases(server.analysis):
        try:
            queued += server.storage.analyse_again(key, server.analysis, request.state.principal.owner) is not None
        except StoreError:
            missing += 1
    server.record_action(request, Action.ANALYSE, f"{queued} cases")
    server.wake()
    return RedirectResponse(f"{ANALYSES_PATH}?{urlencode({'queued': queued, 'gone': missing})}", 303)


def analysis_list(request: Request, server: Server) -> Response:
    """List cases whose verdict the current rules changed, with the number of cases made by older rules."""
    cases = server.storage.cases
    numbers = {name: parse_number(request.query_params.get(name, ""), 9) for name in ("queued", "gone")}
    counts = {name: number for name, number in numbers.items() if number is not None}
    changed, jobs = cases.changed_cases(server.analysis, MAX_CHANGED), server.storage.jobs.counts()
    return render_page(
        request, server, "analyses.html", title="Analyses by today's rules", changed=changed, counts=counts,
        outdated=len(cases.outdated_cases(server.analysis)), waiting=jobs.get("queued", 0) + jobs.get("running", 0),
        analysis=server.analysis, most=MAX_CHANGED,
    )  # fmt: skip


def what_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Describe changes of verdicts and findings between two results, a line each; hosts are matched by name."""
    try:
        before, after = ({messages.name(host): host for host in messages.hosts(result)} for result in (old, new))
        names = sorted(before.keys() | after.keys())
        return [
            f"{name}: {line}" if len(names) > 1 else line
            for name in names
            for line in _host_changes(before.get(name), after.get(name))
        ]
    except DOCUMENT_ERRORS:
        return []


def _host_changes(old: Result | None, new: Result | None) -> Iterator[str]:
    if old is None or new is None:
        yield "this host is new" if old is None else "this host is no longer there"
        return
    if (was := _verdict_words(old)) != (now := _verdict_words(new)):
        yield f"the verdict was {was}, and is {now}"
    before, after = ({finding.rule: finding for finding in host.findings} for host in (old, new))
    for rule in sorted(before.keys() | after.keys()):
        if rule not in before:
            yield f"new finding {rule} ({after[rule].severity}, {after[rule].confidence}): {after[rule].title}"
        elif rule not in after:
            yield f"no longer a finding: {rule} ({before[rule].title})"
        else:
            was, now = (f"{finding.severity}, {finding.confidence}" for finding in (before[rule], after[rule]))
            if was != now:
                yield f"{rule} was {was}, and is {now}"
    unknown_before, unknown_after = ({unknown.rule for unknown in host.unknown} for host in (old, new))
    if decided := unknown_before - unknown_after:
        yield f"{messages.plural(len(decided), 'rule')} decided that lacked data before"
    if undecided := unknown_after - unknown_before:
        yield f"{messages.plural(len(undecided), 'rule')} more without the data to decide"


def _verdict_words(host: Result) -> str:
    parts = (host.verdict.status, host.verdict.rule, host.verdict.severity, host.verdict.confidence)
    return ", ".join(part.replace("_", " ") for part in parts if part)


def link_words(link: Link) -> str:
    """Describe a link in a line."""
    kinds = {UPLOAD_LINK: "takes files", READ_LINK: "shows the report", REDACTED_LINK: "shows the redacted report"}
    used = f"used {format_time(link.used)}" if link.used else "not used yet"
    return f"{kinds.get(link.kind, link.kind)} until {format_time(link.expires)}; made by {link.author}, {used}"
