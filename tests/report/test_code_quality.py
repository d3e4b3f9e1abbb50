"""Code Quality of GitLab: the form, one issue per finding, and no all-clear where nothing can be told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from ci_schemas import CODE_QUALITY, RESULTS, accepted, result, with_findings
from thpdiag.report.gitlab import render
from thpdiag.report.presentation import PLAIN, Presentation, Suppressed

SHOWN = Presentation(suppressed=Suppressed.SHOWN)


def issues(document: dict[str, Any], presentation: Presentation = PLAIN) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(render(document, presentation))
    assert [error.message for error in Draft202012Validator(CODE_QUALITY).iter_errors(loaded)] == []
    return loaded


@pytest.mark.parametrize("presentation", [PLAIN, SHOWN], ids=["plain", "suppressed shown"])
@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_form_is_kept(path: Path, presentation: Presentation) -> None:
    """Every example is a list of issues with fingerprints of their own, without a byte order mark."""
    found = issues(result(path.stem), presentation)
    assert len({one["fingerprint"] for one in found}) == len(found)
    assert render(result(path.stem), presentation).startswith("[")


def test_the_cause_of_the_example() -> None:
    """Description with host and proof, place, severity and the fingerprint of the document."""
    first = issues(with_findings({
        "fingerprint": "00112233aabbccdd", "severity": "critical",
        "evidence": [{"kind": "counter", "text": "compact_stall rose", "member": "proc/vmstat", "line": 7}],
    }, case="db"))[0]  # fmt: skip
    assert first == {
        "description": "db: A title. compact_stall rose.", "check_name": "THP-001", "severity": "blocker",
        "fingerprint": "00112233aabbccdd", "location": {"path": "proc/vmstat", "lines": {"begin": 7}},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("severity", "wanted"),
    [
        ("critical", "blocker"),
        ("high", "critical"),
        ("medium", "major"),
        ("low", "minor"),
        ("info", "info"),
        (None, "info"),
    ],
)
def test_severities(severity: str | None, wanted: str) -> None:
    """Five words for five."""
    assert [one["severity"] for one in issues(with_findings({"severity": severity}))] == [wanted]


def test_what_is_accepted_is_left_out_or_told() -> None:
    """With --show-suppressed it is an info with its reason."""
    document = with_findings({**accepted()})
    assert issues(document) == []
    (told,) = issues(document, SHOWN)
    assert told["severity"] == "info"
    assert "accepted by a suppression until 2027-01-31: known, change is planned" in told["description"]


def test_cannot_tell_is_an_issue_and_all_clear_is_none() -> None:
    """An empty list reads as all-clear, so it must be one."""
    assert issues(result("nothing_found")) == []
    (told,) = [one for one in issues(result("cannot_tell")) if one["check_name"] == "cannot-tell"]
    assert told["severity"] == "info"
    assert result("cannot_tell")["verdict"]["sentence"][:60] in told["description"]
