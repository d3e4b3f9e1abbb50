"""The complete pipeline on bytes, and the parts of a result that tests compare."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

from answers_of_a_run import answer
from command_line import ROOT
from thpdiag.engine.load import Rule, builtin_rules, load_rules
from thpdiag.host.cases import host_cases
from thpdiag.host.options import Options
from thpdiag.host.reading import ParsedInput
from thpdiag.model import CONFIDENCES
from thpdiag.pipeline import analyze, diagnose_case

STDIN = Path("-")
STRICT = Options(strict=True)
BUNDLES = sorted(p for kind in ("stories", "captures", "healthy") for p in (ROOT / "fixtures" / kind).glob("*/bundle"))


@cache
def rules() -> tuple[Rule, ...]:
    return load_rules([builtin_rules()])


def name(bundle: Path) -> str:
    """Return the fixture's name, for test ids."""
    return f"{bundle.parent.parent.name}/{bundle.parent.name}"


def document(data: bytes) -> dict[str, Any]:
    """Return the result of input from a pipe."""
    return analyze([STDIN], rules(), STRICT, stdin=io.BytesIO(data))


@cache
def result_of(bundle: Path) -> dict[str, Any]:
    """Return the result of a fixture, made once for all tests of a run; tests must not change it."""
    return answer(f"analyze {bundle}", lambda: analyze([bundle], rules(), STRICT))


def documents(result: dict[str, Any]) -> list[dict[str, Any]]:
    return list(result.get("cases", [result]))


def found(result: dict[str, Any]) -> dict[str, str]:
    """Return the rules that fire with their confidence; of several hosts the highest."""
    best: dict[str, str] = {}
    for finding in (f for one in documents(result) for f in one["findings"]):
        known = best.get(finding["rule"])
        if known is None or CONFIDENCES.index(finding["confidence"]) > CONFIDENCES.index(known):
            best[finding["rule"]] = finding["confidence"]
    return best


def sure(confidences: dict[str, str]) -> dict[str, int]:
    """Return findings above `possible` by confidence."""
    return {rule: CONFIDENCES.index(word) for rule, word in confidences.items() if word != "possible"}


def judged(given: ParsedInput) -> dict[str, str]:
    """Return `found` of readings, without a document."""
    best: dict[str, str] = {}
    for case in host_cases(given, STRICT):
        for finding in diagnose_case(case, rules(), STRICT).findings:
            known = best.get(finding.outcome.rule)
            if known is None or CONFIDENCES.index(finding.confidence) > CONFIDENCES.index(known):
                best[finding.outcome.rule] = finding.confidence
    return best
