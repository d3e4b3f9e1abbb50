"""`thpdiag doctor`: versions, optional programs, active rules, known issues, and layers of the sandbox."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import rich_click as click

from thpdiag import __version__
from thpdiag.cli.options import RULES
from thpdiag.engine.load import by_pack, digest, rule_set
from thpdiag.knowledge.known_issues import catalogue_words
from thpdiag.parsers import all_parsers
from thpdiag.sandbox.programs import find_program

PROGRAMS = {
    "perf": "not needed; only to turn perf.data into text",
    "sadf": "reads the files of sadc",
    "pmrep": "reads archives of PCP",
}


@click.command()
@RULES
def command(folders: tuple[Path, ...]) -> None:
    """Check this installation."""
    rules = rule_set(folders)
    click.echo(f"thpdiag {__version__}, Python {platform.python_version()}, {platform.system()}")
    click.echo(f"rules: {len(rules)} (digest {digest(rules)}), readers: {len(all_parsers())}")
    click.echo(f"known issues: catalogue of {catalogue_words()}")
    for pack, own in by_pack(rules).items():
        click.echo(f"rules of {pack.label}: {len(own)} (digest {digest(own)}), {pack.folder}")
    for name, use in PROGRAMS.items():
        click.echo(f"{name}: {'yes' if find_program(name) else 'no'}; {use}")
    if sys.platform != "linux":
        click.echo(f"guard: none; this platform ({sys.platform}) has no sandbox")
        return
    from thpdiag.sandbox.preload import layers_in_force

    for layer, state in layers_in_force().items():
        click.echo(f"guard: {layer}: {state or 'no'}")
