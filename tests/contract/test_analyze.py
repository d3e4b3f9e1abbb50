"""What `analyze` and `inputs` say of every fixture, as JSON: values and sentences each as they were recorded."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from charts_of_findings import charts_show_what_findings_name
from contract.fixture_inputs import first_of_each_reader, fixture_inputs
from contract.recorded_answers import compare, recorded_words
from contract.run_command import run_command
from contract.separate_words import separate

INPUTS = fixture_inputs()
LISTED = sorted(first_of_each_reader() | {name for name in INPUTS if not name.startswith(("readers/", "captures/"))})


def answer(command: str, name: str) -> dict[str, Any]:
    done = run_command(command, INPUTS[name], "-f", "json")
    if command == "analyze":
        charts_show_what_findings_name(done.document)
    values, words = separate(done.document)
    return {"values": {"exit": done.code, "stderr": bool(done.err), **values}, "words": words}


@pytest.mark.parametrize("name", INPUTS)
def test_analyze_is_as_recorded(name: str) -> None:
    """Verdict, findings, evidence, figures, citations, commands, settings, measures, inputs, the exit code; and every
    sentence, recorded anew with BLESS=words after a change of wording. Charts of a finding show what it names."""
    given, group = answer("analyze", name), f"analyze.{name.split('/')[0]}"
    compare(group, name, given["values"])
    compare(group, name, given["words"], words=True)


@pytest.mark.parametrize("name", LISTED)
def test_inputs_are_as_recorded(name: str) -> None:
    """Which reader read which member, how many records, which rules they serve."""
    said = answer("inputs", name)
    compare("inputs", name, said["values"])
    compare("inputs", name, said["words"], words=True)


OURS = re.compile(
    r"\b(?:node_\w+|process_\w+_(?:bytes|total)|cpu_ratio\.\w+|memory\.(?!txt\b)\w+|\w+:rate)\b|labels? \w+\)"
)
MARK = re.compile("[\ufdd0-\ufdd2]")  # thpdiag/model/text.py
SAID = re.compile(
    r"(?:^|\.)(?:verdict\.sentence|findings\.\d+\.(?:evidence|against)\.\d+\.text"
    r"|findings\.\d+\.raise_confidence\.\d+|ruled_out\.\d+\.because)$"
)


def test_no_mark_of_a_name_is_left_in_a_sentence() -> None:
    """A mark is left where the text with names was not made a sentence; its names would not be redacted."""
    texts = [(name, place, text) for name, words in recorded_words() for place, text in words.items()]
    assert [one for one in texts if MARK.search(one[2])] == []


def test_no_sentence_speaks_in_names_of_ours() -> None:
    """Verdicts, evidence and what was ruled out are told in the words of the vocabulary or of the kernel's files."""
    said = [
        (name, place.split(".")[-1], text)
        for name, words in recorded_words()
        for place, text in words.items()
        if SAID.search(place) and not text.startswith("decide ")
    ]
    kinds = Counter(key for _, key, _ in said)
    assert min(kinds[key] for key in ("sentence", "text", "because")) > 200
    assert [one for one in said if OURS.search(one[2]) or re.search(r"\b1 samples|\de[+-]\d", one[2])] == []


def test_every_fixture_with_a_recording_is_still_there() -> None:
    """A fixture that is moved or lost takes its promise along."""
    assert len(INPUTS) > 430
