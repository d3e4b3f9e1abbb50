"""The table that saves the parsing of our own YAML says what the files say."""

from __future__ import annotations

import os
from collections.abc import Mapping

from conftest import ROOT
from thpdiag.engine.load import builtin_rules, rule_files
from thpdiag.knowledge.yaml_nodes import Quick, describe_shipped, load_nodes, load_own

TABLE = ROOT / "thpdiag" / "knowledge" / "shipped.tsv"


def _texts() -> Mapping[str, str]:
    tables = [*sorted(TABLE.parent.glob("*.yaml")), ROOT / "thpdiag" / "diagnosis" / "capture" / "sections.yaml"]
    tables += sorted((TABLE.parent / "known_issues").glob("*.yaml"))
    return {file.name: file.read_text("utf-8") for file in (*tables, *rule_files(builtin_rules()))}


def test_the_table_is_that_of_the_files() -> None:
    """BLESS=1 writes it."""
    expected = describe_shipped(_texts().values())
    if os.environ.get("BLESS") == "1":
        TABLE.write_text(expected, "utf-8")
    assert TABLE.read_text("utf-8") == expected, "BLESS=1 pytest tests/knowledge/test_shipped.py writes shipped.tsv"


def test_each_file_and_an_edited_one_is_what_its_yaml_says() -> None:
    """Data with their types, order of keys and places."""
    for name, text in _texts().items():
        for version in (text, f"{text}# edited\n"):
            data, places = load_own(version)
            expected, expected_places = load_nodes(version, Quick)
            assert repr(data) == repr(expected), name
            assert dict(places) == expected_places, name
