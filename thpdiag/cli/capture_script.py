"""`thpdiag capture-script`: the one script to send to the customer."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from thpdiag.capture import script
from thpdiag.cli.options import RULES, one
from thpdiag.engine.load import with_earlier
from thpdiag.engine.rule_set import rule_set


@click.command("capture-script")
@click.option("--for", "ids", multiple=True, metavar="RULE", help="Only what this rule needs; may be repeated.")
@click.option("--seconds", default=120, show_default=True, type=click.IntRange(1, 86400), help="How long to record.")
@click.option("--interval", default=10, show_default=True, type=click.IntRange(1, 3600), help="Seconds between rounds.")
@click.option("--pid", default="", help="Watch this process.")
@RULES
def command(ids: tuple[str, ...], seconds: int, interval: int, pid: str, folders: tuple[Path, ...]) -> None:
    """Print a POSIX sh script that records what the rules need; what it writes is a bundle that `analyze` reads."""
    rules = rule_set(folders)
    asked = with_earlier([one(wanted, rules) for wanted in ids], rules)
    names = sorted({name for rule in asked for check in rule.checks.values() for name in check.needs}) if ids else None
    click.echo(script(names, seconds=seconds, interval=interval, pid=pid), nl=False)
