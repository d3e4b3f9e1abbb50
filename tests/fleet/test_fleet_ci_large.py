"""Reports of large stores for CI services: memory does not grow with the documents; what services will not take."""

from __future__ import annotations

import gzip
import json
import random
import sqlite3
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from ci_schemas import SARIF_OF_MANY, result, with_findings
from small_results import ANALYSIS, content
from thpdiag.errors import StoreFullError
from thpdiag.fleet.formats import CI_FORMATS, ci_reports
from thpdiag.report import junit, sarif
from thpdiag.store.reading import StoreReader
from thpdiag.store.results import BundleResult
from thpdiag.store.spill import SpillFile
from thpdiag.store.store import Store

MANY = 100


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 100 hosts with four findings, a list of 30 rules and 100 KB of notes that no format shows."""
    folder = tmp_path_factory.mktemp("large")
    with Store.open(folder, ANALYSIS) as opened:
        for number in range(MANY):
            opened.add(BundleResult(content(number), f"in/{number:04}.tar", 1, "ok", document=host(number)))
    return folder


def host(number: int) -> dict[str, Any]:
    noise = random.Random(number)
    findings = [
        {
            "rule": f"THP-{place:03}",
            "severity": severity,
            "entity": noise.randbytes(30).hex(),
            "fingerprint": f"{number:08x}{place:08x}",
        }
        for place, severity in enumerate(("critical", "high", "medium", "low"))
    ]
    rules = [{"id": f"THP-{place:03}", "title": "A title", "outcome": "silent"} for place in range(30)]
    return with_findings(*findings, case=f"host{number:04}", rules=rules, notes=[{"text": "n" * 100_000}])


def sarif_of(folder: Path) -> tuple[str, list[str]]:
    with StoreReader.at(folder) as reading, ci_reports(reading, ["sarif"]) as made:
        return "".join(made["sarif"].pieces()), list(made["sarif"].warnings())


def run(text: str) -> dict[str, Any]:
    log = json.loads(text)
    assert [error.message for error in Draft202012Validator(SARIF_OF_MANY).iter_errors(log)] == []
    only: dict[str, Any] = log["runs"][0]
    return only


def test_memory_does_not_grow_with_the_documents(large: Path) -> None:
    """100 hosts cost what 10 cost, and less than a tenth of what their documents would, in all formats at once."""
    peaks = [_peak(large, count) for count in (10, MANY)]
    whole = MANY * len(json.dumps(host(0)))
    assert peaks[1] < peaks[0] + whole / 50
    assert peaks[1] < whole / 10


def _peak(large: Path, count: int) -> int:
    """Bytes that Python held at most while the reports of the first bundles were made and read."""
    with StoreReader.at(large) as reading:
        current = reading.current
        reading.current = lambda: (one for one, _ in zip(current(), range(count), strict=False))  # type: ignore[method-assign]
        tracemalloc.start()
        try:
            with ci_reports(reading, CI_FORMATS) as made:
                length = sum(len(piece) for report in made.values() for piece in report.pieces())
            assert length > count * 5000
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()


def test_nothing_is_left_beside_the_store(large: Path) -> None:
    """What waited on the disk is gone with the reports."""
    before = _others(large)
    with StoreReader.at(large) as reading, ci_reports(reading, CI_FORMATS) as made:
        for report in made.values():
            list(report.pieces())
        assert _others(large) == before
    assert _others(large) == before


def _others(folder: Path) -> set[str]:
    """What stands beside the store; readers of it may leave an empty log."""
    return {path.name for path in folder.iterdir() if not path.name.startswith("results.sqlite")}


def test_a_full_disk_is_said_before_anything_is_written(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no room for what has to wait: one sentence, and the exit code of a full disk."""
    opened = SpillFile._open

    def small(aside: SpillFile) -> sqlite3.Connection:
        database = opened(aside)
        database.execute("PRAGMA max_page_count = 10")
        return database

    monkeypatch.setattr(SpillFile, "_open", small)
    with (
        StoreReader.at(large) as reading,
        pytest.raises(StoreFullError, match="no room for reports in the folder of"),
        ci_reports(reading, CI_FORMATS),
    ):
        pytest.fail("there are reports")


def test_no_more_results_than_github_takes(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mildest are left out with their rules, and that is told in the file and to the caller."""
    monkeypatch.setattr(sarif, "MAX_RESULTS", 2 * MANY + 5)
    text, warnings = sarif_of(large)
    only = run(text)
    levels = [one["properties"]["severity"] for one in only["results"]]
    assert levels == ["critical"] * MANY + ["high"] * MANY + ["medium"] * 5
    assert [rule["id"] for rule in only["tool"]["driver"]["rules"]] == ["THP-000", "THP-001", "THP-002"]
    told = only["invocations"][0]["toolExecutionNotifications"][0]
    assert told["level"] == "warning"
    assert told["message"]["text"].startswith(f"{2 * MANY - 5} results are left out, the mildest first")
    assert warnings == [f"SARIF: {told['message']['text']}"]


def test_no_larger_than_github_takes(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed it has room, and not much is wasted."""
    whole = len(gzip.compress(sarif_of(large)[0].encode(), 6))
    monkeypatch.setattr(sarif, "RESULTS_PER_CHECK", 10)
    for allowed in (whole // 2, whole // 20):
        monkeypatch.setattr(sarif, "MAX_PACKED_BYTES", allowed)
        text, warnings = sarif_of(large)
        assert len(gzip.compress(text.encode(), 6)) <= allowed
        results = run(text)["results"]
        assert all(one["level"] == "error" for one in results[: len(results) // 2])
        assert "results are left out" in warnings[0]
        if allowed > whole // 3:
            assert len(gzip.compress(text.encode(), 6)) > 0.8 * allowed


def test_a_whole_file_has_no_warning(large: Path) -> None:
    """400 results are no trouble for anybody."""
    text, warnings = sarif_of(large)
    assert (len(run(text)["results"]), warnings) == (4 * MANY, [])


def test_what_github_takes_and_does_not_show_is_told(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps the gravest 5,000."""
    assert sarif.MAX_SHOWN_RESULTS == 5_000
    monkeypatch.setattr(sarif, "MAX_SHOWN_RESULTS", 300)
    assert sarif_of(large)[1] == ["SARIF: 400 results; GitHub shows the 300 worst"]


def test_more_cases_than_gitlab_reads_are_told(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left out of them, since other services read all."""
    monkeypatch.setattr(junit, "MAX_TEST_CASES", 300)
    with StoreReader.at(large) as reading, ci_reports(reading, ["junit"]) as made:
        text = "".join(made["junit"].pieces())
        cases = text.count("<testcase ")
        assert cases == 31 * MANY
        assert list(made["junit"].warnings()) == [
            f"JUnit: {cases:,} test cases; gitlab.com reads 300 of a report at most"
        ]


def test_hosts_and_notifications_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that nothing came of stay, whatever else there is to say; how many are not told is told."""
    monkeypatch.setattr(sarif, "MAX_HOSTS", 2)
    problems = [{"kind": "odd", "text": f"row {n}", "member": "a", "line": n} for n in range(150)]
    with Store.open(tmp_path, ANALYSIS) as opened:
        for number in range(3):
            document = {**result("nothing_found"), "problems": problems}
            opened.add(BundleResult(content(number), f"in/{number}.tar", 1, "ok", document=document))
        opened.add(BundleResult(content(9), "in/9.tar", 1, "timeout"))
    only = run(sarif_of(tmp_path)[0])
    told = [one["message"]["text"] for one in only["invocations"][0]["toolExecutionNotifications"]]
    assert told[0] == "in/9.tar: no result (timeout)"
    assert told[-2:] == ["251 more notifications are left out", "1 of 3 hosts are not in the list of hosts"]
    assert len(only["properties"]["hosts"]) == 2
