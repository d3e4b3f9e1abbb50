"""`thpdiag series` and `flame`: export of recorded data for other programs.

`series` prints rows of metrics, for a spreadsheet or a notebook; `flame` prints one profile as folded stacks or JSON,
for a viewer.
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

MAX_NAMES = 5  # metrics with a word in their name that a message lists
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
    with shared.progress_display() as show:
        parsed = read_input([path], options, stdin=sys.stdin.buffer, progress=show)
        hosts = host_cases(parsed, options)
    if not any(state.samples for host in hosts for state in host.states):
        text = "nothing in the input has values over time; `thpdiag inputs` shows what each file is"
        is_recognised = any(row.reader for row in parsed.inputs)
        raise shared.missing_path_error([path]) or InputError(text if is_recognised else shared.NOTHING_RECOGNISED)
    if listing:
        click.echo(_describe_metrics(hosts))
        _exit_with_lost_rows(parsed, parsed.readings)
    _exit_with_lost_rows(parsed, _write(hosts, metrics, output or form))


def _write(hosts: Sequence[Case], metrics: Sequence[str], output: str) -> set[str]:
    """Write the rows; return the members that they come from."""
    from thpdiag.export.rows import FORMATS, list_metrics, match_metrics, metric_rows, target

    form, file = target(output)
    known = list_metrics(hosts)
    names, unknown = match_metrics(metrics, known)
    for word in unknown:
        shared.print_message(_missing_metric_text(word, known))
    if not names:
        raise Exit(InputError.exit_code)
    rows = list(metric_rows(hosts, names))
    content = FORMATS[form](rows)
    if isinstance(content, str) or str(file) != "-":
        shared.write(content, file)
    elif sys.stdout.isatty():
        raise UsageError("Parquet is binary; write it to a file: -o parquet=FILE")
    else:
        sys.stdout.buffer.write(content)
    return {row.member for row in rows}


def _missing_metric_text(word: str, known: Iterable[str]) -> str:
    """Return a message about a metric that is not in the input: similar names, or how to record it."""
    names = list(known)
    matches = [name for name in names if word and word.lower() in name.lower()]
    if matches:
        more = f" and {len(matches) - MAX_NAMES} more" if len(matches) > MAX_NAMES else ""
        return visible(f"{word} is not in the input; names with it are {', '.join(matches[:MAX_NAMES])}{more}")
    possible = possible_names(word) if word else ()
    vocabulary = next((term(name) for name in possible if name in spelled_out()), None)
    if vocabulary is None:
        if hint := "" if set(word) & set("*?[") else _similar_name(word, names):
            return visible(f"{word} is not in the input{hint}")
        vocabulary = next((entry for name in possible if (entry := term(name))), None)  # an entry of a family
    if vocabulary is None:
        return visible(f"{word or 'a metric without a name'} is not in the input; --list shows all")
    source = f"it is printed by: {vocabulary.ask_for}"
    return visible(f"{word} is not in the input ({vocabulary.means}); {source}; --list shows all metrics")


def _similar_name(word: str, names: Sequence[str]) -> str:
    """Suggest a similar metric; names are compared without the prefixes of node_exporter."""
    by_kernel_word = {_kernel_word(name): name for name in names}
    hint = suggestion(_kernel_word(word), by_kernel_word, cutoff=0.7)
    return next((hint.replace(f"'{w}'", f"'{name}'") for w, name in by_kernel_word.items() if f"'{w}'" in hint), hint)


def _kernel_word(name: str) -> str:
    return name.removeprefix("node_vmstat_").removeprefix("node_memory_")


def _describe_metrics(hosts: Sequence[Case]) -> str:
    """List the metrics, each with the number of rows, their entities and files, and the meaning."""
    from thpdiag.export.rows import list_metrics

    lines = []
    for name, metric in list_metrics(hosts).items():
        entry = term(name)
        files = "1 file" if len(metric.members) == 1 else f"{len(metric.members)} files"
        meaning = f": {entry.means} ({entry.unit})" if entry else ""
        rows = f"{metric.rows:,} {'row' if metric.rows == 1 else 'rows'}{_describe_entities(metric.entities.values())}"
        lines += [name, *fold(f"{rows} in {files}{meaning}", "    ")]
    return "\n".join(lines)


def _describe_entities(kinds: Iterable[str]) -> str:
    """Describe the entities of rows; empty if these are only about the host."""
    counts = Counter(kinds)
    host = ["the host"] * bool(counts.pop("system", 0))
    several = [f"{n} {PLURALS.get(kind, kind)}" if n > 1 else f"1 {kind}" for kind, n in counts.items()]
    return f" of {' and '.join((*host, *several))}" if several else ""


def _exit_with_lost_rows(parsed: ParsedInput, members: Collection[str]) -> NoReturn:
    """Print problems that may have hidden rows of these members, and exit."""
    problems = [p for p in parsed.problems if p.cite.member in members or not parsed.readings.get(p.cite.member)]
    limits = [problem for problem in problems if problem.kind is ProblemKind.LIMIT]
    damaged = [problem for problem in problems if problem.hides_data and problem not in limits]
    for problem in (*limits, *damaged):
        shared.print_message(shared.format_problem(problem))
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
    suffixes = {"json": "speedscope"} if form == "speedscope" else {}  # speedscope files may end in .json
    use_words(rule_places(folders))
    targets = shared.parse_outputs(outputs, STACK_FORMATS, default=form, suffixes=suffixes)
    options = reading._replace(process="").options()  # read all processes: they determine the clock of the recording
    with shared.progress_display() as show:
        parsed = read_input(paths, options, stdin=sys.stdin.buffer, progress=show)
        profiles = _profiles(parsed, options)
    if not profiles:
        raise shared.missing_path_error(paths) or InputError(_missing_profile_text(parsed, options))
    chosen = choose(profiles, event, member)
    if reading.process:
        check_process([chosen], reading.process)
    stack_options = {"by": by, **({"idle": idle} if idle else {}), **reading.named_options(())}
    for name, path in targets or [(form, Path("-"))]:
        shared.write(_text(chosen, name, weight, mark, stack_options), path)
    _describe_profile(chosen, profiles, options.window)
    if missing := shared.missing_path_error(paths):
        raise missing
    _exit_with_problems(parsed, chosen)


def _profiles(parsed: ParsedInput, options: Options) -> list[Profile]:
    return [p for case in host_cases(parsed, options) for state in case.states for p in state.profiles]


def _missing_profile_text(parsed: ParsedInput, options: Options) -> str:
    if options.window and (profiles := _profiles(parsed, replace(options, window=None))):
        return f"no samples in the requested time range; recordings: {list_titles(profiles)}"
    return NO_PROFILE if any(row.reader for row in parsed.inputs) else shared.NOTHING_RECOGNISED


def _text(chosen: Profile, form: str, weight: str, mark: str, options: Mapping[str, str]) -> str:
    """Return the profile in a format; print notices about what it leaves out or changes."""
    from thpdiag.export.flame import (  # numpy: only once there is a profile
        By,
        Weight,
        count_stacks,
        document,
        folded_text,
        label_stacks,
        speedscope,
    )

    counts = count_stacks(chosen, By(options["by"]), idle=bool(options.get("idle")), process=options.get("process", ""))
    if not len(counts.chain):
        shared.notice("no samples are left")
    if not counts.idle and counts.idle_weight > 0:
        shared.notice(f"{counts.idle_samples} samples of idle CPUs are left out; --idle includes them")
    if form == "json":
        return compact(document(counts, options)) + "\n"
    stacks = label_stacks(counts, Weight(weight), mark)
    if stacks.unit != weight:
        shared.notice(f"counts are {stacks.unit}: the source has no {weight}")
    return folded_text(stacks) if form == "folded" else compact(speedscope(stacks, title(chosen))) + "\n"


def _describe_profile(chosen: Profile, profiles: Sequence[Profile], window: Window | None) -> None:
    """Print notices about the chosen profile and its limitations."""
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


def _exit_with_problems(parsed: ParsedInput, chosen: Profile) -> NoReturn:
    """Print problems of the profile, and exit."""
    limits = [p for p in parsed.problems if p.kind is ProblemKind.LIMIT]
    for problem in parsed.problems:
        if problem.kind is not ProblemKind.LIMIT and problem.cite.member == chosen.cite.member:
            shared.notice(shared.format_problem(problem))
    for problem in limits:
        shared.print_message(shared.format_problem(problem))
    raise Exit(shared.CUT_SHORT if limits else 0)


COMMANDS: Mapping[str, click.Command] = MappingProxyType({"series": series, "flame": flame})
