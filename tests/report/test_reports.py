"""What holds for every report: the schema, every format from the least document, the same bytes each time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from thpdiag.model.result import complete_document, schema
from thpdiag.report import FORMATS
from thpdiag.report.messages import SENTENCES, hosts

RESULTS = sorted((Path(__file__).parents[1] / "results").glob("*.json"), key=str)
LEAST = {"schema": "thpdiag/result/1", "verdict": {"status": "cannot_tell"}}


def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def _turned(value: Any) -> Any:
    """The same document with the keys of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: _turned(value[key]) for key in reversed(value)}
    return [_turned(item) for item in value] if isinstance(value, list) else value


def _undescribed(part: Mapping[str, Any], defs: Mapping[str, Any], at: str) -> Iterator[str]:
    """Keys of the schema without a sentence, of their own or of what they refer to."""
    for name, sub in part.get("properties", {}).items():
        target = defs[sub["$ref"].rpartition("/")[2]] if "/" in sub.get("$ref", "") else sub
        if not str(sub.get("description", target.get("description", ""))).endswith("."):
            yield f"{at}.{name}"
        yield from _undescribed(sub, defs, f"{at}.{name}")


def test_the_schema_is_valid_and_complete() -> None:
    """The schema is a schema, names its version, closes its objects, and says of each key what it is."""
    whole = schema()
    Draft202012Validator.check_schema(whole)
    assert whole["$id"] == whole["properties"]["schema"]["const"] == "thpdiag/result/1"
    parts = {"": whole, **whole["$defs"]}
    assert [
        name for name, part in parts.items() if "properties" in part and part["additionalProperties"] is not False
    ] == []
    loose = [key for name, part in parts.items() for key in _undescribed(part, whole["$defs"], name)]
    assert loose == []


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_examples_follow_the_schema(path: Path) -> None:
    """Every example document validates."""
    errors = [error.message for error in Draft202012Validator(schema()).iter_errors(_read(path))]
    assert errors == []


@pytest.mark.parametrize(
    "change",
    [
        {"surprise": 1},
        {"schema": "thpdiag/result/2"},
        {"verdict": {"status": "perhaps"}},
        {"verdict": {}},
        {"findings": [{"title": "no rule"}]},
        {"rules": [{"id": "X", "outcome": "fires", "tree": {"children": [{"value": "maybe"}]}}]},
        {"timeline": {"series": [{"metric": "m", "points": [[1, 2, 3]]}]}},
        {"profiles": [{"loss": {"unlisted": 6.5}}]},
        {"profiles": [{"folded": [["java;main", 93.8]]}]},
        {"cases": [{"schema": "thpdiag/result/1"}]},
    ],
    ids=str,
)
def test_the_schema_refuses_what_the_contract_does_not_know(change: dict[str, Any]) -> None:
    """Unknown keys, words and shapes are errors, also deep inside."""
    assert not Draft202012Validator(schema()).is_valid({**LEAST, **change})


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_completing_adds_absent_keys_only(path: Path) -> None:
    """A completed document is valid, holds all that was in it, and completing it again changes nothing."""
    document = _read(path)
    full = complete_document(document)
    assert Draft202012Validator(schema()).is_valid(full)
    assert full == complete_document(full)
    assert full["verdict"].items() >= document["verdict"].items()
    assert [finding["rule"] for finding in full["findings"]] == [said["rule"] for said in document.get("findings", [])]
    assert full["host"]["settings"].keys() == document.get("host", {}).get("settings", {}).keys()


def test_the_formats_of_the_contract_are_there() -> None:
    """Every format is found, and no module that they share."""
    assert FORMATS.keys() == {
        "text", "json", "html", "markdown", "sarif", "junit", "gitlab", "github", "csv",
    }  # fmt: skip


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("status", sorted(SENTENCES))
def test_the_least_document_renders(name: str, status: str) -> None:
    """A document with only the keys that must be there renders in every format and says what its status means."""
    report = FORMATS[name]({**LEAST, "verdict": {"status": status}})
    assert report.endswith("\n")
    if name == "json":
        assert status in report
    elif name != "gitlab" or status == "cannot_tell":  # a list of issues has no place for a verdict
        assert SENTENCES[status][:60] in " ".join(report.split())


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_same_document_gives_the_same_bytes(name: str, path: Path) -> None:
    """Neither the run nor the order of keys shows in a report, and it can be written as UTF-8."""
    report = FORMATS[name](_read(path)).encode("utf-8")
    assert report == FORMATS[name](_turned(_read(path))).encode("utf-8")


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_json_gives_the_document_back(path: Path) -> None:
    """JSON round trips, is printable ASCII with sorted keys and ends with a line end."""
    report = FORMATS["json"](_read(path))
    assert json.loads(report) == _read(path)
    assert report.isascii()
    assert report.replace("\n", "").isprintable()
    assert report == FORMATS["json"](json.loads(report))


def test_json_has_no_number_that_is_none() -> None:
    """NaN and the infinities become null, because JSON does not know them."""
    document = {**LEAST, "host": {"uptime": float("nan"), "measures": {"m": {"value": float("inf")}}}}
    said = json.loads(FORMATS["json"](document), parse_constant=pytest.fail)
    assert said["host"] == {"uptime": None, "measures": {"m": {"value": None}}}


def test_the_host_of_the_top_comes_first() -> None:
    """Of several hosts the one that the document itself speaks of is shown first, the others in their order."""
    cases = [{**LEAST, "case": name} for name in "abc"]
    assert [host.case for host in hosts({**LEAST, "case": "c", "cases": cases})] == ["c", "a", "b"]
    assert [host.case for host in hosts({**LEAST, "case": "alone"})] == ["alone"]
