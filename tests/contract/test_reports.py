"""Every format of the report of the public stories: values, figures, places and commands, and the words apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contract.fixture_inputs import PUBLIC_STORIES, fixture_inputs
from contract.recorded_answers import compare
from contract.report_parts import describe_report, parse_report, passages, visible_text, without_versions
from contract.run_command import run_command
from contract.separate_words import separate

FOR_PEOPLE = ("html", "markdown", "text")
FOR_MACHINES = ("csv", "github", "gitlab", "json", "junit", "sarif")


@pytest.fixture
def reports(story: str, once: Any, tmp_path: Path) -> dict[str, str]:
    """All formats of a story, made in one run."""

    def ask() -> dict[str, str]:
        outputs = [part for form in (*FOR_PEOPLE, *FOR_MACHINES) for part in ("-o", f"{form}={tmp_path / form}")]
        assert run_command("analyze", fixture_inputs()[f"stories/{story}"], *outputs).code == 0
        return {file.name: file.read_bytes().decode() for file in tmp_path.iterdir()}

    made: dict[str, str] = once(f"reports {story}", ask)
    return made


@pytest.mark.parametrize("form", FOR_MACHINES)
@pytest.mark.parametrize("story", PUBLIC_STORIES)
def test_reports_for_machines_are_as_recorded(story: str, form: str, reports: dict[str, str]) -> None:
    """Keys, levels, places, fingerprints and numbers; then the sentences."""
    values, words = separate(parse_report(form, without_versions(reports[form])))
    compare("reports", f"{story} {form}", values)
    compare("reports", f"{story} {form}", words, words=True)


@pytest.mark.parametrize("form", FOR_PEOPLE)
@pytest.mark.parametrize("story", PUBLIC_STORIES)
def test_reports_for_people_are_as_recorded(story: str, form: str, reports: dict[str, str]) -> None:
    """The figures, the places they stand in, and the commands; then the passages in any order."""
    text = without_versions(reports[form])
    text = visible_text(text) if form == "html" else text
    compare("reports", f"{story} {form}", describe_report(text, json.loads(reports["json"])))
    compare("reports", f"{story} {form}", passages(text), words=True)


@pytest.mark.parametrize("story", PUBLIC_STORIES)
def test_a_result_renders_to_the_same_reports(story: str, reports: dict[str, str], tmp_path: Path) -> None:
    """`render` needs no bundle, also from the page."""
    for form in ("html", "json"):
        (tmp_path / f"saved.{form}").write_text(reports[form])
    for form in (*FOR_PEOPLE, *FOR_MACHINES):
        assert run_command("render", tmp_path / "saved.json", "-f", form).out == reports[form]
    assert run_command("render", tmp_path / "saved.html", "-f", "text").out == reports["text"]
