"""Reports of a store for CI services: of one bundle they are its own report, of many the sum of these."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from jsonschema import Draft7Validator, Draft202012Validator  # type: ignore[import-untyped]
from junitparser import Error, JUnitXml
from lxml import etree  # type: ignore[import-untyped]

from ci_schemas import (
    CODE_QUALITY,
    JUNIT_FILE,
    RESULTS,
    SARIF_FILE,
    SARIF_OF_MANY,
    accepted,
    published,
    result,
    with_findings,
)
from small_results import ANALYSIS, content
from thpdiag.fleet.formats import CI_FORMATS, Marks, ci_reports
from thpdiag.report import FORMATS as SINGLE
from thpdiag.report.presentation import PLAIN, Presentation, Suppressed
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import Analysis, BundleResult
from thpdiag.store.store import Store

STRICT = Presentation(fail_on="low", suppressed=Suppressed.SHOWN)
PATH = "nightly/web 1.tar.xz"
Document = Mapping[str, Any]


def bundle(
    number: int, document: Document | None, path: str = "", status: str = "ok", reason: str = ""
) -> BundleResult:
    return BundleResult(content(number), path or f"in/{number:04}.tar", 1, status, reason, document=document)


def store(folder: Path, *results: BundleResult, analysis: Analysis = ANALYSIS) -> Path:
    with Store.open(folder, analysis) as opened:
        for one in results:
            opened.add(one)
    return folder


def made(folder: Path, presentation: Presentation = PLAIN, marks: Marks = lambda document: document) -> dict[str, str]:
    """The text of each format."""
    with StoreReader.at(folder) as reading, ci_reports(reading, CI_FORMATS, presentation, marks) as found:
        return {name: "".join(report.pieces()) for name, report in found.items()}


def run(text: str) -> dict[str, Any]:
    """The run of a SARIF log that has its form."""
    log = json.loads(text)
    assert [error.message for error in Draft202012Validator(SARIF_OF_MANY).iter_errors(log)] == []
    (only,) = log["runs"]
    assert isinstance(only, dict)
    return only


def issues(text: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(text)
    assert [error.message for error in Draft202012Validator(CODE_QUALITY).iter_errors(loaded)] == []
    assert len({one["fingerprint"] for one in loaded}) == len(loaded)
    return loaded


def without_bundle(name: str, text: str) -> str:
    """A report of a store with one bundle as it would be without the words that name the bundle and the store."""
    if name == "junit":
        return text.replace(f'<property name="bundle" value="{PATH}"/>', "")
    if name == "github":
        first = text.index("::notice title=thpdiag triage::")
        text = text[:first] + text[text.index("\n", first) + 1 :]
        return text.replace(f"%0ABundle {PATH}", "").replace(f"file={PATH}/", "file=")
    text = text.replace(f"{quote(PATH)}/", "").replace(f'"path": "{PATH}/', '"path": "')
    text = text.replace(f"\\nBundle {PATH}", "").replace(f" ({PATH})", "").replace(f"{PATH}: ", "")
    return re.sub(rf'\n *"bundle": "{PATH}",?', "", text)


def without_category(text: str) -> str:
    return re.sub(r'\n *"automationDetails": \{[^}]*\},', "", text)


@pytest.mark.parametrize("presentation", [PLAIN, STRICT], ids=["plain", "strict"])
@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_one_bundle_is_told_as_its_own_report_tells_it(path: Path, presentation: Presentation, tmp_path: Path) -> None:
    """Byte for byte, but for the name of the bundle, the category of SARIF and the sum of all bundles."""
    document = result(path.stem)
    analysis = Analysis(document["tool"]["version"], document["tool"].get("rules_digest", ""))
    found = made(store(tmp_path, bundle(0, document, PATH), analysis=analysis), presentation)
    for name, text in found.items():
        alone = SINGLE[name](document, presentation)
        assert without_bundle(name, text) == (without_category(alone) if name == "sarif" else alone), name


def test_the_order_does_not_depend_on_who_finished_first(tmp_path: Path) -> None:
    """The same results give the same bytes."""
    results = [bundle(number, result(path.stem)) for number, path in enumerate(RESULTS)]
    results.append(bundle(77, None, status="timeout", reason="longer than 300 s"))
    assert made(store(tmp_path / "a", *results)) == made(store(tmp_path / "b", *reversed(results)))


def test_all_bundles_are_in_and_keep_their_forms(tmp_path: Path) -> None:
    """Numbers, names and fingerprints over all of them, hostile names too; the gravest first."""
    documents = [result(path.stem) for path in RESULTS] * 2
    found = made(store(tmp_path, *(bundle(n, one) for n, one in enumerate(documents))), STRICT)

    alone = [SINGLE["junit"](one, STRICT) for one in documents]
    root = etree.fromstring(found["junit"].encode())
    assert found["junit"].count("<testcase ") == sum(text.count("<testcase ") for text in alone)
    for count in ("tests", "failures", "errors"):
        assert int(root.get(count)) == sum(int(suite.get(count)) for suite in root)
    cases = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(cases) == len(set(cases)) == int(root.get("tests"))

    levels = [one["level"] for one in run(found["sarif"])["results"]]
    assert levels == sorted(levels, key=["error", "warning", "note"].index)
    assert len(levels) == sum(SINGLE["sarif"](one, STRICT).count('"ruleIndex": ') for one in documents)
    assert len(issues(found["gitlab"])) == sum(len(issues(SINGLE["gitlab"](one, STRICT))) for one in documents)
    kinds = Counter(re.findall(r"^::(\w+) ", found["github"], re.MULTILINE))
    assert max(kinds.values()) <= 10
    assert all(line.startswith(("::", "thpdiag: ")) for line in found["github"].splitlines())


def test_the_published_forms_are_kept(tmp_path: Path) -> None:
    """SARIF by the schema of OASIS, JUnit by that of Jenkins' xunit plugin, where they are at hand."""
    forms = published(SARIF_FILE), published(JUNIT_FILE)
    results = [bundle(n, result(path.stem)) for n, path in enumerate(RESULTS * 2)]
    found = made(store(tmp_path, *results, bundle(99, None, status="timeout", reason="too long")), STRICT)
    errors = Draft7Validator(json.loads(forms[0].read_text())).iter_errors(json.loads(found["sarif"]))
    assert [error.message for error in errors] == []
    etree.XMLSchema(etree.parse(str(forms[1]))).assertValid(etree.fromstring(found["junit"].encode()))


def test_rules_of_a_run_are_those_of_its_results(tmp_path: Path) -> None:
    """Each once, as its gravest finding has it, and every result points at its own."""
    weights = (("low", "confirmed"), ("high", "likely"))
    mild, grave = ({"rule": "THP-007", "severity": one, "confidence": sure} for one, sure in weights)
    documents = (with_findings(mild, {"rule": "THP-001"}), with_findings(grave))
    only = run(made(store(tmp_path, *(bundle(n, one) for n, one in enumerate(documents))))["sarif"])
    rules = only["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["THP-001", "THP-007"]
    assert rules[1]["defaultConfiguration"]["level"] == "error"
    assert rules[1]["properties"]["precision"] == "very-high"
    assert all(rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in only["results"])
    assert only["tool"]["driver"]["version"] == ANALYSIS.tool_version


def test_two_bundles_of_a_host_stay_two(tmp_path: Path) -> None:
    """Suites, fingerprints and the issue of a host that cannot be told."""
    web = with_findings({"fingerprint": "0123456789abcdef"}, case="web")
    dark = with_findings(case="dark", verdict={"status": "cannot_tell"})
    folder = store(tmp_path, *(bundle(n, one) for n, one in enumerate((web, web, dark, dark))))
    found = made(folder)
    names = [suite.name for suite in JUnitXml.fromstring(found["junit"].encode())]
    assert names == ["web", "web (in/0001.tar)", "dark", "dark (in/0003.tar)"]
    prints = [one["partialFingerprints"]["primaryLocationLineHash"] for one in run(found["sarif"])["results"]]
    assert prints == ["0123456789abcdef", "0123456789abcdef-2"]
    assert [one["check_name"] for one in issues(found["gitlab"])] == [
        "THP-001",
        "THP-001",
        "cannot-tell",
        "cannot-tell",
    ]


def test_a_bundle_without_a_result_is_an_error_and_no_silence(tmp_path: Path) -> None:
    """A timeout, a signal and a refusal beside a healthy host: each is told by each format, with its reason."""
    ends = {"timeout": "longer than 300 s", "signal 9": "", "refused": "a fifo\x1b[2J"}
    failed = [bundle(n, None, f"in/{end}.tar", status=end, reason=why) for n, (end, why) in enumerate(ends.items())]
    found = made(store(tmp_path, *failed, bundle(9, result("nothing_found"))))

    suites = {suite.name: list(suite) for suite in JUnitXml.fromstring(found["junit"].encode())}
    (case,) = suites["in/timeout.tar"]
    assert (case.name, type(case.result[0]), case.result[0].type) == ("verdict", Error, "timeout")
    assert case.result[0].message == "timeout: longer than 300 s"
    assert 'errors="3"' in found["junit"].splitlines()[1]

    (invocation,) = run(found["sarif"])["invocations"]
    assert invocation["executionSuccessful"] is False
    told = [(one["level"], one["message"]["text"]) for one in invocation["toolExecutionNotifications"]]
    assert ("error", "in/timeout.tar: no result (timeout: longer than 300 s)") in told
    assert ("error", "in/refused.tar: no result (refused: a fifo\\x1b[2J)") in told

    lost = [one for one in issues(found["gitlab"]) if one["check_name"] == "no-result"]
    assert {one["severity"] for one in lost} == {"major"}
    assert [one["location"]["path"] for one in lost] == ["in/refused.tar", "in/signal 9.tar", "in/timeout.tar"]

    (warning,) = [line for line in found["github"].splitlines() if line.startswith("::warning ")]
    assert warning.startswith(
        "::warning title=thpdiag triage%3A no complete result of 3 bundles::1 refused, 1 signal 9, 1 timeout"
    )
    assert "%0Ain/signal 9.tar: signal 9%0A" in warning
    assert "1 host in 4 bundles: 1 nothing found" in found["github"]


def test_a_bundle_that_was_cut_is_told_as_that(tmp_path: Path) -> None:
    """Its findings stand, and each format says that there may be more."""
    cut = bundle(0, with_findings(case="db"), "in/big.tar", "limit", "member a: longer than 64 MiB")
    found = made(store(tmp_path, cut))
    suite = etree.fromstring(found["junit"].encode())[0]
    assert suite.findtext("system-err") == "incomplete: limit: member a: longer than 64 MiB"
    assert (suite.get("name"), suite.get("errors")) == ("db", "0")
    (invocation,) = run(found["sarif"])["invocations"]
    (told,) = invocation["toolExecutionNotifications"]
    assert (told["level"], invocation["executionSuccessful"]) == ("warning", True)
    assert told["message"]["text"] == "in/big.tar: incomplete result (limit: member a: longer than 64 MiB)"
    assert [(one["check_name"], one["severity"]) for one in issues(found["gitlab"])] == [("incomplete-result", "minor")]
    assert (
        "::warning title=thpdiag triage%3A no complete result of 1 bundle::1 limit%0Ain/big.tar: limit: "
        in found["github"]
    )


def test_what_is_no_bundle_at_all_is_named_and_skipped(tmp_path: Path) -> None:
    """Nothing in it was recognised: no host that passes every test, and no reason to be red each night."""
    nothing = {"schema": "thpdiag/result/1", "case": "photo", "verdict": {"status": "cannot_tell"}}
    found = made(store(tmp_path, bundle(0, nothing, "in/photo.tar", "refused", "nothing in it was recognized")))
    (suite,) = JUnitXml.fromstring(found["junit"].encode())
    assert (suite.name, suite.tests, suite.errors, suite.skipped) == ("in/photo.tar", 1, 0, 1)
    (issue,) = issues(found["gitlab"])
    assert (issue["check_name"], issue["severity"]) == ("no-result", "info")
    (ended,) = run(found["sarif"])["invocations"]
    assert ended["executionSuccessful"] is True
    assert "in/photo.tar" in ended["toolExecutionNotifications"][0]["message"]["text"]


@pytest.mark.parametrize("document", [None, result("found")], ids=["without a result", "with one"])
def test_a_bundle_may_be_called_anything(document: Document | None, tmp_path: Path) -> None:
    """Line ends, commands, markup, escapes, no UTF-8: forms are kept, and nothing acts."""
    hostile = "in/a\n::error file=x::y%0A\r\x1b[2J\udc80\u202e</testsuite>\"'&,:<b>[[ATTACHMENT|/etc/passwd]] ](http://x)#?\t.tar"
    found = made(store(tmp_path, bundle(0, document, hostile, "ok" if document else "timeout", hostile)), STRICT)
    root = etree.fromstring(found["junit"].encode())
    assert {element.tag for element in root.iter()} <= {
        "testsuites", "testsuite", "properties", "property", "testcase", "skipped", "failure", "error", "system-out",
    }  # fmt: skip
    assert "[[ATTACHMENT|" not in re.sub('"[^"]*"', "", found["junit"])
    only = run(found["sarif"])
    said = [*only["results"], *only["invocations"][0]["toolExecutionNotifications"]]
    assert said
    assert not [one for one in said if "](" in one["message"]["text"]]
    assert issues(found["gitlab"])
    assert all(line.startswith("::") for line in found["github"].splitlines())
    assert not [line for line in found["github"].splitlines() if line.startswith("::error file=x")]
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202e]", "".join(found.values()))


def test_a_result_of_no_form_is_told_and_harms_no_other(tmp_path: Path) -> None:
    """A document that a damaged or hostile child wrote is an error of its own bundle, once in each format."""
    odd: list[Any] = [
        {"findings": [1]}, {"findings": "x"}, {"rules": 5}, {"host": "h", "findings": [{"rule": 7, "title": {}}]},
        {"cases": [7]}, {"problems": [None]}, {"verdict": []}, {"tool": "x"}, {"inputs": {"a": 1}},
    ]  # fmt: skip
    results = [bundle(n, {"schema": "thpdiag/result/1", **one}) for n, one in enumerate(odd)]
    found = made(store(tmp_path, *results, bundle(50, with_findings({"severity": "critical"}, case="db"))))

    names = [suite.name for suite in JUnitXml.fromstring(found["junit"].encode())]
    assert "db" in names
    assert len(names) == len(set(names)) == len(odd) + 1
    assert "damaged result" in found["junit"]
    assert [one["level"] for one in run(found["sarif"])["results"]] == ["error"]
    assert [one["check_name"] for one in issues(found["gitlab"]) if one["severity"] == "blocker"] == ["THP-001"]
    assert "::error " in found["github"]


def test_what_is_accepted_is_marked_by_the_caller(tmp_path: Path) -> None:
    """A mark makes a failure a skipped case and takes the result away; its document in the store has none."""

    def marks(document: Document) -> Document:
        return {**document, "findings": [{**one, **accepted()} for one in document["findings"]]}

    folder = store(tmp_path, bundle(0, with_findings({"severity": "high"}, case="db")))
    bare, marked = made(folder, Presentation(fail_on="high")), made(folder, Presentation(fail_on="high"), marks)
    assert 'failures="1"' in bare["junit"].splitlines()[1]
    assert 'failures="0"' in marked["junit"].splitlines()[1]
    assert "accepted by a suppression until 2027-01-31" in marked["junit"]
    assert (len(run(bare["sarif"])["results"]), len(run(marked["sarif"])["results"])) == (1, 0)
    assert (len(issues(bare["gitlab"])), len(issues(marked["gitlab"]))) == (1, 0)


def test_an_empty_store_has_empty_reports(tmp_path: Path) -> None:
    """No bundle at all: forms are kept, and the annotation says that there was none."""
    found = made(store(tmp_path))
    assert etree.fromstring(found["junit"].encode()).get("tests") == "0"
    assert run(found["sarif"])["results"] == []
    assert found["gitlab"] == "[]\n"
    assert found["github"] == "::notice title=thpdiag triage::0 hosts in 0 bundles: none\n"
