"""`thpdiag series`: the rows that were read of a metric, for a spreadsheet, a notebook, or another program."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import rich_click as click
from click.exceptions import Exit

from thpdiag.case.cases import cases
from thpdiag.case.options import Options
from thpdiag.case.reading import Input, read
from thpdiag.case.window import parsed
from thpdiag.cli import options as shared
from thpdiag.errors import InputError, UsageError
from thpdiag.knowledge.aliases import meant
from thpdiag.knowledge.complaints import suggestion
from thpdiag.knowledge.vocabulary import names as spelled_out
from thpdiag.knowledge.vocabulary import term
from thpdiag.model import Case, ProblemKind
from thpdiag.reports.columns import fold
from thpdiag.reports.visible import visible

MOST_NAMES = 5  # that are told of those that hold a word
PLURALS = {"process": "processes", "cpu": "CPUs", "zone": "zones", "node": "nodes", "device": "devices"}


@click.command()
@click.argument("path", type=click.Path(path_type=Path, allow_dash=True))
@click.argument("metrics", nargs=-1, metavar="METRIC...")
@click.option("-o", "--output", default="csv", show_default=True, metavar="csv|json|parquet[=FILE]",
              help="What to write, and where; a FILE alone says it by its name.")  # fmt: skip
@click.option("--list", "listing", flag_value="yes", default="", help="List the metrics of PATH.")
@shared.part
def command(
    path: Path, metrics: tuple[str, ...], output: str, listing: str, process: str, since: str | None,
    until: str | None, at: str | None, progress: str, strict: str,
) -> None:  # fmt: skip
    """Print every row that PATH has of METRIC, with its time, entity, file and line.

    METRIC is a name of `--list`, a pattern ('node_vmstat_compact_*'), or what the kernel, sar, PCP or collectl call it.
    Names are those of the files: nothing is redacted.
    """
    if not metrics and not listing:
        raise UsageError("which metric? --list tells which there are")
    options = Options(window=parsed(since, until, at), process=process, strict=bool(strict))
    with shared.shown(progress) as show:
        given = read([path], options, stdin=sys.stdin.buffer, progress=show)
        every = cases(given, options)
    if not any(state.samples for case in every for state in case.states):
        raise shared.absent([path]) or InputError(_nothing(given))
    if listing:
        click.echo(_list(every))
        _leave(given, given.readings)
    _leave(given, _write(every, metrics, output))


def _nothing(given: Input) -> str:
    return "nothing in the input has values over time" if any(i.reader for i in given.inputs) else shared.NOTHING


def _write(every: Sequence[Case], metrics: Sequence[str], output: str) -> set[str]:
    """Write the rows; the files that they are from."""
    from thpdiag.exported.columns import chosen, listed, recorded  # numpy: only once there are values
    from thpdiag.exported.formats import FORMATS, target

    form, file = target(output)
    known = listed(every)
    names, unknown = chosen(metrics, known)
    for word in unknown:
        shared.complain(_absent(word, known))
    if not names:
        raise Exit(InputError.exit_code)
    rows = list(recorded(every, names))
    _deliver(FORMATS[form](rows), file)
    return {one.member for one in rows}


def _deliver(content: str | bytes, file: Path) -> None:
    if isinstance(content, str):
        shared.write(content, file)
    elif str(file) != "-":
        shared.write_bytes(content, file)
    elif sys.stdout.isatty():
        raise UsageError("Parquet is no text for a terminal: -o parquet=FILE")
    else:
        sys.stdout.buffer.write(content)


def _absent(word: str, known: Iterable[str]) -> str:
    """Why there is nothing of a name: the input does not have it, or nobody knows it."""
    names = list(known)
    holding = [name for name in names if word and word.lower() in name.lower()]
    if holding:
        more = f" and {len(holding) - MOST_NAMES} more" if len(holding) > MOST_NAMES else ""
        return visible(f"{word} is not in the input; names with it are {', '.join(holding[:MOST_NAMES])}{more}")
    hint = "" if set(word) & set("*?[") else _like(word, names)
    vocabulary = next((term(name) for name in meant(word) if name in spelled_out()), None)
    if vocabulary and not hint:
        return visible(f"{word} is not in the input ({vocabulary.means}); it is printed by: {vocabulary.ask_for}")
    return visible(f"{word or 'a metric without a name'} is not in the input{hint or '; --list tells what is'}")


def _like(word: str, names: Sequence[str]) -> str:
    """The name that may be meant; the kernel's own words are without what we put around them."""
    short = {name.removeprefix("node_vmstat_").removeprefix("node_memory_"): name for name in names}
    found = suggestion(word, short)
    return next((found.replace(f"'{s}'", f"'{name}'") for s, name in short.items() if f"'{s}'" in found), found)


def _list(every: Sequence[Case]) -> str:
    """Each metric with its rows, what they are of, and what it means."""
    from thpdiag.exported.columns import listed

    lines = []
    for name, one in listed(every).items():
        known = term(name)
        files = "1 file" if len(one.members) == 1 else f"{len(one.members)} files"
        means = f": {known.means} ({known.unit})" if known else ""
        rows = f"{one.rows:,} {'row' if one.rows == 1 else 'rows'}{_of(one.entities.values())}"
        lines += [name, *fold(f"{rows} in {files}{means}", "    ")]
    return "\n".join(lines)


def _of(kinds: Iterable[str]) -> str:
    """Whose rows they are, if not the host's alone."""
    counts = Counter(kinds)
    host = ["the host"] * bool(counts.pop("system", 0))
    several = [f"{n} {PLURALS.get(kind, kind)}" if n > 1 else f"1 {kind}" for kind, n in counts.items()]
    return f" of {' and '.join((*host, *several))}" if several else ""


def _leave(given: Input, used: Collection[str]) -> NoReturn:
    """Say what may be missing from the files that were used; leave with the exit code."""
    near = [p for p in given.problems if p.cite.member in used or not given.readings.get(p.cite.member)]
    limits = [problem for problem in near if problem.kind is ProblemKind.LIMIT]
    damaged = [problem for problem in near if problem.hides_data and problem not in limits]
    for problem in (*limits, *damaged):
        shared.complain(shared.told(problem))
    raise Exit(shared.CUT_SHORT if limits else shared.DAMAGED if damaged else 0)
