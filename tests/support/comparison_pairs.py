"""Pairs of inputs and their expected comparison; documents are made once per test process."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from analyze_bytes import result_of
from command_line import ROOT
from thpdiag.compare import FORMATS as TYPED
from thpdiag.compare.document import document as compare
from thpdiag.compare.model import SCHEMA, Comparison
from thpdiag.model.document import plain_document, read_document
from thpdiag.report.presentation import PLAIN, Presentation

PAIRS = ROOT / "fixtures" / "comparisons"
CASES = sorted(path.parent.name for path in PAIRS.glob("*/expected.yaml"))
CAPTURES = "fixtures/captures"


def document(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return the comparison of two results in its JSON form."""
    return plain_document(compare(before, after))


def _format(name: str) -> Callable[..., str]:
    def render(comparison: dict[str, Any], presentation: Presentation = PLAIN) -> str:
        return TYPED[name](read_document(Comparison, {"schema": SCHEMA} | comparison), presentation)

    return render


FORMATS = {name: _format(name) for name in TYPED}


def result(path: str) -> dict[str, Any]:
    """Return a copy of the result of a fixture."""
    return copy.deepcopy(result_of(ROOT / path))


def captured(name: str) -> dict[str, Any]:
    return result(f"{CAPTURES}/{name}/bundle")


def expected(case: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((PAIRS / case / "expected.yaml").read_text())
    return loaded


@cache
def _compared(case: str) -> dict[str, Any]:
    said = expected(case)
    return document(result(said["before"]), result(said["after"]))


def compared(case: str) -> dict[str, Any]:
    """Return a copy of the comparison of a pair."""
    return copy.deepcopy(_compared(case))


def changed(before: str, after: str, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Return the only host of a comparison of two captures, after applying `change` to the second result."""
    other = captured(after)
    change(other)
    host: dict[str, Any] = document(captured(before), other)["hosts"][0]
    return host


def statuses(host: dict[str, Any]) -> dict[str, str]:
    return {finding["rule"]: finding["status"] for finding in host["findings"]}


def path_of(case: str, side: str) -> Path:
    return ROOT / expected(case)[side]
