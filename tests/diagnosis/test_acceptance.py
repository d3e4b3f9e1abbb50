"""The acceptance table, row for row: status, mechanism, confidence, rules, remedies, and what must not be said.

expected.yaml was written from the table before anything was analysed; its form is told in expected_diagnosis.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analyze_bytes import result_of
from expected_diagnosis import ACCEPTANCE, bundle, disagreements, expected, words
from thpdiag.knowledge.mechanisms import mechanisms, remedies

KEYS = {
    "bundle", "status", "mechanism", "confidence", "host", "must_fire", "fires_as", "must_say", "must_not",
    "first_remedy_not", "disagrees",
}  # fmt: skip


def row(folder: Path) -> Any:
    """The row, expected to fail as long as its expected.yaml says that thpdiag disagrees."""
    reason = expected(folder).get("disagrees")
    marks = [pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError)] if reason else []
    return pytest.param(folder, marks=marks, id=folder.name)


@pytest.mark.parametrize("folder", [row(folder) for folder in ACCEPTANCE])
def test_a_row_of_the_acceptance_table(folder: Path) -> None:
    """The diagnosis is that of the table, and nothing is said that the table forbids."""
    assert disagreements(expected(folder), result_of(bundle(folder))) == []


@pytest.mark.parametrize("folder", ACCEPTANCE, ids=lambda folder: folder.name)
def test_a_row_is_written_with_known_words(folder: Path) -> None:
    """Mechanisms, remedies and keys exist, and ORIGIN.md says where the input comes from."""
    wanted = expected(folder)
    forbidden = wanted["must_not"]
    assert set(wanted) <= KEYS
    assert bundle(folder).is_dir()
    assert {*words(wanted["mechanism"]), *forbidden.get("mechanisms", ())} <= {*mechanisms(), "none"}
    assert not set(words(wanted["mechanism"])) & set(forbidden.get("mechanisms", ()))
    assert {*forbidden.get("remedies", ()), *wanted.get("first_remedy_not", ())} <= set(remedies())
    assert len((folder / "ORIGIN.md").read_text("utf-8")) > 60
