"""`thpdiag series` and `flame`: the values and call stacks that were read, for other programs.

`series`: rows of metrics, for a spreadsheet or a notebook. `flame`: one profile as folded stacks, for a viewer of one's
own, or as JSON.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

import rich_click as click
from click.exceptions import Exit

from thpdiag.cli import options as shared
from thpdiag.cli.options import Reading
from thpdiag.engine.load import rule_places, use_words
from thpdiag.errors import InputError, UsageError
from thpdiag.export.profile_choice import choose, list_titles, title
from thpdiag.host.cases import host_cases
from thpdiag.host.options import Options, Window, check_process
from thpdiag.host.reading import ParsedInput, read_input
from thpdiag.knowledge.vocabulary import names as spelled_out
from thpdiag.knowledge.vocabulary import possible_names, term
from thpdiag.knowledge.yaml_nodes import suggestion
from thpdiag.model import Case, ProblemKind, Profile, Stacks
from thpdiag.model.document import compact
from thpdiag.report.escaping import visible
from thpdiag.report.layout import fold

MAX_NAMES = 5  # that are told of those that hold a word
PLURALS = {"process": "processes", "cpu": "CPUs", "zone": "zones", "node": "nodes", "device": "devices"}


@click.command()
@click.argument("path", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("metrics", nargs=-1, metavar="METRIC...")
@shared.format_option(("csv", "json", "parquet"), "csv")
@click.option("-o", "--output", default="", metavar="[FORMAT=]PATH",
              help="Write to this file, in the format of its suffix (or FORMAT=PATH), not to stdout.")  # fmt: skip
@click.option("--list", "listing", is_flag=True, help="List the metrics in PATH.")
@shared.selection_options
@shared.RULES
def series(
    *,
    path: Path,
    metrics: tuple[str, ...],
    form: str,
    output: str,
    listing: bool,
    reading: Reading,
    folders: tuple[Path, ...],
) -> None:
    """Print every row of METRIC in PATH with its time, entity, file, and line.

    METRIC is a name from `--list`, a pattern ('node_vmstat_compact_*'), or a name of the kernel, sar, PCP, or collectl.
    Names are not redacted.
    """
    if not metrics and not listing:
        raise UsageError("name a metric; --list shows the available ones")
    use_words(rule_places(folders))
    options = reading.options()
    with shared.progress_of() as show:
        given = read_input([path], options, stdin=sys.stdin.buffer, progress=show)
        every = host_cases(given, options)
    if not any(state.samples for case in every for state in case.states):
        recognised = any(found.reader for found in given.inputs)
        why = (
            "nothing in the input has values over time; `thpdiag inputs` shows what each file is"
            if recognised
            else shared.NOTHING_RECOGNISED
        )
        raise shared.missing_path([path]) or InputError(why)
    if listing:
        click.echo(_describe_metrics(every))
        _exit_with_lost_rows(given, given.readings)
    _exit_with_lost_rows(given, _write(every, metrics, output or form))


def _write(every: Sequence[Case], metrics: Sequence[str], output: str) -> set[str]:
    """Write the rows; the files that they are from."""
    from thpdiag.export.rows import FORMATS, list_metrics, match_metrics, metric_rows, target

    form, file = target(output)
    known = list_metrics(every)
    names, unknown = match_metrics(metrics, known)
    for word in unknown:
        shared.complain(_why_no_metric(word, known))
    if not names:
        raise Exit(InputError.exit_code)
    rows = list(metric_rows(every, names))
    content = FORMATS[form](rows)
    if isinstance(content, str) or str(file) != "-":
        shared.write(content, file)
    elif sys.stdout.isatty():
        raise UsageError("Parquet is binary; write it to a file: -o parquet=FILE")
    else:
        sys.stdout.buffer.write(content)
    return {one.member for one in rows}


def _why_no_metric(word: str, known: Iterable[str]) -> str:
    """Why there is nothing of a name: the input does not have it, or nobody knows it."""
    names = list(known)
    holding = [name for name in names if word and word.lower() in name.lower()]
    if holding:
        more = f" and {len(holding) - MAX_NAMES} more" if len(holding) > MAX_NAMES else ""
        return visible(f"{word} is not in the input; names with it are {', '.join(holding[:MAX_NAMES])}{more}")
    possible = possible_names(word) if word else ()
    vocabulary = next((term(name) for name in possible if name in spelled_out()), None)
    if vocabulary is None:
        if hint := "" if set(word) & set("*?[") else _similar_name(word, names):
            return visible(f"{word} is not in the input{hint}")
        vocabulary = next((one for name in possible if (one := term(name))), None)  # of a family
    if vocabulary is None:
        return visible(f"{word or 'a metric without a name'} is not in the input; --list shows all")
    source = f"it is printed by: {vocabulary.ask_for}"
    return visible(f"{word} is not in the input ({vocabulary.means}); {source}; --list shows all metrics")


def _similar_name(word: str, names: Sequence[str]) -> str:
    """The name that may be meant; both are compared without what node_exporter puts before the kernel's words."""
    short = {_kernel_word(name): name for name in names}
    found = suggestion(_kernel_word(word), short, cutoff=0.7)
    return next((found.replace(f"'{s}'", f"'{name}'") for s, name in short.items() if f"'{s}'" in found), found)


def _kernel_word(name: str) -> str:
    return name.removeprefix("node_vmstat_").removeprefix("node_memory_")


def _describe_metrics(every: Sequence[Case]) -> str:
    """Each metric with its rows, what they are of, and what it means."""
    from thpdiag.export.rows import list_metrics

    lines = []
    for name, one in list_metrics(every).items():
        known = term(name)
        files = "1 file" if len(one.members) == 1 else f"{len(one.members)} files"
        means = f": {known.means} ({known.unit})" if known else ""
        rows = f"{one.rows:,} {'row' if one.rows == 1 else 'rows'}{_describe_entities(one.entities.values())}"
        lines += [name, *fold(f"{rows} in {files}{means}", "    ")]
    return "\n".join(lines)


def _describe_entities(kinds: Iterable[str]) -> str:
    """Whose rows they are, if not the host's alone."""
    counts = Counter(kinds)
    host = ["the host"] * bool(counts.pop("system", 0))
    several = [f"{n} {PLURALS.get(kind, kind)}" if n > 1 else f"1 {kind}" for kind, n in counts.items()]
    return f" of {' and '.join((*host, *several))}" if several else ""


def _exit_with_lost_rows(given: ParsedInput, used: Collection[str]) -> NoReturn:
    """Say what may be missing from the files that were used; leave with the exit code."""
    near = [p for p in given.problems if p.cite.member in used or not given.readings.get(p.cite.member)]
    limits = [problem for problem in near if problem.kind is ProblemKind.LIMIT]
    damaged = [problem for problem in near if problem.hides_data and problem not in limits]
    for problem in (*limits, *damaged):
        shared.complain(shared.format_problem(problem))
    raise Exit(shared.CUT_SHORT if limits else shared.DAMAGED if damaged else 0)


NO_PROFILE = (
    "no call stacks in the input; supported formats: perf.data, the text of perf script, perf report or "
    "perf top, folded stacks"
)
STACKS_LOST = {
    Stacks.PARTIAL: "the source shows only stacks above its percent limit",
    Stacks.NONE: "the source shows only the running functions, no stacks",
}


STACK_FORMATS = ("folded", "json", "speedscope")


@click.command()
@shared.PATHS
@shared.output_option("Write to this file, in the format of its suffix (or FORMAT=PATH), not to stdout")
@shared.format_option(STACK_FORMATS, "folded")
@click.option("--event", default="", help="The event, if several were recorded.")
@click.option(
    "--member", default="", metavar="PATH", help="The file in the input: its path, the end of its path, or PATH:LINE."
)
@click.option("--by", "by", type=click.Choice(["comm", "pid", "tid", "cpu", "none"]), default="comm", show_default=True,
              help="The root of each stack.")  # fmt: skip
@click.option("--weight", type=click.Choice(["samples", "period"]), default="samples", show_default=True,
              help="The weight to count.")  # fmt: skip
@click.option("--idle", flag_value="included", default="", help="Include samples of idle CPUs.")
@click.option("--kernel-marks", "mark", flag_value="_[k]", default="", help="Mark kernel functions with _[k].")
@shared.selection_options
@shared.RULES
def flame(
    *,
    paths: tuple[Path, ...],
    outputs: tuple[str, ...],
    form: str,
    event: str,
    member: str,
    by: str,
    weight: str,
    idle: str,
    mark: str,
    reading: Reading,
    folders: tuple[Path, ...],
) -> None:
    """Print the folded call stacks in PATHS for flamegraph.pl, inferno, speedscope, and others.

    Names are not redacted.
    """
    endings = {"json": "speedscope"} if form == "speedscope" else {}  # its files are called so as well
    use_words(rule_places(folders))
    targets = shared.parse_outputs(outputs, STACK_FORMATS, default=form, suffixes=endings)
    options = reading._replace(process="").options()  # which the whole recording has, for its clock
    with shared.progress_of() as show:
        given = read_input(paths, options, stdin=sys.stdin.buffer, progress=show)
        profiles = _profiles(given, options)
    if not profiles:
        raise shared.missing_path(paths) or InputError(_why_no_profile(given, options))
    chosen = choose(profiles, event, member)
    if reading.process:
        check_process([chosen], reading.process)
    told = {"by": by, **({"idle": idle} if idle else {}), **reading.named_options(())}
    for name, path in targets or [(form, Path("-"))]:
        shared.write(_text(chosen, name, weight, mark, told), path)
    _describe_profile(chosen, profiles, options.window)
    if mistake := shared.missing_path(paths):
        raise mistake
    _exit_with_problems(given, chosen)


def _profiles(given: ParsedInput, options: Options) -> list[Profile]:
    return [p for case in host_cases(given, options) for state in case.states for p in state.profiles]


def _why_no_profile(given: ParsedInput, options: Options) -> str:
    """Why there is no profile."""
    if options.window and (every := _profiles(given, replace(options, window=None))):
        return f"no samples in the requested time range; recordings: {list_titles(every)}"
    return NO_PROFILE if any(i.reader for i in given.inputs) else shared.NOTHING_RECOGNISED


def _text(chosen: Profile, form: str, weight: str, mark: str, told: Mapping[str, str]) -> str:
    """The output, and at a terminal what it leaves out or changes."""
    from thpdiag.export.flame import (  # numpy: only once there is a profile
        By,
        Weight,
        count_stacks,
        document,
        folded_text,
        label_stacks,
        speedscope,
    )

    known = count_stacks(chosen, By(told["by"]), idle=bool(told.get("idle")), process=told.get("process", ""))
    if not len(known.chain):
        shared.notice("no samples are left")
    if not known.idle and known.idle_weight > 0:
        shared.notice(f"{known.idle_samples} samples of idle CPUs are left out; --idle includes them")
    if form == "json":
        return compact(document(known, told)) + "\n"
    stacks = label_stacks(known, Weight(weight), mark)
    if stacks.unit != weight:
        shared.notice(f"counts are {stacks.unit}: the source has no {weight}")
    return folded_text(stacks) if form == "folded" else compact(speedscope(stacks, title(chosen))) + "\n"


def _describe_profile(chosen: Profile, profiles: Sequence[Profile], window: Window | None) -> None:
    """At a terminal: which profile it is, and what its source cannot tell."""
    others = [p for p in profiles if p is not chosen]
    if others:
        shared.notice(f"this is {title(chosen)}; --member and --event choose others: {list_titles(others)}")
    if window and (not chosen.has_time or chosen.start is None or window.holds(chosen.start) is None):
        shared.notice(
            "the times of these samples cannot be related to the requested time range; all samples are included"
        )
    if chosen.stacks is not Stacks.FULL:
        shared.notice(STACKS_LOST[chosen.stacks])
    if lost := chosen.ledger.lost_share:
        shared.notice(f"the recording lost {lost:.1%} of its samples")


def _exit_with_problems(given: ParsedInput, chosen: Profile) -> NoReturn:
    """Say what damaged the profile; leave with the exit code."""
    limits = [p for p in given.problems if p.kind is ProblemKind.LIMIT]
    for problem in given.problems:
        if problem.kind is not ProblemKind.LIMIT and problem.cite.member == chosen.cite.member:
            shared.notice(shared.format_problem(problem))
    for problem in limits:
        shared.complain(shared.format_problem(problem))
    raise Exit(shared.CUT_SHORT if limits else 0)


COMMANDS: Mapping[str, click.Command] = MappingProxyType({"series": series, "flame": flame})
