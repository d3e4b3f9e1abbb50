"""Many entities at once give the answers that each gives by itself: verdict, measured value, which one is reported."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import ROOT
from thpdiag.engine import evaluate, screen
from thpdiag.engine.check_result import CheckResult
from thpdiag.engine.checks import judge
from thpdiag.engine.load import rule_set, with_dependencies
from thpdiag.engine.schema import ChangeCheck, Check, ProcessCheck, SeriesCheck
from thpdiag.engine.state_view import StateView, state_views
from thpdiag.host.catalogue import Catalogue
from thpdiag.model import Case, Citation, Clock, Fact, Moment, RuleOutcome, Sample, State, Verdict3
from thpdiag.pipeline import analyze

RSS, SIZE = "process_resident_memory_bytes", "process_virtual_memory_bytes"
FAULTS, FAULT_BYTES = "process_faults_total", "process_fault_bytes_total"
STALLS = "node_vmstat_compact_stall"
MIB = 2.0**20
RULES = rule_set()

SERIES: Sequence[dict[str, Any]] = [
    {"as": "last", "above": "8 MiB"}, {"as": "mean", "above": "2 MiB", "below": "30 MiB"},
    {"as": "delta", "above": "4 MiB"}, {"as": "delta", "below": 0}, {"as": "delta", "above": 1, "min_samples": 4},
    {"as": "spread", "above": "30 %"}, {"as": "knee", "below": "50 %"}, {"as": "knee", "above": 0.9},
    {"as": "slope", "above": 1000}, {"as": "step", "above": "50 %"}, {"above": "8 MiB", "for": "50 % of samples"},
    *({"as": "rate", **bounds, **long} for bounds in ({"above": 0.1}, {"below": 1e5}, {"above": 20, "below": 4e5})
      for long in ({"for": "70 % of samples", "min_samples": 5}, {"for": "30 % of samples"}, {"for": "3 samples"})),
]  # fmt: skip
CHANGES: Sequence[dict[str, Any]] = [
    {"of": RSS, "above": "4 MiB"}, {"of": RSS, "above": "4 MiB", "over": "30 s"},
    {"of": RSS, "per": FAULT_BYTES, "above": 1.5}, {"of": RSS, "per": FAULT_BYTES, "below": 1.1, "at_least": "2 MiB"},
    {"of": RSS, "per": FAULT_BYTES, "below": 1.1, "as": "climb"}, {"of": RSS, "above": "8 MiB", "as": "climb"},
    {"of": RSS, "per": SIZE, "below": 2, "per_at_least": "1 MiB"}, {"of": RSS, "per": STALLS, "above": 1000},
    {"of": RSS, "below": "1 MiB", "within": "10 s"}, {"of": FAULTS, "below": 1},
    {"of": RSS, "per": SIZE, "below": 0.5}, {"of": RSS, "per": SIZE, "above": 0.5},
    {"of": SIZE, "per": RSS, "above": 2},
    {"of": [RSS, SIZE], "per": FAULTS, "above": 1000},
]  # fmt: skip
PROCESSES: Sequence[dict[str, Any]] = [{"comm": "ja.*"}, {"args": "PreTouch"}, {"comm": "java", "cpu_above": "20 %"}]
CHECKS: Sequence[Check] = [
    *(SeriesCheck.model_validate({"series": name, **one}) for name in (RSS, FAULTS) for one in SERIES),
    *(ChangeCheck.model_validate({"change": one}) for one in CHANGES),
    *(ProcessCheck.model_validate({"process": one}) for one in PROCESSES),
]


@st.composite
def hosts(draw: st.DrawFn) -> StateView:
    """Some processes in one or two recordings, of different lengths, with and without times, resets and rounding."""
    samples: list[Sample] = []
    facts: list[Fact] = []
    quantum = draw(st.sampled_from([0.0, 1024.0, MIB]))
    for pid in range(draw(st.integers(2, 7))):
        entity = (("pid", str(pid)), ("comm", draw(st.sampled_from(["java", "cc", "nginx"]))))
        if draw(st.booleans()):
            line = draw(st.sampled_from(["java -XX:+AlwaysPreTouch", "cc1"]))
            facts.append(Fact("process.command", line, Citation("ps", pid + 1), entity))
        for member in draw(st.sampled_from([["a"], ["a", "b"]])):
            samples += _rows(draw, member, entity, quantum)
    if draw(st.booleans()):
        values = [{STALLS: float(at * draw(st.integers(0, 9)))} for at in range(12)]
        samples += [
            Sample("system", one, Citation("v", at + 1), "vmstat", (), Moment(5.0 * at, Clock.UTC))
            for at, one in enumerate(values)
        ]
    return state_views(Case("host", tuple(facts), (State("now", {}, 0, samples=tuple(samples)),)))[0]


def _rows(draw: st.DrawFn, member: str, entity: Any, quantum: float) -> list[Sample]:
    count, step = draw(st.sampled_from([1, 2, 3, 11, 12, 30])), draw(st.sampled_from([1.0, 5.0, 120.0]))
    timed, small = draw(st.booleans()) or member == "a", st.integers(-3, 9)
    wanted = draw(st.sets(st.sampled_from([RSS, SIZE, FAULTS, FAULT_BYTES]), min_size=1))
    grown = {name: draw(st.lists(small, min_size=count, max_size=count)) for name in sorted(wanted)}
    found, level = [], dict.fromkeys(grown, 8 * MIB)
    for at in range(count):
        for name, steps in grown.items():
            size = steps[at] * (10 if name == FAULTS else MIB / 2)
            level[name] = max(level[name] + size, 0.0) if size > -MIB or name in (RSS, SIZE) else 0.0
        time = Moment(step * at + (600.0 if at > 20 else 0.0), Clock.UTC) if timed else None
        rounded = {name: quantum for name in (RSS, SIZE) if quantum and name in level}
        found.append(Sample("process", dict(level), Citation(member, at + 1), "top", entity, time, rounded))
    return found


@settings(max_examples=60)
@given(hosts())
def test_all_at_once_is_as_one_by_one(view: StateView) -> None:
    """Verdict, class and measured value of every kind of check."""
    entities = view.catalogue.entities("process")
    for check in CHECKS:
        found = screen._screen(check, view, "process", entities)
        for place, entity in enumerate(entities):
            slow = judge(check, view.bind("process", entity))
            assert Verdict3(int(found.values[place])) is slow.value, (check, slow.text)
            if slow.value is Verdict3.YES and isinstance(slow.measured, float):
                assert math.isclose(found.measured[place], slow.measured, rel_tol=1e-9), (check, slow.text)


def _view(*columns: tuple[str, float, dict[str, Sequence[float]]], quantum: float = 0.0) -> StateView:
    """One process; of each source its name, when it began and its columns."""
    who = (("pid", "1"), ("comm", "java"))
    samples = tuple(
        Sample("process", {name: float(column[at]) for name, column in values.items()}, Citation(member, at + 1), "top",
               who, Moment(start + 5.0 * at, Clock.UTC), dict.fromkeys(values, quantum) if quantum else {})
        for member, start, values in columns for at in range(len(next(iter(values.values()))))
    )  # fmt: skip
    return state_views(Case("host", (), (State("now", {}, 0, samples=samples),)))[0]


@pytest.mark.parametrize(
    ("view", "check", "value"),
    [
        (_view(("a", 0, {RSS: [MIB] * 30}), ("b", 5000, {RSS: [MIB, 9 * MIB, 20 * MIB]})),
         {"series": RSS, "as": "delta", "above": "4 MiB"}, Verdict3.YES),
        (_view(("a", 0, {RSS: [MIB] * 30}), ("b", 0, {RSS: [MIB, 9 * MIB, 20 * MIB]})),
         {"series": RSS, "as": "delta", "above": "4 MiB"}, Verdict3.NO),
        (_view(("a", 0, {RSS: [0, 4 * MIB], SIZE: [0, MIB]}), quantum=MIB),
         {"change": {"of": RSS, "per": SIZE, "below": 5}}, Verdict3.UNKNOWN),
    ],
    ids=["what the best source did not see", "what it saw", "what rounding leaves open"],
)  # fmt: skip
def test_the_process_is_answered_as_by_itself(view: StateView, check: dict[str, Any], value: Verdict3) -> None:
    """Where sources or rounding decide."""
    given = (SeriesCheck if "series" in check else ChangeCheck).model_validate(check)
    found = screen._screen(given, view, "process", view.catalogue.entities("process"))

    assert Verdict3(int(found.values[0])) is value


@settings(max_examples=40)
@given(hosts())
def test_the_same_entity_is_reported(view: StateView) -> None:
    """By all rules that are judged for each process."""
    rules = with_dependencies([rule for rule in RULES if rule.file.for_each == "process"], RULES)
    reports = []
    for many in (1, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(evaluate, "MIN_SCREENED_ENTITIES", many)
            outcomes = evaluate.evaluate(rules, replace(view, catalogue=Catalogue(view.state.samples)))
        reports.append([(o.value, o.confidence, o.entity, o.evidence, _texts(o)) for o in outcomes.values()])
    assert reports[0] == reports[1]


def _texts(outcome: RuleOutcome) -> list[str]:
    return [result.text for result in outcome.answers.values() if isinstance(result, CheckResult)]


@pytest.mark.parametrize("name", ["knee", "khugepaged-growth", "growth-without-knee"])
def test_the_same_is_reported_of_a_capture(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a recorded host, whose processes are judged one by one, or looked at all at once first."""
    results = []
    for many in (1, 10**9):
        monkeypatch.setattr(evaluate, "MIN_SCREENED_ENTITIES", many)
        results.append(analyze([ROOT / "fixtures" / "captures" / name], RULES))
    assert results[0] == results[1]
