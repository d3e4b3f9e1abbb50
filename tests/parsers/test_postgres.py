"""pg_stat_activity: the backend that asks is none of those that run."""

from __future__ import annotations

import pytest

from conftest import ROOT
from parse_bytes import readings
from thpdiag.model import Fact

RUNNING = ROOT / "fixtures" / "readers" / "pg_stat_activity" / "running" / "psql.txt"


def running(text: str) -> list[object]:
    return [r.record.value for r in readings(text.encode(), "psql.txt") if isinstance(r.record, Fact)]


@pytest.mark.parametrize("columns", [slice(None), slice(0, 4)], ids=["with its query", "without queries"])
def test_the_backend_that_asked_is_left_out(columns: slice) -> None:
    """By its query, or as one of those that run."""
    rows = RUNNING.read_text().splitlines()
    cut = [
        row if row.startswith("(") else sign.join(row.split(sign)[columns]) for row in rows if (sign := sign_of(row))
    ]
    assert running("\n".join(cut)) == [6]


def sign_of(row: str) -> str:
    return "+" if row.startswith("-") else "|"


def test_two_answers_are_two_facts() -> None:
    """Of a loop (\\watch) each has its own count."""
    text = RUNNING.read_text()
    fewer = "\n".join(row for row in text.splitlines() if "25743" not in row and "25744" not in row)
    assert running(f"{text}\n{fewer}\n") == [6, 4]
