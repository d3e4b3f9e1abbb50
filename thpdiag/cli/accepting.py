"""`--suppress` and `--baseline`, which several commands share: the files, today's date, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import rich_click as click

from thpdiag.accepted.acceptance import Acceptance, day
from thpdiag.accepted.baseline import accepted
from thpdiag.accepted.judge import Judge
from thpdiag.accepted.marks import marked
from thpdiag.accepted.suppressions import suppressions
from thpdiag.cli.options import complain
from thpdiag.errors import UsageError
from thpdiag.reports.visible import visible

MOST = 8  # warnings at level 0
SUPPRESS = click.option(
    "--suppress", "suppress", type=click.Path(path_type=Path), multiple=True,
    help="A YAML file of findings that are accepted (rule, host, entity, reason, expires); they fail no gate.",
)  # fmt: skip
BASELINE = click.option(
    "--baseline", "baselines", type=click.Path(path_type=Path), multiple=True,
    help="A file of `thpdiag baseline create`; what it accepted fails no gate until it gets graver.",
)  # fmt: skip
TODAY = click.option("--today", default="", hidden=True)
_Command = TypeVar("_Command", bound=Callable[..., Any])


def accepting(command: _Command) -> _Command:
    """The options, for a command with the parameters `suppress`, `baselines` and `today`."""
    for option in (TODAY, BASELINE, SUPPRESS):
        command = option(command)
    return command


def with_marks(
    document: dict[str, Any], suppress: Sequence[Path], baselines: Sequence[Path], today: str, verbosity: int = 0
) -> dict[str, Any]:
    """The document with what the files accept marked; without files the document itself."""
    if not suppress and not baselines:
        return document
    found = marked(document, _entries(suppress, baselines), this_day(today), _told(suppress, baselines))
    tell(found.warnings, found.notes, verbosity)
    return found.document


def judge(suppress: Sequence[Path], baselines: Sequence[Path], today: str) -> Judge:
    """What judges the findings of many documents, one after the other."""
    return Judge(_entries(suppress, baselines), this_day(today), _told(suppress, baselines))


def tell(warnings: Sequence[str], notes: Sequence[str], verbosity: int = 0) -> None:
    """On stderr; without -v the first few."""
    shown = warnings if verbosity else warnings[:MOST]
    for text in (*shown, *(notes if verbosity else ())):
        complain(visible(text))
    if len(warnings) > len(shown):
        complain(f"and {len(warnings) - len(shown)} more entries without effect (-v)")


def _entries(suppress: Sequence[Path], baselines: Sequence[Path]) -> list[Acceptance]:
    return [
        *(entry for path in suppress for entry in suppressions(path)),
        *(entry for path in baselines for entry in accepted(path)),
    ]


def this_day(text: str) -> date:
    """The day of `--today`, else that of the clock where the command runs."""
    return a_day(text, "--today") if text else datetime.now().astimezone().date()


def a_day(text: str, option: str) -> date:
    """The day that an option gives."""
    try:
        return day(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def _told(suppress: Sequence[Path], baselines: Sequence[Path]) -> Mapping[str, str]:
    """The files as the result names them: without their folders, with a digest. The day is in the marks only."""
    given = {"suppress": suppress, "baseline": baselines}
    return {name: ", ".join(map(_digested, paths)) for name, paths in given.items()}


def _digested(path: Path) -> str:
    return f"{path.name} (sha256 {sha256(path.read_bytes()).hexdigest()[:12]})"
