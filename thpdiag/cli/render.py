"""`thpdiag render`: other formats from a saved result, or from the result inside an HTML report."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import rich_click as click

from thpdiag.cli import options as shared
from thpdiag.errors import InputError
from thpdiag.reports import FORMATS
from thpdiag.reports import text as text_report
from thpdiag.reports.html import from_page


@click.command()
@click.argument("result", type=click.Path(path_type=Path, allow_dash=True))
@click.option("-f", "--format", "form", type=click.Choice(sorted(FORMATS)), default="text", show_default=True)
@shared.OUTPUT
@click.option("-v", "verbosity", count=True, help="All findings; twice: the match trees too.")
def command(result: Path, form: str, outputs: tuple[str, ...], verbosity: int) -> None:
    """Render RESULT (JSON, or an HTML report) again; no bundle is needed."""
    document = loaded(result)
    targets = shared.targets(outputs)
    if not targets:
        rendered = text_report.render(document, verbosity) if form == "text" else FORMATS[form](document)
        click.echo(rendered, nl=False)
    for name, path in targets:
        shared.write(FORMATS[name](document), path)


def loaded(path: Path) -> dict[str, Any]:
    """The result document of a file; InputError if there is none in it."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    try:
        document = json.loads(text) if text.lstrip().startswith("{") else from_page(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} holds no result of thpdiag: {error}") from error
    if not isinstance(document, dict) or not str(document.get("schema", "")).startswith("thpdiag/result/"):
        raise InputError(f"{path} holds no result of thpdiag")
    return document
