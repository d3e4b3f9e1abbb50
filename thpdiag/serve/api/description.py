"""`GET /api/v1/openapi.json`: the OpenAPI description, made of the route table and the descriptions in this module.

Scopes and the refusals that follow from them come from the table, enumerations from the code that uses them. Tests fail
for a route without a description and for a description without a route.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from thpdiag.model import SEVERITIES
from thpdiag.report.presentation import NEVER
from thpdiag.serve.access.gate import RouteRule, Routes
from thpdiag.serve.api.cases import COMPARISONS, KINDS, MAX_CASES
from thpdiag.serve.api.metrics import VERDICTS
from thpdiag.serve.api.responses import read_query
from thpdiag.serve.server import Server
from thpdiag.serve.storage.bundles import MAX_FILES
from thpdiag.serve.storage.cases import CASES_PER_PAGE
from thpdiag.serve.storage.work import STATES
from thpdiag.serve.uploads.tus import TUS_CONTENT_TYPE, TUS_VERSION

Schema = dict[str, Any]

# values
TEXT: Final[Schema] = {"type": "string"}
NULLABLE: Final[Schema] = {"type": ["string", "null"]}
FLAG: Final[Schema] = {"type": "boolean"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
OFFSET: Final[Schema] = {**COUNT, "maximum": 10**17}
ID: Final[Schema] = {**TEXT, "pattern": "^[0-9a-f]{32}$"}
SHA256: Final[Schema] = {**TEXT, "pattern": "^[0-9a-f]{64}$"}
SEARCHED: Final[Schema] = {**TEXT, "maxLength": 255}
TIME: Final[Schema] = {
    **TEXT,
    "pattern": (
        "^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])(T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z)?$"
    ),
}  # fmt: skip
TIME_OR_NULL: Final[Schema] = {**NULLABLE, "format": "date-time"}
VERDICT: Final[Schema] = {**NULLABLE, "enum": [*VERDICTS, None]}
SWITCH: Final[Schema] = {**TEXT, "enum": ["0", "1"], "default": "0"}
BYTES: Final[Schema] = {**TEXT, "format": "binary"}


def annotate(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def record(**properties: Schema) -> Schema:
    """Return the schema of an object with required properties."""
    return {"type": "object", "required": list(properties), "properties": properties}


def refer(name: str, kind: str = "schemas") -> Schema:
    return {"$ref": f"#/components/{kind}/{name}"}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def or_null(schema: Schema) -> Schema:
    return {"oneOf": [schema, {"type": "null"}]}


def content(**by_type: Schema) -> Schema:
    return {kind: {"schema": schema} for kind, schema in by_type.items()}


def parameter(name: str, place: str, description: str, schema: Schema, *, required: bool = False) -> Schema:
    return {"name": name, "in": place, "required": required, "description": description, "schema": schema}


_ACCEPTED: Final = {
    "job": ID, "sha256": SHA256, "size": COUNT,
    "case": annotate(NULLABLE, "The earlier case of the same bundle, if it was analyzed in the same way."),
    "known": annotate(FLAG, "Whether the same content was uploaded before."),
}  # fmt: skip
_LEADING: Final = {
    "status": VERDICT, "rule": NULLABLE, "mechanism": NULLABLE, "severity": NULLABLE, "confidence": NULLABLE,
}  # fmt: skip
SCHEMAS: Final[Mapping[str, Schema]] = {
    "Problem": annotate(record(title=TEXT, status={"type": "integer"}, detail=TEXT), "RFC 9457."),
    "Accepted": record(**_ACCEPTED),
    "Together": record(**{name: schema for name, schema in _ACCEPTED.items() if name != "known"}),
    "Analysed": record(
        **_ACCEPTED, state={**TEXT, "enum": ["done", "failed"]}, reason=TEXT, exit={"type": "integer"},
        verdict=or_null(refer("Verdict")),
    ),
    "Verdict": record(
        status=VERDICT, sentence=TEXT, confidence=NULLABLE, leading=or_null(refer("Finding")),
        hosts=array(refer("Host")), page=TEXT, report=TEXT,
    ),
    "Finding": record(
        rule=NULLABLE, mechanism=NULLABLE, title=NULLABLE, severity=NULLABLE, confidence=NULLABLE, role=NULLABLE,
        state=NULLABLE, entity=NULLABLE, accepted=annotate(FLAG, "By a suppression or a baseline."),
    ),
    "Host": record(
        name=TEXT, kernel=NULLABLE, verdict=record(**_LEADING, state=NULLABLE, sentence=TEXT),
        leading=or_null(refer("Finding")), findings=array(refer("Finding")), undecided=array(TEXT), problems=COUNT,
    ),
    "Job": record(
        id=ID, state={**TEXT, "enum": ["queued", "running", "done", "failed"]}, stage=TEXT,
        ahead=annotate(COUNT, "Jobs ahead of this one."),
        reason=annotate(TEXT, "Why there is no case, or why it is incomplete."), case=NULLABLE,
        name=TEXT, sha256=TEXT, attempts=COUNT, queued=TIME_OR_NULL, started=TIME_OR_NULL, ended=TIME_OR_NULL,
        events=TEXT, page=TEXT,
    ),
    "Case": record(
        id=ID, name=annotate(TEXT, "Of the upload."), sha256=TEXT,
        status=annotate(TEXT, "How the analysis ended: `ok`, or what cut it short."), reason=TEXT,
        made={**TEXT, "format": "date-time"}, recorded=annotate(NULLABLE, "The time range of the data."),
        kept=FLAG, tool=record(version=TEXT, rules_digest=TEXT, options={"type": "object"}),
        host=record(name=NULLABLE, title=NULLABLE, kernel=NULLABLE), verdict=record(**_LEADING, sentence=NULLABLE),
        undecided=annotate({"type": ["integer", "null"]}, "Rules that could not be decided."), page=TEXT,
        report=TEXT,
    ),
    "Cases": record(
        total=COUNT, more=annotate(FLAG, "Whether more than `total` match: a search by words counts no further."),
        cases=array(refer("Case")), next=annotate(NULLABLE, "Address of the next page."),
    ),
    "CaseWithHosts": {
        "allOf": [
            refer("Case"),
            record(
                hosts=array(refer("Host")), files=annotate(array(TEXT), "Addresses of the report in every format."),
            ),
        ]
    },
    "Health": record(status={**TEXT, "enum": ["ok", "failing"]}, database=FLAG, disk=FLAG, reason=TEXT),
}  # fmt: skip

REFUSALS: Final[Mapping[int, tuple[str, str]]] = {
    400: (
        "BadRequest",
        "The request is invalid: a parameter is unknown, comes twice or has another form, or a path is not in normal "
        "form.",
    ),
    401: ("Unauthorized", "A token is needed, or this one is not valid."),
    403: ("Forbidden", "The token has another scope, or the request was sent by a page of another site."),
    404: ("NotFound", "There is nothing here, or nothing for this token."),
    405: ("OtherMethod", "The method is not allowed here."),
    408: ("TooSlow", "Too little data arrived for too long."),
    409: (
        "Conflict",
        "The upload is at another byte (see `Upload-Offset`), or is finished; or files of the case are missing.",
    ),
    410: ("Gone", "No such upload, or it has expired, or it belongs to someone else."),
    412: ("OtherVersion", "`Tus-Resumable: 1.0.0` is missing."),
    413: ("TooLarge", "More bytes than the server accepts."),
    414: ("TooLongAddress", "The address is too long."),
    415: ("OtherType", "The content type is not accepted."),
    421: ("OtherName", "The server does not accept this host name."),
    422: ("NothingToCompare", "The cases have no host in common."),
    423: ("Busy", "Another request is writing to this upload."),
    431: ("TooLongHeaders", "The headers are too large."),
    503: ("Unavailable", "The storage cannot be used at the moment."),
    507: ("Full", "The disk or the quota has no room, or the sender has reached its limits."),
}
KINDS_OF_PATHS: Final = (
    ("/api/v1/bundles", "upload"), ("/files", "upload"), ("/api/v1/jobs", "job"), ("/api/v1/cases", "case"),
    ("/api/v1/compare", "case"), ("/", "server"),
)  # fmt: skip
ALWAYS: Final = (400, 414, 421, 431, 503)

_ID_OF: Final = {kind: parameter("id", "path", f"Of a{'n' * (kind == 'upload')} {kind}.", ID, required=True)
                 for kind in ("case", "job", "upload")}  # fmt: skip
PARAMETERS: Final[Mapping[str, Schema]] = {
    **_ID_OF,
    "tus": parameter("Tus-Resumable", "header", "Version of tus.", {**TEXT, "const": TUS_VERSION}, required=True),
}
HEADERS: Final[Mapping[str, Schema]] = {
    name: {"description": description, "schema": schema}
    for name, description, schema in (
        ("Location", "Address of what was made.", TEXT),
        ("WWW-Authenticate", "`Bearer`.", TEXT),
        ("X-Accel-Buffering", "`no`: proxies pass events on at once.", TEXT),
        ("Link", '`<ADDRESS>; rel="next"` if there are more.', TEXT),
        ("Tus-Resumable", "Version of tus.", {**TEXT, "const": TUS_VERSION}),
        ("Tus-Version", "Versions.", TEXT),
        ("Tus-Extension", "Extensions.", TEXT),
        ("Tus-Max-Size", "The maximum size of an upload.", COUNT),
        ("Upload-Offset", "Bytes that arrived and would survive a crash.", COUNT),
        ("Upload-Expires", "When the upload expires if no bytes arrive: a date of RFC 9110.", TEXT),
        ("Upload-Length", "The size of the upload in bytes.", COUNT),
        ("Upload-Metadata", "`filename` with the name in base64.", TEXT),
        ("Thpdiag-Job", "Address of the job, once all bytes have arrived.", TEXT),
        (
            "X-Thpdiag-Exit",
            "Exit code that `thpdiag analyze --fail-on` would have: 0, 1 (a finding of severity `fail-on` or above), "
            "3 (nothing was recognized), 5 (damaged), 6 (cut short, or not analyzed), 70.",
            {"type": "integer"},
        ),
    )
}


def answer(description: str, *headers: str, **by_type: Schema) -> Schema:
    result: Schema = {"description": description}
    if headers:
        result["headers"] = {name: HEADERS[name] for name in headers}
    return result | ({"content": content(**by_type)} if by_type else {})


def operation(
    key: str, summary: str, answers: Mapping[int, Schema], *refusals: int,
    parameters: tuple[Schema, ...] = (), body: Schema | None = None, description: str = "", tag: str = "",
) -> Schema:  # fmt: skip
    """Return the part of an operation that is not in the route table; `refusals` are those specific to it."""
    result: Schema = {"operationId": key, "tag": tag, "summary": summary, "refusals": refusals, "answers": answers}
    result |= {"description": description} if description else {}
    result |= {"parameters": list(parameters)} if parameters else {}
    return result | ({"requestBody": body} if body else {})


def _bytes_of(kind: str, *, required: bool) -> Schema:
    return {"required": required, "content": content(**{kind: BYTES})}


_PROGRESS: Final = ("Tus-Resumable", "Upload-Offset", "Upload-Expires", "Thpdiag-Job")
_JSON: Final = "application/json"
_SENDING: Final = (408, 409, 413, 415, 507)
_SENT: Final = answer("The bytes are on the disk.", *_PROGRESS)
_HEALTH: Final = {
    200: answer("It can.", **{_JSON: refer("Health")}),
    503: answer("It cannot.", **{_JSON: refer("Health"), "application/problem+json": refer("Problem")}),
}
OPERATIONS: Final[Mapping[tuple[str, str], Schema]] = {
    ("PUT", "/api/v1/bundles/{name}"): operation(
        "uploadBundle", "Send a bundle",
        {
            201: answer(
                "The bundle is stored. With `wait=1` its analysis has ended; `Accept: text/plain` then gives the "
                "report as a terminal shows it.",
                "Location", "X-Thpdiag-Exit",
                **{_JSON: {"anyOf": [refer("Analysed"), refer("Accepted")]}, "text/plain": TEXT},
            ),
            202: answer("The bundle is stored; its analysis is running.", "Location", **{_JSON: refer("Accepted")}),
        },
        408, 409, 410, 413, 415, 423, 507,
        parameters=(
            parameter(
                "name", "path", "Name of the file, for people: a plain name without folders, at most 255 bytes.",
                {**TEXT, "minLength": 1, "maxLength": 255}, required=True,
            ),
            parameter(
                "wait", "query", "1: answer once the analysis has ended, with its verdict. After ten minutes the "
                "answer is 202 and names the job.", SWITCH,
            ),
            parameter(
                "fail-on", "query", "With `wait`: the severity from which on a finding makes the exit code 1.",
                {**TEXT, "enum": [*reversed(SEVERITIES), NEVER], "default": NEVER},
            ),
            parameter(
                "case", "query", "The file is added to this case: all its files are judged together, as a new version. "
                "With only the scope upload: a case of an upload with the same token.", ID,
            ),
        ),
        body=_bytes_of("application/octet-stream", required=False),
        description=(
            "`curl -fT bundle.tar.xz -H 'Authorization: Bearer TOKEN' 'URL/api/v1/bundles/bundle.tar.xz?wait=1'`. The "
            "body is the bundle, with or without a length; an incomplete one is not stored. The same content is stored "
            "once, and analyzed once by the same version and rules."
        ),
    ),
    ("OPTIONS", "/files"): operation(
        "askUploads", "Supported tus features",
        {
            204: answer(
                "Version, extensions, largest size.", "Tus-Resumable", "Tus-Version", "Tus-Extension", "Tus-Max-Size",
            )
        },
    ),
    ("POST", "/files"): operation(
        "beginUpload", "Create a resumable upload (tus 1.0.0)",
        {201: answer("The upload can be sent.", "Location", *_PROGRESS)},
        413, 507,
        parameters=(
            parameter("Upload-Length", "header", "The size of the upload in bytes.", OFFSET, required=True),
            parameter(
                "Upload-Metadata", "header", "`filename` with the name in base64, and `hold` for one that is judged "
                "with others (`POST /api/v1/cases`); other keys are not kept.",
                {**TEXT, "pattern": "^filename [A-Za-z0-9+/]{4,40}(,hold)?$"},
            ),
        ),
    ),
    ("OPTIONS", "/files/{id}"): operation(
        "askUpload", "Supported tus features", {204: answer("As of /files.", "Tus-Resumable")},
    ),
    ("HEAD", "/files/{id}"): operation(
        "findUpload", "The offset of an upload",
        {200: answer("The offset, and the job of a complete upload.", *_PROGRESS, "Upload-Length", "Upload-Metadata")},
        507,
    ),
    ("PATCH", "/files/{id}"): operation(
        "sendUpload", "Send bytes of an upload", {204: _SENT}, *_SENDING,
        parameters=(parameter("Upload-Offset", "header", "The offset of the sent bytes.", OFFSET, required=True),),
        body=_bytes_of(TUS_CONTENT_TYPE, required=True),
    ),
    ("DELETE", "/files/{id}"): operation(
        "endUpload", "Cancel an upload", {204: answer("Its bytes are removed.", "Tus-Resumable")}, 409,
    ),
    ("POST", "/files/{id}"): operation(
        "sendUploadByPost",
        "The same as PATCH, HEAD or DELETE, for clients behind a proxy that does not support them",
        {200: answer("Of HEAD."), 204: _SENT}, 405, *_SENDING,
        parameters=(
            parameter(
                "X-HTTP-Method-Override", "header", "The intended method.",
                {**TEXT, "enum": ["PATCH", "HEAD", "DELETE"]}, required=True,
            ),
            parameter("Upload-Offset", "header", "The offset of the sent bytes.", OFFSET),
        ),
        body=_bytes_of(TUS_CONTENT_TYPE, required=False),
    ),
    ("GET", "/api/v1/jobs/{id}"): operation(
        "findJob", "One analysis", {200: answer("The job.", **{_JSON: refer("Job")})},
        description="With only the scope upload: the jobs of your own uploads.",
    ),
    ("GET", "/api/v1/jobs/{id}/events"): operation(
        "watchJob", "Follow the progress of an analysis",
        {
            200: answer(
                "Server-sent events. The data of each is JSON with `id`, `state`, `stage`, `ahead`, `reason`, `case` "
                "and `page`, complete each time, and `status` if nothing was recognized (`refused`). The last one, "
                "with the id `end`, is for a job that is done or has failed; an event named `gone` means that the job "
                "was deleted.",
                "X-Accel-Buffering",
            ) | {"content": {"text/event-stream": {}}},
            204: answer("The last event was already received (`Last-Event-ID: end`)."),
        },
        parameters=(
            parameter(
                "Last-Event-ID", "header", "ID of the last event received.", {**TEXT, "pattern": "^[a-z]{1,8}$"},
            ),
        ),
    ),
    ("GET", "/api/v1/cases"): operation(
        "listCases", "Cases, the latest first",
        {200: answer("A page of the list.", "Link", **{_JSON: refer("Cases")})},
        parameters=tuple(
            parameter(name, "query", description, schema)
            for name, description, schema in (
                ("q", "Prefixes of words in findings, hosts, notes or tickets; all must match.", SEARCHED),
                ("state", "The state of the work on the case.", {**TEXT, "enum": list(STATES)}),
                ("assignee", "The owner of the case.", SEARCHED),
                ("host", "A part of the name of a host; capitals do not count.", SEARCHED),
                ("verdict", "The verdict of any host.", {**TEXT, "enum": [*VERDICTS]}),
                (
                    "mechanism", "The mechanism that leads on any host, such as `compaction-lock-convoy`.", SEARCHED,
                ),
                ("rule", "A rule of which any host has a finding.", SEARCHED),
                ("sha256", "Of the bundle.", SHA256),
                (
                    "since", "Made at this time or later; a date, or a time of RFC 3339. Without a zone it is UTC.",
                    TIME,
                ),
                ("until", "Made before this time.", TIME),
                (
                    "limit", "The number of cases on a page.",
                    {"type": "integer", "minimum": 1, "maximum": MAX_CASES, "default": CASES_PER_PAGE},
                ),
                ("below", "Where the page begins; taken from `next`.", OFFSET),
            )
        ),
    ),
    ("POST", "/api/v1/cases"): operation(
        "judgeTogether", "Analyze uploads together as one case",
        {201: answer("The files are stored, and their analysis is queued.", "Location", **{_JSON: refer("Together")})},
        404, 408, 409, 410, 413, 507, tag="uploads",
        body={
            "required": True,
            "content": content(**{_JSON: {
                "type": "object", "required": ["uploads"], "additionalProperties": False,
                "properties": {
                    "uploads": {**array(ID), "minItems": 1, "maxItems": MAX_FILES,
                                "description": "IDs of complete resumable uploads."},
                    "case": annotate(ID, "The files are added to this case, as a new version of it."),
                },
            }}),
        },
        description="The same files, in whatever order, are one bundle. Uploads with `hold` wait for this.",
    ),
    ("GET", "/api/v1/cases/{id}"): operation(
        "findCase", "One case with its hosts and findings",
        {200: answer("The case.", **{_JSON: refer("CaseWithHosts")})},
    ),
    ("DELETE", "/api/v1/cases/{id}"): operation(
        "deleteCase", "Delete a case, and its bundle unless another case uses it",
        {204: answer("Deleted.")},
    ),
    ("PUT", "/api/v1/cases/{id}/kept"): operation(
        "keepCase", "Keep a case and its bundle beyond their retention time", {204: answer("It stays.")},
    ),
    ("DELETE", "/api/v1/cases/{id}/kept"): operation(
        "releaseCase", "Let a case expire again",
        {204: answer("It is deleted when it expires.")},
    ),
    ("GET", "/api/v1/cases/{id}/{report}"): operation(
        "getReport", "The report of a case in one format",
        {
            200: answer(
                "The report. The page is to be shown under the policy that comes with it; every other file is to be "
                "saved. `report.json` is the result document, whose schema `thpdiag` documents.",
                **{
                    kind.partition(";")[0]: {} if "json" in kind else TEXT
                    for _, kind in KINDS.values()
                },
            )
        },
        parameters=(
            parameter(
                "report", "path", "`report.html` (the page), `.json` (the result document), `.txt`, `.md`, `.xml` "
                "(JUnit), `.sarif`, `.csv` (a row per finding), `.gitlab.json` (code quality), `.github.txt` "
                "(annotations).", {**TEXT, "enum": [f"report.{ending}" for ending, _ in KINDS.values()]}, required=True,
            ),
            parameter("redact", "query", "1: pseudonyms replace all names of the customer.", SWITCH),
        ),
    ),
    ("GET", "/api/v1/compare/{format}"): operation(
        "compareCases", "Compare two cases: what a change did",
        {
            200: answer(
                "The comparison.", **{"text/html": TEXT, _JSON: {"type": "object"}, "text/plain": TEXT},
            )
        },
        422,
        parameters=(
            parameter("format", "path", "The format.", {**TEXT, "enum": [*COMPARISONS]}, required=True),
            parameter("before", "query", "The earlier case.", ID, required=True),
            parameter("after", "query", "The later case.", ID, required=True),
        ),
    ),
    ("GET", "/api/v1/openapi.json"): operation(
        "describe", "This description", {200: answer("OpenAPI 3.1.", **{_JSON: {"type": "object"}})},
    ),
    ("GET", "/healthz"): operation("health", "Whether the server can do its work", _HEALTH),
    ("GET", "/readyz"): operation("ready", "The same as /healthz", _HEALTH),
    ("GET", "/metrics"): operation(
        "metrics", "Metrics for Prometheus", {200: answer("Text format 0.0.4.", **{"text/plain": TEXT})},
    ),
}  # fmt: skip


def get_description(request: Request, _server: Server) -> Response:
    read_query(request)
    return Response(json.dumps(describe(request.app.state.routes)), media_type="application/json")


@cache
def describe(routes: Routes) -> Mapping[str, Any]:
    """Return the OpenAPI 3.1 document."""
    paths: dict[str, Any] = {}
    for rule in routes.rules:
        if not rule.is_page:
            paths.setdefault(rule.path, {})[rule.method.lower()] = _operation(rule)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "thpdiag serve", "version": "1", "summary": "Upload bundles, get diagnoses.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": (
                "Times are RFC 3339 in UTC. Refusals are problem JSON (RFC 9457). A parameter of the query that is "
                "unknown is refused, never ignored. A session of a browser needs `X-CSRF-Token` for what changes "
                "anything."
            ),
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"session": []}, {}],
        "tags": [
            {"name": "uploads", "description": "Scope upload."},
            {"name": "jobs", "description": "Scope upload (own ones) or read."},
            {"name": "cases", "description": "Scope read; admin for what changes a case."},
            {"name": "server"},
        ],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "`thpdiag serve token create`"},
                "session": {"type": "apiKey", "in": "cookie", "name": "__Host-thpdiag"},
            },
            "parameters": PARAMETERS,
            "responses": {name: _refusal(status) for status, (name, _) in REFUSALS.items()},
            "schemas": SCHEMAS,
        },
    }  # fmt: skip


def _operation(rule: RouteRule) -> Schema:
    """Complete an operation by what follows from its route: scopes, parameters of the path, refusals, tag."""
    result = dict(OPERATIONS[rule.method, rule.path])
    answers, refusals, tag = result.pop("answers"), set(result.pop("refusals")), result.pop("tag")
    kind = next(kind for prefix, kind in KINDS_OF_PATHS if rule.path.startswith(prefix))
    parameters = [refer(kind, "parameters")] if "{id}" in rule.path else []
    refusals |= {404} if "{" in rule.path and rule.method != "OPTIONS" else set()
    if rule.path.startswith("/files") and rule.method != "OPTIONS":
        parameters.append(refer("tus", "parameters"))
        refusals |= {410, 412, 423} if parameters[1:] else {412}
    refusals |= {*ALWAYS, *((401, 403) if rule.scopes else ())}
    if parameters := [*parameters, *result.get("parameters", ())]:
        result["parameters"] = parameters
    result["tags"] = [tag or (kind if kind == "server" else f"{kind}s")]
    result["responses"] = {str(status): answers[status] for status in answers}
    result["responses"] |= {
        str(status): refer(REFUSALS[status][0], "responses") for status in sorted(refusals - set(answers))
    }
    return result if rule.scopes else {**result, "security": []}


def _refusal(status: int) -> Schema:
    headers = ("WWW-Authenticate",) if status == 401 else ()
    return answer(REFUSALS[status][1], *headers, **{"application/problem+json": refer("Problem")})
