"""The house as it is built: who may import whom, how long files and functions are, what is imported when."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from conftest import ROOT

PACKAGE = ROOT / "thpdiag"
LONGEST_FILE = 900
LONGEST_BODY = 50

# A room is a file or folder of thpdiag/; what stands right of it is all that it may import.
MAY_IMPORT = {
    "__main__": "cli",
    "authoring": "diagnosis engine errors host knowledge model",
    "bundle": "knowledge model",
    "cli": (
        "authoring compare diagnosis engine errors export fleet host isolated knowledge mcp model parsers "
        "pipeline redact report sandbox serve store version"
    ),
    "compare": "model report",
    "detect": "bundle knowledge model",
    "diagnosis": "engine errors host knowledge model version",
    "engine": "errors host knowledge model version",
    "errors": "",
    "export": "diagnosis engine errors host knowledge model report version",
    "fleet": "bundle diagnosis engine errors host isolated knowledge model redact report sandbox store version",
    "host": "bundle detect errors knowledge model parsers perf",
    "isolated": "engine errors host model parsers pipeline sandbox",
    "knowledge": "errors",
    "mcp": ("compare diagnosis engine errors export fleet host isolated knowledge model report sandbox version"),
    "model": "",
    "parsers": "bundle detect knowledge model perf sandbox",
    "perf": "model",
    "pipeline": "bundle diagnosis engine host model",
    "redact": "errors model",
    "report": "errors knowledge model",
    "sandbox": "errors",
    "serve": (
        "authoring bundle compare diagnosis engine errors export fleet host isolated knowledge model pipeline redact "
        "report sandbox store version"
    ),
    "store": "errors model report",
    "version": "",
}
BROAD_EXCEPTS = {
    "thpdiag/detect/blocks.py": "around a reader: its mistake becomes a Problem",
    "thpdiag/engine/evaluate.py": "around a rule: its mistake becomes a Problem",
    "thpdiag/fleet/batch.py": "around the thread that lists: its mistake is raised where the list is taken",
    "thpdiag/sandbox/preload.py": "around a worker: its mistake goes to whoever asked, as the answer",
    "thpdiag/cli/__init__.py": "around the program: exit 70, which says that the mistake is ours",
}
SAVED = tuple(f"fixtures/comparisons/storm-thp-never/{side}.json" for side in ("before", "after"))
HEAVY = ("pandas", "numpy")
POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{\d*,?\d*\})\+")


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def files(*folders: str) -> list[Path]:
    return sorted(f for folder in folders for f in (ROOT / folder).rglob("*.py"))


def name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name(file): file for file in files("thpdiag")}


@cache
def imports(file: Path) -> tuple[tuple[int, str], ...]:
    """Line and module of every import of ours, those inside functions too."""
    return tuple(_imports(file))


def _imports(file: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, a.name) for a in node.names if a.name.split(".")[0] == "thpdiag")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "thpdiag":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield node.lineno, inner if inner in MODULES else str(node.module)


def room(module: str) -> str:
    inner = module.removeprefix("thpdiag").removeprefix(".")
    if not inner:
        return "version"
    return inner.split(".")[0]


@cache
def functions(file: Path) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
    return tuple(n for n in ast.walk(tree(file)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def body_length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function below its signature and its docstring."""
    statements = function.body[1:] if ast.get_docstring(function) else function.body
    return (function.end_lineno or 0) - statements[0].lineno + 1 if statements else 0


def is_broad(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or getattr(kind, "id", "") in ("Exception", "BaseException") for kind in kinds)


def test_every_room_is_known() -> None:
    """A new file or folder says in MAY_IMPORT what it stands on, and no line there is left over."""
    assert {room(module) for module in MODULES} == set(MAY_IMPORT)


def test_rooms_import_one_way() -> None:
    """A module imports nothing that its room may not."""
    wrong = []
    for module, file in MODULES.items():
        own = room(module)
        for line, target in imports(file):
            if (other := room(target)) != own and other not in MAY_IMPORT[own].split():
                wrong.append(f"{file.relative_to(ROOT)}:{line}: {own} imports {target}")
    assert wrong == []


def test_the_allowed_edges_make_no_circle() -> None:
    """The table above is an order."""
    assert list(TopologicalSorter({r: set(edges.split()) for r, edges in MAY_IMPORT.items()}).static_order())


def test_no_module_imports_itself_in_a_circle() -> None:
    """Zero import cycles, imports inside functions counted."""
    graph = {module: {t for _, t in imports(file) if t != module} for module, file in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_file_is_long() -> None:
    """A file over 900 lines has two subjects."""
    lengths = {str(f.relative_to(ROOT)): len(f.read_text().splitlines()) for f in files("thpdiag", "bench", "tests")}
    assert {f: n for f, n in lengths.items() if n > LONGEST_FILE} == {}


def test_no_function_is_long() -> None:
    """A body over 50 lines does two things."""
    long = [
        f"{file.relative_to(ROOT)}:{function.lineno} {function.name}: {body_length(function)}"
        for file in files("thpdiag", "bench", "tests")
        for function in functions(file)
        if body_length(function) > LONGEST_BODY
    ]
    assert long == []


def test_every_module_says_what_it_is() -> None:
    """Each file begins with a docstring."""
    mute = [f for f in files("thpdiag", "bench", "tests") if not ast.get_docstring(tree(f))]
    assert [str(f.relative_to(ROOT)) for f in mute] == []


def test_every_test_says_what_it_expects() -> None:
    """Each test has a sentence."""
    mute = [
        f"{file.name}:{function.lineno} {function.name}"
        for file in files("tests")
        for function in functions(file)
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ]
    assert mute == []


def test_only_the_command_line_writes_to_the_terminal() -> None:
    """No `print` in the package; commands write with click."""
    prints = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in files("thpdiag")
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    ]
    assert prints == []


def test_mistakes_are_caught_broadly_at_four_places_only() -> None:
    """A broad except hides a bug, but for those that turn one into a Problem, an answer or exit 70."""
    found = {
        str(file.relative_to(ROOT))
        for file in files("thpdiag")
        for node in ast.walk(tree(file))
        if isinstance(node, ast.ExceptHandler) and is_broad(node)
    }
    assert found == set(BROAD_EXCEPTS)


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Python 3.11.2, that of Debian 12, loses its place when the last round of `(...)*+` fails half-way.

    An atomic group `(?>(...)*)` means the same and works there too.
    """
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in files("thpdiag")
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and POSSESSIVE_GROUP.search(node.value)
    ]
    assert found == []


def loaded_after(code: str) -> set[str]:
    """The modules of HEAVY that a fresh interpreter has loaded once it has run the code."""
    probe = f"import sys\n{code}\nprint('LOADED', *[m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.rpartition("LOADED")[2].split())


def command(*arguments: str) -> str:
    return f"from thpdiag.cli import main\ntry:\n    main({list(arguments)})\nexcept SystemExit:\n    pass"


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import thpdiag.cli", id="import"),
        pytest.param(command("--help"), id="help"),
        pytest.param(command("analyze", "--help"), id="analyze-help"),
        pytest.param(command("rules", "list"), id="rules-list"),
        pytest.param(command("rules", "lint"), id="rules-lint"),
        pytest.param(command("compare", *SAVED), id="compare"),
        pytest.param(command("analyze", "fixtures/stories/tuned-overrides-boot-line/bundle"), id="no-series"),
    ],
)
def test_pandas_is_loaded_only_for_series(code: str) -> None:
    """It costs six times what click does; help, rules and a bundle without series do not pay."""
    assert loaded_after(code) == set()


def test_the_probe_sees_what_is_loaded() -> None:
    """The test above would pass on a probe that is blind."""
    assert loaded_after("import pandas") == set(HEAVY)


def test_help_loads_no_command() -> None:
    """The list of commands is there before any of them is imported."""
    probe = f"{command('--help')}\nimport sys\nprint('LOADED', *[m for m in sys.modules if m.startswith('thpdiag.')])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT)

    assert set(done.stdout.rpartition("LOADED")[2].split()) <= {"thpdiag.cli", "thpdiag.errors"}
