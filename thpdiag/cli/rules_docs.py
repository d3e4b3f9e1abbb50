"""`thpdiag rules docs`: the catalogue of all rules as Markdown."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from thpdiag.cli.options import RULES, write
from thpdiag.engine.rule_set import rule_set
from thpdiag.workbench.catalogue import catalogue


@click.command("docs")
@RULES
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write it to this file.")
def command(folders: tuple[Path, ...], output: Path | None) -> None:
    """The catalogue of all rules as one page of Markdown: what each looks for, means and advises."""
    write(catalogue(rule_set(folders)), output or Path("-"))
