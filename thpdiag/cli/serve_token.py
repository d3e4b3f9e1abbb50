"""`thpdiag serve token`: tokens of the API, made and ended beside a server that may run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import rich_click as click

from thpdiag.cli import options as shared
from thpdiag.cli.serving import kept, quantity
from thpdiag.errors import UsageError
from thpdiag.reports.visible import visible
from thpdiag.serve.access.audit import Action, Outcome, event
from thpdiag.serve.access.scopes import Scope, scopes
from thpdiag.serve.access.tokens import mint
from thpdiag.serve.pruning import COMMAND
from thpdiag.serve.quantities import duration
from thpdiag.serve.settings import opened, settings
from thpdiag.serve.storage.storage import Storage

ONCE = "this is shown once; whoever has it may do what its scopes say"


@click.group()
def command() -> None:
    """Make, list and end tokens: `upload` sends bundles, `read` sees cases, `admin` may do all."""


@command.command()
@click.argument("name")
@click.option(
    "--scope", "names", multiple=True, required=True, type=click.Choice([str(scope) for scope in Scope]),
    help="What it may do; may be given several times.",
)  # fmt: skip
@click.option("--expires", "lasts", callback=quantity(duration), metavar="TIME", help="When it ends, such as '90 d'.")
@kept
def create(
    name: str, names: tuple[str, ...], lasts: float | None, data: Path | None, database: str | None, config: Path | None
) -> None:
    """Make a token and print it, this once. NAME is for the list: who has it, and what for."""
    with _kept(data, database, config) as storage:
        now = storage.clock()
        secret, token = mint(name, scopes(names), now, None if lasts is None else now + lasts)
        storage.tokens.add(token)
        storage.audit.add(event(now, Action.CREATE_TOKEN, Outcome.DONE, COMMAND, "", token.prefix))
        click.echo(secret)
        shared.complain(ONCE)


@command.command(name="list")
@kept
def every(data: Path | None, database: str | None, config: Path | None) -> None:
    """List the tokens, oldest first: prefix, scopes, made, used last, ends, name; separated by tabs."""
    with _kept(data, database, config) as storage:
        for token in storage.tokens.all():
            times = (token.created, token.used, token.expires)
            row = (token.prefix, ",".join(sorted(token.scopes)), *map(_day, times), token.label)
            click.echo("\t".join(map(visible, row)))


@command.command()
@click.argument("prefix")
@kept
def revoke(prefix: str, data: Path | None, database: str | None, config: Path | None) -> None:
    """End the token with this PREFIX, from the next request on; sessions begun with it end too."""
    with _kept(data, database, config) as storage:
        known = prefix.removeprefix("thpdiag_").partition("_")[0]
        if not storage.tokens.remove(known):
            raise UsageError(f"no token has the prefix {visible(known)}; `thpdiag serve token list` has them")
        storage.audit.add(event(storage.clock(), Action.REVOKE_TOKEN, Outcome.DONE, COMMAND, "", known))


@contextmanager
def _kept(data: Path | None, database: str | None, config: Path | None) -> Iterator[Storage]:
    with closing(opened(settings(config, {"data": data, "database": database}))) as storage:
        yield storage


def _day(seconds: float | None) -> str:
    return "-" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%MZ")
