"""Puts everything that access needs around an application, and says how the server below has to be set up."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

from starlette.types import ASGIApp

from thpdiag.serve.access.bearer import Bearer
from thpdiag.serve.access.bodies import Bodies
from thpdiag.serve.access.gate import Gate
from thpdiag.serve.access.headers import SecurityHeaders
from thpdiag.serve.access.log import Log
from thpdiag.serve.access.modes import Access
from thpdiag.serve.access.routes import Routes
from thpdiag.serve.access.shapes import Shapes
from thpdiag.serve.access.wire import HeadLimited

SERVER: Final = MappingProxyType[str, Any](
    {
        "http": HeadLimited,
        "ws": "none",
        "interface": "asgi3",
        "proxy_headers": False,  # would put what X-Forwarded-For claims in the place of the address that is trusted
        "access_log": False,  # would write queries
        "log_config": None,  # its own handlers would write past the formatter that blots out secrets
        "server_header": False,
    }
)


def around(app: ASGIApp, access: Access, routes: Routes, bearer: Bearer, key: bytes) -> ASGIApp:
    """The application as it may be served; `uvicorn.Config(around(...), **SERVER)`."""
    gate = Gate(Bodies(app, routes), access, routes, bearer, key)
    return Log(SecurityHeaders(Shapes(gate)), access)
