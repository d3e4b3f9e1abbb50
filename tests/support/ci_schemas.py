"""JSON Schemas of the formats of CI services, restricted to the keys that thpdiag writes.

SARIF: OASIS, Static Analysis Results Interchange Format 2.1.0, sections 3.13 (log) to 3.58, with the limits of GitHub's
documentation "SARIF support for code scanning". Code Quality: GitLab's documentation "Code Quality report format". The
published schemas are not part of the repository; if THPDIAG_SCHEMAS names a folder with them, tests use those too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

RESULTS = sorted((Path(__file__).parents[1] / "results").glob("*.json"), key=str)
SARIF_FILE, JUNIT_FILE = "sarif-schema-2.1.0.json", "junit-10.xsd"


def result(name: str) -> dict[str, Any]:
    """Return an example document."""
    document: dict[str, Any] = json.loads((Path(__file__).parents[1] / "results" / f"{name}.json").read_text())
    return document


def with_findings(*findings: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a document with these findings; the defaults are likely and high."""
    full = [{"rule": "THP-001", "title": "A title", "severity": "high", "confidence": "likely", **f} for f in findings]
    return {"schema": "thpdiag/result/1", "case": "host", "verdict": {"status": "found"}, "findings": full, **more}


def accepted(**said: str) -> dict[str, Any]:
    return {"suppressed": {"by": "suppression", "reason": "known, change is planned", "expires": "2027-01-31", **said}}


def published(name: str) -> Path:
    """Return a published schema; skip the test if it is not on this machine."""
    path = Path(os.environ.get("THPDIAG_SCHEMAS", "")) / name
    if not os.environ.get("THPDIAG_SCHEMAS") or not path.is_file():
        pytest.skip(f"THPDIAG_SCHEMAS names no folder with {name}")
    return path


def closed(required: str, properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the schema of an object with exactly these keys."""
    return {
        "type": "object", "required": required.split(), "properties": dict(properties), "additionalProperties": False,
        **more,
    }  # fmt: skip


def listed(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def one_of(*words: str) -> dict[str, list[str]]:
    return {"enum": list(words)}


TEXT = {"type": "string", "minLength": 1}
MESSAGE = closed("text", {"text": TEXT})
LEVEL = one_of("none", "note", "warning", "error")
LINE = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}
URI = {"type": "string", "pattern": r"^(?!/)([A-Za-z0-9._~/-]|%[0-9A-F]{2})+$"}  # relative, no scheme, all else escaped
PHYSICAL = closed(
    "artifactLocation region",
    {
        "artifactLocation": closed("uri", {"uri": URI}),
        "region": closed("startLine", {"startLine": LINE, "snippet": closed("text", {"text": TEXT})}),
    },
)
LOCATION = closed(
    "physicalLocation",
    {
        "id": {"type": "integer", "minimum": 1},
        "message": MESSAGE,
        "physicalLocation": PHYSICAL,
        "logicalLocations": listed(closed("fullyQualifiedName", {"fullyQualifiedName": TEXT}), uniqueItems=True),
    },
)
RULE = closed(
    "id shortDescription fullDescription help properties",
    {
        "id": TEXT,
        "shortDescription": closed("text", {"text": {**TEXT, "maxLength": 1024}}),
        "fullDescription": closed("text", {"text": {**TEXT, "maxLength": 1024}}),
        "help": MESSAGE,
        "defaultConfiguration": closed("level", {"level": LEVEL}),
        "properties": closed(
            "precision problem.severity",
            {
                "precision": one_of("very-high", "high", "medium", "low"),
                "problem.severity": one_of("error", "warning", "recommendation"),
                "tags": listed(TEXT, uniqueItems=True, maxItems=20),
            },
        ),
    },
)
RESULT = closed(
    "ruleId ruleIndex level message locations partialFingerprints",
    {
        "ruleId": TEXT,
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": LEVEL,
        "message": MESSAGE,
        "locations": listed(LOCATION, minItems=1, maxItems=1),
        "relatedLocations": listed(LOCATION, uniqueItems=True, maxItems=1000),
        "partialFingerprints": closed("primaryLocationLineHash", {"primaryLocationLineHash": TEXT}),
        "suppressions": listed(
            closed(
                "kind status justification",
                {"kind": one_of("inSource", "external"), "status": one_of("accepted"), "justification": TEXT},
            )
        ),
        "properties": closed("", dict.fromkeys(("confidence", "severity", "role", "host"), TEXT)),
    },
)
NOTIFICATION = closed("level message", {"level": LEVEL, "message": MESSAGE, "locations": listed(LOCATION)})
HOST = closed("name status sentence", {key: {"type": "string"} for key in ("name", "status", "sentence")})
RUN = closed(
    "tool automationDetails invocations results",
    {
        "tool": closed(
            "driver",
            {
                "driver": closed(
                    "name rules",
                    {
                        "name": {"const": "thpdiag"},
                        "version": TEXT,
                        "rules": listed(RULE, uniqueItems=True),
                        "properties": closed("", {"rulesDigest": {"type": "string"}}),
                    },
                )
            },
        ),
        "automationDetails": closed("id", {"id": {"type": "string", "pattern": "^thpdiag/[^/]+/$"}}),
        "invocations": listed(
            closed(
                "executionSuccessful",
                {"executionSuccessful": {"type": "boolean"}, "toolExecutionNotifications": listed(NOTIFICATION)},
            ),
            minItems=1,
        ),
        "columnKind": one_of("utf16CodeUnits", "unicodeCodePoints"),
        "results": listed(RESULT, maxItems=25_000),
        "properties": closed("hosts", {"hosts": listed(HOST, minItems=1)}),
    },
)
SARIF = closed(
    "$schema version runs",
    {
        "$schema": {"type": "string", "pattern": r"^https://.*sarif-schema-2\.1\.0\.json$"},
        "version": {"const": "2.1.0"},
        "runs": listed(RUN, minItems=1, maxItems=20),
    },
)


def _of_many() -> dict[str, Any]:
    """Return the schema for several named bundles; there may be none. The category is that of the upload."""
    form = deepcopy(SARIF)
    run = form["properties"]["runs"]["items"]
    run["required"].remove("automationDetails")
    hosts = run["properties"]["properties"]["properties"]["hosts"]
    hosts["minItems"] = 0
    for one in (run["properties"]["results"]["items"]["properties"]["properties"], hosts["items"]):
        one["properties"]["bundle"] = TEXT
        one["required"].append("bundle")
    return form


SARIF_OF_MANY = _of_many()
CODE_QUALITY = listed(
    closed(
        "description check_name fingerprint severity location",
        {
            "description": TEXT,
            "check_name": TEXT,
            "fingerprint": TEXT,
            "severity": one_of("info", "minor", "major", "critical", "blocker"),
            "location": closed(
                "path lines",
                {"path": {**TEXT, "pattern": r"^(?!\./)"}, "lines": closed("begin", {"begin": LINE})},
            ),
        },
    )
)
