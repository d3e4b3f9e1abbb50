"""`thpdiag compare`: compare two bundles or results, finding by finding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import rich_click as click
from click.exceptions import Exit

from thpdiag.cli import options as shared
from thpdiag.cli.options import Accepting, Delivery, Redaction, RuleChoice
from thpdiag.cli.saved import find_result
from thpdiag.compare import FORMATS
from thpdiag.compare.document import document, failing
from thpdiag.compare.model import Comparison
from thpdiag.errors import InputError
from thpdiag.model.result import as_result
from thpdiag.pipeline import analyze_paths
from thpdiag.report import AnyResult
from thpdiag.report.presentation import fails

NOTHING = "nothing to compare: BEFORE and AFTER have no host in common"


@click.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@shared.format_option(FORMATS)
@shared.OUTPUT
@shared.FAIL_ON_CHANGE
@shared.acceptance_options
@shared.redaction_options
@shared.rule_options
@shared.VERBOSE
@shared.COLOR
@shared.PROGRESS
@shared.delivery_options
def command(
    *,
    before: Path,
    after: Path,
    delivery: Delivery,
    accepting: Accepting,
    redaction: Redaction,
    chosen: RuleChoice,
) -> None:
    """Compare BEFORE and AFTER to see whether a fix worked. Each is a bundle or a result of thpdiag (JSON or HTML)."""
    targets, paths = shared.parse_outputs(delivery.outputs, FORMATS), (before, after)
    saved = []
    for path in paths:
        if missing := shared.missing_path_error([path]):
            raise missing
        saved.append(find_result(path))
    rules = chosen.rules() if None in saved else ()
    results = []
    for path, result in zip(paths, saved, strict=True):
        with shared.progress_display(wanted=result is None) as show:
            results.append(result or analyze_paths([path], rules, progress=show))
    try:
        marked = accepting.mark(results[1], delivery.verbosity)
        comparison, codes = _compare(paths, redaction.apply_to_compared([results[0], marked]))
        delivery.deliver(comparison, targets, FORMATS)
        failed = any(fails(finding, delivery.fail_on) for finding in failing(comparison))
    except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        if any(saved):  # a saved result that does not match the schema
            raise InputError(f"no valid thpdiag result ({type(error).__name__}: {error})") from error
        raise
    if not comparison.hosts:
        raise InputError(NOTHING)
    incomplete = next((code for code in (shared.CUT_SHORT, shared.DAMAGED) if code in codes), 0)
    raise Exit(1 if failed else incomplete)


def _compare(paths: Sequence[Path], results: Sequence[AnyResult]) -> tuple[Comparison, set[int]]:
    """Return the comparison, and the exit codes of each side alone."""
    for path, result in zip(paths, map(as_result, results), strict=True):
        if not shared.is_recognised(result) and result.inputs:
            raise InputError(f"{path}: {shared.unrecognised_reason(result)}")
    return document(*results), {shared.exit_code(result) for result in results}
