"""Every route of the server with whom it is for: a request that is not in this table is refused.

An address under /api/ or /files is for programs: its refusals are data, its changes need a token or our own page. All
other addresses are pages for people.
"""

from __future__ import annotations

from typing import Final

from thpdiag.serve.access.routes import Routes, Rule
from thpdiag.serve.access.scopes import Scope

UPLOAD, READ, ADMIN = Scope.UPLOAD, Scope.READ, Scope.ADMIN

ROUTES: Final = Routes(
    (
        # bytes come in
        Rule("PUT", "/api/v1/bundles/{name}", UPLOAD, streams=True),
        Rule("POST", "/upload", UPLOAD, streams=True),
        Rule("OPTIONS", "/files", None),
        Rule("POST", "/files", UPLOAD, streams=True),
        Rule("OPTIONS", "/files/{id}", None),
        *(Rule(method, "/files/{id}", UPLOAD, streams=True) for method in ("HEAD", "PATCH", "DELETE", "POST")),
        # for programs
        Rule("GET", "/api/v1/jobs/{id}", UPLOAD, also=READ),
        Rule("GET", "/api/v1/jobs/{id}/events", UPLOAD, also=READ),
        Rule("GET", "/api/v1/cases", READ),
        Rule("GET", "/api/v1/cases/{id}", READ),
        Rule("DELETE", "/api/v1/cases/{id}", ADMIN),
        Rule("PUT", "/api/v1/cases/{id}/kept", ADMIN),
        Rule("DELETE", "/api/v1/cases/{id}/kept", ADMIN),
        Rule("GET", "/api/v1/cases/{id}/{report}", READ),
        Rule("GET", "/api/v1/compare/{format}", READ),
        Rule("GET", "/api/v1/openapi.json", None),
        Rule("GET", "/healthz", None),
        Rule("GET", "/metrics", READ),
        # for people
        Rule("GET", "/", UPLOAD, also=READ),
        Rule("GET", "/jobs/{id}", UPLOAD, also=READ),
        Rule("GET", "/cases", READ),
        Rule("GET", "/cases/{id}", READ),
        Rule("GET", "/cases/{id}/page", READ),
        Rule("GET", "/cases/{id}/lines", READ),
        Rule("GET", "/cases/{id}/compare", READ),
        Rule("GET", "/cases/{id}/comparison", READ),
        Rule("POST", "/cases/{id}/delete", ADMIN),
        Rule("POST", "/cases/{id}/keep", ADMIN),
        Rule("POST", "/cases/{id}/release", ADMIN),
        Rule("GET", "/fleet", READ),
        Rule("GET", "/fleet/page", READ),
        Rule("GET", "/fleet/fleet.csv", READ),
        Rule("GET", "/fleet/fleet.json", READ),
        Rule("GET", "/rules", READ),
        Rule("GET", "/rules/{id}", READ),
        Rule("GET", "/tokens", ADMIN),
        Rule("POST", "/tokens", ADMIN),
        Rule("POST", "/tokens/{prefix}/revoke", ADMIN),
        Rule("GET", "/sign-in", None),
        Rule("POST", "/sign-in", None),
        Rule("POST", "/sign-out", None),
        Rule("GET", "/static/{name}", None),
    )
)
