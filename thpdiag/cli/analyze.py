"""`thpdiag analyze`: diagnose the data of a customer."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from thpdiag.cli import options as shared
from thpdiag.cli.options import Accepting, Ceiling, Delivery, Reading, Redaction, RuleChoice
from thpdiag.engine.load import Rule
from thpdiag.engine.quantity import format_quantity
from thpdiag.engine.timing import Timings
from thpdiag.errors import BUG_EXIT_CODE, ThpdiagError
from thpdiag.host.options import Options
from thpdiag.host.reading import Progress
from thpdiag.model import Citation, Problem, ProblemKind
from thpdiag.pipeline import WHOLE_INPUT, analyze_paths, unread
from thpdiag.report import FORMATS, AnyResult
from thpdiag.report.escaping import visible

if TYPE_CHECKING:
    from thpdiag.sandbox.outcome import Limits, Outcome


MAX_MEMORY_BYTES = 4 << 30
NO_MEMORY = "annot allocate memory"  # part of the message if a shared library cannot be loaded


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
@click.option("--case", default="", help="The name of the case in the report.")
@click.option("--process", default="", help="Analyze only this process (PID or command name).")
@shared.redaction_options
@click.option("--isolate", is_flag=True, help="Analyze in a child process with limits.")
@shared.REQUIRE_SANDBOX
@shared.ceiling_options
@shared.rule_options
@click.option(
    "--timings", is_flag=False, flag_value="-", metavar="[FILE]",
    help="Also write the time of each stage and rule to stderr or to a new FILE.",
)  # fmt: skip
@shared.EXTENT
@shared.VERBOSE
@shared.COLOR
@shared.PROGRESS
@shared.STRICT
@shared.delivery_options
@shared.reading_options
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
    require_sandbox: bool | None,
    ceiling: Ceiling,
    chosen: RuleChoice,
    timings: str | None,
) -> None:
    """Diagnose the data at PATHS: folders, archives, or files (`-` is stdin).

    --require-sandbox implies --isolate.
    """
    targets = shared.parse_outputs(delivery.outputs)
    rules, times = chosen.rules(), Timings()
    shared.check_timings_file(timings)
    options = ceiling.apply(reading.options(rules, case))
    ended: ThpdiagError | None = None
    stdin = sys.stdin.buffer
    document: AnyResult
    with shared.progress_display() as show:
        if isolate or require_sandbox:
            limits = ceiling.child_limits(every_layer=bool(require_sandbox))
            with times.stage("the child process"):
                document, ended = _analyze_in_child(paths, rules, options, limits, show)
        else:
            try:
                with memory_ceiling(max_bytes := int(ceiling.max_memory or MAX_MEMORY_BYTES)):
                    document = analyze_paths(paths, rules, options, stdin=stdin, progress=show, timings=times)
            except (MemoryError, OSError, ImportError) as error:
                if not isinstance(error, MemoryError) and NO_MEMORY not in str(error):
                    raise
                traceback.clear_frames(error.__traceback__)
                ended = MemoryCeilingError(max_bytes)
                document = unread(Problem(Citation(WHOLE_INPUT), str(ended), ProblemKind.LIMIT), rules, options)
    document = redaction.apply(accepting.mark(document, delivery.verbosity))
    failure = ended or shared.missing_path_error(paths)
    empty = None if failure or shared.is_recognised(document) else shared.empty_input_error(paths, document)
    is_silent = bool(empty or (failure and not ended)) and not shared.is_recognised(document)
    with times.stage("reports"):
        delivery.deliver(document, targets, FORMATS, silent=is_silent)
    if timings is not None:
        shared.write_timings(times, timings)
    code = shared.exit_code(document, delivery.fail_on, fail_on_missing)
    if failure and (failure.exit_code == BUG_EXIT_CODE or code != 1):
        raise failure
    shared.exit_with_result(document, code, empty)


class MemoryCeilingError(ThpdiagError):
    """The analysis needed more memory than allowed."""

    exit_code = 6

    def __init__(self, max_bytes: int) -> None:
        size = format_quantity(max_bytes, "bytes")
        super().__init__(f"the analysis needed more than {size} of memory (limit --max-memory); there is no result")


@contextmanager
def memory_ceiling(max_bytes: int) -> Iterator[None]:
    """Limit the address space, so that allocating more raises MemoryError; no limit on other systems than Unix."""
    try:
        import resource
    except ImportError:  # not Unix
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    bounds = [max_bytes, *(bound for bound in before if bound != resource.RLIM_INFINITY)]
    with suppress(ValueError, OSError):  # macOS has the constant, but not the limit
        resource.setrlimit(resource.RLIMIT_AS, (min(bounds), before[1]))
    try:
        yield
    finally:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, before)


class IsolationError(ThpdiagError):
    """The child process failed; the exit code is that of the outcome."""

    def __init__(self, outcome: Outcome, lost: str = "") -> None:
        super().__init__("\n".join(visible(line) for line in f"{outcome.sentence.rstrip()}{lost}".split("\n")))
        self.exit_code = outcome.exit_code


def _analyze_in_child(
    paths: Sequence[Path], rules: Sequence[Rule], options: Options, limits: Limits, progress: Progress | None
) -> tuple[dict[str, Any], IsolationError | None]:
    """Analyse in a child process; return the result document, and the error to exit with if the child failed."""
    from thpdiag.isolated import analyze_isolated, describe_missing, document_of_failure  # few runs need the sandbox
    from thpdiag.sandbox.outcome import Status

    outcome = analyze_isolated(paths, rules, options, limits=limits, stdin=sys.stdin.buffer, progress=progress)
    if outcome.missing:
        shared.print_message(describe_missing(outcome.missing))
    if outcome.status is Status.OK:
        return json.loads(outcome.content), None
    if outcome.status is Status.REFUSED:
        raise IsolationError(outcome)
    return document_of_failure(outcome, rules, options), IsolationError(outcome, "; there is no result")
