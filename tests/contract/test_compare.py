"""What `compare` says of the pairs of fixtures: its JSON, the figures of its text and page, its gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.fixture_inputs import FIXTURES
from contract.recorded_answers import compare
from contract.report_parts import describe_report, passages, visible_text, without_versions
from contract.run_command import run_command
from contract.separate_words import separate

PAIRS = sorted(path.parent.name for path in (FIXTURES / "comparisons").glob("*/expected.yaml"))
LEVELS = ("critical", "high", "medium", "low", "info", "never")


@pytest.fixture
def comparison(pair: str, once: Any, tmp_path: Path) -> dict[str, Any]:
    """A comparison in all formats, and the exit codes of its gate by severity."""

    def ask() -> dict[str, Any]:
        sides = yaml.safe_load((FIXTURES / "comparisons" / pair / "expected.yaml").read_text())
        page = tmp_path / "page.html"
        done = run_command("compare", sides["before"], sides["after"], "-f", "json", "-o", f"html={page}")
        saved = tmp_path / "saved.json"
        saved.write_text(done.out)
        gates = {level: run_command("render", saved, "--fail-on", level).code for level in LEVELS}
        text = run_command("render", saved).out
        return {"exit": done.code, "json": done.document, "gates": gates, "text": text, "html": page.read_text()}

    made: dict[str, Any] = once(f"compare {pair}", ask)
    return made


@pytest.mark.parametrize("pair", PAIRS)
def test_comparisons_are_as_recorded(pair: str, comparison: dict[str, Any]) -> None:
    """Answer, findings, figures and settings of both sides; exit codes."""
    values, words = separate(comparison["json"])
    compare("compare", f"{pair} json", {"exit": comparison["exit"], "gates": comparison["gates"], **values})
    compare("compare", f"{pair} json", words, words=True)


@pytest.mark.parametrize("form", ["text", "html"])
@pytest.mark.parametrize("pair", PAIRS)
def test_comparisons_for_people_are_as_recorded(pair: str, form: str, comparison: dict[str, Any]) -> None:
    """The figures, places and commands of text and page; then the passages."""
    text = without_versions(comparison[form])
    text = visible_text(text) if form == "html" else text
    compare("compare", f"{pair} {form}", describe_report(text, comparison["json"]))
    compare("compare", f"{pair} {form}", passages(text), words=True)
