"""The example workflows for GitHub and GitLab, the action and the container file: their own commands, run job by job,
make every file that they name, on a folder with a stray file and a broken bundle, without a baseline and with one.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from junitparser import JUnitXml

from ci_schemas import CODE_QUALITY, SARIF_OF_MANY
from ci_services import GitHub, GitLab, Machine
from conftest import ROOT

EXAMPLES = ROOT / "docs" / "ci"
ACTION = ROOT / "action.yml"
STORIES = {  # name of the bundle, story, verdict
    "node1.tar.gz": "hadoop-centos62-flat-only",  # critical
    "uek.tar.gz": "uek-without-thp",  # nothing
}


STRAY, BROKEN = "bundles/notes.txt", "bundles/cut.tar.gz"
SUITES = 5  # those two, the two bundles, and a tar without anything in it


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository: two bundles, a broken one, two files that are none, and no baseline yet."""
    folder = tmp_path_factory.mktemp("sources")
    (folder / "bundles").mkdir()
    for name, story in STORIES.items():
        bundle = ROOT / "fixtures" / "stories" / story
        subprocess.run(["tar", "-czf", folder / "bundles" / name, "-C", bundle, "bundle"], check=True)
    (folder / "bundles" / "photo.tar").write_bytes(bytes(10240))
    (folder / STRAY).write_text("Bundles of the night shift. Ask Ops before you delete one.\n")
    (folder / BROKEN).write_bytes((folder / "bundles" / "node1.tar.gz").read_bytes()[:40])
    return folder


def accepting_all(machine: Machine, sources: Path, place: Path, fleet: Path) -> Path:
    """The repository once the command of the message has accepted what the first night has found.

    docs/how-to/ci.md has the same one.
    """
    (command,) = set(re.findall(r"no baseline bundles-baseline\.json.*: (thpdiag baseline create .*)", machine.said))
    guide = " ".join((ROOT / "docs" / "how-to" / "ci.md").read_text().split())
    assert f"`{command.replace('create thpdiag', 'create fleet')}`" in guide
    told = command.replace("TEXT", "'known on the first night'").replace("DATE", "2999-12-31")
    assert machine.shell(told, fleet, {}) == 0, machine.said
    shutil.copytree(sources, place)
    shutil.copy(fleet / "bundles-baseline.json", place)
    return place


def test_the_example_for_github_runs(sources: Path, tmp_path: Path) -> None:
    """A critical finding fails the last job, and all its files are there; once it is accepted, the night is green.

    What is no bundle and what is broken is named, and makes no night red.
    """
    machine = GitHub(sources, tmp_path / "1")
    codes = machine.run(EXAMPLES / "github.yml")
    assert codes == {"triage 1": 0, "triage 2": 0, "report": 1}, machine.said
    assert "::error file=bundles/node1.tar.gz/bundle/" in machine.said
    summary = (tmp_path / "1" / "report-summary.md").read_text()
    for name in ("node1", STRAY, BROKEN):
        assert name in summary

    fleet = machine.artifacts["fleet"]
    assert (fleet / "fleet" / "index.html").read_text().startswith("<!DOCTYPE html>")
    assert list((fleet / "fleet" / "hosts").glob("*.html"))
    is_junit(fleet / "junit.xml", failures=2)
    (log,) = machine.uploads
    is_sarif(log)

    known = accepting_all(machine, sources, tmp_path / "known", tmp_path / "1" / "report")
    again = GitHub(known, tmp_path / "2", {name: kept for name, kept in machine.artifacts.items() if name != "fleet"})
    codes = again.run(EXAMPLES / "github.yml", after={"triage 1": 0, "triage 2": 0})
    assert codes["report"] == 0, again.said
    assert "::error " not in again.said
    (warning,) = [line for line in again.said.splitlines() if line.startswith("::warning title=thpdiag triage")]
    assert STRAY in warning
    assert BROKEN in warning
    is_junit(again.artifacts["fleet"] / "junit.xml", failures=0)


def test_the_example_for_gitlab_runs(sources: Path, tmp_path: Path) -> None:
    """The same, with Code Quality; the job that fails keeps its reports."""
    machine = GitLab(sources, tmp_path / "1")
    codes = machine.run(EXAMPLES / "gitlab.yml")
    assert codes == {"triage 1": 0, "triage 2": 0, "report": 1}, machine.said
    junit, quality = machine.uploads
    is_junit(junit, failures=2)
    issues = json.loads(quality.read_text())
    assert [e.message for e in Draft202012Validator(CODE_QUALITY).iter_errors(issues)] == []
    assert {"blocker"} <= {one["severity"] for one in issues}
    paths = {one["location"]["path"] for one in issues}
    assert {STRAY, BROKEN} <= paths
    assert any(path.startswith("bundles/node1.tar.gz/bundle/") for path in paths)
    assert (machine.artifacts["report"] / "fleet" / "index.html").exists()

    known = accepting_all(machine, sources, tmp_path / "known", tmp_path / "1" / "report")
    again = GitLab(known, tmp_path / "2", {name: kept for name, kept in machine.artifacts.items() if name != "report"})
    codes = again.run(EXAMPLES / "gitlab.yml", after={"triage 1": 0, "triage 2": 0})
    assert codes["report"] == 0, again.said
    is_junit(again.uploads[0], failures=0)


def test_the_action_runs(sources: Path, tmp_path: Path) -> None:
    """As the example uses it: files and outputs are there whether it fails or not."""
    machine = GitHub(sources, tmp_path / "1")
    assert machine.run(EXAMPLES / "action.yml") == {"diagnose": 1}, machine.said
    folder = tmp_path / "1" / "diagnose" / "thpdiag"
    is_junit(folder / "junit.xml", failures=2)
    is_sarif(machine.uploads[0])
    assert (machine.artifacts["thpdiag"] / "thpdiag" / "index.html").exists()
    assert machine.outputs["exit-code"] == "1"

    known = accepting_all(machine, sources, tmp_path / "known", tmp_path / "1" / "diagnose")
    again = GitHub(known, tmp_path / "2")
    assert again.run(EXAMPLES / "action.yml") == {"diagnose": 0}, again.said
    assert again.outputs["exit-code"] == "5"
    is_junit(tmp_path / "2" / "diagnose" / "thpdiag" / "junit.xml", failures=0)


def test_the_action_takes_what_it_is_given_for_words(tmp_path: Path) -> None:
    """Several paths with blanks in them; what would be a command is none."""
    for name, story in (("one night", "uek-without-thp"), ("$(touch pwned)", "sudo-echo")):
        shutil.copytree(ROOT / "fixtures" / "stories" / story / "bundle", tmp_path / "sources" / name)
    machine = GitHub(tmp_path / "sources", tmp_path)
    folder = machine.folder("job")
    given = {"paths": "one night\n$(touch pwned)\n", "options": "--pages none --redact", "fail-on": "never"}
    assert machine.action(given, folder, {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}) == 0, machine.said
    assert not list(tmp_path.rglob("pwned"))
    assert "2 bundles" in (tmp_path / "summary.md").read_text()


def test_the_container_file_is_sound() -> None:
    """Hadolint has nothing to say; it runs as nobody in particular, and what it copies goes into the build."""
    file, ignored = ROOT / "Dockerfile", (ROOT / ".dockerignore").read_text().split()
    lines = file.read_text().replace("\\\n", "").splitlines()
    last = lines[max(number for number, line in enumerate(lines) if line.startswith("FROM ")) :]
    assert [line for line in last if line.startswith("USER ")] == ["USER 10001"]
    assert 'ENTRYPOINT ["thpdiag"]' in last
    copies = [line.split() for line in lines if line.startswith("COPY ") and "--from" not in line]
    copied = [name for words in copies for name in words[1:-1]]
    assert {f"!{name}" for name in copied} <= set(ignored)
    assert all((ROOT / name).exists() for name in copied)
    if not shutil.which("hadolint", path=Path(sys.executable).parent):
        pytest.skip("hadolint is not installed")
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([hadolint, "--failure-threshold", "style", file], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def is_junit(file: Path, failures: int) -> None:
    """The broken bundle and the empty archive are errors, the stray file is skipped."""
    read = JUnitXml.fromfile(str(file))
    assert len(list(read)) == SUITES
    assert (read.failures, read.errors) == (failures, 2)


def is_sarif(file: Path) -> None:
    log = json.loads(file.read_text())
    assert [e.message for e in Draft202012Validator(SARIF_OF_MANY).iter_errors(log)] == []
    assert log["runs"][0]["invocations"][0]["executionSuccessful"] is False
    assert log["runs"][0]["results"][0]["properties"]["bundle"] == "bundles/node1.tar.gz"


@pytest.mark.parametrize("file", [EXAMPLES / "github.yml", EXAMPLES / "gitlab.yml", ACTION], ids=lambda file: file.stem)
def test_the_shell_of_the_examples_is_sound(file: Path) -> None:
    """ShellCheck has nothing to say, where it is installed."""
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")
    lines = [re.sub(r"\$\{\{.*?\}\}", "1", line) for line in shell_lines(yaml.safe_load(file.read_text()))]
    script = "#!/bin/bash\n" + "\n".join(lines) + "\n"
    done = subprocess.run(["shellcheck", "-"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert "\nthpdiag triage " in script


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
