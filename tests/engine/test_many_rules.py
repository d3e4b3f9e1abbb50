"""Ten thousand rules load and lint in time linear in their number: counted in calls, not in seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from faulty_rules import GOOD, GOOD_CASES, cases
from thpdiag.engine import load
from thpdiag.engine.lint import lint_rules
from thpdiag.knowledge.yaml_nodes import load_own

FEW = 50


def written(folder: Path, count: int) -> Path:
    """Rules that differ in id and title only, each of which waits for the one before it."""
    folder.mkdir()
    for number in range(count):
        text = GOOD.replace("THP-999", f"MANY-{number:05}").replace("compact memory\n", f"compact memory {number}\n")
        if number:
            text = text.replace("means: Programs", f"excluded_by: [MANY-{number - 1:05}]\nmeans: Programs")
        (folder / f"compaction-{number:05}.yaml").write_text(text)
    return folder


def calls(step: Callable[[], object]) -> int:
    """How many functions are called meanwhile, ours and those of C."""
    count = 0

    def seen(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        step()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("what", ["load", "lint", "lint of cases"])
def test_the_work_grows_as_the_number_of_rules(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule of four times as many costs as much as before; a call per pair of rules would add 3 % or more."""
    monkeypatch.setattr(load, "load_with_places", load_own)  # libyaml's, so that the rest of the work is what counts
    folders = [written(tmp_path / str(count), count) for count in (FEW, 4 * FEW)]
    sets = [load.load_rules([folder]) for folder in folders]
    beside = [{rule.id: cases(GOOD_CASES) for rule in rules} if what == "lint of cases" else None for rules in sets]
    for rules, cases_of_rules in zip(sets, beside, strict=True):
        lint_rules(rules, cases_of_rules)  # so that what is read once has been read

    def work(at: int) -> object:
        load.load_rule.cache_clear()
        load.assemble_rules.cache_clear()
        return load.load_rules([folders[at]]) if what == "load" else lint_rules(sets[at], beside[at])

    each = [calls(lambda at=at: work(at)) / len(sets[at]) for at in range(2)]  # type: ignore[misc]

    assert each[0] > 1000
    assert each[1] < 1.01 * each[0]


def test_a_thousand_rules_in_a_row_are_put_in_order(tmp_path: Path) -> None:
    """Each after the one it waits for, however they are called."""
    ids = [rule.id for rule in load.load_rules([written(tmp_path / "rules", 20 * FEW)])]

    assert ids == [f"MANY-{number:05}" for number in range(20 * FEW)]


def test_the_counting_sees_work_per_pair() -> None:
    """The test above would pass on a counter that is blind."""
    counts = [calls(lambda n=n: [len(str(a)) for a in range(n) for _ in range(n)]) for n in (10, 20, 40)]  # type: ignore[misc]

    assert counts[2] - counts[1] > 3 * (counts[1] - counts[0])
