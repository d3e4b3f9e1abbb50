"""Recordings of real load: each gets the verdict that was written down from its counters before anything was analysed.

expected.yaml of a capture names the root cause (`mechanism`, or several where one advice serves them, or `none`), how
sure a verdict may be, and what would be wrong (`must_not`: mechanisms, or rules). `disagrees` says what comes out
instead for now.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import STRICT, result_of, rules
from conftest import ROOT
from thpdiag.knowledge.yaml_nodes import load
from thpdiag.model import CONFIDENCES
from thpdiag.pipeline import analyze

FOLDERS = sorted(path.parent for path in (ROOT / "fixtures" / "captures").glob("*/expected.yaml"))
DIAGNOSES = ("root_cause", "alternative")


def expected(folder: Path) -> dict[str, Any]:
    return dict(load((folder / "expected.yaml").read_text("utf-8")))


@cache
def result(folder: Path) -> dict[str, Any]:
    return result_of(folder / "bundle")


def level(word: str) -> int:
    return CONFIDENCES.index(word)


def allowed(wanted: dict[str, Any]) -> set[str]:
    """The mechanisms that count as right."""
    said = wanted["mechanism"]
    return set(said) if isinstance(said, list) else {said}


def of_the_verdict(wanted: dict[str, Any], verdict: dict[str, Any]) -> list[str]:
    """What is wrong with mechanism and confidence of a verdict, in words."""
    given = verdict.get("mechanism", "none")
    if given not in allowed(wanted):
        return [f"{given} instead of {wanted['mechanism']}: {verdict['sentence']}"]
    if given == "none":
        return []
    confidence = level(verdict["confidence"])
    too_little = confidence < level(wanted.get("confidence_at_least", "possible"))
    too_much = confidence > level(wanted.get("confidence_at_most", "confirmed"))
    return [f"{given}, {verdict['confidence']}"] if too_little or too_much else []


def of_the_findings(wanted: dict[str, Any], findings: list[dict[str, Any]]) -> list[str]:
    """What is found although it is wrong, and what is not found although it is there."""
    must_not = set(wanted["must_not"])
    said = [f"no {rule}" for rule in wanted.get("must_find", ()) if rule not in {f["rule"] for f in findings}]
    for finding in findings:
        names = {finding["rule"]} | ({finding["mechanism"]} if finding["role"] in DIAGNOSES else set())
        said += [f"finding {finding['rule']} ({name})" for name in sorted(names & must_not)]
    return said


def case(folder: Path) -> Any:
    """The folder, expected to fail as long as its expected.yaml says that thpdiag disagrees."""
    disagrees = expected(folder).get("disagrees")
    marks = [pytest.mark.xfail(reason=disagrees, strict=True, raises=AssertionError)] if disagrees else []
    return pytest.param(folder, marks=marks, id=folder.name)


@pytest.mark.parametrize("folder", [case(folder) for folder in FOLDERS])
def test_a_capture_gets_the_verdict_that_its_counters_show(folder: Path) -> None:
    """Mechanism and confidence are as written down, and nothing is found that would be wrong."""
    wanted, document = expected(folder), result(folder)
    wrong = of_the_verdict(wanted, document["verdict"]) + of_the_findings(wanted, document["findings"])
    assert wrong == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_what_is_expected_of_a_capture_is_complete(folder: Path) -> None:
    """Every capture names mechanisms, limits of confidence and rules that exist."""
    wanted = expected(folder)
    mechanisms = {rule.file.mechanism for rule in rules()}
    limits = {wanted.get("confidence_at_least", "possible"), wanted.get("confidence_at_most", "likely")}
    assert allowed(wanted) <= mechanisms | {"none"}
    assert limits <= set(CONFIDENCES)
    assert wanted["must_not"]
    assert set(wanted["must_not"]) | set(wanted.get("must_find", ())) <= mechanisms | {rule.id for rule in rules()}
    assert not allowed(wanted) & set(wanted["must_not"])


@pytest.mark.parametrize(("process", "status"), [("pool", "found"), ("kswapd0", "cannot_tell")])
def test_one_process_does_not_clear_the_host(process: str, status: str) -> None:
    """What fills the memory of another one is not ruled out by looking at one that does not grow."""
    bundle = ROOT / "fixtures" / "captures" / "khugepaged-growth" / "bundle"
    assert analyze([bundle], rules(), replace(STRICT, process=process))["verdict"]["status"] == status


def test_a_wrong_verdict_is_told() -> None:
    """Another mechanism, too sure a verdict, a forbidden finding and a missing one are each noticed."""
    wanted = {"mechanism": "huge-page-zeroing", "confidence_at_most": "likely", "must_not": ["memory-leak"]}
    right = {"mechanism": "huge-page-zeroing", "confidence": "likely", "sentence": ""}
    finding = {"rule": "ALT-01", "mechanism": "memory-leak", "role": "alternative"}
    assert of_the_verdict(wanted, right) == []
    assert of_the_verdict(wanted, right | {"confidence": "confirmed"}) == ["huge-page-zeroing, confirmed"]
    assert of_the_verdict(wanted, {"sentence": "nothing"}) == ["none instead of huge-page-zeroing: nothing"]
    assert of_the_findings(wanted, [finding]) == ["finding ALT-01 (memory-leak)"]
    assert of_the_findings(wanted, [finding | {"role": "context"}]) == []
    assert of_the_findings(wanted | {"must_find": ["THP-044"]}, []) == ["no THP-044"]
