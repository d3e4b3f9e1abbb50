"""What an engineer does with a verdict: the block for a ticket, the letter to the customer, the capture script.

The block is the first one of the report in a terminal, the letter and the script are those of `thpdiag ask`. The letter
ends with an address at which the customer sends what the script records, for this case alone and for a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from shlex import quote
from typing import Any, Final

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from thpdiag.export.customer import FILE, letter, wanted, with_script
from thpdiag.report import messages
from thpdiag.report.escaping import visible
from thpdiag.report.first_block import first_block
from thpdiag.report.layout import Line
from thpdiag.serve.access.audit import Action
from thpdiag.serve.access.headers import download_headers
from thpdiag.serve.pages.lines import DOCUMENT_ERRORS, NO_CASE
from thpdiag.serve.pages.render import error_page, format_time, not_found_page, origin_of_request, render_page
from thpdiag.serve.server import Server
from thpdiag.serve.storage.cases import Case
from thpdiag.serve.storage.database import DAY
from thpdiag.serve.storage.work import UPLOAD_LINK, Link

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
        return bool(wanted(document).hosts)
    except DOCUMENT_ERRORS:
        return False


def capture_script(request: Request, server: Server) -> Response:
    """The script that records what the verdict lacks, to be saved."""
    found = _case_and_document(request, server)
    if isinstance(found, Response):
        return found
    case, document = found
    try:
        script = wanted(document).script()
    except DOCUMENT_ERRORS:
        script = ""
    if not script:
        return error_page(request, server, 409, NO_SCRIPT, title="No script", onward=(f"/cases/{case.id}", "The case"))
    return PlainTextResponse(script, headers=download_headers(FILE))


def customer_letter(request: Request, server: Server) -> Response:
    """The letter with a new address for this customer, which nobody is told again."""
    found = _case_and_document(request, server)
    if isinstance(found, Response):
        return found
    case, document = found
    try:
        missing = wanted(document)
        text, script = letter(missing), missing.script()
    except DOCUMENT_ERRORS:
        missing = None
    if missing is None or not missing.hosts:
        words = NOTHING_TO_ASK
        return error_page(request, server, 409, words, title="No letter", onward=(f"/cases/{case.id}", "The case"))
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
            f"files for this case only, until {day:%Y-%m-%d %H:%M} UTC; keep it to yourself.",
            "",
        )
    )


def _case_and_document(request: Request, server: Server) -> tuple[Case, dict[str, Any]] | Response:
    cases, key = server.storage.cases, request.path_params["id"]
    case, document = cases.find(key), cases.document(key)
    if case is None or document is None:
        return not_found_page(request, server, NO_CASE)
    return case, document


LINK_ENDED: Final = "This address is not valid, or not any longer. Ask the person who sent it to you for a new one."


def customer_page(request: Request, server: Server, link: Link) -> Response:
    """Where a customer sends files."""
    secret = request.path_params["secret"]
    return render_page(
        request, server, "customer.html",
        title="Send files", secret=secret, until=format_time(link.expires), limit=server.intake.limit,
        thanks="sent" in request.query_params,
        curl=f"curl -fT FILE {quote(f'{origin_of_request(request, server.access)}/s/{secret}/')}",
    )  # fmt: skip
