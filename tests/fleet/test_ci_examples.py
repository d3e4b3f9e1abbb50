"""The example workflows for GitHub and GitLab: their own commands, run job by job, make every file that they name."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from junitparser import JUnitXml

from ci_schemas import CODE_QUALITY, SARIF_OF_MANY
from ci_services import GitHub, GitLab, Machine
from conftest import ROOT
from thpdiag.report.baseline import baseline, baseline_text

EXAMPLES = ROOT / "docs" / "ci"
STORIES = {  # name of the bundle, story, verdict
    "node1.tar.gz": "hadoop-centos62-flat-only",  # critical
    "uek.tar.gz": "uek-without-thp",  # nothing
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository: two bundles, one that is nothing of the kind, and a baseline that accepts nothing yet."""
    folder = tmp_path_factory.mktemp("sources")
    (folder / "bundles").mkdir()
    for name, story in STORIES.items():
        bundle = ROOT / "fixtures" / "stories" / story
        subprocess.run(["tar", "-czf", folder / "bundles" / name, "-C", bundle, "bundle"], check=True)
    (folder / "bundles" / "photo.tar").write_bytes(bytes(10240))
    (folder / "bundles-baseline.json").write_text(baseline_text(baseline([], "nothing yet", None)))
    return folder


def accepting_all(machine: Machine, sources: Path, place: Path, fleet: Path) -> Path:
    """The repository once the command of docs/how-to/ci.md has accepted what the first night has found."""
    guide = " ".join((ROOT / "docs" / "how-to" / "ci.md").read_text().split())
    (command,) = re.findall(r"`thpdiag (baseline create fleet [^`]*)`", guide)
    told = command.replace("TEXT", "'known on the first night'").replace("DATE", "2999-12-31")
    assert machine.shell(f"thpdiag {told}", fleet, {}) == 0, machine.said
    shutil.copytree(sources, place)
    shutil.copy(fleet / "bundles-baseline.json", place)
    return place


def test_the_example_for_github_runs(sources: Path, tmp_path: Path) -> None:
    """A critical finding fails the last job, and all its files are there; once it is accepted, it passes."""
    machine = GitHub(sources, tmp_path / "1")
    codes = machine.run(EXAMPLES / "github.yml")
    assert codes == {"triage 1": 0, "triage 2": 0, "report": 1}, machine.said
    assert "::error file=" in machine.said
    assert "node1" in (tmp_path / "1" / "report-summary.md").read_text()

    fleet = machine.artifacts["fleet"]
    assert (fleet / "fleet" / "index.html").read_text().startswith("<!DOCTYPE html>")
    assert list((fleet / "fleet" / "hosts").glob("*.html"))
    is_junit(fleet / "junit.xml", failures=2)
    (log,) = machine.uploads
    is_sarif(log)

    known = accepting_all(machine, sources, tmp_path / "known", tmp_path / "1" / "report")
    again = GitHub(known, tmp_path / "2", {name: kept for name, kept in machine.artifacts.items() if name != "fleet"})
    codes = again.run(EXAMPLES / "github.yml", after={"triage 1": 0, "triage 2": 0})
    assert codes["report"] == 5, again.said  # the gate lets it pass, but a file was no bundle
    assert "::error " not in again.said
    is_junit(again.artifacts["fleet"] / "junit.xml", failures=0)


def test_the_example_for_gitlab_runs(sources: Path, tmp_path: Path) -> None:
    """The same, with Code Quality; the job that fails keeps its reports."""
    machine = GitLab(sources, tmp_path)
    codes = machine.run(EXAMPLES / "gitlab.yml")
    assert codes == {"triage 1": 0, "triage 2": 0, "report": 1}, machine.said
    junit, quality = machine.uploads
    is_junit(junit, failures=2)
    issues = json.loads(quality.read_text())
    assert [e.message for e in Draft202012Validator(CODE_QUALITY).iter_errors(issues)] == []
    assert {"blocker"} <= {one["severity"] for one in issues}
    assert (machine.artifacts["report"] / "fleet" / "index.html").exists()


def is_junit(file: Path, failures: int) -> None:
    read = JUnitXml.fromfile(str(file))
    assert len(list(read)) == 3
    assert read.failures == failures
    assert read.errors == 1


def is_sarif(file: Path) -> None:
    log = json.loads(file.read_text())
    assert [e.message for e in Draft202012Validator(SARIF_OF_MANY).iter_errors(log)] == []
    assert log["runs"][0]["invocations"][0]["executionSuccessful"] is False
    assert log["runs"][0]["results"][0]["properties"]["bundle"] == "bundles/node1.tar.gz"


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yml")), ids=lambda file: file.stem)
def test_the_shell_of_the_examples_is_sound(file: Path) -> None:
    """ShellCheck has nothing to say, where it is installed."""
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")
    lines = [re.sub(r"\$\{\{.*?\}\}", "1", line) for line in shell_lines(yaml.safe_load(file.read_text()))]
    script = "#!/bin/bash\n" + "\n".join(lines) + "\n"
    done = subprocess.run(["shellcheck", "-"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert any(line.startswith("thpdiag triage ") for line in lines)


def shell_lines(told: Any) -> list[str]:
    """All lines of `run`, `script` and `before_script`, wherever they stand."""
    if isinstance(told, list):
        return [line for one in told for line in shell_lines(one)]
    if not isinstance(told, dict):
        return []
    found: list[str] = []
    for key, value in told.items():
        own = key in ("run", "script", "before_script")
        found += ([value] if isinstance(value, str) else value) if own else shell_lines(value)
    return found
