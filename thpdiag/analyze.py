"""The straight line: bundle, readers, case, derive, engine, diagnosis, result. Read this first.

paths -> members -> readings -> hosts -> cases with states -> outcomes of rules -> diagnosis -> result document

The document quotes the lines that it cites, which the reading has kept or which are read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from thpdiag.case.cases import cases
from thpdiag.case.options import Options
from thpdiag.case.quoted import quotes
from thpdiag.case.reading import Input, Progress, read
from thpdiag.diagnosis import Diagnosis, StateOutcomes, diagnose
from thpdiag.engine.agreement import disagreements
from thpdiag.engine.load import Rule
from thpdiag.engine.scenes import scenes
from thpdiag.engine.timing import Timings
from thpdiag.engine.worst import match_worst
from thpdiag.model import Case, Problem, RuleOutcome, Verdict3
from thpdiag.result.document import document
from thpdiag.result.excerpts import cited


def analyze(
    paths: Sequence[Path], rules: Sequence[Rule], options: Options | None = None,
    *, stdin: BinaryIO | None = None, progress: Progress | None = None, timings: Timings | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The result document of what is at the paths (`-` is standard input)."""
    options, timings = options or Options(), timings or Timings()
    with timings.stage("read"):
        given = read(paths, options, stdin=stdin, progress=progress)
    diagnoses = diagnosed_in(given, rules, options, timings)
    with timings.stage("lines that are cited"):
        found = quotes(cited(diagnoses), given.kept, paths, options.limits, stdin)
    with timings.stage("result"):
        return document(diagnoses, options.told, found)


def unread(why: Problem, rules: Sequence[Rule], options: Options) -> dict[str, Any]:
    """The result document of an input of which nothing can be told, but why."""
    return document(diagnosed_in(Input({}, (), (why,)), rules, options), options.told)


def diagnosed_at(
    paths: Sequence[Path], rules: Sequence[Rule], options: Options,
    *, stdin: BinaryIO | None = None, progress: Progress | None = None, timings: Timings | None = None,
) -> list[Diagnosis]:  # fmt: skip
    """The diagnosis of each host at the paths."""
    timings = timings or Timings()
    with timings.stage("read"):
        given = read(paths, options, stdin=stdin, progress=progress)
    return diagnosed_in(given, rules, options, timings)


def diagnosed_in(
    given: Input, rules: Sequence[Rule], options: Options, timings: Timings | None = None
) -> list[Diagnosis]:
    """The diagnosis of each host in what was read."""
    timings = timings or Timings()
    with timings.stage("cases"):
        every = cases(given, options)
    with timings.stage("rules"):
        diagnoses = [diagnosed(case, rules, options, timings) for case in every]
    if options.window:
        with timings.stage("rules outside of the time asked for"):
            whole = cases(given, replace(options, window=None))
            pairs = zip(diagnoses, whole, strict=True)
            diagnoses = [with_outside(one, case, rules, options, timings) for one, case in pairs]
    return diagnoses


def diagnosed(case: Case, rules: Sequence[Rule], options: Options, timings: Timings | None = None) -> Diagnosis:
    """Judge all rules in all states and make one diagnosis of it."""
    case, by_state = _by_state(case, rules, options, timings)
    return diagnose(case, rules, by_state)


def with_outside(
    inside_window: Diagnosis, whole: Case, rules: Sequence[Rule], options: Options, timings: Timings | None = None
) -> Diagnosis:
    """The diagnosis of the time asked for, with what only shows outside of it as `possible`."""
    case, by_state = _by_state(inside_window.case, rules, options, timings)
    _, further = _by_state(whole, rules, options, timings)
    outside = [(scene, {i: _outside(o) for i, o in outcomes.items()}) for scene, outcomes in further]
    return diagnose(case, rules, [*by_state, *outside])


def _outside(outcome: RuleOutcome) -> RuleOutcome:
    """An outcome of another time: a yes is a hypothesis, anything else says nothing about the window."""
    if outcome.value is not Verdict3.YES:
        return replace(outcome, value=Verdict3.UNKNOWN, against=(), missing=())
    told = ("evidence from the time that was asked for",)
    return replace(outcome, confidence="possible", raise_confidence=told, raises=())


def _by_state(
    case: Case, rules: Sequence[Rule], options: Options, timings: Timings | None
) -> tuple[Case, list[StateOutcomes]]:
    bugs: list[Problem] | None = None if options.strict else []
    every = scenes(case)
    by_state: list[StateOutcomes] = [(scene, match_worst(rules, scene, bugs=bugs, timings=timings)) for scene in every]
    contradictions = [problem for scene in every for problem in disagreements(scene)]
    return replace(case, problems=(*case.problems, *contradictions, *(bugs or ()))), by_state
