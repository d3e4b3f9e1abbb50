"""Pages as they are answered: a template, what every template may use, and the headers of a page of ours.

Every template has `principal`, `can(scope)`, `csrf` (a token for actions of forms), `static(name)`, `path` and `title`
beside its own, and the words of report pages (thpdiag/reports/html). Strings pass `visible` and Jinja's escaping; there
are no scripts and styles but those of `static`.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader
from starlette.requests import Request
from starlette.responses import HTMLResponse

from thpdiag.reports.html import environment
from thpdiag.serve.access import csrf
from thpdiag.serve.access.headers import page_headers
from thpdiag.serve.access.principal import NOBODY, Principal
from thpdiag.serve.access.scopes import Scope
from thpdiag.serve.pages import told
from thpdiag.serve.pages.static import static
from thpdiag.serve.server import Server

START: Final = ("/", "Start page")


def shown(
    request: Request, server: Server, template: str, *, title: str, status: int = 200, **context: Any
) -> HTMLResponse:
    """A page of a template of the folder `templates`; takes processor time, so call it in a thread."""
    principal: Principal = getattr(request.state, "principal", NOBODY)
    page = _environment().get_template(template).render(
        title=title,
        principal=principal,
        can=lambda scope: principal.may(Scope(scope)),
        csrf=csrf.issue(server.key, principal, server.clock()),
        path=request.url.path,
        **context,
    )  # fmt: skip
    return HTMLResponse(page, status, page_headers())


def missing(request: Request, server: Server, words: str) -> HTMLResponse:
    """What was asked for is not there; one sentence says what, the same whether it ever was."""
    return shown(request, server, "missing.html", title="Not found", status=404, words=words, onward=START)


@cache
def _environment() -> Environment:
    made = environment(PackageLoader(__name__, "templates"))
    made.globals |= {"static": static, "told": told}
    return made
