"""`process`: an application or a command that runs on the host, or that the bound process is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

import re2

from thpdiag.engine.check_result import NO, YES, CheckResult, metric_class, unknown_result
from thpdiag.engine.checks.series import in_brackets, lines_of
from thpdiag.engine.quantity import format_quantity, parse_quantity
from thpdiag.engine.schema import Process, ProcessCheck, as_list
from thpdiag.engine.state_view import StateView
from thpdiag.host.cpu_use import AVERAGE, LIFETIME, CpuUse, cpu_uses
from thpdiag.host.series import Track, usual_interval
from thpdiag.knowledge.applications import running_applications
from thpdiag.model import Fact
from thpdiag.model.text import entity_name, process_name

MIN_SINGLE_SAMPLE_USE = 0.5  # of a CPU: below it, a single sample may show a thread that was busy for one second


@lru_cache(2**16)
def matches_name(pattern: str, comm: str) -> bool:
    """Whether a pattern matches the whole name of a program or kernel thread. Results are cached, as rules match few
    patterns against lists of thousands of processes."""
    return bool(_compile(pattern).fullmatch(comm))


@cache
def _compile(pattern: str) -> Any:
    """Compile a pattern of a rule. re2's own cache is slower: it computes a key at each call."""
    return re2.compile(pattern)


def judge(check: ProcessCheck, view: StateView) -> CheckResult:
    """Yes if a matching process runs (and uses that much CPU); no only if all processes are listed."""
    process = check.process
    if view.bound_kind == "process" and view.entity is not None:
        if process.cpu_above is not None:
            return _judge_cpu_use(check, view)
        return _judge_bound_process(check, view, dict(view.entity))
    if process.app is not None:
        names = as_list(process.app)
        app = next((fact for fact in view.facts("app") if fact.value in names), None)
        if app is None:
            return _not_listed(check, view)
        return CheckResult(check, YES, f"{app.value} runs here", app.cite, str(app.value))
    if process.cpu_above is not None:
        return _judge_cpu_use(check, view)
    for fact in view.facts("process.command"):
        if _fits(process, fact.label("comm") or "", str(fact.value)):
            return CheckResult(check, YES, f"{process_name(fact.label('comm'))} runs here", fact.cite)
    return _not_listed(check, view)


def _judge_bound_process(check: ProcessCheck, view: StateView, labels: Mapping[str, str]) -> CheckResult:
    """Judge the process that the rule is bound to by its command lines and its name."""
    process = check.process
    commands = view.process_facts("process.command", labels.get("pid"))
    names = [(f.label("comm") or "", str(f.value)) for f in commands]
    if not names and "comm" in labels and process.args is None:
        names = [(labels["comm"], "")]
    if not names:
        missing = () if _full_list(view) else "process.command"
        return unknown_result(check, missing, "the input does not show which program this is")
    cite = commands[0].cite if commands else None
    for comm, line in names:
        apps = [app.name for app in running_applications(comm, line) if app.name in as_list(process.app)]
        if apps or (process.app is None and _fits(process, comm, line)):
            name = (apps or [comm])[0]
            return CheckResult(check, YES, f"it is {process_name(name)}", cite, name)
    return CheckResult(check, NO, f"its name is {process_name(names[0][0])}", cite, names[0][0])


def _fits(process: Process, comm: str, line: str) -> bool:
    if process.comm is not None and not matches_name(process.comm, comm):
        return False
    if process.args is not None and not re2.search(process.args, line):
        return False
    return process.comm is not None or process.args is not None


def _not_listed(check: ProcessCheck, view: StateView) -> CheckResult:
    """Return the result for a process that is not listed: no only if the list is complete."""
    if (listed_process := _full_list(view)) is not None:
        return CheckResult(check, NO, "not among the processes listed", listed_process.cite)
    is_partial = any(True for _ in view.facts("process.command"))
    text = "not among the processes listed, which are not all" if is_partial else "the processes are not in the input"
    return unknown_result(check, "process.command", text)


def _full_list(view: StateView) -> Fact | None:
    """Return a process from a complete list."""
    return next((fact for fact in view.facts("process.command") if fact.label("part") is None), None)


def _judge_cpu_use(check: ProcessCheck, view: StateView) -> CheckResult:
    """Judge the mean CPU use over the recording. Windows with a higher use are judged separately
    (engine/windows.py)."""

    def is_named(track: Track) -> bool:
        return matches_name(check.process.comm or ".*", dict(track.table.entity).get("comm", ""))

    uses = cpu_uses(view.catalogue, is_named, view.bound_to(AVERAGE))
    best = max(uses, key=lambda use: (not use.is_lifetime, use.mean), default=None)
    if best is None:
        # The process is not listed: no, if the CPU use of others is known.
        tracks = [*view.tracks(AVERAGE), *view.tracks(LIFETIME)]
        if not tracks:
            return unknown_result(check, "process_cpu_ratio", "the CPU use of processes is not in the input", "state")
        class_ = metric_class(tracks[0].metric, "last")
        return CheckResult(check, NO, "no such process among those listed", tracks[0].cite(), class_=class_)
    bound, value = parse_quantity(check.process.cpu_above or 0), best.mean
    class_ = metric_class(best.track.metric, "level")

    def words() -> str:
        used = format_quantity(value, "ratio")
        return f"{entity_name(best.track.name)} uses {used} of a CPU{_duration_words(best)}"

    if (value - best.error > bound) is not (value + best.error + best.unlisted > bound):
        cut = "; it may be more, for the list was cut above it"
        reason = cut if best.unlisted else ", which rounding leaves undecided"
        return unknown_result(check, "process_cpu_ratio", lambda: words() + reason, class_)
    reach = usual_interval(best.points) if best.points is not None else 0.0
    is_single_sample = (best.points is None or len(best.points) < 2) and value < MIN_SINGLE_SAMPLE_USE
    return CheckResult(
        check, YES if value > bound else NO, words, best.track.cite(), value, "ratio", class_=class_,
        weak=best.is_lifetime or is_single_sample, window=best.span, reach=reach,
    )  # fmt: skip


def _duration_words(use: CpuUse) -> str:
    if use.is_lifetime:
        return " averaged over its lifetime"
    if use.points is None or len(use.points) < 2:
        return ""
    values = use.points.values
    low, high = (format_quantity(float(v), "ratio") for v in (values.min(), values.max()))
    between = "the same" if low == high else f"{low} to {high}"
    absent = f"; not listed in {use.absent} of them" if use.absent else ""
    return f" on average, {between} in {len(use.points)} samples{in_brackets([lines_of(use.points)])}{absent}"
