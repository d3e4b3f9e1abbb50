"""`thpdiag analyze`: what a customer sent in, the diagnosis out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import rich_click as click

from thpdiag.analyze import analyze
from thpdiag.case.options import Options
from thpdiag.case.window import parsed
from thpdiag.cli import options as shared

STRICT = click.option("--strict", "strict", flag_value="strict", default="", hidden=True)


@click.command()
@shared.PATHS
@shared.FORMAT
@shared.OUTPUT
@shared.FAIL_ON
@click.option("--fail-on-missing", flag_value="yes", default="", help="Exit 1 if a rule could not be decided.")
@click.option("--since", help="Only what happened from this time on.")
@click.option("--until", help="Only what happened up to this time.")
@click.option("--at", help="Only five minutes before and after this time.")
@click.option("--case", default="", help="A name for the case in the report.")
@click.option("--process", default="", help="Look at this process only (pid or command name).")
@shared.RULES
@shared.VERBOSE
@click.option("--no-progress", "progress", flag_value="no", default="yes", help="No progress, even on a terminal.")
@STRICT
def command(
    paths: tuple[Path, ...], form: str, outputs: tuple[str, ...], fail_on: str, fail_on_missing: str,
    since: str | None, until: str | None, at: str | None, case: str, process: str, folders: tuple[Path, ...],
    verbosity: int, progress: str, strict: str,
) -> None:  # fmt: skip
    """Diagnose what is at PATHS (folders, archives, files; `-` is standard input)."""
    targets = shared.targets(outputs)
    told = {"since": since, "until": until, "at": at, "process": process}
    options = Options(
        window=parsed(since, until, at), case=case, process=process, strict=bool(strict),
        told={name: value for name, value in told.items() if value},
    )  # fmt: skip
    rules = shared.loaded(folders)
    with _shown(progress) as show:
        document = analyze(paths, rules, options, stdin=sys.stdin.buffer, progress=show)
    shared.deliver(document, form, targets, verbosity)
    if (mistake := shared.absent(paths)) and shared.exit_code(document, fail_on, fail_on_missing) != 1:
        raise mistake
    shared.finish(document, fail_on, fail_on_missing)


def _shown(progress: str) -> AbstractContextManager[Callable[[str], None] | None]:
    """Progress, if somebody watches; only then is it worth to import what draws it."""
    if progress == "no" or not sys.stderr.isatty():
        return nullcontext()
    from thpdiag.cli.progress import progress as shown

    return shown()
