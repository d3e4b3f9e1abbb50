"""`thpdiag analyze`: what a customer sent in, the diagnosis out."""

from __future__ import annotations

import sys
from pathlib import Path

import rich_click as click

from thpdiag.analyze import analyze
from thpdiag.case.options import Options
from thpdiag.case.window import parsed
from thpdiag.cli import options as shared
from thpdiag.cli.accepting import accepting, with_marks
from thpdiag.cli.isolated import isolated
from thpdiag.cli.redaction import clean, redacting
from thpdiag.engine.chosen_params import told as changed
from thpdiag.engine.rule_set import rule_set
from thpdiag.engine.timing import Timings
from thpdiag.errors import ThpdiagError
from thpdiag.isolated import BUG
from thpdiag.reports.presentation import Presentation, Suppressed


@click.command()
@shared.PATHS
@shared.FORMAT
@shared.OUTPUT
@shared.FAIL_ON
@accepting
@shared.SHOW_SUPPRESSED
@click.option("--fail-on-missing", flag_value="yes", default="", help="Exit 1 if a rule could not be decided.")
@shared.SINCE
@shared.UNTIL
@shared.AT
@click.option("--case", default="", help="A name for the case in the report.")
@click.option("--process", default="", help="Look at this process only (pid or command name).")
@redacting
@click.option("--isolate", flag_value="yes", default="", help="Analyse in a child process with limits.")
@shared.RULES
@shared.SET
@click.option(
    "--timings",
    is_flag=False,
    flag_value="-",
    metavar="[FILE]",
    help="Also write how long stages and rules took, to stderr or to a new FILE; never into the result.",
)
@shared.VERBOSE
@shared.PROGRESS
@shared.STRICT
def command(
    paths: tuple[Path, ...], form: str, outputs: tuple[str, ...], fail_on: str, fail_on_missing: str,
    since: str | None, until: str | None, at: str | None, case: str, process: str, folders: tuple[Path, ...],
    changes: tuple[str, ...], timings: str | None, verbosity: int, progress: str, strict: str, suppressed: str,
    suppress: tuple[Path, ...], baselines: tuple[Path, ...], today: str,
    redact: str, maps: tuple[Path, ...], isolate: str,
) -> None:  # fmt: skip
    """Diagnose what is at PATHS (folders, archives, files; `-` is standard input)."""
    targets = shared.targets(outputs)
    rules, spent = rule_set(folders, changes), Timings()
    told = {"since": since, "until": until, "at": at, "process": process, "set": changed(rules)}
    shared.spare(timings)
    options = Options(
        window=parsed(since, until, at), case=case, process=process, strict=bool(strict),
        told={name: value for name, value in told.items() if value},
    )  # fmt: skip
    ended: ThpdiagError | None = None
    if isolate:
        with spent.stage("the child process"):
            document, ended = isolated(paths, rules, options)
    else:
        with shared.shown(progress) as show:
            document = analyze(paths, rules, options, stdin=sys.stdin.buffer, progress=show, timings=spent)
    document = with_marks(document, suppress, baselines, today, verbosity)
    document = clean(document, redact, maps)
    with spent.stage("reports"):
        shared.deliver(document, form, targets, Presentation(verbosity, fail_on, Suppressed(suppressed)))
    if timings is not None:
        shared.tell(spent, timings)
    mistake = ended or shared.absent(paths)
    if mistake and (mistake.exit_code == BUG or shared.exit_code(document, fail_on, fail_on_missing) != 1):
        raise mistake
    shared.finish(document, fail_on, fail_on_missing)
