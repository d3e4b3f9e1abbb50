"""`thpdiag render`: other formats from a saved result, or from the result inside an HTML report."""

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
from thpdiag.errors import InputError
from thpdiag.reports.presentation import Presentation, Suppressed


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
    """Render RESULT (JSON, or an HTML report) again; no bundle is needed."""
    targets, document = shared.targets(outputs), _document(result)
    try:
        document = with_marks(document, suppress, baselines, today, verbosity)
        document = clean(document, redact, maps)
        shared.deliver(document, form, targets, Presentation(verbosity, fail_on, Suppressed(suppressed)))
        failed = shared.gated(document, fail_on)
    except (
        AttributeError,
        KeyError,
        TypeError,
    ) as error:  # not what the schema says; it is no part of the core install
        raise InputError(f"{result} holds no valid result of thpdiag ({type(error).__name__}: {error})") from error
    raise Exit(int(failed))


def _document(path: Path) -> dict[str, Any]:
    """The result document of a file; InputError if there is none in it."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        text = data.decode("utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; expected a result of thpdiag") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} holds no result of thpdiag: it is not text") from error
    return saved.result(text, path)
