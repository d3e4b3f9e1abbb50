"""From a function of a page to an endpoint: it runs in a thread, and what the storage cannot do becomes a page too."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from thpdiag.errors import StoreBusyError, StoreError, StoreFullError
from thpdiag.serve.access.audit import Action, Outcome, event
from thpdiag.serve.access.gate import address_of
from thpdiag.serve.pages.shown import START, shown
from thpdiag.serve.server import Server

Page = Callable[[Request, Server], Response]
FULL = "The disk of this server is full. Nothing was changed."
BUSY = "The storage of this server is busy. Try again in a moment."
BROKEN = "The storage of this server failed. Its log says more."


def endpoint(server: Server, page: Page) -> Callable[[Request], Response]:
    """A function that Starlette calls in a thread, since it is no coroutine: pages wait for disk and processor."""

    def answered(request: Request) -> Response:
        try:
            return page(request, server)
        except StoreFullError:
            return failed(request, server, 507, FULL)
        except StoreBusyError:
            return failed(request, server, 503, BUSY)
        except StoreError:
            return failed(request, server, 500, BROKEN)

    return answered


def failed(
    request: Request, server: Server, status: int, words: str, *,
    title: str = "This did not work", onward: tuple[str, str] = START,
) -> Response:  # fmt: skip
    """A page with one sentence; `onward` is the address of where to go from it, and its words."""
    return shown(request, server, "missing.html", title=title, status=status, words=words, onward=onward)


def note(request: Request, server: Server, action: Action, subject: str) -> None:
    """Write down that somebody did this."""
    who, address = request.state.principal, address_of(request.scope, server.access)
    server.storage.audit.add(event(server.clock(), action, Outcome.DONE, who, address, subject))
