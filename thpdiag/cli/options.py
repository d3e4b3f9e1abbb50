"""Options that several commands share, and what becomes of a result: where it is written, which exit code it gives."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import rich_click as click
from click.exceptions import Exit

from thpdiag.engine.load import Rule
from thpdiag.engine.timing import TITLE, Timings
from thpdiag.errors import InputError, UsageError
from thpdiag.knowledge.complaints import suggestion
from thpdiag.model import SEVERITIES, Problem
from thpdiag.reports import FORMATS, Report
from thpdiag.reports.exit_code import CUT_SHORT as CUT_SHORT
from thpdiag.reports.exit_code import DAMAGED as DAMAGED
from thpdiag.reports.exit_code import documents as documents
from thpdiag.reports.exit_code import exit_code as exit_code
from thpdiag.reports.exit_code import gated as gated
from thpdiag.reports.exit_code import recognised as recognised
from thpdiag.reports.presentation import Presentation, Suppressed
from thpdiag.reports.visible import visible

EXPECTED = (
    "expected a sosreport, or any archive, folder or text with collectl, vmstat, top or ps output, /proc and /sys "
    "files, perf.data, perf script, perf report or perf top text, a kernel log, or a pasted terminal session"
)
NOTHING = f"nothing in the input was recognised; {EXPECTED}"
SUFFIXES = {"txt": "text", "htm": "html", "md": "markdown", "xml": "junit"}
SUMMARY = "GITHUB_STEP_SUMMARY"  # the variable that names the file to which the commands of a CI step add

PATHS = click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
FORMAT = click.option(
    "-f", "--format", "form", type=click.Choice(sorted(FORMATS)), default="text", show_default=True,
    help="What to print.",
)  # fmt: skip
OUTPUT = click.option(
    "-o", "--output", "outputs", multiple=True, metavar="FORMAT=PATH",
    help="Also write this format to this file; may be given several times, `-` is stdout.",
)  # fmt: skip
VERBOSE = click.option("-v", "verbosity", count=True, help="All findings; twice: the match trees too.")
SHOW_SUPPRESSED = click.option(
    "--show-suppressed", "suppressed", flag_value=Suppressed.SHOWN.value, default=Suppressed.LEFT_OUT.value,
    help="Also list findings that a suppression or a baseline accepts.",
)  # fmt: skip
FAIL_ON = click.option(
    "--fail-on", type=click.Choice([*reversed(SEVERITIES), "never"]), default="never", show_default=True,
    help="Exit 1 if there is a finding of this severity or a higher one.",
)  # fmt: skip
FAIL_ON_CHANGE = click.option(
    "--fail-on", type=click.Choice([*reversed(SEVERITIES), "never"]), default="never", show_default=True,
    help="Exit 1 if a finding of this severity or a higher one is new or worse.",
)  # fmt: skip
RULES = click.option(
    "--rules", "folders", type=click.Path(exists=True, file_okay=False, path_type=Path), multiple=True,
    help="A folder with further rules; may be given several times.",
)  # fmt: skip
SET = click.option(
    "--set", "changes", multiple=True, metavar="RULE.PARAM=VALUE",
    help="Another value of a rule's parameter, such as 'THP-013.often=0.1 /s'; may be given several times.",
)  # fmt: skip
SINCE = click.option("--since", help="Only what happened from this time of the host on.")
UNTIL = click.option("--until", help="Only what happened up to this time.")
AT = click.option("--at", help="Only five minutes before and after this time.")
PROGRESS = click.option(
    "--no-progress", "progress", flag_value="no", default="yes", help="No progress, even on a terminal."
)
STRICT = click.option("--strict", "strict", flag_value="strict", default="", hidden=True)
PROCESS = click.option("--process", default="", help="This process only (pid or command name).")
_Command = TypeVar("_Command", bound=Callable[..., Any])


def part(command: _Command) -> _Command:
    """The options by which `series` and `flame` take a part of the input."""
    for option in (STRICT, PROGRESS, AT, UNTIL, SINCE, PROCESS):
        command = option(command)
    return command


def shown(progress: str) -> AbstractContextManager[Callable[[str], None] | None]:
    """Progress, if somebody watches; only then is it worth to import what draws it."""
    if progress == "no" or not sys.stderr.isatty():
        return nullcontext()
    from thpdiag.cli.progress import progress as drawn

    return drawn()


def one(wanted: str, rules: Sequence[Rule]) -> Rule:
    """The rule of an id, however it is capitalised."""
    by_id = {rule.id: rule for rule in rules}
    if wanted.upper() not in by_id:
        raise UsageError(f"no rule {wanted}{suggestion(wanted.upper(), by_id)}")
    return by_id[wanted.upper()]


def absent(paths: Sequence[Path]) -> InputError | None:
    """The mistake of naming a path that is not there, as something to say or to raise."""
    missing = [path for path in paths if str(path) != "-" and not path.exists()]
    return InputError(f"{missing[0]}: no such file or folder; {EXPECTED}") if missing else None


def targets(outputs: tuple[str, ...], formats: Collection[str] = FORMATS) -> list[tuple[str, Path]]:
    """The (format, file) pairs of `-o`; a path alone decides by its suffix."""
    found = []
    for text in outputs:
        name, sign, rest = text.partition("=")
        if not sign:
            name, rest = _suffix(text), text
        known = SUFFIXES.get(name, name)
        if known not in formats or not rest:
            raise UsageError(f"-o takes FORMAT=PATH, not '{text}'; formats are {', '.join(sorted(formats))}")
        found.append((known, Path(rest)))
    _check([path for _, path in found])
    return found


def _check(paths: Sequence[Path]) -> None:
    """Refuse before the analysis what could not be written after it, and what would be overwritten by its neighbour."""
    for path in paths:
        if str(path) == "-":
            continue
        if path.is_dir():
            raise UsageError(f"-o: {path} is a folder")
        if not path.parent.is_dir():
            raise UsageError(f"-o: {path} cannot be written: there is no folder {path.parent}")
    whole = [str(path) if str(path) == "-" else path.resolve() for path in paths if not _takes_more(path)]
    twice = [path for path in whole if whole.count(path) > 1]
    if twice:
        raise UsageError(f"-o: two formats cannot both go to {'stdout' if twice[0] == '-' else twice[0]}")


def _takes_more(path: Path) -> bool:
    """Whether what is written to a path is added to it: the summary of a CI step, a pipe, a device."""
    return str(path) == os.environ.get(SUMMARY) or (path.exists() and not path.is_file())


def _suffix(text: str) -> str:
    """What a file name ends with; `.sarif.json` is the longer of the two endings that SARIF names."""
    return "sarif" if text.endswith(".sarif.json") else Path(text).suffix.lstrip(".") or text


def deliver(
    document: Mapping[str, Any], form: str, files: Sequence[tuple[str, Path]], presentation: Presentation,
    formats: Mapping[str, Report] = FORMATS,
) -> None:  # fmt: skip
    """Print the result unless some `-o` claims stdout, and write the files."""
    if not any(str(path) == "-" for _, path in files):
        click.echo(formats[form](document, presentation), nl=False)
    for name, path in files:
        write(formats[name](document, presentation), path)


def write(text: str, path: Path) -> None:
    """To a file, or to stdout for `-`; to the end of the summary of a CI step, which others write to as well."""
    if str(path) == "-":
        click.echo(text, nl=False)
        return
    mode = "a" if str(path) == os.environ.get(SUMMARY) else "w"
    try:
        with path.open(mode, encoding="utf-8", newline="") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    notice(f"{path} written")


def write_bytes(content: bytes, path: Path) -> None:
    """To a file."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    notice(f"{path} written")


def spare(name: str | None) -> None:
    """Refuse to write timings over anything but timings: `--timings a.tar b.tar` names a bundle, not a new file."""
    path = Path(name or "-")
    if str(path) == "-" or not path.exists():
        return
    begin = path.read_bytes()[: len(TITLE)] if path.is_file() else b""
    if begin != TITLE.encode():
        raise UsageError(f"--timings takes a new file, and {path} is there already (--timings=- is stderr)")


def tell(spent: Timings, name: str) -> None:
    """The timings to stderr (`-`) or into a file."""
    text = "\n".join(spent.lines())
    if name == "-":
        click.echo(text, err=True)
    else:
        write(text + "\n", Path(name))


def notice(text: str) -> None:
    """Something that only a person at a terminal wants to know."""
    if sys.stderr.isatty():
        click.echo(text, err=True)


def complain(text: str) -> None:
    """One sentence on stderr."""
    click.echo(f"thpdiag: {text}", err=True)


def told(problem: Problem) -> str:
    """A problem and where it is, for stderr."""
    return visible(f"{problem.cite.member}: {problem.text}")


def finish(document: Mapping[str, Any], fail_on: str = "never", fail_on_missing: object = None) -> NoReturn:
    """Leave with the exit code of the result; of nothing recognised it is said what would have been."""
    if not recognised(document):
        complain(NOTHING)
    raise Exit(exit_code(document, fail_on, fail_on_missing))
