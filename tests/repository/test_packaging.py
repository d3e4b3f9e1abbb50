"""What is installed is what is here: the rules and all other data are inside the wheel, by whatever way it is built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

import dependencies
from conftest import ROOT
from thpdiag import __version__
from thpdiag.engine.load import builtin_rules, rule_files

RULES = {file.name for file in (ROOT / "rules").glob("*.yaml")}
DATA = {".yaml", ".json", ".html", ".css", ".js", ".sh", ".typed"}


def run(*command: str | Path, cwd: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(folder: Path, *options: str) -> Path:
    """The wheel that `python -m build` makes of the checkout without asking the network."""
    run(sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the checkout."""
    return built(tmp_path_factory.mktemp("wheel"), "--wheel")


@pytest.fixture(scope="module")
def wheel_of_sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the source distribution, as an index or a distribution would; the sdist lies beside it."""
    return built(tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty environment with the wheel in it; what thpdiag stands on is borrowed from the one that runs this."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    python = folder / "bin" / "python"
    install = ("install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", wheel)
    run(sys.executable, "-m", "pip", "--python", python, *install, cwd=folder)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def test_the_wheel_carries_every_rule_and_its_cases(wheel: Path) -> None:
    """Not one YAML file of rules/ is left behind."""
    assert {n.rpartition("/")[2] for n in names(wheel) if n.startswith("thpdiag/_rules/")} >= RULES


def test_the_wheel_carries_all_data_of_the_package(wheel: Path) -> None:
    """Knowledge, templates, scripts and the schema are inside."""
    files = (ROOT / "thpdiag").rglob("*")
    data = {str(f.relative_to(ROOT)) for f in files if f.suffix in DATA}

    assert data <= names(wheel)
    assert {Path(d).suffix for d in data} >= {".yaml", ".json", ".html", ".css", ".sh"}


def test_the_wheel_carries_nothing_else(wheel: Path) -> None:
    """No fixtures, no tests, no caches."""
    own = f"thpdiag-{__version__}"
    assert {n.split("/")[0] for n in names(wheel)} == {"thpdiag", f"{own}.dist-info", f"{own}.data"}
    assert [n for n in names(wheel) if n.startswith(f"{own}.data/")] == [f"{own}.data/data/share/man/man1/thpdiag.1"]
    assert [n for n in names(wheel) if "__pycache__" in n] == []


def test_a_wheel_from_the_source_distribution_is_the_same(wheel: Path, wheel_of_sdist: Path) -> None:
    """The sdist loses nothing that the wheel needs."""
    assert names(wheel_of_sdist) == names(wheel)


def test_the_source_distribution_carries_its_papers(wheel_of_sdist: Path) -> None:
    """Licence, readme and changelog travel with the source."""
    (sdist,) = wheel_of_sdist.parent.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        top = {n.split("/", 1)[1] for n in archive.getnames() if n.count("/") == 1}

    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= top


def test_an_installed_thpdiag_has_the_rules(installed: Path, tmp_path: Path) -> None:
    """Away from the checkout, `rules list` names as many rules as there are files."""
    where = run(installed / "bin" / "python", "-c", "import thpdiag; print(thpdiag.__file__)", cwd=tmp_path).strip()
    listed = run(installed / "bin" / "thpdiag", "rules", "list", cwd=tmp_path).splitlines()

    assert Path(where).is_relative_to(installed)
    assert len(listed) == len([name for name in RULES if not name.endswith(".cases.yaml")])


def test_an_installed_thpdiag_analyses(installed: Path, tmp_path: Path) -> None:
    """Away from the checkout, every format is written."""
    bundle = ROOT / "fixtures" / "stories" / "hadoop-centos62" / "bundle"
    run(installed / "bin" / "thpdiag", "analyze", bundle, "-o", "page.html", "-o", "page.json", cwd=tmp_path)

    assert {f.name for f in tmp_path.iterdir()} == {"page.html", "page.json"}


def test_an_installed_thpdiag_has_its_manual(installed: Path) -> None:
    """Where `man` looks beside the folder of programs."""
    assert (installed / "share/man/man1/thpdiag.1").read_text() == (ROOT / "docs/man/thpdiag.1").read_text()


def test_the_checkout_has_the_same_rules() -> None:
    """An editable installation reads rules/ itself."""
    assert {f.name for f in rule_files(builtin_rules())} == {n for n in RULES if not n.endswith(".cases.yaml")}


def test_what_is_installed_is_what_is_asked_for() -> None:
    """The versions here and those of constraints.txt lie within the bounds. If they are the same, so is the whole list.

    Where newer ones are installed, as in CI, the list stays that of its last run. BLESS=1 writes it.
    """
    if os.environ.get("BLESS") == "1":
        dependencies.CONSTRAINTS.write_text(dependencies.constraints_text())
    listed = dependencies.constraints()
    same = True
    for requirement in (r for requirements in dependencies.direct().values() for r in requirements):
        here, there = version(requirement.name), listed[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(here), f"{requirement} is asked for, {here} is installed"
        assert requirement.specifier.contains(there), f"{requirement} is asked for, constraints.txt has {there}"
        same = same and here == there
    if same and sys.version_info[:2] == (3, 11):
        assert dependencies.constraints_text() == dependencies.CONSTRAINTS.read_text()


def test_every_dependency_declares_a_licence_that_lets_us_pass_it_on() -> None:
    """Permissive, or the LGPL of a library that is only used; anything else is a decision to be made."""
    free = re.compile(r"\b(?:Apache|MIT|BSD|0BSD|PSF|MPL|ISC|LGPL|Zlib|CC0)\b")
    assert {
        name: known for name in dependencies.closure() if not free.search(known := dependencies.licence(name))
    } == {}


def test_the_version_is_the_same_everywhere() -> None:
    """pyproject.toml, the package and the changelog name one version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["version"] == __version__
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()


# Loads each program of a Makefile as it is, apart from its last step, with the folder that Python would look in.
LOAD_PROGRAMS = """
import runpy, sys
for program in sys.argv[1:]:
    names, sys.path[0] = set(sys.modules), program.rpartition("/")[0]
    runpy.run_path(program, run_name="loaded")
    for name in set(sys.modules) - names:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(sys.path[0]):
            del sys.modules[name]
"""


def test_the_programs_of_the_makefile_load() -> None:
    """`make accuracy` and `make bench` run for long, and so rarely; what they import is there."""
    programs = re.findall(r"\$\(BIN\)/python ((?:bench|tests)/\S+\.py)", (ROOT / "Makefile").read_text())
    assert len(programs) > 10
    paths = [str(ROOT / program) for program in programs]
    done = subprocess.run([sys.executable, "-c", LOAD_PROGRAMS, *paths], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
