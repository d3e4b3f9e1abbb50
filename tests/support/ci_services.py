"""GitHub Actions and GitLab CI as far as the example workflows use them: jobs, their folders, and files between jobs.

Features of an example that are not implemented here are errors. Programs other than thpdiag are not downloaded.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import yaml

ALWAYS = ("always()", "${{ !cancelled() }}")
ACTION = Path(__file__).resolve().parents[2] / "action.yml"  # ours, which an example uses from its own repository
FETCHES = "pip install "
_EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")


@dataclass
class Machine:
    """`sources` is the content of a checkout, `place` the folder for jobs."""

    sources: Path
    place: Path
    artifacts: dict[str, Path] = field(default_factory=dict)
    uploads: list[Path] = field(default_factory=list)  # what other services are given
    said: str = ""
    outputs: dict[str, str] = field(default_factory=dict)  # of our action

    def folder(self, name: str) -> Path:
        made = self.place / name
        shutil.copytree(self.sources, made)
        return made

    def shell(self, line: str, folder: Path, variables: Mapping[str, str]) -> int:
        """Return the exit code of a line, run as a step: by bash, which ends at the first failure."""
        if line.startswith(FETCHES):
            return 0
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", line], cwd=folder, env={**os.environ, **variables, "PATH": path},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        self.said += f"$ {line}\n{done.stdout}"
        return done.returncode

    def keep(self, name: str, folder: Path, patterns: Sequence[str]) -> None:
        """Copy the files that match patterns; each pattern must match."""
        kept = self.place / "artifacts" / name
        kept.mkdir(parents=True, exist_ok=True)
        for pattern in patterns:
            found = list(folder.glob(pattern))
            assert found, f"{pattern} names nothing"
            for one in found:
                _copy(one, kept / one.relative_to(folder))
        self.artifacts[name] = kept


class GitHub(Machine):
    """Runs the jobs of a matrix one after the other; `codes` has the exit code of each job."""

    def run(self, workflow: Path, after: Mapping[str, int] | None = None) -> dict[str, int]:
        """Run all jobs except those of `after`, which are not repeated."""
        told: Mapping[str, Any] = yaml.safe_load(workflow.read_text())
        codes = dict(after or {})
        done = {one.partition(" ")[0] for one in codes}
        for name, job in ((name, job) for name, job in told["jobs"].items() if name not in done):
            assert job.get("needs") is None or job["needs"] in {one.partition(" ")[0] for one in codes}
            for full, known in _matrix(name, job):
                codes[full] = self._job(full.replace(" ", "-"), job, told.get("env", {}) | job.get("env", {}), known)
        return codes

    def _job(self, name: str, job: Mapping[str, Any], env: Mapping[str, str], known: Mapping[str, str]) -> int:
        folder, code = self.place / name, 0
        folder.mkdir(parents=True)
        variables = {key: _filled(value, known) for key, value in env.items()}
        variables["GITHUB_STEP_SUMMARY"] = str(self.place / f"{name}-summary.md")
        ids: list[str] = []
        for step in job["steps"]:
            if code and step.get("if") not in ALWAYS:
                continue
            if "run" in step:
                code = self.shell(_filled(step["run"], known), folder, variables) or code
                continue
            told = {f"steps.{step_id}.outputs.{key}": value for step_id in ids for key, value in self.outputs.items()}
            given = {key: _filled(value, known | told) for key, value in step.get("with", {}).items()}
            if (used := step["uses"].partition("@")[0]) == "OWNER/thpdiag":
                ids.append(step["id"])
                code = self.action(given, folder, variables) or code
            else:
                self._uses(used, given, folder)
        return code

    def action(self, given: Mapping[str, str], folder: Path, variables: Mapping[str, str]) -> int:
        """Run the steps of the composite action with inputs."""
        told = yaml.safe_load(ACTION.read_text())
        assert set(given) <= set(told["inputs"])
        inputs = {f"inputs.{key}": given.get(key, one.get("default", "")) for key, one in told["inputs"].items()}
        output = folder.with_name(f"{folder.name}-output.txt")
        code = 0
        for step in told["runs"]["steps"]:
            if "uses" in step:
                self._uses(step["uses"].partition("@")[0], {}, folder)
            elif not code:
                assert step["shell"] == "bash"
                own = {key: _filled(value, inputs) for key, value in step.get("env", {}).items()}
                assert "${{" not in step["run"]
                given_by_runner = {"GITHUB_ACTION_PATH": str(ACTION.parent), "GITHUB_OUTPUT": str(output)}
                code = self.shell(step["run"], folder, {**variables, **given_by_runner, **own})
        written = dict(line.split("=", 1) for line in output.read_text().splitlines())
        for name, one in told["outputs"].items():
            assert one["value"] == f"${{{{ steps.triage.outputs.{name} }}}}"
            self.outputs[name] = written[name]
        return code

    def _uses(self, action: str, given: Mapping[str, str], folder: Path) -> None:
        if action == "actions/checkout":
            shutil.copytree(self.sources, folder, dirs_exist_ok=True)
        elif action == "actions/upload-artifact":
            patterns = given["path"].split("\n")
            self.keep(given["name"], folder, [pattern for pattern in patterns if pattern])
        elif action == "actions/download-artifact":
            self._download(given["pattern"], folder)
        elif action == "github/codeql-action/upload-sarif":
            self.uploads.append(folder / given["sarif_file"])
        else:
            assert action == "actions/setup-python"

    def _download(self, pattern: str, folder: Path) -> None:
        """Each artifact into a folder of its name; one whose files are all in one folder begins there."""
        for name, kept in self.artifacts.items():
            if Path(name).match(pattern):
                inner = next(kept.iterdir())
                shutil.copytree(inner if inner.is_dir() else kept, folder / name)


class GitLab(Machine):
    """Runs jobs one after the other, with the artifacts of earlier stages."""

    def run(self, workflow: Path, after: Mapping[str, int] | None = None) -> dict[str, int]:
        """Run all jobs except those of `after`, which are not repeated."""
        told: dict[str, Any] = yaml.safe_load(workflow.read_text())
        stages, variables = told.pop("stages"), told.pop("variables")
        before = told.pop("default")["before_script"]
        told.pop("workflow")
        codes = dict(after or {})
        done = {one.partition(" ")[0] for one in codes}
        for stage in stages:
            for name, job in ((n, job) for n, job in told.items() if job["stage"] == stage and n not in done):
                of = int(job.get("parallel", 1))
                for number in range(1, of + 1):
                    known = {"CI_NODE_INDEX": str(number), "CI_NODE_TOTAL": str(of)} if "parallel" in job else {}
                    full = f"{name} {number}" if known else name
                    codes[full] = self._job(full.replace(" ", "-"), job, before, variables | known)
        return codes

    def _job(self, name: str, job: Mapping[str, Any], before: Sequence[str], variables: Mapping[str, str]) -> int:
        folder, code = self.folder(name), 0
        for kept in self.artifacts.values():
            shutil.copytree(kept, folder, dirs_exist_ok=True)
        for line in (*before, *job["script"]):
            code = code or self.shell(line, folder, variables)
        told = job["artifacts"]
        assert told["when"] == "always"
        self.keep(name, folder, told["paths"])
        self.uploads += [folder / file for file in told.get("reports", {}).values()]
        return 0 if code == job.get("allow_failure", {}).get("exit_codes") else code


def _matrix(name: str, job: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each job of a matrix with its name and the values of its expressions."""
    axes: Mapping[str, Sequence[Any]] = job.get("strategy", {}).get("matrix", {})
    every = list(product(*axes.values()))
    for values in every:
        known = {f"matrix.{axis}": str(value) for axis, value in zip(axes, values, strict=True)}
        yield " ".join([name, *known.values()]), {**known, "strategy.job-total": str(len(every))}


def _filled(text: str, known: Mapping[str, str]) -> str:
    """Replace the expressions that an example uses; there are no secrets."""
    return _EXPRESSION.sub(lambda m: "" if m[1].startswith("secrets.") else known[m[1]], text)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)
