"""JUnit: a suite per host and a case per rule that Jenkins and GitLab read, failing as the exit code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase
from lxml import etree  # type: ignore[import-untyped]

from ci_schemas import JUNIT_FILE, RESULTS, accepted, published, result, with_findings
from thpdiag.report.junit import render
from thpdiag.report.presentation import PLAIN, Presentation, Suppressed

STRICT = Presentation(fail_on="low", suppressed=Suppressed.SHOWN)
# Elements, where they may stand and which attributes they may have: what the documents of Jenkins' xunit plugin name.
INSIDE = {
    "testsuites": {""}, "testsuite": {"testsuites"}, "properties": {"testsuite"}, "property": {"properties"},
    "testcase": {"testsuite"}, "skipped": {"testcase"}, "failure": {"testcase"}, "error": {"testcase"},
    "system-out": {"testcase", "testsuite"}, "system-err": {"testcase", "testsuite"},
}  # fmt: skip
ATTRIBUTES = {
    "testsuites": "name tests failures errors", "testsuite": "name tests failures errors skipped",
    "property": "name value", "testcase": "classname name", "skipped": "message", "failure": "type message",
    "error": "type message",
}  # fmt: skip


def cases(document: dict[str, Any], presentation: Presentation = PLAIN) -> dict[str, TestCase]:
    """Each test case by its name, as junitparser reads it."""
    read = JUnitXml.fromstring(render(document, presentation).encode())
    return {case.name: case for suite in read for case in suite}


def kind(case: TestCase) -> type | None:
    return next((type(entry) for entry in case.result), None)


@pytest.mark.parametrize("presentation", [PLAIN, STRICT], ids=["plain", "strict"])
@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_form_is_kept(path: Path, presentation: Presentation) -> None:
    """Only elements and attributes that are known, where they belong; the numbers are those of the cases."""
    root = etree.fromstring(render(result(path.stem), presentation).encode())
    for element in root.iter():
        parent = element.getparent()
        assert (parent.tag if parent is not None else "") in INSIDE[element.tag]
        assert set(element.attrib) <= set(ATTRIBUTES.get(element.tag, "").split())
    for suite in root:
        for count, wanted in (
            ("tests", "testcase"),
            ("failures", "failure"),
            ("errors", "error"),
            ("skipped", "skipped"),
        ):
            assert int(suite.get(count)) == len(list(suite.iter(wanted)))
    for count in ("tests", "failures", "errors"):
        assert int(root.get(count)) == sum(int(suite.get(count)) for suite in root)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_published_form_is_kept(path: Path) -> None:
    """The same by the schema of Jenkins' xunit plugin, where it is at hand."""
    schema = etree.XMLSchema(etree.parse(str(published(JUNIT_FILE))))
    for presentation in (PLAIN, STRICT):
        schema.assertValid(etree.fromstring(render(result(path.stem), presentation).encode()))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_names_are_unique_and_all_are_read(path: Path) -> None:
    """A reader finds every case, and no two have class and name in common, since GitLab drops the second."""
    report = render(result(path.stem))
    read = [(case.classname, case.name) for suite in JUnitXml.fromstring(report.encode()) for case in suite]
    assert len(read) == len(set(read)) == report.count("<testcase ")
    assert all(classname.count(".") == 1 for classname, _ in read if path.stem != "hostile")


def test_every_rule_is_a_case_and_the_verdict_is_one() -> None:
    """Also those that stayed silent, so that a clean run has tests."""
    document = result("found")
    found = cases(document)
    assert len(found) == 1 + len({rule["id"] for rule in document["rules"]} | {f["rule"] for f in document["findings"]})
    assert document["verdict"]["sentence"] in (found["verdict"].system_out or "")
    assert list(cases(with_findings())) == ["verdict"]


@pytest.mark.parametrize(
    ("fail_on", "severity", "fails"),
    [("never", "critical", False), ("high", "medium", False), ("high", "high", True), ("high", "critical", True)],
)
def test_a_case_fails_as_the_exit_code_does(fail_on: str, severity: str, fails: bool) -> None:
    """At or above --fail-on; below it passes and tells its finding."""
    case = cases(with_findings({"severity": severity}), Presentation(fail_on=fail_on))["THP-001 A title"]
    assert kind(case) is (Failure if fails else None)
    told = case.result[0].text if fails else case.system_out
    assert "A title" in told
    assert f"severity {severity}" in told


def test_what_is_accepted_or_unknown_is_skipped_with_its_reason() -> None:
    """An accepted finding fails nothing, and absent data is not a pass."""
    document = with_findings(
        {**accepted()},
        rules=[{"id": "THP-009", "outcome": "unknown"}, {"id": "THP-010", "outcome": "excluded"}],
        unknown=[{"rule": "THP-009", "missing": ["profile", "thp.enabled"]}],
    )
    found = cases(document, Presentation(fail_on="info"))
    reasons = {name: case.result[0].message for name, case in found.items() if kind(case) is Skipped}
    assert reasons == {
        "THP-001 A title": "accepted by a suppression until 2027-01-31: known, change is planned",
        "THP-009": "could not be decided; needs profile, thp.enabled",
    }
    assert found["THP-010"].system_out == "another rule supersedes it"


def test_one_live_finding_is_enough_to_fail() -> None:
    """Two processes, one of them accepted: the case fails and tells of the other."""
    both = with_findings({"entity": "java (1)", **accepted()}, {"entity": "redis (2)"})
    case = cases(both, Presentation(fail_on="high"))["THP-001 A title"]
    assert kind(case) is Failure
    assert "redis (2)" in case.result[0].text
    assert "java (1)" not in case.result[0].text


def test_cannot_tell_is_no_pass() -> None:
    """The verdict's own case is skipped then."""
    assert kind(cases(result("cannot_tell"))["verdict"]) is Skipped
    assert kind(cases(result("nothing_found"))["verdict"]) is None


def test_problems_that_hide_are_told_and_bugs_are_errors() -> None:
    """system-err of the suite has what may hide evidence; a mistake of a reader makes the verdict an error."""
    problems = [
        {"kind": "damaged", "text": "cut in the middle", "member": "sar.txt", "line": 4, "hides": True},
        {"kind": "odd", "text": "an odd row", "member": "sar.txt"},
    ]
    (suite,) = etree.fromstring(render(with_findings(problems=problems)).encode())
    assert suite.findtext("system-err") == "sar.txt:4: cut in the middle"
    assert kind(cases(with_findings(problems=problems))["verdict"]) is None
    bug = [{"kind": "bug", "text": "reader failed", "member": "x"}]
    assert kind(cases(with_findings(problems=bug))["verdict"]) is Error


def test_a_customer_attaches_nothing() -> None:
    """What Jenkins and GitLab take as the path of a file to attach is broken up."""
    report = render(with_findings({"title": "[[ATTACHMENT|/etc/passwd]]"}), STRICT)
    assert "[[ATTACHMENT |/etc/passwd]]" in report.partition("<failure")[2].partition(">")[2]
    assert "[[ATTACHMENT|" not in re.sub('"[^"]*"', "", report)


def test_hosts_have_suites_of_their_own() -> None:
    """All hosts, the worst first; two of one name are told apart."""
    assert [s.name for s in JUnitXml.fromstring(render(result("several_hosts")).encode())] == ["chaos", "db07", "uek01"]
    twins = {**with_findings(), "cases": [with_findings({}, case="db"), with_findings({}, case="db")]}
    assert [s.name for s in JUnitXml.fromstring(render(twins).encode())] == ["db", "db (2)"]


def test_hosts_that_differ_in_a_dot_have_cases_of_their_own() -> None:
    """A class name has no dots, so that `db.a` and `db_a` would be one; nor does a number make one of two."""
    named = ("db.a", "db_a", "db.a", "db_a (2)")
    read = JUnitXml.fromstring(
        render({**with_findings(), "cases": [with_findings(case=name) for name in named]}).encode()
    )
    assert [suite.name for suite in read] == ["db.a", "db_a (2)", "db.a (3)", "db_a (2) (2)"]
    assert len({case.classname for suite in read for case in suite}) == len(named)


def test_no_character_that_xml_forbids() -> None:
    """Controls, surrogates and non-characters are written out; markup is text."""
    every = "".join(map(chr, [*range(0x20), *range(0x7F, 0xA0), 0xD800, 0xDFFF, 0xFFFE, 0xFFFF])) + ']]><a b="&amp;">'
    document = with_findings({"rule": f"R{every}", "title": every, "severity": "high"}, case=every)
    for presentation in (PLAIN, STRICT):
        report = render(document, presentation)
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", report)
        root = etree.fromstring(report.encode())
        assert root.xpath("//a") == []
        assert ']]><a b="&amp;">' in root[0].get("name")
