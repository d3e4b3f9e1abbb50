"""`thpdiag analyze`: what a customer sent in, the diagnosis out."""

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
NO_MEMORY = "annot allocate memory"  # of a library that was to be loaded


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
    "--timings",
    is_flag=False,
    flag_value="-",
    metavar="[FILE]",
    help="Also write the time of each stage and rule to stderr or to a new FILE.",
)
@shared.EXTENT
@shared.VERBOSE
@shared.COLOR
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
    require_sandbox: bool | None,
    ceiling: Ceiling,
    chosen: RuleChoice,
    timings: str | None,
) -> None:
    """Diagnose the data at PATHS: folders, archives, or files (`-` is stdin).

    --require-sandbox implies --isolate.
    """
    targets = shared.parse_outputs(delivery.outputs)
    rules, spent = chosen.rules(), Timings()
    shared.check_timings_file(timings)
    options = ceiling.apply(reading.options(rules, case))
    ended: ThpdiagError | None = None
    stdin = sys.stdin.buffer
    document: AnyResult
    with shared.progress_of() as show:
        if isolate or require_sandbox:
            limits = ceiling.child_limits(every_layer=bool(require_sandbox))
            with spent.stage("the child process"):
                document, ended = _analyze_in_child(paths, rules, options, limits, show)
        else:
            try:
                with memory_ceiling(most := int(ceiling.max_memory or MAX_MEMORY_BYTES)):
                    document = analyze_paths(paths, rules, options, stdin=stdin, progress=show, timings=spent)
            except (MemoryError, OSError, ImportError) as error:
                if not isinstance(error, MemoryError) and NO_MEMORY not in str(error):
                    raise
                traceback.clear_frames(error.__traceback__)
                ended = MemoryCeilingError(most)
                document = unread(Problem(Citation(WHOLE_INPUT), str(ended), ProblemKind.LIMIT), rules, options)
    document = redaction.apply(accepting.mark(document, delivery.verbosity))
    mistake = ended or shared.missing_path(paths)
    empty = None if mistake or shared.is_recognised(document) else shared.pointless_input(paths, document)
    nothing = bool(empty or (mistake and not ended)) and not shared.is_recognised(document)
    with spent.stage("reports"):
        delivery.deliver(document, targets, FORMATS, silent=nothing)
    if timings is not None:
        shared.write_timings(spent, timings)
    code = shared.exit_code(document, delivery.fail_on, fail_on_missing)
    if mistake and (mistake.exit_code == BUG_EXIT_CODE or code != 1):
        raise mistake
    shared.exit_with_result(document, code, empty)


class MemoryCeilingError(ThpdiagError):
    """The analysis needed more memory than it may use."""

    exit_code = 6

    def __init__(self, most: int) -> None:
        size = format_quantity(most, "bytes")
        super().__init__(f"the analysis needed more than {size} of memory (limit --max-memory); there is no result")


@contextmanager
def memory_ceiling(most: int) -> Iterator[None]:
    """MemoryError in place of more than `most` bytes of address space, where the system knows such a limit."""
    try:
        import resource
    except ImportError:  # not Unix
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    bounds = [most, *(bound for bound in before if bound != resource.RLIM_INFINITY)]
    with suppress(ValueError, OSError):  # macOS knows the limit, but sets none
        resource.setrlimit(resource.RLIMIT_AS, (min(bounds), before[1]))
    try:
        yield
    finally:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, before)


class IsolationError(ThpdiagError):
    """The child process did not come to its end; the exit code is that of the reason."""

    def __init__(self, outcome: Outcome, lost: str = "") -> None:
        super().__init__("\n".join(visible(line) for line in f"{outcome.sentence.rstrip()}{lost}".split("\n")))
        self.exit_code = outcome.exit_code


def _analyze_in_child(
    paths: Sequence[Path], rules: Sequence[Rule], options: Options, limits: Limits, progress: Progress | None
) -> tuple[dict[str, Any], IsolationError | None]:
    """The result document of what is at the paths, and what to leave with if it could not be made of them."""
    from thpdiag.isolated import analyze_isolated, describe_missing, document_of_failure  # few runs need the sandbox
    from thpdiag.sandbox.outcome import Status

    outcome = analyze_isolated(paths, rules, options, limits=limits, stdin=sys.stdin.buffer, progress=progress)
    if outcome.missing:
        shared.complain(describe_missing(outcome.missing))
    if outcome.status is Status.OK:
        return json.loads(outcome.content), None
    if outcome.status is Status.REFUSED:
        raise IsolationError(outcome)
    return document_of_failure(outcome, rules, options), IsolationError(outcome, "; there is no result")
