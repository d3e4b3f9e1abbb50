"""The table of `make accuracy`, small: no answer with less input is another cause, none breaks the law of DESIGN 4."""

from __future__ import annotations

import os
from collections import Counter

import pytest

import accuracy
from accuracy import (
    NOTHING,
    PLAIN,
    RIGHT,
    UNKNOWN,
    UNMEASURED,
    WEAKER,
    Answer,
    Given,
    answers,
    column,
    given,
    summary,
    table,
)
from analyze_bytes import STRICT
from conftest import ROOT
from expected_diagnosis import NONE, Expected, every
from reduced_inputs import cuts
from thpdiag.host.reading import ParsedInput, read_input

PROOF = os.environ.get("THPDIAG_PROOF") == "1"
DROPS = 40 if PROOF else 1
SEED = 7
EXPECTED = every()


@pytest.mark.parametrize("expected", EXPECTED if PROOF else EXPECTED[1::4], ids=lambda one: one.name)
def test_with_less_input_no_other_cause_is_found(expected: Expected) -> None:
    """Less of every fourth fixture (much less of each with THPDIAG_PROOF=1): right, weaker or unknown, and no surer.

    A hypothesis leads only where nothing is likely.
    """
    full, *smaller = answers(expected, DROPS, SEED, alone=DROPS > 1)
    assert [(a.gone, a.given.passed_over) for a in (full, *smaller) if a.given.passed_over] == []
    assert [(a.gone, a.breaches) for a in smaller if a.breaches] == []
    if full.column == RIGHT:
        assert [(a.gone, a.column) for a in smaller if a.column not in PLAIN] == []


def test_every_fixture_has_an_expectation() -> None:
    """All bundles count, and more than the healthy ones have a mechanism."""
    kinds = Counter(one.name.split("/")[0] for one in EXPECTED)
    folders = {kind: {p.name for p in (ROOT / "fixtures" / kind).glob("*") if p.is_dir()} for kind in kinds}
    assert set(kinds) == {"acceptance", "captures", "healthy"}  # a row refers to each story
    assert kinds["acceptance"] == len(folders["acceptance"])
    assert len([one for one in EXPECTED if one.mechanisms != (NONE,)]) >= 30


def made(mechanism: str, found: str, level: int, status: str = "found") -> Answer:
    """An answer about a fixture of one mechanism."""
    expected = Expected("made/one", ROOT, (mechanism,), 1, disagrees=False)
    told = Given(found, level, status, {})
    return Answer(expected, "", told, column(expected, told), ())


def test_what_counts_as_right() -> None:
    """Another mechanism is wrong from likely on; what is less sure, more general or unknown is weaker."""
    storm = "compaction-tlb-shootdown"
    columns = [
        made(storm, storm, 1), made(storm, storm, 0), made(storm, "fault-compaction", 1), made(storm, "io-wait", 0),
        made(storm, "io-wait", 1), made(storm, NONE, -1, "cannot_tell"), made(storm, NONE, -1, "nothing_found"),
        made(NONE, NONE, -1, "cannot_tell"), made(NONE, "io-wait", 1),
    ]  # fmt: skip
    assert [answer.column for answer in columns] == [
        RIGHT, WEAKER, WEAKER, WEAKER, "io-wait", UNKNOWN, NOTHING, RIGHT, "io-wait",
    ]  # fmt: skip
    text = list(table(columns))
    assert max(map(len, text)) <= 80
    assert text[-1] == "  a = io-wait"
    assert summary(columns) == (
        "9 inputs: 2 right, 4 weaker or unknown, 1 nothing found, 0 without anything measured, 2 wrong, 0 breaches"
    )


def test_what_nobody_can_tell_has_a_column_of_its_own() -> None:
    """Settings and one reading of each counter show nothing that happened; two readings do, whatever they show."""
    data = read_input([ROOT / "fixtures" / "captures" / "storm-always" / "bundle"], STRICT)
    expected = next(one for one in EXPECTED if one.name == "captures/storm-always")
    alone = {m: ParsedInput({m: rows}, data.inputs, data.problems) for m, rows in data.readings.items()}
    settings = [given for member, given in alone.items() if "transparent_hugepage" in member]
    assert settings
    assert {Answer.judge(expected, "", given).column for given in settings} == {UNMEASURED}
    assert Answer.judge(expected, "", alone["mpstat.txt"]).column == UNKNOWN


def test_the_worth_of_a_level() -> None:
    """Each verdict counts at its level, the general case of a cause as right; nothing said counts nowhere."""
    storm = "compaction-tlb-shootdown"
    told = [
        made(storm, "io-wait", 0), made(storm, storm, 1), made(storm, "fault-compaction", 1), made(NONE, "io-wait", 1),
        made(storm, NONE, -1, "cannot_tell"),
    ]  # fmt: skip
    rows = [line.split() for line in accuracy.reliability(told)]
    assert rows[1:4] == [
        ["possible", "1", ".", "0.0%", "-"], ["likely", "3", "2", "66.7%", "90%"], ["confirmed", ".", ".", "-", "99%"],
    ]  # fmt: skip
    assert rows[4] == ["Brier", "score", "of", "4", "verdicts:", "0.2700"]  # (0.25 + 0.01 + 0.01 + 0.81) / 4


def test_what_is_halfway_to_a_yes_is_no_all_clear() -> None:
    """khugepaged fills memory of a process of unknown size: a rule lacks that, and nobody says that all is well."""
    data = read_input([ROOT / "fixtures" / "captures" / "khugepaged-growth" / "bundle"], STRICT)
    keep = dict(cuts(data.readings))["loops/processes.txt: from 5 on"]
    left = {m: [r for n, r in enumerate(rows) if keep(m, n, r)] for m, rows in data.readings.items()}
    told = given(ParsedInput(left, data.inputs, data.problems))
    assert (told.mechanism, told.status) == (NONE, "cannot_tell")


def test_a_comparison_that_nobody_made_opens_nothing() -> None:
    """Kernel time and faults are high, but every huge page is kept: only a switch of the setting is left to ask for."""
    told = given(read_input([ROOT / "fixtures" / "captures" / "fill-and-end" / "bundle"], STRICT))
    assert (told.mechanism, told.status) == (NONE, "nothing_found")
