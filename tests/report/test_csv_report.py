"""CSV: one table with documented columns, read back by the standard reader, and no formulas."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest

from ci_schemas import RESULTS, accepted, result, with_findings
from thpdiag.report import csv as report
from thpdiag.report.presentation import PLAIN, Presentation, Suppressed

SHOWN = Presentation(suppressed=Suppressed.SHOWN)


def rows(document: dict[str, Any], presentation: Presentation = PLAIN) -> list[dict[str, str]]:
    text = report.render(document, presentation)
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_one_table(path: Path) -> None:
    """CRLF, the documented columns in every row, one row per finding or per host without one."""
    document = result(path.stem)
    text = report.render(document)
    assert text.count("\r\n") == text.count("\n") == len(rows(document)) + 1
    assert all(tuple(row) == report.COLUMNS and None not in row.values() for row in rows(document))
    hosts = document.get("cases") or [document]
    assert len(rows(document)) == sum(max(len(host.get("findings", [])), 1) for host in hosts)


def test_every_column_is_documented() -> None:
    """The module's docstring names each."""
    assert [name for name in report.COLUMNS if not re.search(rf"\b{name}\b", report.__doc__ or "")] == []


def test_the_cause_of_the_example() -> None:
    """What a row holds."""
    first = rows(result("found"))[0]
    assert (first["host"], first["verdict"], first["rule"]) == ("chaos", "found", "THP-001")
    assert (first["severity"], first["confidence"], first["role"]) == ("critical", "confirmed", "root_cause")
    assert first["file"] == "ticket-4711.txt"
    assert first["line"].isdecimal()
    assert first["classes"] == "stack effect toggle"


@pytest.mark.parametrize(
    "evil", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", " =1", "|x", "%x", "\uff1d1+1"]
)
def test_a_cell_is_no_formula(evil: str) -> None:
    """A name that a spreadsheet would compute begins with an apostrophe."""
    (row,) = rows(with_findings({"title": evil, "entity": evil}, case=evil))
    assert {row["title"][0], row["entity"][0], row["case"][0]} == {"'"}


def test_quotes_commas_and_lines_are_one_cell() -> None:
    """They come back; a line end is a space."""
    (row,) = rows(
        with_findings({"title": 'a "b", c;\nd', "evidence": [{"kind": "counter", "text": "-5", "member": "m"}]})
    )
    assert row["title"] == 'a "b", c; d'
    assert row["proof"] == "-5"


def test_hosts_without_findings_have_a_row() -> None:
    """No host is lost."""
    table = rows(result("several_hosts"))
    assert {row["host"] for row in table} == {"chaos", "db07", "uek01"}
    clean = {"schema": "thpdiag/result/1", "case": "db", "verdict": {"status": "nothing_found"}}
    (row,) = rows(clean)
    assert (row["host"], row["verdict"], row["rule"], row["file"]) == ("db", "nothing_found", "", "")
    assert row["sentence"].startswith("Nothing found")


def test_what_is_accepted() -> None:
    """Left out, or with by whom, why and until when."""
    document = with_findings({"rule": "THP-002"}, {**accepted()})
    assert [row["rule"] for row in rows(document)] == ["THP-002"]
    told = {row["rule"]: (row["accepted_by"], row["reason"], row["expires"]) for row in rows(document, SHOWN)}
    assert told["THP-001"] == ("suppression", "known, change is planned", "2027-01-31")
    assert told["THP-002"] == ("", "", "")
