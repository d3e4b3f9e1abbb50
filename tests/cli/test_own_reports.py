"""Reports that thpdiag wrote lie in the folder of a case: they are named, and prove nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from command_line import ROOT, Run
from thpdiag.compare import FORMATS as COMPARISON_FORMATS
from thpdiag.fleet.formats import FLEET_FORMATS
from thpdiag.report import FORMATS

STORIES = ROOT / "fixtures/stories"
PROVEN, TOLD = STORIES / "mero-centos7/bundle", STORIES / "sudo-echo/bundle"
READ = {"text"}  # as prose: it begins with a sentence
NAMED = "a report that thpdiag wrote"


def check(run: Run, report: str, name: str, folder: Path) -> None:
    """Alone it is nothing; beside what was recorded it changes nothing."""
    folder.mkdir()
    (folder / f"report.{name}").write_text(report)
    alone = run("analyze", folder, "-f", "json")
    assert alone.code == 3
    assert alone.document["findings"] == []
    assert alone.document["host"]["settings"] == {}
    assert [p["text"] for p in alone.document["problems"] if p["text"].startswith(NAMED)], alone.document["problems"]

    shutil.copytree(TOLD, folder / "case")
    before, beside = run("analyze", TOLD, "-f", "json").document, run("analyze", folder, "-f", "json").document
    assert beside["verdict"] == before["verdict"]
    assert [(f["rule"], f["confidence"]) for f in beside["findings"]] == [
        (f["rule"], f["confidence"]) for f in before["findings"]
    ]


@pytest.mark.parametrize("name", sorted({*FORMATS} - READ))
def test_a_report_is_no_evidence(name: str, run: Run, tmp_path: Path) -> None:
    """In any format, of a host with a cause that the report names in words."""
    check(run, run("analyze", PROVEN, "-f", name).out, name, tmp_path / "in")


@pytest.mark.parametrize("name", sorted({*COMPARISON_FORMATS} - READ))
def test_a_comparison_is_no_evidence(name: str, run: Run, tmp_path: Path) -> None:
    """Of two hosts."""
    check(run, run("compare", PROVEN, TOLD, "-f", name).out, name, tmp_path / "in")


@pytest.mark.parametrize("name", sorted({*FLEET_FORMATS} - READ))
def test_a_fleet_is_no_evidence(name: str, run: Run, tmp_path: Path) -> None:
    """Nor is its page."""
    store = tmp_path / "store"
    run("triage", PROVEN, "--out-dir", store)
    done = run("triage", "report", store, "-f", name)
    check(run, done.out or (store / "index.html").read_text(), name, tmp_path / "in")


@pytest.mark.parametrize("bundle", sorted(STORIES.glob("*/bundle")), ids=lambda bundle: bundle.parent.name)
def test_a_text_tells_no_settings(bundle: Path, run: Run, tmp_path: Path) -> None:
    """Those of its host stand in its head, and only its kernel is taken; nothing of it is more than a hypothesis."""
    file = tmp_path / "mail.txt"
    file.write_text(f"Dear colleague,\n\n{run('analyze', bundle).out}\nRegards\n")
    document = run("analyze", file, "-f", "json").document
    assert {setting["provenance"] for setting in document["host"]["settings"].values()} <= {"assumed"}
    assert {f["confidence"] for f in document["findings"] if f["role"] != "context"} <= {"possible"}


def test_a_damaged_result_is_no_evidence(run: Run, tmp_path: Path) -> None:
    """With another schema it is no result, and not what a customer recorded either."""
    file = tmp_path / "result.json"
    file.write_text(run("analyze", PROVEN, "-f", "json").out.replace("thpdiag/result/1", "9"))
    done = run("compare", file, TOLD)
    assert (done.code, done.out, done.err.count("\n")) == (3, "", 1)
    assert "a report of thpdiag, not what a host recorded" in done.err
