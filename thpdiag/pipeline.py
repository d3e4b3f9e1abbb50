"""The pipeline: bundle, parsers, hosts, rules, diagnosis, result. Read this first.

    paths -> members -> parsed input -> hosts, cut into states -> evaluated rules -> diagnosis -> result document

The document quotes the cited lines, from the text cache or from the members, which are read a second time.
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

WHOLE_INPUT = "input"  # replaces the member in the citation of a problem with the whole input
JudgedHost = tuple[Case, list[StateOutcomes]]


def analyze(
    paths: Sequence[Path], rules: Sequence[Rule], options: Options | None = None,
    *, stdin: BinaryIO | None = None, progress: Progress | None = None, timings: Timings | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Analyse the paths and return the result as a JSON document."""
    return plain_document(analyze_paths(paths, rules, options, stdin=stdin, progress=progress, timings=timings))


def analyze_paths(
    paths: Sequence[Path], rules: Sequence[Rule], options: Options | None = None,
    *, stdin: BinaryIO | None = None, progress: Progress | None = None, timings: Timings | None = None,
) -> Result:  # fmt: skip
    """Analyse the paths (`-` is standard input) and return the result."""
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
    """Return the result document of an input that could not be read."""
    return document(diagnose_input(ParsedInput({}, (), (problem,)), rules, options), options.typed_options)


def diagnose_input(
    parsed: ParsedInput, rules: Sequence[Rule], options: Options, timings: Timings | None = None,
    progress: Progress | None = None,
) -> list[Diagnosis]:  # fmt: skip
    """Return the diagnosis of each host in the input."""
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
        all_data = host_cases(parsed, replace(options, window=None))
        judged_all = judge_hosts(all_data, rules, options, timings, progress)
        return [
            diagnose(host, rules, [*outcomes, *outside_window(others)])
            for (host, outcomes), (_, others) in zip(judged, judged_all, strict=True)
        ]


def diagnose_case(host: Case, rules: Sequence[Rule], options: Options, timings: Timings | None = None) -> Diagnosis:
    """Return the diagnosis of one host."""
    host, outcomes = judge_host(host, rules, options, timings)
    return diagnose(host, rules, outcomes)


def judge_hosts(
    hosts: Sequence[Case], rules: Sequence[Rule], options: Options, timings: Timings | None, progress: Progress | None
) -> list[JudgedHost]:
    """Evaluate all rules on each host."""
    end = process_time() + options.limits.cpu_seconds
    return [
        judge_host(host, rules, options, timings, progress, ("host", number, len(hosts)), end)
        for number, host in enumerate(hosts, 1)
    ]


def judge_host(
    host: Case, rules: Sequence[Rule], options: Options, timings: Timings | None,
    progress: Progress | None = None, place: Place = ("host", 1, 1), end: float = math.inf,
) -> JudgedHost:  # fmt: skip
    """Evaluate all rules in each state of a host; return the host with new problems, and the outcomes.

    `end` is the deadline in seconds of CPU time of the process. If it passes during a state, all rules of this state
    are unknown, since a rule that was not evaluated might explain what another one found.
    """
    problems: list[Problem] = []
    bugs: list[Problem] | None = None if options.strict else problems
    views = state_views(host)
    outcomes: list[StateOutcomes] = []
    for number, view in enumerate(views, 1):
        step = Step("judge", what=host.name if place[2] > 1 else "", places=(place, ("state", number, len(views))))
        show = progress and partial(_show_progress, progress, step)
        try:
            with interrupt_when_out_of_time(end - process_time()):
                by_rule = evaluate_with_windows(rules, view, bugs=bugs, timings=timings, progress=show)
        except OutOfTimeError:
            text = f"judging it took more than {options.limits.cpu_seconds:g} s of CPU (limit cpu_seconds)"
            problems.append(Problem(Citation(WHOLE_INPUT), f"{text}; no rule was decided", ProblemKind.LIMIT))
            reason, state = sentence(text), view.state.id
            by_rule = {rule.id: RuleOutcome(rule.id, Verdict3.UNKNOWN, state, mistake=reason) for rule in rules}
        outcomes.append((view, by_rule))
    problems += (problem for view in views for problem in source_disagreements(view))
    return replace(host, problems=(*host.problems, *problems)), outcomes


def _show_progress(progress: Progress, step: Step, rules: int, window: int, windows: int, judged: int) -> None:
    places = (*step.places, ("window", window, windows))
    progress(step._replace(done=judged, total=rules, places=places))


def outside_window(outcomes: Sequence[StateOutcomes]) -> list[StateOutcomes]:
    """Weaken outcomes from outside of the requested time range: a yes becomes `possible`, all others unknown."""
    return [(view, {rule: _weaken(outcome) for rule, outcome in by_rule.items()}) for view, by_rule in outcomes]


def _weaken(outcome: RuleOutcome) -> RuleOutcome:
    if outcome.value is not Verdict3.YES:
        return replace(outcome, value=Verdict3.UNKNOWN, against=(), missing=())
    raise_by = ("evidence from the requested time range",)
    return replace(outcome, confidence="possible", raise_confidence=raise_by, raises=(), in_range=False)
