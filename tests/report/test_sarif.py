"""SARIF: the form that is published, what GitHub adds to it, and what must not be an open alert."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from jsonschema import Draft7Validator, Draft202012Validator  # type: ignore[import-untyped]

from ci_schemas import RESULTS, SARIF, SARIF_FILE, accepted, published, result, with_findings
from thpdiag.report import sarif
from thpdiag.report.presentation import PLAIN, Presentation, Suppressed

SHOWN = Presentation(suppressed=Suppressed.SHOWN)
PLACE = {"kind": "counter", "text": "compact_stall rose", "member": "proc/vmstat", "line": 7}


def log(document: dict[str, Any], presentation: Presentation = PLAIN) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(sarif.render(document, presentation))
    assert [e.message for e in Draft202012Validator(SARIF).iter_errors(loaded)] == []
    return loaded


def run(document: dict[str, Any], presentation: Presentation = PLAIN) -> dict[str, Any]:
    (only,) = log(document, presentation)["runs"]
    assert isinstance(only, dict)
    return only


def test_our_form_is_a_schema_that_refuses() -> None:
    """The form that we wrote is a schema, and knows a result without a place as a mistake."""
    Draft202012Validator.check_schema(SARIF)
    whole = log(result("found"))
    whole["runs"][0]["results"][0]["locations"] = []
    assert not Draft202012Validator(SARIF).is_valid(whole)


@pytest.mark.parametrize("presentation", [PLAIN, SHOWN], ids=["plain", "suppressed shown"])
@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_form_is_kept(path: Path, presentation: Presentation) -> None:
    """Every example, hostile names too, is SARIF as our form has it."""
    assert run(result(path.stem), presentation)["results"] is not None


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_published_form_is_kept(path: Path) -> None:
    """The same by the schema that OASIS publishes, where it is at hand."""
    schema = json.loads(published(SARIF_FILE).read_text())
    for presentation in (PLAIN, SHOWN):
        errors = Draft7Validator(schema).iter_errors(log(result(path.stem), presentation))
        assert [error.message for error in errors] == []


def test_what_to_try_first_is_that_of_the_page() -> None:
    """A step that shows its effect at once comes before one that needs a restart, in every output."""
    document = result("found")
    slow, quick = (dict(document["findings"][0]["remedies"][0]) for _ in range(2))
    slow |= {"now": ["service db restart"], "restart": "the database"}
    quick |= {"now": ["echo quick"], "restart": "none", "undo_now": ["echo back"]}
    document["findings"][0]["remedies"] = [slow, quick]
    text = run(document)["results"][0]["message"]["text"]
    assert "echo quick" in text
    assert "service db restart" not in text


def test_a_result_says_what_where_and_how_sure() -> None:
    """The cause of the example: level, place, fingerprint, proof, command and undo; the rule has precision."""
    only = run(result("found"))
    first = only["results"][0]
    assert (first["ruleId"], first["level"]) == ("THP-001", "error")
    assert first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "ticket-4711.txt"
    for told in ("Host chaos", "confidence confirmed", "93.8 %", "Try first:", "Undo:"):
        assert told in first["message"]["text"]
    rule = only["tool"]["driver"]["rules"][first["ruleIndex"]]
    assert rule["id"] == "THP-001"
    assert rule["properties"]["precision"] == "very-high"
    assert rule["properties"]["problem.severity"] == "error"
    assert "security-severity" not in json.dumps(only)


@pytest.mark.parametrize(
    ("severity", "level"),
    [
        ("critical", "error"),
        ("high", "error"),
        ("medium", "warning"),
        ("low", "note"),
        ("info", "note"),
        (None, "note"),
    ],
)
def test_severities_become_levels(severity: str | None, level: str) -> None:
    """From high on it is an error."""
    assert [one["level"] for one in run(with_findings({"severity": severity}))["results"]] == [level]


def test_what_is_accepted_is_no_result() -> None:
    """GitHub shows a suppressed result as an open alert, so it is left out unless it is asked for."""
    document = with_findings({"rule": "THP-002"}, {"rule": "THP-003", **accepted()})
    assert [one["ruleId"] for one in run(document)["results"]] == ["THP-002"]
    assert "suppressions" not in run(document)["results"][0]
    told = {one["ruleId"]: one["suppressions"] for one in run(document, SHOWN)["results"]}
    assert told["THP-002"] == []
    assert told["THP-003"][0]["justification"] == "known, change is planned (until 2027-01-31)"


def test_what_describes_the_host_is_no_result() -> None:
    """Findings of role context are neither results nor rules."""
    only = run(with_findings({"rule": "CTX-02", "role": "context"}, {"rule": "THP-002"}))
    assert [one["ruleId"] for one in only["results"]] == ["THP-002"]
    assert [rule["id"] for rule in only["tool"]["driver"]["rules"]] == ["THP-002"]


def test_the_gravest_come_first_and_no_more_than_github_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit the mildest are left out, and it is said how many."""
    assert sarif.MAX_RESULTS == 25_000
    monkeypatch.setattr(sarif, "MAX_RESULTS", 2)
    document = with_findings(*({"rule": f"THP-{s}", "severity": s} for s in ("low", "critical", "medium")))
    only = run(document)
    assert [one["ruleId"] for one in only["results"]] == ["THP-critical", "THP-medium"]
    assert [rule["id"] for rule in only["tool"]["driver"]["rules"]] == ["THP-critical", "THP-medium"]
    (told,) = only["invocations"][0]["toolExecutionNotifications"]
    assert told["message"]["text"].startswith("1 results are left out, the mildest first")


def test_two_processes_of_a_name_stay_two() -> None:
    """Their fingerprint is the same; the second gets a number, because the same hash again is one alert."""
    both = {"fingerprint": "0123456789abcdef", "entity": "java (1)"}
    hashes = [
        one["partialFingerprints"]["primaryLocationLineHash"] for one in run(with_findings(both, both))["results"]
    ]
    assert hashes == ["0123456789abcdef", "0123456789abcdef-2"]


def test_every_result_has_a_place() -> None:
    """Without a file in the evidence it is a file that was read, else the case; lines begin at 1."""
    inputs = [{"member": "photo.png", "reader": ""}, {"member": "vmstat.txt", "reader": "vmstat"}]
    places = [
        run(document)["results"][0]["locations"][0]["physicalLocation"]
        for document in (
            with_findings({"evidence": [PLACE]}),
            with_findings({"evidence": [{**PLACE, "line": 0}]}),
            with_findings({"evidence": [{**PLACE, "line": 2**40}]}),
            with_findings({}, inputs=inputs),
            with_findings({}),
        )
    ]
    told = [(place["artifactLocation"]["uri"], place["region"]["startLine"]) for place in places]
    assert told == [
        ("proc/vmstat", 7), ("proc/vmstat", 1), ("proc/vmstat", 2**31 - 1), ("vmstat.txt", 1), ("host", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("member", ["a b/c#d?e.txt", "https://evil.example/x", "/etc/passwd", "//evil/x", "ü:%41"])
def test_a_path_stays_a_path(member: str) -> None:
    """Whatever a file is called, its URI is relative and gives the name back."""
    document = with_findings({"evidence": [{**PLACE, "member": member}]})
    uri = run(document)["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert unquote(uri) == member.lstrip("/")


def test_messages_have_no_links() -> None:
    """`[words](target)` in a title is no link of ours."""
    document = with_findings({"title": "see [here](https://evil.example)", "evidence": [PLACE]})
    text = json.dumps(run(document))
    assert "](" not in text
    assert "see [here] (https://evil.example)" in text


def test_a_long_description_is_cut_and_the_help_is_not() -> None:
    """GitHub takes 1,024 characters of one, any number of the other."""
    rule = run(with_findings({"means": "word " * 1000}))["tool"]["driver"]["rules"][0]
    assert len(rule["fullDescription"]["text"]) == 1024
    assert rule["help"]["text"].count("word") == 1000


def test_the_hosts_of_a_run_name_its_category() -> None:
    """Another host's results stay where they are; the verdict of each host is told, of healthy ones too."""
    only = run(result("several_hosts"))
    names = [host["name"] for host in only["properties"]["hosts"]]
    assert len(names) == 3
    assert only["automationDetails"]["id"] == f"thpdiag/{','.join(sorted(names))}/"
    many = {**with_findings(), "cases": [{**with_findings(), "case": f"host-{n:03}"} for n in range(50)]}
    assert len(run(many)["automationDetails"]["id"]) < 40


def test_problems_are_told_and_bugs_are_errors() -> None:
    """What hides evidence is a warning, a mistake of a reader an error, the rest a note."""
    problems = [
        {"kind": "odd", "text": "odd row", "member": "a", "line": 3},
        {"kind": "damaged", "text": "cut", "member": "b", "hides": True},
        {"kind": "bug", "text": "a reader failed"},
    ]
    told = run(with_findings(problems=problems))["invocations"][0]["toolExecutionNotifications"]
    assert [(one["level"], one["message"]["text"]) for one in told] == [
        ("error", "a reader failed"), ("warning", "cut"), ("note", "odd row"),
    ]  # fmt: skip
