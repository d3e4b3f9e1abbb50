"""The dependencies of thpdiag: tested versions, licences, and a test with the lowest versions.

    python tests/support/dependencies.py python3.11 python3.12   the same answers in an environment of each

The first Python gets the lowest versions that pyproject.toml allows, all others those of constraints.txt. Each answers
the same commands as this one: reports of fixtures byte by byte, the tests of the rules. Needs a package index.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = ROOT / "constraints.txt"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: Mapping[str, Sequence[str]] = PROJECT["optional-dependencies"]
HEAD = "# The versions that the tests ran with. Written by BLESS=1 pytest tests/repository/test_packaging.py\n"
SHORT = {
    "Apache Software License": "Apache-2.0", "Apache 2.0": "Apache-2.0", "BSD License": "BSD", "MIT License": "MIT",
    "Python Software Foundation License": "PSF-2.0", "Dual License": "BSD or Apache-2.0",
}  # fmt: skip
BUNDLES = sorted(
    folder for tree in ("stories", "healthy", "recordings") for folder in (ROOT / "fixtures" / tree).iterdir()
)
READ = [ROOT / "fixtures/readers" / name for name in ("atop_raw", "collectl_raw", "sar", "vmstat", "perf_data", "sadf")]
COMMANDS: Sequence[Sequence[str | Path]] = (
    ["rules", "test", "--no-mutate"],
    ["rules", "lint"],
    ["serve", "--help"],
    ["triage", "--help"],
    *(["analyze", folder, "-f", form] for folder in (*BUNDLES, *READ) for form in ("json", "html")),
    ["series", READ[3], "*"],
)


def direct() -> dict[str, list[Requirement]]:
    """Return the requirements of pyproject.toml by `core` or extra."""
    wanted = {"core": PROJECT["dependencies"], **EXTRAS}
    return {need: [Requirement(text) for text in texts] for need, texts in wanted.items()}


def closure() -> dict[str, set[str]]:
    """Return the names of all distributions installed with thpdiag and its extras, with what requires them."""
    found: dict[str, set[str]] = {}
    for need, requirements in direct().items():
        for requirement in requirements:
            _walk(requirement, need, found)
    return dict(sorted(found.items()))


def _walk(requirement: Requirement, need: str, found: dict[str, set[str]]) -> None:
    name = canonicalize_name(requirement.name)
    if need in found.setdefault(name, set()) and not requirement.extras:
        return
    found[name].add(need)
    for text in distribution(name).requires or ():
        inner = Requirement(text)
        if not inner.marker or any(inner.marker.evaluate({"extra": extra}) for extra in ("", *requirement.extras)):
            _walk(inner, need, found)


def constraints_text() -> str:
    """Return constraints.txt for the installed versions."""
    return HEAD + "".join(f"{name}=={distribution(name).version}\n" for name in closure())


def constraints() -> dict[str, str]:
    """Return the versions in constraints.txt."""
    rows = (line.partition("==") for line in CONSTRAINTS.read_text().splitlines() if not line.startswith("#"))
    return {name: version for name, _, version in rows}


def licence(name: str) -> str:
    """Return the licence of a distribution: its expression, or its field or classifier shortened."""
    known = distribution(name).metadata
    classes = [text.rpartition(" :: ")[2] for text in known.get_all("Classifier") or () if text.startswith("License")]
    said = known.get("License-Expression") or (known.get("License") or "").strip().partition("\n")[0]
    said = said or " or ".join(classes)
    return SHORT.get(said, said)


def lowest() -> Iterator[str]:
    """Return the lowest versions as constraints, also for parts that are released with the same version."""
    for requirement in (r for requirements in direct().values() for r in requirements):
        bound = next(part.version for part in requirement.specifier if part.operator == ">=")
        yield f"{requirement.name}=={bound}"
        yield from (f"{requirement.name}-{extra}=={bound}" for extra in requirement.extras)


def differences(python: str, versions: Sequence[str]) -> list[str]:
    """Return the commands with other answers in a new environment with these versions."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        own, limits = Path(folder) / "bin/python", Path(folder) / "limits.txt"
        limits.write_text("\n".join(versions))
        pip = [own, "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, "-c", limits, "--editable", f"{ROOT}[{','.join(EXTRAS)}]"], check=True)
        return compare(str(own))


def compare(python: str) -> list[str]:
    """Return the commands that another Python answers differently."""
    return [" ".join(map(str, c)) for c in COMMANDS if _answer(python, c) != _answer(sys.executable, c)]


def _answer(python: str, command: Sequence[str | Path]) -> tuple[int, bytes]:
    done = subprocess.run([python, "-m", "thpdiag", *command], capture_output=True, check=False, cwd=ROOT)
    return done.returncode, b"" if "--help" in command else done.stdout  # libraries lay out the help


def main(pythons: Sequence[str]) -> int:
    failed = not pythons
    for number, python in enumerate(pythons):
        versions = [f"{name}=={version}" for name, version in constraints().items()] if number else list(lowest())
        found = differences(python, versions)
        print(
            f"{python}, {'constraints.txt' if number else 'lowest versions'}: {len(found)} answers differ",
            *found,
            sep="\n",
        )
        failed = failed or bool(found)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
