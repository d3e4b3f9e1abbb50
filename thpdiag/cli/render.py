"""`thpdiag render`: other formats from a saved result or comparison, or from the one inside an HTML page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import rich_click as click
from click.exceptions import Exit

from thpdiag.cli import options as shared
from thpdiag.cli import saved
from thpdiag.cli.accepting import accepting, with_marks
from thpdiag.cli.redaction import clean, redacting
from thpdiag.compare.document import failing
from thpdiag.compare.formats import FORMATS
from thpdiag.errors import InputError, UsageError
from thpdiag.reports.presentation import Presentation, Suppressed
from thpdiag.reports.severities import fails


@click.command()
@click.argument("result", type=click.Path(path_type=Path, allow_dash=True))
@shared.FORMAT
@shared.OUTPUT
@shared.FAIL_ON
@accepting
@redacting
@shared.SHOW_SUPPRESSED
@shared.VERBOSE
def command(
    result: Path, form: str, outputs: tuple[str, ...], fail_on: str, verbosity: int, suppressed: str,
    suppress: tuple[Path, ...], baselines: tuple[Path, ...], today: str,
    redact: str, maps: tuple[Path, ...],
) -> None:  # fmt: skip
    """Render RESULT (JSON or HTML page, also of `thpdiag compare`) again; no bundle is needed."""
    document = _document(result)
    presentation = Presentation(verbosity, fail_on, Suppressed(suppressed))
    try:
        if saved.compares(document):
            if suppress or baselines or redact or maps:
                raise UsageError("a comparison is made of accepted or redacted results; give this to `thpdiag compare`")
            failed = _comparison(document, form, outputs, presentation)
        else:
            targets = shared.targets(outputs)
            document = with_marks(document, suppress, baselines, today, verbosity)
            document = clean(document, redact, maps)
            shared.deliver(document, form, targets, presentation)
            failed = shared.gated(document, fail_on)
    except (
        AttributeError,
        KeyError,
        TypeError,
    ) as error:  # not what the schema says; it is no part of the core install
        raise InputError(f"{result} holds no valid result of thpdiag ({type(error).__name__}: {error})") from error
    raise Exit(int(failed))


def _comparison(document: dict[str, Any], form: str, outputs: tuple[str, ...], presentation: Presentation) -> bool:
    """Write a comparison; whether a finding in it fails the gate."""
    if form not in FORMATS:
        raise UsageError(f"-f {form} is no format of a comparison; formats are {', '.join(sorted(FORMATS))}")
    shared.deliver(document, form, shared.targets(outputs, FORMATS), presentation, FORMATS)
    return any(fails(finding, presentation.fail_on) for finding in failing(document))


def _document(path: Path) -> dict[str, Any]:
    """The result or comparison of a file; InputError if there is none in it."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; expected a result of thpdiag") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} holds no result of thpdiag: it is not text") from error
    return saved.result_or_comparison(text, path)
