"""Annotations of GitHub Actions, read back as its runner reads a line of the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ci_schemas import RESULTS, accepted, result, with_findings
from thpdiag.report.github import render
from thpdiag.report.presentation import PLAIN, Presentation, Suppressed

SHOWN = Presentation(suppressed=Suppressed.SHOWN)


def unescaped(text: str, *further: tuple[str, str]) -> str:
    for code, meant in (("%0D", "\r"), ("%0A", "\n"), *further, ("%25", "%")):
        text = text.replace(code, meant)
    return text


def annotations(document: dict[str, Any], presentation: Presentation = PLAIN) -> list[dict[str, str]]:
    """Each line that is a command: its kind, properties and message; other lines must not look like one."""
    found = []
    for line in render(document, presentation).splitlines():
        if not line.startswith("::"):
            assert "::" not in line
            assert "##[" not in line
            continue
        head, _, message = line[2:].partition("::")
        kind, _, properties = head.partition(" ")
        said = dict(one.split("=", 1) for one in properties.split(","))
        read = {name: unescaped(value, ("%3A", ":"), ("%2C", ",")) for name, value in said.items()}
        found.append({"kind": kind, "message": unescaped(message), **read})
    return found


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_every_line_is_a_command_of_known_kind(path: Path) -> None:
    """At most ten of a kind, properties that the runner knows, a message in each; hostile names make no command."""
    found = annotations(result(path.stem))
    assert found
    kinds = [one["kind"] for one in found]
    assert max(map(kinds.count, kinds)) <= 10
    assert set(kinds) <= {"error", "warning", "notice"}
    assert all(one.keys() <= {"kind", "message", "file", "line", "title"} and one["message"] for one in found)
    assert all(one["line"].isdecimal() for one in found if "line" in one)


def test_the_cause_has_its_place_and_command() -> None:
    """File, line and title are properties; the message has proof, command and undo on lines of their own."""
    first = annotations(result("found"))[0]
    assert (first["kind"], first["file"]) == ("error", "ticket-4711.txt")
    assert first["title"].startswith("THP-001 CPUs queue on the zone locks")
    assert "Try first:\n    " in first["message"]
    assert "Undo:\n    " in first["message"]
    assert "93.8 % of the samples" in first["message"]


def test_what_the_runner_acts_upon_is_escaped() -> None:
    """Percent signs, colons, commas and line ends come back as they were."""
    odd = "100%25, a: b::set-env name=x::y%0A"
    found = annotations(
        with_findings({"title": odd, "evidence": [{"kind": "counter", "member": "a,b:c%2C", "line": 1}]})
    )
    (one,) = [one for one in found if one["kind"] == "error"]
    assert one["title"] == f"THP-001 {odd}"
    assert one["file"] == "a,b:c%2C"
    assert one["message"].startswith(odd)


@pytest.mark.parametrize(
    ("severity", "kind"),
    [("critical", "error"), ("high", "error"), ("medium", "warning"), ("low", "notice"), ("info", "notice")],
)
def test_severities_become_kinds(severity: str, kind: str) -> None:
    """From high on an error, medium a warning."""
    assert kind in [one["kind"] for one in annotations(with_findings({"severity": severity}))]


def test_ten_of_a_kind_the_worst_first() -> None:
    """More would not be shown; how many there are is said in the log."""
    mild = [{"rule": f"THP-{n:03}", "severity": "high"} for n in range(14)]
    document = with_findings(*mild, {"rule": "THP-999", "severity": "critical"})
    errors = [one["title"] for one in annotations(document) if one["kind"] == "error"]
    assert [title.partition(" ")[0] for title in errors] == ["THP-999", *(f"THP-{n:03}" for n in range(9))]
    assert render(document).splitlines()[-1] == "thpdiag: 5 more, which GitHub would not show; the text report has all"


def test_a_host_without_a_cause_says_so() -> None:
    """Each host's verdict is told, as a notice where there is no finding to carry it."""
    told = [one["message"] for one in annotations(result("several_hosts")) if one["kind"] == "notice"]
    cases = result("several_hosts")["cases"]
    wanted = [one["verdict"]["sentence"] for one in cases if one["verdict"]["status"] != "found"]
    assert told[: len(wanted)] == wanted
    assert wanted


def test_what_is_accepted_is_no_error() -> None:
    """It is left out, or a notice with its reason; the verdict that it carries is told all the same."""
    document = with_findings({**accepted()})
    document["verdict"] = {"status": "found", "rule": "THP-001", "sentence": "Compaction stalls."}
    (verdict,) = annotations(document)
    assert verdict["kind"] == "notice"
    assert verdict["message"].startswith("Compaction stalls. (accepted by a suppression until 2027-01-31")
    (shown,) = annotations(document, SHOWN)
    assert shown["kind"] == "notice"
    assert "accepted by a suppression" in shown["message"]


def test_a_verdict_is_told_of_each_host_of_a_name() -> None:
    """The finding of one host does not tell the verdict of another that is called the same."""
    cause = {"status": "found", "rule": "THP-001"}
    told = with_findings({"rule": "THP-001"}, case="db", verdict=cause)
    silent = with_findings({"rule": "THP-001", **accepted()}, case="db", verdict=cause)
    found = annotations({**with_findings(), "cases": [told, silent]})
    assert [(one["kind"], one["title"]) for one in found] == [("error", "THP-001 A title"), ("notice", "thpdiag db")]
