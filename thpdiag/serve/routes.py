"""Every route of the server with whom it is for and what answers it: a request that is not in this table is refused.

An address under /api/ or /files is for programs: its refusals are data, its changes need a token or our own page. All
other addresses are pages for people. `application` makes an ASGI application of the table.
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
from thpdiag.serve.access.gate import Routes, Rule, protect
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
        # bytes come in
        Rule("PUT", "/api/v1/bundles/{name}", UPLOAD, put_bundle, streams=True),
        Rule("POST", "/upload", UPLOAD, post_form, streams=True),
        Rule("POST", "/cases/{id}/files", UPLOAD, post_form, streams=True),
        Rule("POST", "/api/v1/cases", UPLOAD, create_case),
        Rule("POST", "/s/{secret}/files", ANYBODY, post_form, streams=True),
        Rule("PUT", "/s/{secret}/{name}", ANYBODY, put_by_link, streams=True),
        Rule("GET", "/s/{secret}", ANYBODY, work.link_page),
        Rule("OPTIONS", "/files", ANYBODY, tus.tus_options),
        Rule("POST", "/files", UPLOAD, tus.create_upload, streams=True),
        Rule("OPTIONS", "/files/{id}", ANYBODY, tus.tus_options),
        Rule("HEAD", "/files/{id}", UPLOAD, tus.head_upload, streams=True),
        Rule("PATCH", "/files/{id}", UPLOAD, tus.patch_upload, streams=True),
        Rule("DELETE", "/files/{id}", UPLOAD, tus.delete_upload, streams=True),
        Rule("POST", "/files/{id}", UPLOAD, tus.post_upload, streams=True),
        # for programs
        Rule("GET", "/api/v1/jobs/{id}", UPLOAD_OR_READ, get_job),
        Rule("GET", "/api/v1/jobs/{id}/events", UPLOAD_OR_READ, get_job_events),
        Rule("GET", "/api/v1/cases", READ, list_cases),
        Rule("GET", "/api/v1/cases/{id}", READ, get_case),
        Rule("DELETE", "/api/v1/cases/{id}", ADMIN, delete_case),
        Rule("PUT", "/api/v1/cases/{id}/kept", ADMIN, set_kept),
        Rule("DELETE", "/api/v1/cases/{id}/kept", ADMIN, set_kept),
        Rule("GET", "/api/v1/cases/{id}/{report}", READ, get_report),
        Rule("GET", "/api/v1/compare/{format}", READ, get_comparison),
        Rule("GET", "/api/v1/openapi.json", ANYBODY, get_description),
        Rule("GET", "/healthz", ANYBODY, get_health),
        Rule("GET", "/readyz", ANYBODY, get_health),
        Rule("GET", "/metrics", READ, get_metrics),
        # for people
        Rule("GET", "/", UPLOAD_OR_READ, upload.start_page),
        Rule("GET", "/jobs", UPLOAD_OR_READ, upload.job_list),
        Rule("GET", "/jobs/{id}", UPLOAD_OR_READ, upload.job_page),
        Rule("GET", "/uploads", ADMIN, upload.upload_list),
        Rule("POST", "/uploads/{id}/end", ADMIN, upload.end_upload),
        Rule("GET", "/cases", READ, cases.case_list),
        Rule("GET", "/cases/{id}", READ, cases.case_page),
        Rule("GET", "/cases/{id}/page", READ, cases.case_report),
        Rule("POST", "/cases/{id}/letter", WORK, work.customer_letter),
        Rule("POST", "/cases/{id}/notes", WORK, work.add_note),
        Rule("POST", "/cases/{id}/notes/{note}/delete", WORK, work.delete_note),
        Rule("POST", "/cases/{id}/work", WORK, work.set_work),
        Rule("POST", "/cases/{id}/share", WORK, work.share),
        Rule("POST", "/cases/{id}/links/{key}/end", WORK, work.end_link),
        Rule("POST", "/cases/{id}/analyse", WORK, work.analyse_case),
        Rule("GET", "/cases/{id}/files.tar", WORK, work.get_files),
        Rule("GET", "/cases/{id}/files/{place}", WORK, work.get_file),
        Rule("GET", "/analyses", READ, work.analysis_list),
        Rule("POST", "/analyses", ADMIN, work.analyse_all),
        Rule("GET", "/cases/{id}/capture-script", READ, work.capture_script),
        Rule("GET", "/cases/{id}/lines", READ, lines.lines_page),
        Rule("GET", "/cases/{id}/compare", READ, cases.comparison_page),
        Rule("GET", "/cases/{id}/comparison", READ, cases.comparison_report),
        Rule("POST", "/cases/{id}/delete", ADMIN, cases.delete_case),
        Rule("POST", "/cases/{id}/keep", ADMIN, cases.set_kept),
        Rule("POST", "/cases/{id}/release", ADMIN, cases.set_kept),
        Rule("GET", "/fleet", READ, fleet.fleet_list),
        Rule("GET", "/fleet/page", READ, fleet.fleet_report),
        Rule("GET", "/fleet/fleet.csv", READ, fleet.fleet_file),
        Rule("GET", "/fleet/fleet.json", READ, fleet.fleet_file),
        Rule("GET", "/rules", READ, rules.rule_list),
        Rule("GET", "/rules/{id}", READ, rules.rule_page),
        Rule("GET", "/tokens", ADMIN, tokens.token_list),
        Rule("POST", "/tokens", ADMIN, tokens.create_token),
        Rule("POST", "/tokens/{prefix}/revoke", ADMIN, tokens.revoke_token),
        Rule("POST", "/sessions/{id}/end", ADMIN, tokens.end_session),
        Rule("GET", "/sign-in", ANYBODY, tokens.sign_in_page),
        Rule("POST", "/sign-in", ANYBODY, tokens.sign_in),
        Rule("GET", "/sign-in/begin", ANYBODY, tokens.begin_oidc),
        Rule("GET", "/sign-in/callback", ANYBODY, tokens.finish_oidc),
        Rule("POST", "/sign-out", ANYBODY, tokens.sign_out),
        Rule("GET", "/static/{name}", ANYBODY, get_static_file),
    )
)


def application(server: Server) -> ASGIApp:
    """The whole server; its workers are run beside it."""
    routes = [Route(rule.path, _endpoint(rule, server), methods=[rule.method]) for rule in ROUTES.rules]
    app = Starlette(routes=routes, exception_handlers={Exception: _internal_error})
    app.state.routes = ROUTES
    protected = protect(app, server.access, ROUTES, server.bearer, server.key, server.health.problem)
    return RequestCounter(protected, ROUTES, server.counts)


def _endpoint(rule: Rule, server: Server) -> Handler:
    """What Starlette calls: a handler that is no coroutine runs in a thread, and failures become answers."""
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


def _answer_errors(handler: Handler, rule: Rule, server: Server) -> Handler:
    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except (RefusedError, StorageError) as error:
            if rule.is_page:
                return await run_in_threadpool(error_page, request, server, error)
            return error_response(error)

    return answer


async def _internal_error(request: Request, _error: Exception) -> Response:
    """What nobody expected, without details; it is raised again, so that the log has it."""
    if wants_page(request.headers):
        return PlainTextResponse(f"{INTERNAL_ERROR}\n", 500)
    return problem_response(500, INTERNAL_ERROR)
