"""The documents say what the program does: generated parts are up to date, named files, targets and commands exist.

`BLESS=1` rewrites the generated parts.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from conftest import ROOT
from test_architecture import MAY_IMPORT
from thpdiag.cli import COMMANDS
from thpdiag.cli.options import SUFFIXES
from thpdiag.engine.load import Rule, builtin_rules, load_rules
from thpdiag.errors import EXIT_CODES, ThpdiagError
from thpdiag.readers import all_readers, bulk_readers
from thpdiag.reports import FORMATS
from thpdiag.workbench.catalogue import ROLES, catalogue

README = ROOT / "README.md"
CONTRIBUTING = ROOT / ".github" / "CONTRIBUTING.md"
DOCUMENTS = [README, CONTRIBUTING, ROOT / "bench" / "README.md"]
DEMO = "fixtures/stories/hadoop-centos62/bundle"
RECIPE_LINES = 10


def rules() -> tuple[Rule, ...]:
    return tuple(sorted(load_rules([builtin_rules()]), key=lambda rule: rule.id))


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def diagnosis() -> str:
    """The report that `make demo` prints."""
    command = [sys.executable, "-m", "thpdiag", "analyze", DEMO]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return f"    $ thpdiag analyze {DEMO}\n\n" + re.sub(r"^(?=.)", "    ", printed, flags=re.MULTILINE).rstrip()


def commands() -> str:
    return table(("command", "what it does"), [(f"`thpdiag {name}`", text) for name, text in COMMANDS.items()])


def formats() -> str:
    """Name, linked to its file, and title; of a format read as bytes and as lines those of the reader of lines."""
    readers = {reader.name: reader for reader in (*bulk_readers(), *all_readers())}
    rows = [(f"[`{name}`]({home(readers[name].read)})", readers[name].title) for name in sorted(readers)]
    return table(("reader", "format"), rows)


def outputs() -> str:
    """Name, linked to its file, suffix and purpose of each format of a report, from its module's first line."""
    suffixes = {name: suffix for suffix, name in SUFFIXES.items()} | {n: n for n in ("html", "json", "csv", "sarif")}
    rows = []
    for name, render in sorted(FORMATS.items()):
        module = sys.modules[render.__module__]
        file = Path(module.__file__ or "").relative_to(ROOT)
        told = str(module.__doc__).partition("\n")[0].rstrip(".")
        rows.append((f"[`{name}`]({file})", f"`.{suffixes[name]}`" if name in suffixes else "", told))
    return table(("format", "suffix", "what it is"), rows)


def home(function: Callable[..., object]) -> str:
    """The file a function stands in."""
    return f"{function.__module__.replace('.', '/')}.py"


def exit_codes() -> str:
    return table(("code", "means"), [(str(code), text) for code, text in EXIT_CODES.items()])


def dependencies() -> str:
    """Name and reason of each dependency, from the comments in pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text().partition("[dependency-groups]")[0]
    told = [line.partition("  #") for line in text.splitlines()]
    found = [
        (name, why.strip()) for line, _, why in told if why for name in re.findall(r'"([\w-]+)(?:\[[\w,]+\])?>=', line)
    ]
    return table(("package", "why"), [(f"`{name}`", reason) for name, reason in found])


def rule_list() -> str:
    """rules/README.md, whole."""
    parts = [
        "# What thpdiag can diagnose",
        "",
        "Written by `BLESS=1 pytest tests/test_docs.py` from the files beside it.",
    ]
    for role, heading in ROLES.items():
        rows = [
            (rule.id, rule.file.severity, f"[{rule.file.title}]({rule.source.path})", f"`{rule.file.mechanism}`")
            for rule in rules()
            if rule.file.role == role
        ]
        parts += ["", f"## {heading}", "", table(("id", "severity", "finding", "mechanism"), rows)]
    rows = [(what, f"{said} ([{file}](../thpdiag/{file}))" if file else said) for what, said, file in ELSEWHERE]
    parts += ["", "## What is no rule", "", table(("subject", "what says it"), rows)]
    return "\n".join(parts) + "\n"


ELSEWHERE = [  # subject, what is said of it, the file that says it
    ("the family of the kernel, its platform", "the facts `kernel.era` and `platform`", "derive/platform.py"),
    (
        "which settings are assumed",
        "the provenance of a fact; alone it is never more than possible",
        "derive/settings.py",
    ),
    ("one look at the counters, or several", "a total since boot is never more than possible", "engine/sureness.py"),
    ("the size of a huge page", "the fact `memory.huge_page_bytes`", "derive/huge_page_size.py"),
    ("that nothing is wrong", "the verdict `nothing_found`: each core mechanism was measured", "diagnosis.py"),
    ("a lock convoy in call chains", "THP-001, which looks at flat profiles and at call chains", ""),
    (
        "a synthetic memory load",
        "nothing: it fills the kernel time of every host, two settings have to be compared",
        "",
    ),
    (
        "huge pages of files",
        "nothing: FileHugePages also counts large folios, made by file systems; no harm and no cure is known",
        "",
    ),
]


def workflow(name: str) -> str:
    """An example for CI as it stands in docs/ci."""
    return f"```yaml\n{(ROOT / 'docs' / 'ci' / name).read_text().rstrip()}\n```"


BLOCKS: dict[str, Callable[[], str]] = {
    "diagnosis": diagnosis,
    "commands": commands,
    "formats": formats,
    "outputs": outputs,
    "ci-github": partial(workflow, "github.yml"),
    "ci-gitlab": partial(workflow, "gitlab.yml"),
    "exit-codes": exit_codes,
    "dependencies": dependencies,
}


def agree(file: Path, actual: str, wanted: str, whole: str) -> None:
    """`actual` is `wanted`; with BLESS=1 the file becomes `whole`."""
    if os.environ.get("BLESS") == "1":
        file.write_text(whole)
        return
    assert actual == wanted, f"{file.name} is out of date; BLESS=1 pytest tests/test_docs.py rewrites it"


@pytest.mark.parametrize("name", BLOCKS)
def test_a_generated_part_of_the_readme_is_up_to_date(name: str) -> None:
    """Between the markers stands what the program says today."""
    text = README.read_text()
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    before, _, rest = text.partition(begin)
    actual, found, after = rest.partition(end)
    wanted = f"\n{BLOCKS[name]()}\n\n"

    assert found, f"README.md has no part {name}"
    agree(README, actual, wanted, f"{before}{begin}{wanted}{end}{after}")


def test_the_rule_list_is_up_to_date() -> None:
    """rules/README.md names every rule."""
    file, wanted = ROOT / "rules" / "README.md", rule_list()

    agree(file, file.read_text() if file.exists() else "", wanted, wanted)


def test_the_catalogue_is_up_to_date() -> None:
    """docs/rules.md is what `thpdiag rules docs` writes of the shipped rules."""
    file, wanted = ROOT / "docs" / "rules.md", catalogue(rules())

    agree(file, file.read_text() if file.exists() else "", wanted, wanted)


def test_every_role_has_a_heading() -> None:
    """No rule is left out of the list for its role."""
    assert {rule.file.role for rule in rules()} <= set(ROLES)


def test_every_rule_is_in_the_changelog() -> None:
    """Who reads the changelog learns of each rule; `A to B` stands for what is between."""
    named = set()
    for kind, first, last in re.findall(
        r"\b(THP|ALT)-(\d+)(?: to (?:THP|ALT)-(\d+))?", (ROOT / "CHANGELOG.md").read_text()
    ):
        named |= {(kind, number) for number in range(int(first), int(last or first) + 1)}

    own = {
        (rule.id.partition("-")[0], int(rule.id.partition("-")[2])) for rule in rules() if rule.file.role != "context"
    }

    assert own - named == set()


def test_every_dependency_has_its_reason() -> None:
    """A package without a reason beside it is one too many."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    every = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]

    assert [re.split(r"[\[>=<]", d)[0] for d in every] == re.findall(r"^\| `([\w-]+)`", dependencies(), re.MULTILINE)


def test_every_mistake_of_a_user_has_an_exit_code_that_is_told() -> None:
    """The exit codes of the error classes stand in the table."""
    assert {kind.exit_code for kind in (ThpdiagError, *ThpdiagError.__subclasses__())} <= set(EXIT_CODES)


def test_the_map_names_every_room() -> None:
    """A file or folder of the package that is not on the map cannot be found by a newcomer."""
    text = README.read_text().partition("## The map of the house")[2].partition("## ")[0]
    rooms = {room for room in MAY_IMPORT if room.isidentifier() and room not in ("version", "__main__")}

    assert {room for room in rooms if not re.search(rf"\b{room}(?:/|\.py)", text)} == set()
    assert {name for name in re.findall(r"^    (\w+)/", text, re.MULTILINE) if not (ROOT / name).is_dir()} == set()


@pytest.mark.parametrize(
    "file", [README, CONTRIBUTING, ROOT / "bench" / "README.md"], ids=lambda f: f"{f.parent.name}/{f.name}"
)
def test_a_document_names_only_what_exists(file: Path) -> None:
    """Links, make targets and commands in it are there."""
    text = file.read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", text) if not link.startswith("http")]
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert [link for link in links if not (file.parent / link).exists() and not (ROOT / link).exists()] == []
    assert set(re.findall(r"\bmake (demo|\w+)(?=`|    |  +#|$)", text, re.MULTILINE)) <= targets
    assert set(re.findall(r"(?:`|bin/|\$ )thpdiag ([a-z-]+)", text)) <= set(COMMANDS)


def test_the_recipes_are_short() -> None:
    """A recipe of more than ten lines is no recipe."""
    text = README.read_text().partition("## Recipes")[2].partition("\n## ")[0]
    recipes = re.split(r"^\*\*.*\*\*$", text, flags=re.MULTILINE)[1:]

    assert len(recipes) == 2
    assert [
        len(recipe.strip().splitlines()) for recipe in recipes if len(recipe.strip().splitlines()) > RECIPE_LINES
    ] == []
