"""`thpdiag analyze`: what a customer sent in, the diagnosis out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import rich_click as click

from thpdiag.analyze import Options, analyze
from thpdiag.cli import options as shared
from thpdiag.cli.rules import RULES, loaded
from thpdiag.errors import InputError
from thpdiag.reports import FORMATS
from thpdiag.reports import text as text_report
from thpdiag.case.window import parsed

QUIET = 1.0  # seconds before progress is shown
EXPECTED = (
    "expected a sosreport or any archive or folder of text files: collectl, vmstat, top or ps output, /proc and /sys "
    "files, perf script or perf report or perf top text, a kernel log, or a pasted terminal session"
)


@click.command()
@shared.PATHS
@click.option("-f", "--format", "form", type=click.Choice(sorted(FORMATS)), default="text", show_default=True)
@shared.OUTPUT
@shared.FAIL_ON
@click.option("--fail-on-missing", is_flag=True, help="Exit 1 if a rule could not be decided.")
@click.option("--since", help="Only what happened from this time on.")
@click.option("--until", help="Only what happened up to this time.")
@click.option("--at", help="Only five minutes before and after this time.")
@click.option("--case", default="", help="A name for the case in the report.")
@click.option("--process", default="", help="Look at this process only (pid or command name).")
@RULES
@click.option("-v", "verbosity", count=True, help="All findings; twice: the match trees too.")
@click.option("--no-progress", is_flag=True, help="No progress, even on a terminal.")
@click.option("--strict", is_flag=True, hidden=True)
def command(
    paths: tuple[Path, ...], form: str, outputs: tuple[str, ...], fail_on: str, fail_on_missing: bool, since: str | None,
    until: str | None, at: str | None, case: str, process: str, folders: tuple[Path, ...], verbosity: int,
    no_progress: bool, strict: bool,
) -> None:  # fmt: skip
    """Diagnose what is at PATHS (folders, archives, files; `-` is standard input)."""
    missing = [p for p in paths if str(p) != "-" and not p.exists()]
    if missing:
        raise InputError(f"{missing[0]}: no such file or folder")
    targets = shared.targets(outputs)
    options = Options(window=parsed(since, until, at), case=case, process=process, strict=strict)
    with progress(no_progress) as show:
        document = analyze(paths, loaded(folders), options, stdin=sys.stdin.buffer, progress=show)
    if not any(str(path) == "-" for _, path in targets):
        rendered = text_report.render(document, verbosity) if form == "text" else FORMATS[form](document)
        click.echo(rendered, nl=False)
    for name, path in targets:
        shared.write(FORMATS[name](document), path)
    code = shared.exit_code(document, fail_on, fail_on_missing=fail_on_missing)
    if code == 3:
        click.echo(f"thpdiag: nothing in the input was recognised; {EXPECTED}", err=True)
    raise click.exceptions.Exit(code)


@contextmanager
def progress(off: bool) -> Iterator[Callable[[str], None] | None]:  # noqa: FBT001 - an option passed on
    """Shows the member being read, on a terminal, once a second has passed."""
    if off or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 - only for a person at a terminal
    from rich.markup import escape  # noqa: PLC0415

    started = time.monotonic()
    console = Console(stderr=True)
    with console.status("reading") as status:
        status.stop()

        def show(member: str) -> None:
            if time.monotonic() - started > QUIET:
                status.start()
                status.update(f"reading {escape(member[-70:])}")

        yield show
