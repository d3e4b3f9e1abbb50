"""The description of the API (openapi.json) against the routes, and against what the server really answers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import validate
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from serve_application import AFTER, BEFORE, LOCAL_HOST, Whole, served
from thpdiag.report import FORMATS
from thpdiag.serve.access.principals import LOCAL
from thpdiag.serve.api.cases import COMPARISONS, report_files
from thpdiag.serve.api.description import describe
from thpdiag.serve.routes import ROUTES
from thpdiag.store.results import FINDING_FIELDS

DESCRIPTION: dict[str, Any] = json.loads(json.dumps(describe(ROUTES)))
METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
OPERATIONS = [
    (method, path) for path, item in DESCRIPTION["paths"].items() for method in METHODS if method in item
]  # fmt: skip
CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance,
    response_headers_conformance,
]  # fmt: skip
schemathesis.serializer.alias("application/offset+octet-stream", "application/octet-stream")
EXAMPLES = 15 if os.environ.get("THPDIAG_PROOF") == "1" else 6
DRAWN = settings(
    max_examples=EXAMPLES, deadline=None, database=None, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck), derandomize=True,
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    with served(tmp_path_factory.mktemp("described")) as made:
        yield made


@pytest.fixture(scope="module")
def operations(whole: Whole) -> Any:
    """The operations as schemathesis reads them from the server."""
    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", whole.app)


def test_it_is_valid() -> None:
    """By the schema of OpenAPI 3.1."""
    validate(DESCRIPTION)


def test_it_has_each_route_and_no_other() -> None:
    """What the table has for programs, by method; the description says who needs no login just as the table does."""
    for_programs = {
        (rule.method.lower(), rule.path): not rule.scopes
        for rule in ROUTES.rules
        if rule.path.startswith(("/api/", "/files", "/healthz", "/readyz", "/metrics"))
    }
    described = {
        (method, path): DESCRIPTION["paths"][path][method].get("security") == [] for method, path in OPERATIONS
    }  # fmt: skip
    assert described == for_programs


def test_it_names_each_format() -> None:
    """Of a report and of a comparison."""
    (of_case,) = named("/api/v1/cases/{id}/{report}", "report")
    (compared,) = named("/api/v1/compare/{format}", "format")

    assert set(of_case["enum"]) == set(report_files())
    assert set(report_files().values()) == set(FORMATS)
    assert set(compared["enum"]) == set(COMPARISONS)


def test_it_knows_the_columns_of_a_finding() -> None:
    """What the API tells of a finding is what lists of the storage have, but its fingerprint."""
    assert set(DESCRIPTION["components"]["schemas"]["Finding"]["properties"]) >= set(FINDING_FIELDS) - {"fingerprint"}


def test_it_is_served(whole: Whole) -> None:
    """To anybody, as it is in the package."""
    assert whole.ask("GET", "/api/v1/openapi.json").told == DESCRIPTION


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=lambda value: str(value))
def test_answers_are_as_described(whole: Whole, operations: Any, method: str, path: str) -> None:
    """Status, type, schema and headers, for parameters of all kinds; every other id is one that is there."""
    operation = operations[path][method.upper()]
    headers = {"host": LOCAL_HOST}
    seen = set()

    @DRAWN
    @given(case=operation.as_strategy(), exists=st.sampled_from((True, True, False)))
    def drawn(case: Any, exists: bool) -> None:
        if exists:
            meant(whole, case)
        (case.query or {}).pop("wait", None)  # nobody works on what is sent here
        seen.add(case.call_and_validate(checks=CHECKS, headers=headers).status_code)

    drawn()
    assert any(status < 300 for status in seen), seen


def meant(whole: Whole, case: Any) -> None:
    """Have a request name what is there."""
    before, after = whole.completed(BEFORE), whole.completed(AFTER)
    if "/compare/" in case.path:
        case.query.update(before=before, after=after)
    if "id" in case.path_parameters:
        done = whole.uploaded(BEFORE.read_bytes(), "again.json").job
        begun = whole.storage.uploads.begin("b.tar", 10, LOCAL.owner)
        case.path_parameters["id"] = {"/api/v1/jobs": done, "/files": begun}.get(case.path.partition("/{")[0], before)
    if isinstance(case.body, dict) and "uploads" in case.body:
        sent = whole.storage.uploads.begin("a.txt", 1, LOCAL.owner, held=True)
        whole.storage.uploads.append(sent, 0, b"a")
        case.body = {"uploads": [sent], **({"case": before} if "case" in case.body else {})}
    if "Upload-Offset" in (case.headers or {}):
        case.headers["Upload-Offset"] = "0"


def named(path: str, name: str) -> list[dict[str, Any]]:
    parameters = DESCRIPTION["paths"][path]["get"]["parameters"]
    return [one["schema"] for one in parameters if one.get("name") == name]
