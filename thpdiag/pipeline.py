"""The straight line: bundle, parsers, hosts, rules, diagnosis, result. Read this first.

    paths -> members -> parsed input -> hosts, cut into states -> judged rules -> diagnosis -> result document

The document quotes the lines that it cites, from the text cache or from the members, read a second time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any, BinaryIO

from thpdiag.bundle.limits import interrupt_when_out_of_time
from thpdiag.diagnosis.diagnose import Diagnosis, StateOutcomes, diagnose
from thpdiag.diagnosis.result_document import cited_lines, document, result
from thpdiag.engine.evaluate import evaluate_with_windows
from thpdiag.engine.load import Rule
from thpdiag.engine.sources import source_disagreements
from thpdiag.engine.state_view import state_views
from thpdiag.engine.timing import Timings
from thpdiag.host.cases import host_cases
from thpdiag.host.excerpts import read_excerpts
from thpdiag.host.options import Options
from thpdiag.host.reading import ParsedInput, Place, Progress, Step, read_input
from thpdiag.model import Case, Citation, Problem, ProblemKind, RuleOutcome, Verdict3
from thpdiag.model.document import plain_document
from thpdiag.model.parser import OutOfTimeError
from thpdiag.model.result import Result
from thpdiag.model.text import sentence

WHOLE_INPUT = "input"  # what a problem is about, in place of a member
JudgedHost = tuple[Case, list[StateOutcomes]]


def analyze(
    paths: Sequence[Path], rules: Sequence[Rule], options: Options | None = None,
    *, stdin: BinaryIO | None = None, progress: Progress | None = None, timings: Timings | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The result of the paths as JSON has it."""
    return plain_document(analyze_paths(paths, rules, options, stdin=stdin, progress=progress, timings=timings))


def analyze_paths(
    paths: Sequence[Path], rules: Sequence[Rule], options: Options | None = None,
    *, stdin: BinaryIO | None = None, progress: Progress | None = None, timings: Timings | None = None,
) -> Result:  # fmt: skip
    """The result of the paths (`-` is standard input)."""
    options, timings = options or Options(), timings or Timings()
    with timings.stage("read"):
        parsed = read_input(paths, options, stdin=stdin, progress=progress)
    diagnoses = diagnose_input(parsed, rules, options, timings, progress)
    if progress:
        progress(Step("write"))
    with timings.stage("lines that are cited"):
        excerpts = read_excerpts(cited_lines(diagnoses), parsed.texts, paths, options.limits, stdin)
    with timings.stage("result"):
        return result(diagnoses, options.typed_options, excerpts, every_input=options.every_input)


def unread(problem: Problem, rules: Sequence[Rule], options: Options) -> dict[str, Any]:
    """The result document of an input that could not be read, with the reason."""
    return document(diagnose_input(ParsedInput({}, (), (problem,)), rules, options), options.typed_options)


def diagnose_input(
    parsed: ParsedInput, rules: Sequence[Rule], options: Options, timings: Timings | None = None,
    progress: Progress | None = None,
) -> list[Diagnosis]:  # fmt: skip
    """The diagnosis of each host in the input."""
    timings = timings or Timings()
    if progress:
        progress(Step("judge", total=len(rules)))
    with timings.stage("cases"):
        hosts = host_cases(parsed, options)
    with timings.stage("rules"):
        judged = judge_hosts(hosts, rules, options, timings, progress)
        if not options.window:
            return [diagnose(host, rules, outcomes) for host, outcomes in judged]
    with timings.stage("rules outside of the requested time range"):
        whole = host_cases(parsed, replace(options, window=None))
        further = judge_hosts(whole, rules, options, timings, progress)
        return [
            diagnose(host, rules, [*outcomes, *outside_window(others)])
            for (host, outcomes), (_, others) in zip(judged, further, strict=True)
        ]


def diagnose_case(host: Case, rules: Sequence[Rule], options: Options, timings: Timings | None = None) -> Diagnosis:
    """The diagnosis of one host."""
    host, outcomes = judge_host(host, rules, options, timings)
    return diagnose(host, rules, outcomes)


def judge_hosts(
    hosts: Sequence[Case], rules: Sequence[Rule], options: Options, timings: Timings | None, progress: Progress | None
) -> list[JudgedHost]:
    """The outcomes of all rules on each host."""
    end = process_time() + options.limits.cpu_seconds
    return [
        judge_host(host, rules, options, timings, progress, ("host", number, len(hosts)), end)
        for number, host in enumerate(hosts, 1)
    ]


def judge_host(
    host: Case, rules: Sequence[Rule], options: Options, timings: Timings | None,
    progress: Progress | None = None, place: Place = ("host", 1, 1), end: float = math.inf,
) -> JudgedHost:  # fmt: skip
    """The outcomes of all rules in each state, and the host with the problems that judging it brought up.

    `end` is the CPU time of the process, in seconds, when judging must be over.
    In a state that the time did not suffice for no rule is decided: the one that would have explained what another
    one saw may be among those that were not asked.
    """
    problems: list[Problem] = []
    bugs: list[Problem] | None = None if options.strict else problems
    views = state_views(host)
    outcomes: list[StateOutcomes] = []
    for number, view in enumerate(views, 1):
        step = Step("judge", what=host.name if place[2] > 1 else "", places=(place, ("state", number, len(views))))
        watch = progress and partial(_show_judging, progress, step)
        try:
            with interrupt_when_out_of_time(end - process_time()):
                by_rule = evaluate_with_windows(rules, view, bugs=bugs, timings=timings, progress=watch)
        except OutOfTimeError:
            text = f"judging it took more than {options.limits.cpu_seconds:g} s of CPU (limit cpu_seconds)"
            problems.append(Problem(Citation(WHOLE_INPUT), f"{text}; no rule was decided", ProblemKind.LIMIT))
            why = sentence(text)
            by_rule = {rule.id: RuleOutcome(rule.id, Verdict3.UNKNOWN, view.state.id, mistake=why) for rule in rules}
        outcomes.append((view, by_rule))
    problems += (problem for view in views for problem in source_disagreements(view))
    return replace(host, problems=(*host.problems, *problems)), outcomes


def _show_judging(progress: Progress, step: Step, rules: int, window: int, windows: int, judged: int) -> None:
    places = (*step.places, ("window", window, windows))
    progress(step._replace(done=judged, total=rules, places=places))


def outside_window(outcomes: Sequence[StateOutcomes]) -> list[StateOutcomes]:
    """Outcomes from outside of the requested time range: a yes is a hypothesis, anything else says nothing."""
    return [(view, {rule: _outside(outcome) for rule, outcome in by_rule.items()}) for view, by_rule in outcomes]


def _outside(outcome: RuleOutcome) -> RuleOutcome:
    if outcome.value is not Verdict3.YES:
        return replace(outcome, value=Verdict3.UNKNOWN, against=(), missing=())
    raise_by = ("evidence from the requested time range",)
    return replace(outcome, confidence="possible", raise_confidence=raise_by, raises=(), in_range=False)
