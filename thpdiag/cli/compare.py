"""`thpdiag compare`: two bundles or results in, what became of each finding out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rich_click as click
from click.exceptions import Exit

from thpdiag.analyze import analyze
from thpdiag.cli import options as shared
from thpdiag.cli.accepting import accepting, with_marks
from thpdiag.cli.redaction import compared, redacting
from thpdiag.cli.saved import saved
from thpdiag.compare.document import document, failing
from thpdiag.compare.formats import FORMATS
from thpdiag.engine.load import Rule
from thpdiag.engine.rule_set import rule_set
from thpdiag.errors import InputError
from thpdiag.reports.presentation import Presentation
from thpdiag.reports.severities import fails

NOTHING = "nothing to compare: no host of BEFORE is in AFTER"


@click.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option(
    "-f",
    "--format",
    "form",
    type=click.Choice(sorted(FORMATS)),
    default="text",
    show_default=True,
    help="What to print.",
)
@shared.OUTPUT
@shared.FAIL_ON_CHANGE
@accepting
@redacting
@shared.RULES
@shared.SET
@shared.VERBOSE
@shared.PROGRESS
def command(
    before: Path, after: Path, form: str, outputs: tuple[str, ...], fail_on: str, folders: tuple[Path, ...],
    changes: tuple[str, ...], verbosity: int, progress: str,
    suppress: tuple[Path, ...], baselines: tuple[Path, ...], today: str,
    redact: str, maps: tuple[Path, ...],
) -> None:  # fmt: skip
    """Say whether a fix worked: compare BEFORE and AFTER, each a bundle, or a result of thpdiag (JSON or HTML)."""
    targets, paths = shared.targets(outputs, FORMATS), (before, after)
    results = [_saved(path) for path in paths]
    kept = any(result is not None for result in results)
    if None in results:
        rules = rule_set(folders, changes)
        results = [
            _analysed(path, rules, progress) if one is None else one for path, one in zip(paths, results, strict=True)
        ]
    try:
        marked = with_marks(results[1] or {}, suppress, baselines, today, verbosity)
        comparison, codes = _compared(paths, compared([results[0] or {}, marked], redact, maps))
        shared.deliver(comparison, form, targets, Presentation(verbosity=verbosity, fail_on=fail_on), FORMATS)
        failed = any(fails(finding, fail_on) for finding in failing(comparison))
    except (AttributeError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        if kept:  # a saved result that is not what the schema says
            raise InputError(f"no valid result of thpdiag ({type(error).__name__}: {error})") from error
        raise
    if not comparison["hosts"]:
        raise InputError(NOTHING)
    undone = next((code for code in (shared.CUT_SHORT, shared.DAMAGED) if code in codes), 0)
    raise Exit(1 if failed else undone)


def _compared(paths: Sequence[Path], results: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], set[int]]:
    """The comparison, and the exit codes that each side alone would have."""
    for path, result in zip(paths, results, strict=True):
        if not shared.recognised(result) and result.get("inputs"):
            raise InputError(f"{path}: {shared.NOTHING}")
    return document(*results), {shared.exit_code(result) for result in results}


def _saved(path: Path) -> dict[str, Any] | None:
    if mistake := shared.absent([path]):
        raise mistake
    return saved(path)


def _analysed(path: Path, rules: tuple[Rule, ...], progress: str) -> dict[str, Any]:
    with shared.shown(progress) as show:
        return analyze([path], rules, progress=show)
