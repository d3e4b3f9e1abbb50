"""What a team does with a case: the verdict for a ticket, the letter to the customer with the capture script, notes,
state, ticket, links to share it, its files, and its analysis made again.

The block of the verdict is the first one of the report in a terminal, the letter and the script are those of
`thpdiag ask`. The letter ends with an address at which the customer sends what the script records, for this case alone
and for a time. Notes are Markdown without HTML and images; a link in one may lead to http, https and mail only. What a
form sends is checked here; that the form is ours, the gate knows.
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
    """The block of one host, as text for a ticket and as it is shown."""

    host: str
    text: str
    shown: Markup


def verdict_blocks(document: Mapping[str, Any]) -> list[VerdictBlock]:
    """Of each host, the one that leads first; none of a document without the form of a result."""
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
    """Whether something that a customer could send would make the verdict surer."""
    try:
        return bool(missing_questions(document).hosts)
    except DOCUMENT_ERRORS:
        return False


def capture_script(request: Request, server: Server) -> Response:
    """The script that records what the verdict lacks, to be saved."""
    case, document = read_case(request, server)
    try:
        script = missing_questions(document).script()
    except DOCUMENT_ERRORS:
        script = ""
    if not script:
        raise PageError(409, NO_SCRIPT, "No script", (f"/cases/{case.id}", "The case"))
    return PlainTextResponse(script, headers=download_headers(FILE))


def customer_letter(request: Request, server: Server) -> Response:
    """The letter with a new address for this customer, which nobody is told again."""
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
    whole = with_script(f"{text}\n{_sending(address, until, script=bool(script))}", script)
    return render_page(
        request, server, "letter.html",
        title="Letter to the customer", case=case, letter=whole, until=until, script=bool(script), file=FILE,
    )  # fmt: skip


def _sending(address: str, until: float, *, script: bool) -> str:
    """How the customer sends it, as a section of the letter."""
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
    """Where a customer sends files."""
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
MAX_CHANGED: Final = 200  # cases that are listed
BLOCK_BYTES: Final = 1 << 20
STATE_WORDS: Final = {"new": "new", "waiting": "waiting for customer", "solved": "solved"}
FILES_GONE: Final = "Files of this case are no longer stored: they expired."
NO_FILE: Final = "There is no such file of this case, or it is no longer stored."


@cache
def _markdown() -> MarkdownIt:
    """CommonMark without what could show or fetch anything of a stranger's: no HTML, no images."""
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"]).disable("image")


def render_note(text: str) -> Markup:
    """A note as HTML: its own markup only; links open outside of our pages and tell nothing of where they stand."""
    made = _markdown()
    tokens = made.parse("\n".join(map(visible, text.splitlines())))
    for token in tokens:
        for child in token.children or ():
            if child.type == "link_open":
                if urlsplit(str(child.attrGet("href") or "")).scheme not in ("http", "https", "mailto"):
                    child.attrSet("href", "#")
                child.attrSet("rel", "noopener noreferrer nofollow")
        if token.type == "heading_open" or token.type == "heading_close":
            token.tag = "h4"  # below those of the page
    return Markup(made.renderer.render(tokens, made.options, {}))


@dataclass(frozen=True, slots=True)
class ShownNote:
    note: Note
    html: Markup
    mine: bool


@dataclass(frozen=True, slots=True)
class CaseWork:
    """What stands on the page of a case for those who work on it."""

    notes: list[ShownNote]
    links: list[Link]
    assignees: list[str]
    states: Mapping[str, str]


def work_of(server: Server, case: Case, who: Principal) -> CaseWork:
    storage = server.storage
    notes = [
        ShownNote(one, render_note(one.text), one.owner == who.owner or who.may(Scope.ADMIN))
        for one in storage.work.notes(case.thread)
    ]
    links = storage.links.of_thread(case.thread) if who.may(Scope.WORK) else []
    return CaseWork(notes, links, storage.work.assignees() if who.may(Scope.WORK) else [], STATE_WORDS)


def _redirect_to_case(case: Case, place: str) -> Response:
    return RedirectResponse(f"/cases/{case.id}#{place}", 303)


def _mistake(case: Case, words: str, status: int = 400, title: str = "Nothing was changed") -> PageError:
    return PageError(status, words, title, (f"/cases/{case.id}", "Back to the case"))


def add_note(request: Request, server: Server) -> Response:
    case, who, text = find_case(request, server), request.state.principal, form_field(request, "text")
    if not text.strip() or len(text) > MAX_NOTE_CHARS:
        raise _mistake(case, f"A note has 1 to {MAX_NOTE_CHARS:,} characters.")
    server.storage.work.add_note(case.thread, who.name, who.owner, text.strip())
    server.record_action(request, Action.NOTE, case.id)
    return _redirect_to_case(case, "notes")


def delete_note(request: Request, server: Server) -> Response:
    case, who = find_case(request, server), request.state.principal
    owner = None if who.may(Scope.ADMIN) else who.owner
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
    """Whether it is empty, or an address that a browser may be led to."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    plain = text.isprintable() and " " not in text and len(text) <= MAX_ADDRESS_CHARS
    return not text or (plain and parts.scheme in ("http", "https") and bool(parts.hostname))


def share(request: Request, server: Server) -> Response:
    """A new address, which is told this once."""
    case, days, redacted = find_case(request, server), form_field(request, "days"), bool(form_field(request, "redact"))
    if not (days.isascii() and days.isdigit() and len(days) < 5 and 1 <= int(days) <= MAX_SHARE_DAYS):
        raise _mistake(case, f"A link works for 1 to {MAX_SHARE_DAYS} days.")
    kind, who = REDACTED_LINK if redacted else READ_LINK, request.state.principal
    secret, until = server.storage.links.add(case.thread, kind, int(days) * DAY, who.name)
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
    """What somebody sees who opens a link: the report, or where to send files."""
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
    """A file of a case as it was sent, by its place in the list."""
    case, place = find_case(request, server), request.path_params["place"]
    files = _stored_files(server, case)
    if not (place.isascii() and place.isdigit() and len(place) < 6 and int(place) < len(files)):
        raise not_found(NO_FILE)
    name, path = files[int(place)]
    if not path.is_file():
        raise not_found(NO_FILE)
    server.record_action(request, Action.DOWNLOAD, case.id)
    return FileResponse(path, headers=download_headers(name))


def get_files(request: Request, server: Server) -> Response:
    """All files of a case, as one tar archive that is made while it is sent."""
    case = find_case(request, server)
    files = _stored_files(server, case)
    if not all(path.is_file() for _, path in files):
        raise not_found(FILES_GONE)
    server.record_action(request, Action.DOWNLOAD, case.id)
    return StreamingResponse(_tar(files), headers=download_headers(f"thpdiag-{case.id[:8]}.tar"))


def _stored_files(server: Server, case: Case) -> list[tuple[str, Path]]:
    content = server.storage.content
    found = server.storage.bundles.files(case.sha256)
    return [(one.name or case.name or "bundle", content.path(one.sha256)) for one, _ in found]


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
    """Have a case judged by the rules of today; the page of the job follows."""
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
    """Queue all cases that older rules made; those whose files are gone are counted."""
    queued = gone = 0
    for key in server.storage.cases.outdated_cases(server.analysis):
        try:
            queued += server.storage.analyse_again(key, server.analysis, request.state.principal.owner) is not None
        except StoreError:
            gone += 1
    server.record_action(request, Action.ANALYSE, f"{queued} cases")
    server.wake()
    return RedirectResponse(f"{ANALYSES_PATH}?{urlencode({'queued': queued, 'gone': gone})}", 303)


@dataclass(frozen=True, slots=True)
class Change:
    before: Case
    after: Case


def analysis_list(request: Request, server: Server) -> Response:
    """Which cases older rules made, and what today's rules changed."""
    cases = server.storage.cases
    told = {name: request.query_params.get(name, "") for name in ("queued", "gone")}
    counts = {name: int(text) for name, text in told.items() if text.isascii() and text.isdigit() and len(text) < 10}
    changed = [Change(*pair) for pair in cases.changed_by(server.analysis, MAX_CHANGED)]
    jobs = server.storage.jobs.counts()
    return render_page(
        request, server, "analyses.html", title="Analyses by today's rules", changed=changed, counts=counts,
        outdated=len(cases.outdated_cases(server.analysis)), waiting=jobs.get("queued", 0) + jobs.get("running", 0),
        analysis=server.analysis, most=MAX_CHANGED,
    )  # fmt: skip


def what_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What a newer result says otherwise, a line each: verdicts and findings of hosts of the same name."""
    try:
        before, after = ({messages.name(host): host for host in messages.hosts(one)} for one in (old, new))
        several = len(before.keys() | after.keys()) > 1
        return [
            f"{name}: {line}" if several else line
            for name in sorted(before.keys() | after.keys())
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
    found, finds = ({finding.rule: finding for finding in host.findings} for host in (old, new))
    for rule in sorted(found.keys() | finds.keys()):
        if rule not in found:
            yield f"new finding {rule} ({finds[rule].severity}, {finds[rule].confidence}): {finds[rule].title}"
        elif rule not in finds:
            yield f"no longer a finding: {rule} ({found[rule].title})"
        else:
            was, now = (f"{one.severity}, {one.confidence}" for one in (found[rule], finds[rule]))
            if was != now:
                yield f"{rule} was {was}, and is {now}"
    decided = {unknown.rule for unknown in old.unknown} - {unknown.rule for unknown in new.unknown}
    open_ = {unknown.rule for unknown in new.unknown} - {unknown.rule for unknown in old.unknown}
    if decided:
        yield f"{messages.plural(len(decided), 'rule')} decided that lacked data before"
    if open_:
        yield f"{messages.plural(len(open_), 'rule')} more without the data to decide"


def _verdict_words(host: Result) -> str:
    parts = (host.verdict.status, host.verdict.rule, host.verdict.severity, host.verdict.confidence)
    return ", ".join(part.replace("_", " ") for part in parts if part)


def link_words(link: Link) -> str:
    """What a link is for, in a line."""
    kinds = {UPLOAD_LINK: "takes files", READ_LINK: "shows the report", REDACTED_LINK: "shows the redacted report"}
    used = f"used {format_time(link.used)}" if link.used else "not used yet"
    return f"{kinds.get(link.kind, link.kind)} until {format_time(link.expires)}; made by {link.author}, {used}"
