"""`thpdiag capture-script`: the one script to send to the customer."""

from __future__ import annotations

import rich_click as click

from thpdiag.capture import script
from thpdiag.cli.rules import RULES, loaded
from thpdiag.engine.load import suggestion
from thpdiag.engine.needs import needs
from thpdiag.errors import UsageError


@click.command("capture-script")
@click.option("--for", "ids", multiple=True, metavar="RULE", help="Only what this rule needs; may be given several times.")
@click.option("--seconds", default=120, show_default=True, type=click.IntRange(1, 86400), help="How long to record.")
@click.option("--interval", default=10, show_default=True, type=click.IntRange(1, 3600), help="Seconds between readings.")
@click.option("--pid", default="", help="Watch this process.")
@RULES
def command(ids: tuple[str, ...], seconds: int, interval: int, pid: str, folders: tuple) -> None:  # type: ignore[type-arg]
    """Print a POSIX sh script that records what the rules need; what it writes is a bundle that `analyze` reads."""
    rules = {rule.id: rule for rule in loaded(folders)}
    for wanted in ids:
        if wanted not in rules:
            raise UsageError(f"no rule {wanted}{suggestion(wanted, rules)}")
    names = sorted({name for i in ids for name in needs(rules[i], rules)}) if ids else None
    click.echo(script(names, seconds=seconds, interval=interval, pid=pid), nl=False)
