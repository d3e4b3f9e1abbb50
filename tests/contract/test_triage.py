"""What `triage` says of a folder of bundles, three of them broken or hostile: results, fleet, exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from contract.fixture_inputs import FIXTURES
from contract.made_inputs import cut, noise, pack, pack_deep, pack_files
from contract.recorded_answers import compare
from contract.report_parts import describe_report, parse_report, passages, visible_text, without_versions
from contract.run_command import run_command, start_command
from contract.separate_words import separate

FOR_PEOPLE = ("markdown", "text")
FOR_MACHINES = ("csv", "github", "gitlab", "json", "junit", "sarif")
GATES = {
    "never": [],
    "high": ["--fail-on", "high"],
    "critical": ["--fail-on", "critical"],
    "missing": ["--fail-on-missing"],
}


def make_fleet(folder: Path) -> Path:
    folder.mkdir()
    shutil.copytree(FIXTURES / "stories/redis-shop-ubuntu/bundle", folder / "shop")
    shutil.copytree(FIXTURES / "healthy/light-load/bundle", folder / "light")
    pack(FIXTURES / "captures/true-leak/bundle", folder / "leak.tar")
    cut(pack(FIXTURES / "captures/storm-always/bundle", folder / "cut.tar"), 0.6)
    pack_deep(folder / "deep.tar", b"0.41 0.32 0.20 2/345 6789\n", 7)
    pack_files(folder / "escape.tar", {"../../../etc/loadavg": b"0.4 0.3 0.2 2/345 6789\n", "/proc/loadavg": b"\x00"})
    noise(folder / "noise.tar.xz")
    return folder


def make_triage(folder: Path) -> dict[str, Any]:
    """Everything that a run and its later reports write."""
    out = folder / "out"
    outputs = [part for form in (*FOR_PEOPLE, *FOR_MACHINES) for part in ("-o", f"{form}={folder / form}")]
    options = ["--out-dir", out, "--pages", "all", "--jobs", "2", "--progress", "no"]
    with start_command(
        "triage", make_fleet(folder / "fleet"), *options, *outputs, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as run:
        code = run.wait()
    # Rows come in the order in which the bundles were done.
    rows = [json.loads(line) for line in run_command("triage", "export", out, "-o", "jsonl=-").out.splitlines()]
    for row in rows:
        del row["rules_digest"]  # changes with each rule, and with each line of one
    index = without_versions((out / "index.html").read_text())
    for begun in sorted({row.pop("begun") for row in rows}):
        index = index.replace(begun[:19].replace("T", " "), "NOW")
    return {
        "exit": code,
        "gates": {name: run_command("triage", "report", out, *gate).code for name, gate in GATES.items()},
        "reports": {form: without_versions((folder / form).read_text()) for form in (*FOR_PEOPLE, *FOR_MACHINES)},
        "index": index,
        "results": [run_command("render", page, "-f", "json").document for page in sorted(out.glob("hosts/*.html"))],
        "export": sorted(
            ({key: unpacked(value) for key, value in row.items()} for row in rows), key=json.dumps
        ),  # rows come as bundles end
    }


def unpacked(value: Any) -> Any:
    """A cell that holds JSON as what it holds."""
    return json.loads(value) if isinstance(value, str) and value.startswith(("{", "[")) else value


@pytest.fixture
def triage(once: Any, tmp_path: Path) -> dict[str, Any]:
    made: dict[str, Any] = once("triage", lambda: make_triage(tmp_path))
    return made


def record(name: str, document: Any) -> None:
    values, words = separate(document)
    compare("triage", name, values)
    compare("triage", name, words, words=True)


def test_the_results_of_all_bundles_are_as_recorded(triage: dict[str, Any]) -> None:
    """Each bundle that could be read has its result, and all are rows of the export."""
    record("results", {str(i): result for i, result in enumerate(triage["results"])})
    record("export", triage["export"])


@pytest.mark.parametrize("form", FOR_MACHINES)
def test_reports_of_the_fleet_for_machines_are_as_recorded(form: str, triage: dict[str, Any]) -> None:
    """Hosts, statuses, findings, gate."""
    record(form, parse_report(form, triage["reports"][form]))


@pytest.mark.parametrize("form", [*FOR_PEOPLE, "html"])
def test_reports_of_the_fleet_for_people_are_as_recorded(form: str, triage: dict[str, Any]) -> None:
    """Figures and places, then the passages."""
    text = visible_text(triage["index"]) if form == "html" else triage["reports"][form]
    compare("triage", form, describe_report(text))
    compare("triage", form, passages(text), words=True)


def test_exit_codes_of_triage(triage: dict[str, Any]) -> None:
    """5: bundles without a complete result; the gate comes first."""
    assert triage["exit"] == 5
    assert triage["gates"] == {"never": 5, "high": 1, "critical": 5, "missing": 1}
