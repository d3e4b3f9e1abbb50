"""`thpdiag analyze`: what a customer sent in, the diagnosis out."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from thpdiag.cli import options as shared
from thpdiag.cli.options import Accepting, Delivery, Reading, Redaction, RuleChoice
from thpdiag.engine.load import Rule
from thpdiag.engine.timing import Timings
from thpdiag.errors import BUG_EXIT_CODE, ThpdiagError
from thpdiag.host.options import Options
from thpdiag.host.reading import Progress
from thpdiag.pipeline import analyze_paths
from thpdiag.report import FORMATS, AnyResult
from thpdiag.report.escaping import visible

if TYPE_CHECKING:
    from thpdiag.sandbox.outcome import Outcome


@click.command()
@shared.PATHS
@shared.FORMAT
@shared.OUTPUT
@shared.FAIL_ON
@shared.acceptance_options
@shared.SHOW_SUPPRESSED
@shared.FAIL_ON_MISSING
@shared.SINCE
@shared.UNTIL
@shared.AT
@click.option("--case", default="", help="A name for the case in the report.")
@click.option("--process", default="", help="Look at this process only (pid or command name).")
@shared.redaction_options
@click.option("--isolate", is_flag=True, help="Analyse in a child process with limits.")
@shared.rule_options
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
@shared.packed_delivery
@shared.packed_reading
def command(
    *,
    paths: tuple[Path, ...],
    delivery: Delivery,
    accepting: Accepting,
    fail_on_missing: bool,
    reading: Reading,
    case: str,
    redaction: Redaction,
    isolate: bool,
    chosen: RuleChoice,
    timings: str | None,
) -> None:
    """Diagnose what is at PATHS (folders, archives, files; `-` is standard input)."""
    targets = shared.parse_outputs(delivery.outputs)
    rules, spent = chosen.rules(), Timings()
    shared.check_timings_file(timings)
    options = reading.options(rules, case)
    ended: ThpdiagError | None = None
    document: AnyResult
    with shared.progress_of(quiet=reading.quiet) as show:
        if isolate:
            with spent.stage("the child process"):
                document, ended = _analyze_in_child(paths, rules, options, show)
        else:
            document = analyze_paths(paths, rules, options, stdin=sys.stdin.buffer, progress=show, timings=spent)
    document = redaction.apply(accepting.mark(document, delivery.verbosity))
    with spent.stage("reports"):
        delivery.deliver(document, targets, FORMATS, quiet=reading.quiet)
    if timings is not None:
        shared.write_timings(spent, timings)
    mistake = ended or shared.missing_path(paths)
    code = shared.exit_code(document, delivery.fail_on, fail_on_missing)
    if mistake and (mistake.exit_code == BUG_EXIT_CODE or code != 1):
        raise mistake
    shared.exit_with_result(document, code)


class IsolationError(ThpdiagError):
    """The child process did not come to its end; the exit code is that of the reason."""

    def __init__(self, outcome: Outcome, lost: str = "") -> None:
        super().__init__("\n".join(visible(line) for line in f"{outcome.sentence.rstrip()}{lost}".split("\n")))
        self.exit_code = outcome.exit_code


def _analyze_in_child(
    paths: Sequence[Path], rules: Sequence[Rule], options: Options, progress: Progress | None
) -> tuple[dict[str, Any], IsolationError | None]:
    """The result document of what is at the paths, and what to leave with if it could not be made of them."""
    from thpdiag.isolated import analyze_isolated, document_of_failure  # few runs need the sandbox
    from thpdiag.sandbox.outcome import Status

    outcome = analyze_isolated(paths, rules, options, stdin=sys.stdin.buffer, progress=progress)
    if outcome.status is Status.OK:
        return json.loads(outcome.content), None
    if outcome.status is Status.REFUSED:
        raise IsolationError(outcome)
    return document_of_failure(outcome, rules, options), IsolationError(outcome, "; nothing of the input is known")
