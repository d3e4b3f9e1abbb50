"""`thpdiag flame`: one profile of the input as folded stacks, for a viewer of one's own, or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import rich_click as click
from click.exceptions import Exit

from thpdiag.case.cases import cases
from thpdiag.case.options import Options
from thpdiag.case.reading import Input, read
from thpdiag.case.window import Window, parsed
from thpdiag.cli import options as shared
from thpdiag.errors import InputError
from thpdiag.flame.choose import choose, listed, title
from thpdiag.json_text import compact
from thpdiag.model import ProblemKind, Profile, Stacks

NO_PROFILE = (
    "no recording of call stacks in the input; what is read: perf.data, the text of perf script, perf report or "
    "perf top, folded stacks"
)
LOST = {
    Stacks.PARTIAL: "the source shows only stacks above its percent limit",
    Stacks.NONE: "the source shows only the running functions, no stacks",
}


@click.command()
@shared.PATHS
@click.option("-o", "--output", "target", type=click.Path(path_type=Path, allow_dash=True), default="-", metavar="FILE",
              help="Write to this file; `-`, the default, is stdout.")  # fmt: skip
@click.option("-f", "--format", "form", type=click.Choice(["folded", "json", "speedscope"]), default="folded",
              show_default=True, help="What to print.")  # fmt: skip
@click.option("--event", default="", help="The event, where several were recorded.")
@click.option(
    "--member", default="", metavar="PATH", help="The file in the input, or the end of its path, or PATH:LINE."
)
@click.option("--by", "by", type=click.Choice(["comm", "pid", "tid", "cpu", "none"]), default="comm", show_default=True,
              help="What stands at the root of a stack.")  # fmt: skip
@click.option("--weight", type=click.Choice(["samples", "period"]), default="samples", show_default=True,
              help="What is counted.")  # fmt: skip
@click.option("--idle", flag_value="included", default="", help="Keep the samples of idle CPUs.")
@click.option("--kernel-marks", "mark", flag_value="_[k]", default="", help="Mark functions of the kernel with _[k].")
@shared.part
def command(
    paths: tuple[Path, ...], target: Path, form: str, event: str, member: str, by: str, weight: str, idle: str,
    mark: str, process: str, since: str | None, until: str | None, at: str | None, progress: str, strict: str,
) -> None:  # fmt: skip
    """Print the call stacks in PATHS, folded, for flamegraph.pl, inferno, speedscope and others.

    Names are those of the recording: nothing is redacted.
    """
    options = Options(window=parsed(since, until, at), strict=bool(strict))
    with shared.shown(progress) as show:
        given = read(paths, options, stdin=sys.stdin.buffer, progress=show)
        profiles = _profiles(given, options)
    if not profiles:
        raise shared.absent(paths) or InputError(_without(given, options))
    chosen = choose(profiles, event, member)
    told = {"by": by, "idle": idle, "process": process, "since": since, "until": until, "at": at}
    shared.write(_text(chosen, form, weight, mark, {name: value for name, value in told.items() if value}), target)
    _remark(chosen, profiles, options.window)
    if mistake := shared.absent(paths):
        raise mistake
    _leave(given, chosen)


def _profiles(given: Input, options: Options) -> list[Profile]:
    return [p for case in cases(given, options) for state in case.states for p in state.profiles]


def _without(given: Input, options: Options) -> str:
    """Why there is no profile."""
    if options.window and (every := _profiles(given, replace(options, window=None))):
        return f"no samples in the time asked for; there are {listed(every)}"
    return NO_PROFILE if any(i.reader for i in given.inputs) else shared.NOTHING


def _text(chosen: Profile, form: str, weight: str, mark: str, told: Mapping[str, str]) -> str:
    """The output, and at a terminal what it leaves out or changes."""
    from thpdiag.flame.counted import By, Idle, Weight, counted  # numpy: only once there is a profile
    from thpdiag.flame.document import document
    from thpdiag.flame.folded import folded
    from thpdiag.flame.labelled import labelled
    from thpdiag.flame.speedscope import speedscope

    known = counted(chosen, By(told["by"]), idle=Idle(told.get("idle", Idle.LEFT_OUT)), process=told.get("process", ""))
    if not len(known.chain):
        shared.notice("no samples are left")
    if known.idle is Idle.LEFT_OUT and known.idle_weight > 0:
        shared.notice(f"{known.idle_samples} samples of idle CPUs are left out; --idle keeps them")
    if form == "json":
        return compact(document(known, told)) + "\n"
    stacks = labelled(known, Weight(weight), mark)
    if stacks.unit != weight:
        shared.notice(f"counts are {stacks.unit}: the source tells no {weight}")
    return folded(stacks) if form == "folded" else compact(speedscope(stacks, title(chosen))) + "\n"


def _remark(chosen: Profile, profiles: Sequence[Profile], window: Window | None) -> None:
    """At a terminal: which profile it is, and what its source cannot tell."""
    others = [p for p in profiles if p is not chosen]
    if others:
        shared.notice(f"this is {title(chosen)}; --member and --event choose others: {listed(others)}")
    if window and (not chosen.has_time or chosen.start is None or window.holds(chosen.start) is None):
        shared.notice("the times of these samples cannot be compared with the time asked for; all are here")
    if chosen.stacks is not Stacks.FULL:
        shared.notice(LOST[chosen.stacks])
    if lost := chosen.ledger.lost_share:
        shared.notice(f"the recording lost {lost:.1%} of its samples")


def _leave(given: Input, chosen: Profile) -> NoReturn:
    """Say what damaged the profile; leave with the exit code."""
    limits = [p for p in given.problems if p.kind is ProblemKind.LIMIT]
    for problem in given.problems:
        if problem.kind is not ProblemKind.LIMIT and problem.cite.member == chosen.cite.member:
            shared.notice(shared.told(problem))
    for problem in limits:
        shared.complain(shared.told(problem))
    raise Exit(shared.CUT_SHORT if limits else 0)
