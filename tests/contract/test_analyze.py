"""What `analyze` and `inputs` say of every fixture, as JSON: values and sentences each as they were recorded."""

from __future__ import annotations

from typing import Any

import pytest

from contract.fixture_inputs import first_of_each_reader, fixture_inputs
from contract.recorded_answers import compare
from contract.run_command import run_command
from contract.separate_words import separate

INPUTS = fixture_inputs()
LISTED = sorted(first_of_each_reader() | {name for name in INPUTS if not name.startswith(("readers/", "captures/"))})


def answer(command: str, name: str) -> dict[str, Any]:
    done = run_command(command, INPUTS[name], "-f", "json")
    values, words = separate(done.document)
    return {"values": {"exit": done.code, "stderr": bool(done.err), **values}, "words": words}


@pytest.mark.parametrize("name", INPUTS)
def test_values_of_analyze_are_as_recorded(name: str, once: Any) -> None:
    """Verdict, findings, evidence, figures, citations, commands, settings, measures, inputs; and the exit code."""
    compare(f"analyze.{name.split('/')[0]}", name, once(f"analyze {name}", lambda: answer("analyze", name))["values"])


@pytest.mark.parametrize("name", INPUTS)
def test_words_of_analyze_are_as_recorded(name: str, once: Any) -> None:
    """Every sentence of the result; recorded anew with BLESS=words after a change of wording."""
    said = once(f"analyze {name}", lambda: answer("analyze", name))["words"]
    compare(f"analyze.{name.split('/')[0]}", name, said, words=True)


@pytest.mark.parametrize("name", LISTED)
def test_inputs_are_as_recorded(name: str) -> None:
    """Which reader read which member, how many records, which rules they serve."""
    said = answer("inputs", name)
    compare("inputs", name, said["values"])
    compare("inputs", name, said["words"], words=True)


def test_every_fixture_with_a_recording_is_still_there() -> None:
    """A fixture that is moved or lost takes its promise along."""
    assert len(INPUTS) > 430
