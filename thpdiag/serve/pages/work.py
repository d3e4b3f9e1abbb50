"""What a team does with a case: notes, state, ticket, links to share it, its files, and its analysis made again.

Notes are Markdown without HTML and images; a link in one may lead to http, https and mail only. What a form sends is
checked here; that the form is ours, the gate knows.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from markdown_it import MarkdownIt
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response, StreamingResponse

from thpdiag.errors import StoreError
from thpdiag.model.result import Result
from thpdiag.redact.document import redact_result
from thpdiag.redact.names import Names
from thpdiag.report import messages
from thpdiag.report.escaping import visible
from thpdiag.report.html import policy, render
from thpdiag.serve.access.audit import Action
from thpdiag.serve.access.headers import download_headers, report_headers
from thpdiag.serve.access.principals import Principal, Scope
from thpdiag.serve.pages.lines import DOCUMENT_ERRORS, NO_CASE
from thpdiag.serve.pages.render import (
    error_page,
    form_field,
    format_time,
    not_found_page,
    origin_of_request,
    read_form,
    render_page,
)
from thpdiag.serve.pages.verdict import LINK_ENDED, customer_page
from thpdiag.serve.server import Server
from thpdiag.serve.storage.cases import Case
from thpdiag.serve.storage.database import DAY
from thpdiag.serve.storage.uploads import FilesGoneError
from thpdiag.serve.storage.work import READ_LINK, REDACTED_LINK, STATES, UPLOAD_LINK, Link, Note

MAX_NOTE_CHARS: Final = 20_000
MAX_NAME_CHARS: Final = 100
MAX_ADDRESS_CHARS: Final = 2_000
MAX_SHARE_DAYS: Final = 365
MAX_CHANGED: Final = 200  # cases that are listed
BLOCK_BYTES: Final = 1 << 20
STATE_WORDS: Final = {"new": "new", "waiting": "waiting for customer", "solved": "solved"}
FILES_GONE: Final = "Files of this case are no longer stored: their time was over."
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


def _find(request: Request, server: Server) -> Case | Response:
    return server.storage.cases.find(request.path_params["id"]) or not_found_page(request, server, NO_CASE)


def _back(case: Case, place: str) -> Response:
    return RedirectResponse(f"/cases/{case.id}#{place}", 303)


def _mistake(request: Request, server: Server, case: Case, words: str) -> Response:
    onward = (f"/cases/{case.id}", "Back to the case")
    return error_page(request, server, 400, words, title="Nothing was changed", onward=onward)


async def add_note(request: Request, server: Server) -> Response:
    return await run_in_threadpool(_add_note, request, server, form_field(await read_form(request), "text"))


def _add_note(request: Request, server: Server, text: str) -> Response:
    case, who = _find(request, server), request.state.principal
    if isinstance(case, Response):
        return case
    if not text.strip() or len(text) > MAX_NOTE_CHARS:
        return _mistake(request, server, case, f"A note has 1 to {MAX_NOTE_CHARS:,} characters.")
    server.storage.work.add_note(case.thread, who.name, who.owner, text.strip())
    server.record_action(request, Action.NOTE, case.id)
    return _back(case, "notes")


def delete_note(request: Request, server: Server) -> Response:
    case, who = _find(request, server), request.state.principal
    if isinstance(case, Response):
        return case
    owner = None if who.may(Scope.ADMIN) else who.owner
    if not server.storage.work.delete_note(case.thread, request.path_params["note"], owner):
        return not_found_page(request, server, "There is no such note, or it belongs to another user.")
    server.record_action(request, Action.DELETE_NOTE, case.id)
    return _back(case, "notes")


async def set_work(request: Request, server: Server) -> Response:
    fields = await read_form(request)
    told = [form_field(fields, name).strip() for name in ("state", "assignee", "ticket")]
    return await run_in_threadpool(_set_work, request, server, *told)


def _set_work(request: Request, server: Server, state: str, assignee: str, ticket: str) -> Response:
    case = _find(request, server)
    if isinstance(case, Response):
        return case
    if state not in STATES:
        return _mistake(request, server, case, "The state of a case is one of those of the list.")
    if len(assignee) > MAX_NAME_CHARS or (assignee and not assignee.isprintable()):
        return _mistake(request, server, case, f"The owner of a case is a name of at most {MAX_NAME_CHARS} characters.")
    if not is_web_address(ticket):
        return _mistake(request, server, case, "The ticket is an address that begins with https:// or http://.")
    server.storage.work.set(case.thread, state, assignee, ticket)
    server.record_action(request, Action.WORK, case.id)
    return _back(case, "work")


def is_web_address(text: str) -> bool:
    """Whether it is empty, or an address that a browser may be led to."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    plain = text.isprintable() and " " not in text and len(text) <= MAX_ADDRESS_CHARS
    return not text or (plain and parts.scheme in ("http", "https") and bool(parts.hostname))


async def share(request: Request, server: Server) -> Response:
    fields = await read_form(request)
    return await run_in_threadpool(
        _share, request, server, form_field(fields, "days"), bool(form_field(fields, "redact"))
    )


def _share(request: Request, server: Server, days: str, redacted: bool) -> Response:  # noqa: FBT001 - a check box
    """A new address, which is told this once."""
    case = _find(request, server)
    if isinstance(case, Response):
        return case
    if not (days.isascii() and days.isdigit() and len(days) < 5 and 1 <= int(days) <= MAX_SHARE_DAYS):
        return _mistake(request, server, case, f"A link works for 1 to {MAX_SHARE_DAYS} days.")
    kind, who = REDACTED_LINK if redacted else READ_LINK, request.state.principal
    secret, until = server.storage.links.add(case.thread, kind, int(days) * DAY, who.name)
    server.record_action(request, Action.SHARE, case.id)
    address = f"{origin_of_request(request, server.access)}/s/{secret}"
    return render_page(
        request, server, "shared.html", title="Link to the report", case=case, address=address, until=until,
        redacted=redacted,
    )  # fmt: skip


def end_link(request: Request, server: Server) -> Response:
    case = _find(request, server)
    if isinstance(case, Response):
        return case
    if not server.storage.links.end(case.thread, request.path_params["key"]):
        return not_found_page(request, server, "There is no such link. It may have ended already.")
    server.record_action(request, Action.END_SHARE, case.id)
    return _back(case, "share")


def link_page(request: Request, server: Server) -> Response:
    """What somebody sees who opens a link: the report, or where to send files."""
    link = server.storage.links.find(request.path_params["secret"], UPLOAD_LINK, READ_LINK, REDACTED_LINK)
    if link is None:
        return not_found_page(request, server, LINK_ENDED)
    if link.kind == UPLOAD_LINK:
        return customer_page(request, server, link)
    document = server.storage.cases.document(link.case) or {}
    try:
        page = render(redact_result(document, Names()) if link.kind == REDACTED_LINK else document)
    except DOCUMENT_ERRORS:
        return error_page(request, server, 500, "There is no report to show.", title="No report")
    server.record_action(request, Action.DOWNLOAD, link.case)
    return HTMLResponse(page, headers=report_headers(policy()))


def get_file(request: Request, server: Server) -> Response:
    """A file of a case as it was sent, by its place in the list."""
    case, place = _find(request, server), request.path_params["place"]
    if isinstance(case, Response):
        return case
    files = _stored_files(server, case)
    if not (place.isascii() and place.isdigit() and len(place) < 6 and int(place) < len(files)):
        return not_found_page(request, server, NO_FILE)
    name, path = files[int(place)]
    if not path.is_file():
        return not_found_page(request, server, NO_FILE)
    server.record_action(request, Action.DOWNLOAD, case.id)
    return FileResponse(path, headers=download_headers(name))


def get_files(request: Request, server: Server) -> Response:
    """All files of a case, as one tar archive that is made while it is sent."""
    case = _find(request, server)
    if isinstance(case, Response):
        return case
    files = _stored_files(server, case)
    if not all(path.is_file() for _, path in files):
        return not_found_page(request, server, FILES_GONE)
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
    case = _find(request, server)
    if isinstance(case, Response):
        return case
    onward = (f"/cases/{case.id}", "Back to the case")
    try:
        job = server.storage.analyse_again(case.id, server.analysis, request.state.principal.owner)
    except FilesGoneError:
        return error_page(request, server, 409, FILES_GONE, onward=onward)
    if job is None:
        words = "This case was made by this version of thpdiag and these rules already."
        return error_page(request, server, 409, words, title="Nothing to do", onward=onward)
    server.record_action(request, Action.ANALYSE, case.id)
    server.wake()
    return RedirectResponse(f"/jobs/{job}", 303)


ANALYSES_PATH: Final = "/analyses"


def analyse_all(request: Request, server: Server) -> Response:
    """Queue all cases that older rules made; those whose files are gone are counted."""
    queued = gone = 0
    for key in server.storage.cases.outdated(server.analysis):
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
        outdated=len(cases.outdated(server.analysis)), waiting=jobs.get("queued", 0) + jobs.get("running", 0),
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
