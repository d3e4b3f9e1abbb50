"""The table of how formats begin, by which a run imports only what its input needs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from conftest import ROOT
from parser_formats import describe_formats
from thpdiag.parsers import FORMATS_FILE, all_parsers, bulk_formats, bulk_parsers, line_formats


@pytest.fixture(autouse=True, scope="module")
def _table_written_anew() -> None:
    """BLESS=1 writes `formats.json` from the modules, before any test reads it."""
    if os.environ.get("BLESS") == "1":
        FORMATS_FILE.write_text(describe_formats(), "utf-8")
        line_formats.cache_clear()
        bulk_formats.cache_clear()


def test_the_table_says_what_the_modules_say() -> None:
    """`formats.json` is written from the modules."""
    assert FORMATS_FILE.read_text("utf-8") == describe_formats()


def test_each_row_leads_to_its_parser() -> None:
    """In the order in which parsers are asked."""
    assert tuple(row.load() for row in line_formats()) == all_parsers()
    assert tuple(row.load() for row in bulk_formats()) == bulk_parsers()


def test_each_line_opens_what_its_pattern_matches() -> None:
    """The words that a line must have to be looked at take no line away."""
    fixtures = [path for path in (ROOT / "fixtures" / "readers").rglob("*") if path.is_file()]
    lines = {line[:400] for path in fixtures for line in path.read_bytes()[:20_000].decode("latin-1").splitlines()}
    for row, parser in zip(line_formats(), all_parsers(), strict=True):
        pattern = parser.opens
        missed = [line for line in lines if pattern and pattern.match(line) and not row.opens_at(line)]
        assert missed == [], row.name


def test_a_pasted_ticket_imports_a_few_formats() -> None:
    """Most parsers are not imported for it."""
    code = (
        "import sys; from pathlib import Path; from thpdiag.host.reading import read_input; "
        "from thpdiag.host.options import Options; read_input([Path(sys.argv[1])], Options()); "
        "print(*(name for name in sys.modules if name.startswith('thpdiag.parsers.')))"
    )
    ticket = ROOT / "fixtures/stories/hadoop-centos62/bundle"
    done = subprocess.run([sys.executable, "-c", code, str(ticket)], capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    assert 10 < len(imported) < 25, imported
