"""`thpdiag redact`: a saved result without the customer's names."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from thpdiag.cli import options as shared
from thpdiag.cli.redaction import MAPS, clean
from thpdiag.cli.saved import saved
from thpdiag.errors import InputError
from thpdiag.reports import FORMATS
from thpdiag.reports.presentation import Presentation


@click.command()
@click.argument("result", type=click.Path(path_type=Path))
@shared.OUTPUT
@MAPS
def command(result: Path, outputs: tuple[str, ...], maps: tuple[Path, ...]) -> None:
    """Replace the customer's names in RESULT (JSON, or an HTML report); prints JSON unless `-o` says otherwise."""
    targets = shared.targets(outputs)
    if not result.exists():
        raise InputError(f"{result}: no such file; expected a result of thpdiag")
    document = saved(result)
    if document is None:
        raise InputError(
            f"{result} is no result of thpdiag; for the report of a bundle run `thpdiag analyze --redact` on it, "
            "and to clean the bundle itself `sos clean`"
        )
    try:
        done = clean(document, "yes", maps)
        for name, path in targets or [("json", Path("-"))]:
            shared.write(FORMATS[name](done, Presentation()), path)
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # not what the schema says
        raise InputError(f"{result} holds no valid result of thpdiag ({type(error).__name__}: {error})") from error
