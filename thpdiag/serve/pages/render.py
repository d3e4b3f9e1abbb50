"""Pages as they are answered: a template, what every template may use, and the headers of a page of ours.

Every template has `principal`, `can(scope)`, `csrf` (a token for actions of forms), `static_address(name)`, `path` and
`title` beside its own, and the words of report pages (thpdiag/report/html). Strings pass `visible` and Jinja's
escaping; there are no scripts and styles but our own, whose addresses have the digest of the content in them and are
the same for ever: `/static/style.1f0c6a9d2b7e4835.css`.
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
from thpdiag.serve.access.principals import NOBODY, Access, Principal, Scope
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
    """The host that leads, or what the case is called; the bundle where nobody has named either."""
    name = messages.host_title(case.host, case.title)
    return case.name if case.name and name == messages.NAMELESS else name


def case_sentence(case: Case) -> str:
    """The verdict in a sentence."""
    return case.sentence or messages.SENTENCES.get(case.verdict or "", "")


def verdict_label(case: Case) -> str:
    """The verdict in a word or two."""
    return VERDICTS.get(case.verdict or "", "no verdict")


def verdict_class(case: Case) -> str:
    """The class of style of a verdict: its severity, or what it is without one."""
    return case.severity or _COLOURS.get(case.verdict or "", "")


def format_time(seconds: float | None) -> str:
    """A time of this server, in UTC, to the minute."""
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def format_day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"


def format_recorded(case: Case) -> str:
    """When the data was, to the minute; the host's local time where nobody knows its zone."""
    if not case.recorded:
        return ""
    day, _, clock = case.recorded.partition("T")
    return f"{day} {clock[:5]} {'UTC' if clock.endswith('Z') else 'local'}"


def format_size(number: int) -> str:
    """Bytes of a file."""
    return f"{number:,} bytes" if number < 1 << 20 else f"{number / (1 << 20):,.1f} MiB"


def origin_of_request(request: Request, access: Access) -> str:
    """How the reader's browser names this server, by the names that it may be called."""
    host = request.headers.get("host", "").lower()
    origins = sorted(allowed_origins(request.headers, access)) or sorted(access.origins)
    return next((one for one in origins if one.partition("//")[2] == host), origins[0] if origins else f"http://{host}")


@cache
def _static_files() -> Mapping[str, tuple[str, bytes]]:
    """Of each file of the folder `static` its name with the digest, and its content."""
    contents = {
        file.name: file.read_bytes() for file in files(__package__).joinpath("static").iterdir() if file.is_file()
    }
    found = {}
    for name, body in contents.items():
        stem, _, kind = name.rpartition(".")
        if kind in STATIC_TYPES:
            found[name] = (f"{stem}.{sha256(body).hexdigest()[:16]}.{kind}", body)
    return found


def static_address(name: str) -> str:
    """The address of a file of the folder `static`; KeyError if there is none."""
    return STATIC_PATH + _static_files()[name][0]


async def get_static_file(request: Request, _server: Server) -> Response:
    name = request.path_params["name"]
    body = dict(_static_files().values()).get(name)
    if body is None:
        return PlainTextResponse("there is nothing at this address", 404)
    return Response(body, media_type=STATIC_TYPES[name.rpartition(".")[2]], headers=dict(STATIC_HEADERS))


@cache
def _environment() -> Environment:
    made = environment(PackageLoader(__name__, "templates"))
    titles = (static_address, case_title, case_sentence, verdict_label, verdict_class)
    for function in (*titles, format_time, format_recorded, format_size):
        made.globals[function.__name__] = function
    return made


def render_page(
    request: Request, server: Server, template: str, *, title: str, status: int = 200, **context: Any
) -> HTMLResponse:
    """A page of a template of the folder `templates`; takes processor time, so call it in a thread."""
    principal: Principal = getattr(request.state, "principal", NOBODY)
    page = (
        _environment()
        .get_template(template)
        .render(
            title=title,
            principal=principal,
            can=lambda scope: principal.may(Scope(scope)),
            csrf=credentials.issue_csrf_token(server.key, principal, server.clock()),
            path=request.url.path,
            **context,
        )
    )
    return HTMLResponse(page, status, dict(PAGE_HEADERS))


class PageError(RefusedError):
    """Why there is nothing to show, or nothing was done, in a sentence for people; `onward` leads on from there."""

    def __init__(
        self, status: int, words: str, title: str = "This did not work", onward: tuple[str, str] = START_LINK,
        headers: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(status, words, headers)
        self.title, self.onward = title, onward


def not_found(words: str) -> PageError:
    """What was asked for is not there; the sentence is the same whether it ever was."""
    return PageError(404, words, "Not found")


def error_page(request: Request, server: Server, error: Exception) -> HTMLResponse:
    """A failure as a page with one sentence; of a storage that cannot be used the log says more."""
    match error:
        case PageError():
            told = error
        case StoreFullError():
            told = PageError(507, "The disk of this server is full. Nothing was changed.")
        case StoreBusyError():
            told = PageError(503, "The storage of this server is busy. Try again in a moment.")
        case _:
            LOG.error("the storage cannot be used: %s", error)
            told = PageError(503, "The storage of this server is unavailable. See the server log.")
    answer = render_page(
        request, server, "missing.html", title=told.title, status=told.status, words=told.words, onward=told.onward
    )
    answer.headers.update(told.headers)
    return answer


def upload_error_page(request: Request, server: Server, refused: RefusedError) -> HTMLResponse:
    words, onward = f"{refused.words[:1].upper()}{refused.words[1:]}.", ("/", "Upload again")
    return error_page(
        request, server, PageError(refused.status, words, "The upload was refused", onward, refused.headers)
    )


def find_case(request: Request, server: Server) -> Case:
    """The case that the address names."""
    case = server.storage.cases.find(request.path_params["id"])
    if case is None:
        raise not_found(NO_CASE)
    return case


def read_case(request: Request, server: Server) -> tuple[Case, dict[str, Any]]:
    """The same with its result document."""
    case = find_case(request, server)
    document = server.storage.cases.document(case.id)
    if document is None:
        raise not_found(NO_CASE)
    return case, document


async def read_form(request: Request) -> FormFields:
    """What a plain form sends: all values of each field, empty ones too; none of what is not such a form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM_TYPE:
        return {}
    body = await request.body()
    try:
        return parse_qs(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError:  # not ASCII, not UTF-8 behind the escapes, or too many fields
        return {}


def form_field(request: Request, name: str) -> str:
    """The value of a field of the form that was sent; empty if it is missing or there are several."""
    values = request.state.form.get(name, [])
    return values[0] if len(values) == 1 else ""
