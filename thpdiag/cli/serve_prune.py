"""`thpdiag serve prune`: remove what is past its time, as the server does every hour."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import rich_click as click

from thpdiag.cli.serving import kept, quantity
from thpdiag.serve.pruning import COMMAND, pruned, told
from thpdiag.serve.quantities import duration
from thpdiag.serve.settings import opened, settings

_TIME = quantity(duration)


@click.command()
@kept
@click.option("--keep-bundles", callback=_TIME, metavar="TIME", help="Bundles older than this go; 14 d if not given.")
@click.option("--keep-cases", callback=_TIME, metavar="TIME", help="Results older than this go; 180 d if not given.")
@click.option("--keep-audit", callback=_TIME, metavar="TIME", help="Lines of the audit log; 400 d if not given.")
def command(config: Path | None, **options: Any) -> None:
    """Remove what is past its time, and say what went. Cases that are marked to be kept stay with their bundles.

    It may be called while the server runs, and makes room on a full disk.
    """
    chosen = settings(config, options)
    with closing(opened(chosen)) as storage:
        click.echo(f"pruned: {told(pruned(storage, chosen.terms, COMMAND))}")
