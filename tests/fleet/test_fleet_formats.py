"""Text, JSON, CSV and Markdown of a fleet: what they tell, how they fold, and that no name of a customer acts."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Iterable
from datetime import date
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from small_fleets import bundle, found, host, many, store
from thpdiag.fleet.formats import FLEET_FORMATS, fleet_schema
from thpdiag.fleet.overview import MAX_LISTED, FirstItems, Fleet
from thpdiag.report.baseline import Judge
from thpdiag.report.layout import columns
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import BundleResult

ODD = ("\x1b[2Jx", "=HYPERLINK(1)", "<script>", "@everyone #1", "a\nb", "\udc80", "\u202eevil", "| --- |", "x" * 3000)
SAVED = Path(__file__).parents[2] / "fixtures/comparisons/storm-thp-never"


def written(folder: Path, form: str, bundles: Iterable[BundleResult] = (), fail_on: str = "never") -> str:
    out = io.StringIO()
    with StoreReader.at(store(folder, bundles)) as reading:
        FLEET_FORMATS[form](Fleet(reading, Judge([], date(2027, 1, 1), {}), fail_on), out)
    return out.getvalue()


def odd() -> list[BundleResult]:
    """Hosts whose every name is hostile, two bundles of each, and bundles that failed for hostile reasons."""
    made = []
    for number, name in enumerate(ODD * 2):
        settings = {"thp.enabled": {"value": name if number == 3 else "always", "provenance": "measured"}}
        known = {"os": name, "kernel": name, "platform": name, "apps": [name], "settings": settings}
        verdict = {**found("high"), "mechanism": name, "sentence": name, "rule": name}
        made.append(bundle(1000 + number, host(name, verdict, host=known), path=f"in/{number} {name}"))
    return [*made, *(bundle(2000 + at, path=f"in/{name}", reason=name) for at, name in enumerate(ODD))]


def test_the_text_tells_numbers_hosts_outliers_and_failures(tmp_path: Path) -> None:
    """What a person reads first, with how many more there are."""
    text = written(tmp_path, "text", many(300), "high")

    assert text.startswith("300 bundles, 297 hosts: 30 with a finding; 3 bundles without a complete result.\n")
    assert "Gate: failed, 12 findings of severity high or above" in text
    _, _, head, row = text[text.index("Hosts by verdict") :].splitlines()[:4]
    assert head.split() == ["hosts", "verdict", "mechanism", "severity", "confidence"]
    assert row.split() == ["267", "nothing", "found", "-", "-", "-"]
    assert "  web0 (nightly/0.tar): critical, likely, fault-compaction" in text
    assert "... and 10 more" in text
    assert "direct compactions: 400/s; of 99 hosts the median is" in text
    assert "  nightly/99.tar: timeout: it took longer than 600 s" in text


@pytest.mark.parametrize("bundles", [many(120), odd()], ids=["many", "odd"])
def test_the_text_fits_a_terminal(tmp_path: Path, bundles: list[BundleResult]) -> None:
    """80 columns but for a path, which stays whole, and nothing that a terminal would act upon."""
    text = written(tmp_path, "text", bundles)

    wide = [line for line in text.splitlines() if columns(line) > 80 and "/" not in line]
    assert wide == []
    assert all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_host_with_several_bundles_is_one_name(form: str, tmp_path: Path) -> None:
    """It is not told as so many machines; the page says the same."""
    three = [bundle(number, host("db1" if number else "db0", found("high"))) for number in range(3)]

    assert "3 bundles, 3 hosts (2 names): 3 with a finding" in written(tmp_path, form, three)


def test_an_empty_store_has_nothing_to_tell(tmp_path: Path) -> None:
    """All formats are there, none has a host."""
    assert written(tmp_path, "text") == "0 bundles, 0 hosts: 0 with a finding.\n"
    assert json.loads(written(tmp_path, "json"))["hosts"] == []
    assert len(written(tmp_path, "csv").splitlines()) == 1
    assert written(tmp_path, "markdown").startswith("## thpdiag: fleet\n")


@pytest.mark.parametrize("bundles", [many(30), odd(), []], ids=["many", "odd", "empty"])
def test_the_json_is_as_its_schema_says(tmp_path: Path, bundles: list[BundleResult]) -> None:
    """Every host is in it, in ASCII, a line each."""
    text = written(tmp_path, "json", bundles, "high")

    document = json.loads(text)
    Draft202012Validator.check_schema(fleet_schema())
    assert [error.message for error in Draft202012Validator(fleet_schema()).iter_errors(document)] == []
    assert text.isascii()
    assert len(document["hosts"]) == len(bundles)


def test_the_json_of_real_results_is_as_its_schema_says(tmp_path: Path) -> None:
    """Documents as analyses made them, twice the same host."""
    documents = [json.loads((SAVED / f"{side}.json").read_text()) for side in ("before", "after")]
    text = written(tmp_path, "json", [bundle(number, document) for number, document in enumerate(documents)])

    document = json.loads(text)
    assert [error.message for error in Draft202012Validator(fleet_schema()).iter_errors(document)] == []
    (history,) = document["over_time"]
    changes = {change["name"]: (change["before"], change["after"]) for change in history["changes"]}
    assert changes["thp.enabled"] == ("always", "never")


def test_the_json_tells_outliers_with_their_group(tmp_path: Path) -> None:
    """Of a host everything that differs, with n and the five numbers or the counts."""
    document = json.loads(written(tmp_path, "json", many(300)))

    by_name = {one["name"]: one for one in document["hosts"]}
    (stalls,) = by_name["web2"]["outliers"]
    assert (stalls["name"], stalls["value"], stalls["unit"], stalls["hosts"]) == (
        "node_vmstat_compact_stall", 400.0, "1/s", 99,
    )  # fmt: skip
    assert set(stalls["distribution"]) == {"n", "least", "lower", "median", "upper", "most"}
    (enabled,) = by_name["web1"]["outliers"]
    assert enabled["distribution"] == {
        "n": 99, "others": 0, "counts": [{"value": "always", "hosts": 97}, {"value": "never", "hosts": 2}],
    }  # fmt: skip
    assert sum(group["hosts"] for group in document["groups"] if group["apps"] is None) == 297


def test_a_row_of_the_table_is_a_host(tmp_path: Path) -> None:
    """What a spreadsheet would take for a formula is none, a number stays one."""
    rows = list(csv.DictReader(io.StringIO(written(tmp_path, "csv", odd()), newline="")))

    assert len(rows) == len(odd())
    assert {row["host"] for row in rows} >= {"'=HYPERLINK(1)", "'@everyone #1", "'| --- |", "a b", "\\x1b[2Jx"}
    assert not any(value.startswith(tuple("=+-@|%")) for row in rows for value in row.values())
    assert [int(row["number"]) for row in rows] == list(range(1, len(rows) + 1))
    assert all(row["sha256"] for row in rows)


def test_the_table_tells_what_differs(tmp_path: Path) -> None:
    """In words, with the group."""
    rows = {row["host"]: row for row in csv.DictReader(io.StringIO(written(tmp_path, "csv", many(300)), newline=""))}

    assert rows["web1"]["differs"].startswith(
        "thp.enabled is never on 2 of the 99 hosts with this data; always on 97 (99"
    )
    assert rows["web3"]["differs"] == ""


def test_names_of_customers_are_no_markup(tmp_path: Path) -> None:
    """Each word that could be a mention, a tag or a table is code."""
    text = written(tmp_path, "markdown", odd())

    bare = "".join(part for number, part in enumerate(text.split("`")) if number % 2 == 0)
    assert not any(sign in bare for sign in ("<", "@everyone", "#1", "\x1b", "\u202e", "|"))
    assert len(text.encode()) < 1_000_000


def test_the_summary_folds(tmp_path: Path) -> None:
    """GitHub takes no more than 1 MiB: of 200 hosts with a finding 20 are told, and how many more there are."""
    bundles = [bundle(number, host(f"web{number}", found("high"))) for number in range(200)]
    text = written(tmp_path, "markdown", bundles)

    assert "- ... and 180 more" in text
    assert len(text) < 20_000


@pytest.mark.parametrize("form", FLEET_FORMATS)
def test_the_order_of_the_work_changes_nothing(tmp_path: Path, form: str) -> None:
    """The same results give the same bytes, whoever was ready first."""
    bundles = [*many(60), *odd()]
    mixed = random.Random(1).sample(bundles, len(bundles))

    assert written(tmp_path / "a", form, bundles) == written(tmp_path / "b", form, mixed)


def test_the_first_of_many_are_kept_in_bounds() -> None:
    """Of any number the first in order; the rest is only counted."""
    first: FirstItems[int] = FirstItems(lambda number: number)
    for number in random.Random(1).sample(range(10_000), 10_000):
        first.add([number])

    assert (first.total, first.items) == (10_000, list(range(MAX_LISTED)))
