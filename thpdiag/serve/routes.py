"""The table of all routes with their scopes and handlers: a request that matches none is refused.

Routes under /api/ and /files are for programs: refusals are problem JSON, changes need a token or a page of this
server. All others are pages for people. `application` makes an ASGI application of the table.
"""

from __future__ import annotations

from inspect import iscoroutinefunction
from typing import Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from thpdiag.errors import UNWRITABLE_ERRNOS, StorageError, StoreError, describe_unwritable
from thpdiag.serve.access.gate import RouteRule, Routes, protect
from thpdiag.serve.access.http import RefusedError, problem_response, wants_page
from thpdiag.serve.access.principals import Scope
from thpdiag.serve.api.cases import (
    delete_case,
    get_case,
    get_comparison,
    get_job,
    get_job_events,
    get_report,
    list_cases,
    set_kept,
)
from thpdiag.serve.api.description import get_description
from thpdiag.serve.api.metrics import RequestCounter, get_health, get_metrics
from thpdiag.serve.api.responses import error_response
from thpdiag.serve.pages import cases, fleet, lines, rules, tokens, upload, work
from thpdiag.serve.pages.render import error_page, get_static_file, read_form, upload_error_page
from thpdiag.serve.server import Server
from thpdiag.serve.uploads import tus
from thpdiag.serve.uploads.intake import Handler, handle_upload_errors
from thpdiag.serve.uploads.whole import create_case, post_form, put_bundle, put_by_link

ANYBODY, UPLOAD, READ, WORK, ADMIN = (), (Scope.UPLOAD,), (Scope.READ,), (Scope.WORK,), (Scope.ADMIN,)
UPLOAD_OR_READ = (Scope.UPLOAD, Scope.READ)
INTERNAL_ERROR: Final = "internal server error; see the server log"

ROUTES: Final = Routes(
    (
        # uploads
        RouteRule("PUT", "/api/v1/bundles/{name}", UPLOAD, put_bundle, streams=True),
        RouteRule("POST", "/upload", UPLOAD, post_form, streams=True),
        RouteRule("POST", "/cases/{id}/files", UPLOAD, post_form, streams=True),
        RouteRule("POST", "/api/v1/cases", UPLOAD, create_case),
        RouteRule("POST", "/s/{secret}/files", ANYBODY, post_form, streams=True),
        RouteRule("PUT", "/s/{secret}/{name}", ANYBODY, put_by_link, streams=True),
        RouteRule("GET", "/s/{secret}", ANYBODY, work.link_page),
        RouteRule("OPTIONS", "/files", ANYBODY, tus.tus_options),
        RouteRule("POST", "/files", UPLOAD, tus.create_upload, streams=True),
        RouteRule("OPTIONS", "/files/{id}", ANYBODY, tus.tus_options),
        RouteRule("HEAD", "/files/{id}", UPLOAD, tus.head_upload, streams=True),
        RouteRule("PATCH", "/files/{id}", UPLOAD, tus.patch_upload, streams=True),
        RouteRule("DELETE", "/files/{id}", UPLOAD, tus.delete_upload, streams=True),
        RouteRule("POST", "/files/{id}", UPLOAD, tus.post_upload, streams=True),
        # for programs
        RouteRule("GET", "/api/v1/jobs/{id}", UPLOAD_OR_READ, get_job),
        RouteRule("GET", "/api/v1/jobs/{id}/events", UPLOAD_OR_READ, get_job_events),
        RouteRule("GET", "/api/v1/cases", READ, list_cases),
        RouteRule("GET", "/api/v1/cases/{id}", READ, get_case),
        RouteRule("DELETE", "/api/v1/cases/{id}", ADMIN, delete_case),
        RouteRule("PUT", "/api/v1/cases/{id}/kept", ADMIN, set_kept),
        RouteRule("DELETE", "/api/v1/cases/{id}/kept", ADMIN, set_kept),
        RouteRule("GET", "/api/v1/cases/{id}/{report}", READ, get_report),
        RouteRule("GET", "/api/v1/compare/{format}", READ, get_comparison),
        RouteRule("GET", "/api/v1/openapi.json", ANYBODY, get_description),
        RouteRule("GET", "/healthz", ANYBODY, get_health),
        RouteRule("GET", "/readyz", ANYBODY, get_health),
        RouteRule("GET", "/metrics", READ, get_metrics),
        # for people
        RouteRule("GET", "/", UPLOAD_OR_READ, upload.start_page),
        RouteRule("GET", "/jobs", UPLOAD_OR_READ, upload.job_list),
        RouteRule("GET", "/jobs/{id}", UPLOAD_OR_READ, upload.job_page),
        RouteRule("GET", "/uploads", ADMIN, upload.upload_list),
        RouteRule("POST", "/uploads/{id}/end", ADMIN, upload.end_upload),
        RouteRule("GET", "/cases", READ, cases.case_list),
        RouteRule("GET", "/cases/{id}", READ, cases.case_page),
        RouteRule("GET", "/cases/{id}/page", READ, cases.case_report),
        RouteRule("POST", "/cases/{id}/letter", WORK, work.customer_letter),
        RouteRule("POST", "/cases/{id}/notes", WORK, work.add_note),
        RouteRule("POST", "/cases/{id}/notes/{note}/delete", WORK, work.delete_note),
        RouteRule("POST", "/cases/{id}/work", WORK, work.set_work),
        RouteRule("POST", "/cases/{id}/share", WORK, work.share),
        RouteRule("POST", "/cases/{id}/links/{key}/end", WORK, work.end_link),
        RouteRule("POST", "/cases/{id}/analyse", WORK, work.analyse_case),
        RouteRule("GET", "/cases/{id}/files.tar", WORK, work.get_files),
        RouteRule("GET", "/cases/{id}/files/{place}", WORK, work.get_file),
        RouteRule("GET", "/analyses", READ, work.analysis_list),
        RouteRule("POST", "/analyses", ADMIN, work.analyse_all),
        RouteRule("GET", "/cases/{id}/capture-script", READ, work.capture_script),
        RouteRule("GET", "/cases/{id}/lines", READ, lines.lines_page),
        RouteRule("GET", "/cases/{id}/compare", READ, cases.comparison_page),
        RouteRule("GET", "/cases/{id}/comparison", READ, cases.comparison_report),
        RouteRule("POST", "/cases/{id}/delete", ADMIN, cases.delete_case),
        RouteRule("POST", "/cases/{id}/keep", ADMIN, cases.set_kept),
        RouteRule("POST", "/cases/{id}/release", ADMIN, cases.set_kept),
        RouteRule("GET", "/fleet", READ, fleet.fleet_list),
        RouteRule("GET", "/fleet/page", READ, fleet.fleet_report),
        RouteRule("GET", "/fleet/fleet.csv", READ, fleet.fleet_file),
        RouteRule("GET", "/fleet/fleet.json", READ, fleet.fleet_file),
        RouteRule("GET", "/rules", READ, rules.rule_list),
        RouteRule("GET", "/rules/{id}", READ, rules.rule_page),
        RouteRule("GET", "/tokens", ADMIN, tokens.token_list),
        RouteRule("POST", "/tokens", ADMIN, tokens.create_token),
        RouteRule("POST", "/tokens/{prefix}/revoke", ADMIN, tokens.revoke_token),
        RouteRule("POST", "/sessions/{id}/end", ADMIN, tokens.end_session),
        RouteRule("GET", "/sign-in", ANYBODY, tokens.sign_in_page),
        RouteRule("POST", "/sign-in", ANYBODY, tokens.sign_in),
        RouteRule("GET", "/sign-in/begin", ANYBODY, tokens.begin_oidc),
        RouteRule("GET", "/sign-in/callback", ANYBODY, tokens.finish_oidc),
        RouteRule("POST", "/sign-out", ANYBODY, tokens.sign_out),
        RouteRule("GET", "/static/{name}", ANYBODY, get_static_file),
    )
)


def application(server: Server) -> ASGIApp:
    """Return the ASGI application; workers are run separately."""
    routes = [Route(rule.path, _endpoint(rule, server), methods=[rule.method]) for rule in ROUTES.rules]
    app = Starlette(routes=routes, exception_handlers={Exception: _internal_error})
    app.state.routes = ROUTES
    protected = protect(app, server.access, ROUTES, server.bearer, server.key, server.health.problem)
    return RequestCounter(protected, ROUTES, server.counts)


def _endpoint(rule: RouteRule, server: Server) -> Handler:
    """Return the endpoint for Starlette: runs a synchronous handler in a thread and turns errors into answers."""
    handler = rule.handler
    assert handler is not None

    async def answer(request: Request) -> Response:
        try:
            if rule.is_page and rule.method == "POST" and not rule.streams:
                request.state.form = await read_form(request)
            if not iscoroutinefunction(handler):
                return await run_in_threadpool(handler, request, server)
            response: Response = await handler(request, server)
        except OSError as error:
            if error.errno in UNWRITABLE_ERRNOS:
                raise StoreError(describe_unwritable(server.storage.folder, error)) from error
            raise
        return response

    async def refuse(request: Request, refused: RefusedError) -> Response:
        if rule.is_page and wants_page(request.headers):
            return await run_in_threadpool(upload_error_page, request, server, refused)
        return problem_response(refused.status, refused.words, refused.headers)

    if rule.path.startswith("/files"):
        return tus.speak_tus(answer, refuse)
    return handle_upload_errors(answer, refuse) if rule.streams else _answer_errors(answer, rule, server)


def _answer_errors(handler: Handler, rule: RouteRule, server: Server) -> Handler:
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except (RefusedError, StorageError) as error:
            if rule.is_page:
                return await run_in_threadpool(error_page, request, server, error)
            return error_response(error)

    return answer


async def _internal_error(request: Request, _error: Exception) -> Response:
    """Answer an unexpected error without details; Starlette raises it again, so that it is logged."""
    if wants_page(request.headers):
        return PlainTextResponse(f"{INTERNAL_ERROR}\n", 500)
    return problem_response(500, INTERNAL_ERROR)
