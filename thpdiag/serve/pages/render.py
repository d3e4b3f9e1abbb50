"""Rendering of pages: templates, their common variables, static files and error pages.

Every template has `principal`, `can(scope)`, `csrf` (a token for actions of forms), `static_address(name)`, `path` and
`title`, and the globals of report pages (thpdiag/report/html). Strings are filtered by `visible` and escaped by Jinja.
Scripts and styles are static files of this package. Their addresses contain a digest of the content, so that they can
be cached forever: `/static/style.1f0c6a9d2b7e4835.css`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import parse_qs

from jinja2 import Environment, PackageLoader
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from thpdiag.errors import StoreBusyError, StoreFullError
from thpdiag.report import messages
from thpdiag.report.html import environment
from thpdiag.serve.access import credentials
from thpdiag.serve.access.gate import allowed_origins
from thpdiag.serve.access.http import PAGE_HEADERS, STATIC_HEADERS, RefusedError
from thpdiag.serve.access.principals import ANONYMOUS, Access, Principal, Scope
from thpdiag.serve.server import Server
from thpdiag.serve.storage.cases import Case

LOG: Final = logging.getLogger(__name__)
VERDICTS: Final = MappingProxyType(
    {
        "found": "cause found",
        "nothing_found": "nothing found",
        "not_applicable": "not applicable",
        "cannot_tell": "cannot tell",
    }
)
_COLOURS: Final = MappingProxyType({"nothing_found": "good", "not_applicable": "good"})
STATIC_PATH: Final = "/static/"
STATIC_TYPES: Final = MappingProxyType(
    {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
)
START_LINK: Final = ("/", "Start page")
FORM_TYPE: Final = "application/x-www-form-urlencoded"
MAX_FIELDS: Final = 32
NO_CASE: Final = "There is no such case. It may have been deleted or have expired."

FormFields = Mapping[str, list[str]]


def case_title(case: Case) -> str:
    """Return the name of the leading host; without one the name of the bundle."""
    name = messages.host_title(case.host, case.title)
    return case.name if case.name and name == messages.NAMELESS else name


def case_sentence(case: Case) -> str:
    """Return the verdict as a sentence."""
    return case.sentence or messages.SENTENCES.get(case.verdict or "", "")


def verdict_label(case: Case) -> str:
    """Return the verdict in a word or two."""
    return VERDICTS.get(case.verdict or "", "no verdict")


def verdict_class(case: Case) -> str:
    """Return the CSS class of a verdict: its severity, or that of a verdict without one."""
    return case.severity or _COLOURS.get(case.verdict or "", "")


def format_time(seconds: float | None) -> str:
    """Format seconds since 1970 in UTC, to the minute."""
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def format_day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"


def format_recorded(case: Case) -> str:
    """Format the time of the data to the minute; in the host's local time if its zone is not known."""
    if not case.recorded:
        return ""
    day, _, clock = case.recorded.partition("T")
    return f"{day} {clock[:5]} {'UTC' if clock.endswith('Z') else 'local'}"


def format_size(number: int) -> str:
    """Format a number of bytes."""
    return f"{number:,} bytes" if number < 1 << 20 else f"{number / (1 << 20):,.1f} MiB"


def origin_of_request(request: Request, access: Access) -> str:
    """Return the origin of this server as the browser addresses it, if it is an allowed one."""
    host = request.headers.get("host", "").lower()
    origins = sorted(allowed_origins(request.headers, access)) or sorted(access.origins)
    default = origins[0] if origins else f"http://{host}"
    return next((origin for origin in origins if origin.partition("//")[2] == host), default)


def parse_number(text: str, max_digits: int) -> int | None:
    """Parse a non-negative decimal number of a request; None if it is something else or too long."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= max_digits else None


@cache
def _static_files() -> Mapping[str, tuple[str, bytes]]:
    """Return the files of the folder `static` by name: the name with the digest, and the content."""
    static = {}
    for file in files(__package__).joinpath("static").iterdir():
        stem, _, kind = file.name.rpartition(".")
        if file.is_file() and kind in STATIC_TYPES:
            body = file.read_bytes()
            static[file.name] = (f"{stem}.{sha256(body).hexdigest()[:16]}.{kind}", body)
    return static


def static_address(name: str) -> str:
    """Return the address of a file of the folder `static`; KeyError if there is none."""
    return STATIC_PATH + _static_files()[name][0]


async def get_static_file(request: Request, _server: Server) -> Response:
    name = request.path_params["name"]
    body = dict(_static_files().values()).get(name)
    if body is None:
        return PlainTextResponse("there is nothing at this address", 404)
    return Response(body, media_type=STATIC_TYPES[name.rpartition(".")[2]], headers=dict(STATIC_HEADERS))


@cache
def _environment() -> Environment:
    templates = environment(PackageLoader(__name__, "templates"))
    titles = (static_address, case_title, case_sentence, verdict_label, verdict_class)
    for function in (*titles, format_time, format_recorded, format_size):
        templates.globals[function.__name__] = function
    return templates


def render_page(
    request: Request, server: Server, template: str, *, title: str, status: int = 200, **context: Any
) -> HTMLResponse:
    """Render a template of the folder `templates`; CPU-bound, so call it in a thread."""
    principal: Principal = getattr(request.state, "principal", ANONYMOUS)
    page = _environment().get_template(template)
    text = page.render(
        title=title,
        principal=principal,
        can=lambda scope: principal.may(Scope(scope)),
        csrf=credentials.issue_csrf_token(server.key, principal, server.clock()),
        path=request.url.path,
        **context,
    )
    return HTMLResponse(text, status, dict(PAGE_HEADERS))


class PageError(RefusedError):
    """A refusal that is shown as a page: a sentence with a title and the link `onward` (address, text)."""

    def __init__(
        self, status: int, words: str, title: str = "This did not work", onward: tuple[str, str] = START_LINK,
        headers: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(status, words, headers)
        self.title, self.onward = title, onward


def not_found(words: str) -> PageError:
    """Return a 404; the sentence does not reveal whether the item ever existed."""
    return PageError(404, words, "Not found")


def error_page(request: Request, server: Server, error: Exception) -> HTMLResponse:
    """Return an error as a page with one sentence. Details of a storage error are only logged."""
    match error:
        case PageError():
            shown = error
        case StoreFullError():
            shown = PageError(507, "The disk of this server is full. Nothing was changed.")
        case StoreBusyError():
            shown = PageError(503, "The storage of this server is busy. Try again in a moment.")
        case _:
            LOG.error("the storage cannot be used: %s", error)
            shown = PageError(503, "The storage of this server is unavailable. See the server log.")
    answer = render_page(
        request, server, "missing.html", title=shown.title, status=shown.status, words=shown.words, onward=shown.onward
    )
    answer.headers.update(shown.headers)
    return answer


def upload_error_page(request: Request, server: Server, refused: RefusedError) -> HTMLResponse:
    words, onward = f"{refused.words[:1].upper()}{refused.words[1:]}.", ("/", "Upload again")
    return error_page(
        request, server, PageError(refused.status, words, "The upload was refused", onward, refused.headers)
    )


def find_case(request: Request, server: Server) -> Case:
    """Return the case of the address."""
    case = server.storage.cases.find(request.path_params["id"])
    if case is None:
        raise not_found(NO_CASE)
    return case


def read_case(request: Request, server: Server) -> tuple[Case, dict[str, Any]]:
    """Return the case of the address with its result document."""
    case = find_case(request, server)
    document = server.storage.cases.document(case.id)
    if document is None:
        raise not_found(NO_CASE)
    return case, document


async def read_form(request: Request) -> FormFields:
    """Return all values of each field of a URL-encoded form, including empty ones; none for another body."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
        return {}
    body = await request.body()
    try:
        return parse_qs(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError:  # not ASCII, not UTF-8 after decoding, or too many fields
        return {}


def form_field(request: Request, name: str) -> str:
    """Return the value of a field of the sent form; empty if it is missing or repeated."""
    values = request.state.form.get(name, [])
    return values[0] if len(values) == 1 else ""
