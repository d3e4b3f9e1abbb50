"""`thpdiag serve`: the commands of the server, and those to maintain its data while it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import rich_click as click

from thpdiag import __version__
from thpdiag.cli import EagerGroup
from thpdiag.cli import options as shared
from thpdiag.cli.options import group_options
from thpdiag.engine.load import digest, rule_set
from thpdiag.errors import StoreError, ThpdiagError, UsageError
from thpdiag.report.escaping import visible
from thpdiag.serve.access.audit import Action, Outcome, audit_event
from thpdiag.serve.access.credentials import mint_token
from thpdiag.serve.access.principals import Mode, Scope, parse_scopes
from thpdiag.serve.running import COMMAND_PRINCIPAL, describe_pruned, prune, run
from thpdiag.serve.settings import Settings, load_settings, open_storage, parse_duration, parse_size
from thpdiag.serve.storage.backup import back_up, check, restore
from thpdiag.serve.storage.storage import Storage, lock_folder
from thpdiag.store.results import Analysis


class Place(NamedTuple):
    """The options that identify a server: data folder, database, settings file."""

    data: Path | None
    database: str | None
    config: Path | None

    def settings(self, options: Mapping[str, Any]) -> Settings:
        return load_settings(self.config, {**options, "data": self.data, "database": self.database})

    def open(self) -> closing[Storage]:
        return closing(open_storage(self.settings({})))


storage_options = group_options(
    "place", Place,
    click.option(
        "--data", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
        help="The folder for bundles and results; the default is thpdiag/serve in your data folder.",
    ),
    click.option(
        "--database", metavar="URL", help="postgresql+psycopg://USER@HOST/NAME, instead of a file in DIR.",
    ),
    click.option(
        "--config", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
        help="A TOML file with settings; options override it.",
    ),
)  # fmt: skip


def quantity_callback(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Return a click callback that parses the text of an option; its errors name the option."""

    def convert(_context: click.Context, parameter: click.Parameter, text: str | None) -> Any:
        try:
            return None if text is None else parse(text)
        except ThpdiagError as error:
            raise click.BadParameter(str(error), param=parameter) from error

    return convert


_SIZE, _TIME = quantity_callback(parse_size), quantity_callback(parse_duration)


@click.command("run")
@storage_options
@click.option("--host", help="The address to listen on; the default is 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65_535), help="The port; the default is 8765, and 0 is any free port.")
@click.option(
    "--workers", type=click.IntRange(1, 256), metavar="N", help="Parallel analyses; the default is half of the CPUs."
)
@click.option(
    "--access", type=click.Choice([str(mode) for mode in Mode]),
    help="Authentication: `none` (local machine only), `tokens`, `proxy` (a reverse proxy authenticates), or `oidc`.",
)  # fmt: skip
@click.option(
    "--origin", "origins", multiple=True, metavar="URL",
    help="The URL of the server in browsers, such as https://thpdiag.example.org; may be given several times.",
)  # fmt: skip
@click.option(
    "--proxy", "proxies", multiple=True, metavar="ADDRESS",
    help="The address or network of a trusted proxy; may be given several times.",
)  # fmt: skip
@click.option("--user-header", metavar="NAME", help="The header with the user; the default is x-forwarded-user.")
@click.option(
    "--admin", "admins", multiple=True, metavar="USER",
    help="A user of the proxy or OpenID Connect (sub or email) with administrator rights; may be given several times.",
)  # fmt: skip
@click.option("--oidc-issuer", metavar="URL", help="The OpenID Connect provider that browsers sign in with.")
@click.option("--oidc-client", metavar="ID", help="The client ID that the provider gave this server.")
@click.option(
    "--oidc-secret", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="The file with the client secret that the provider gave this server.",
)  # fmt: skip
@click.option("--oidc-claim", metavar="NAME", help="The claim with the groups of a user; the default is `groups`.")
@click.option(
    "--oidc-role", "oidc_roles", multiple=True, metavar="GROUP=SCOPES",
    help="The rights of a group, such as `support=upload,work`; may be given several times.",
)  # fmt: skip
@click.option(
    "--upload-limit", callback=_SIZE, metavar="SIZE", help="The maximum size of a bundle; the default is 8 GiB."
)
@click.option(
    "--quota", callback=_SIZE, metavar="SIZE",
    help="The maximum size of all bundles; the default is the room on the disk.",
)  # fmt: skip
@click.option("--spare", callback=_SIZE, metavar="SIZE", help="Disk space to keep free; the default is 1 GiB.")
@click.option(
    "--owner-quota", callback=_SIZE, metavar="SIZE",
    help="The maximum size per token or user; with a login, the default is half of the room.",
)  # fmt: skip
@click.option(
    "--owner-cases", type=click.IntRange(1), metavar="N",
    help="The maximum number of cases per token or user; the default is 100,000.",
)  # fmt: skip
@click.option(
    "--owner-uploads", type=click.IntRange(1), metavar="N",
    help="The maximum number of unfinished uploads per token or user; the default is 500.",
)  # fmt: skip
@click.option(
    "--owner-jobs", type=click.IntRange(1, 256), metavar="N",
    help="Parallel analyses per token or user; with a login, the default is all workers but one.",
)  # fmt: skip
@click.option("--keep-bundles", callback=_TIME, metavar="TIME", help="How long to keep bundles; the default is 14 d.")
@click.option("--keep-cases", callback=_TIME, metavar="TIME", help="How long to keep results; the default is 180 d.")
@click.option(
    "--keep-audit", callback=_TIME, metavar="TIME",
    help="How long to keep lines of the audit log; the default is 400 d.",
)  # fmt: skip
@click.option(
    "--keep-uploads", callback=_TIME, metavar="TIME", help="How long to keep unfinished uploads; the default is 1 d."
)
@click.option(
    "--rules", "rules", type=click.Path(exists=True, file_okay=False, path_type=Path), multiple=True, metavar="DIR",
    help="A folder with additional rules; may be given several times.",
)  # fmt: skip
@click.option(
    "--webhook", "webhooks", multiple=True, metavar="URL",
    help="An address to notify of each new case; may be given several times.",
)  # fmt: skip
@click.option(
    "--webhook-secret", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="The file with the secret that signs webhook messages.",
)  # fmt: skip
@click.option(
    "--webhook-network", "webhook_networks", multiple=True, metavar="NETWORK",
    help="A private network or address that webhooks may reach; may be given several times.",
)  # fmt: skip
@click.option(
    "--mail-to", multiple=True, metavar="ADDRESS",
    help="A mail address to notify of each new case; may be given several times.",
)  # fmt: skip
@click.option("--mail-from", metavar="ADDRESS", help="The address that mail is sent from.")
@click.option(
    "--mail-server", metavar="URL",
    help="The mail server: smtps://USER@HOST:PORT or, for STARTTLS, smtp://USER@HOST:PORT.",
)  # fmt: skip
@click.option(
    "--mail-password", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="The file with the password for the mail server.",
)  # fmt: skip
@shared.REQUIRE_SANDBOX
def run_server(place: Place, access: str | None, **options: Any) -> None:
    """Start the server; Ctrl-C or SIGTERM stops it. Finished uploads are kept, and analyses restart next time.

    Only this machine can reach the server unless you set --host and --access.
    """
    mode = None if access is None else Mode(access)
    run(place.settings({**options, "access": mode}), lambda line: click.echo(visible(line)))


@click.command("prune")
@storage_options
@click.option(
    "--keep-bundles", callback=_TIME, metavar="TIME", help="Delete bundles older than this; the default is 14 d."
)
@click.option(
    "--keep-cases", callback=_TIME, metavar="TIME", help="Delete results older than this; the default is 180 d."
)
@click.option(
    "--keep-audit", callback=_TIME, metavar="TIME",
    help="How long to keep lines of the audit log; the default is 400 d.",
)  # fmt: skip
def prune_now(place: Place, **options: Any) -> None:
    """Delete expired bundles and cases, and print what was deleted. Cases that are marked to keep stay.

    You can run it while the server runs, for example to free space on a full disk.
    """
    chosen = place.settings(options)
    with closing(open_storage(chosen)) as storage:
        click.echo(f"pruned: {describe_pruned(prune(storage, chosen.terms, COMMAND_PRINCIPAL))}")


SHOWN_ONCE = "this token is shown only once; anyone who has it can use its scopes"


@click.group(cls=EagerGroup)
def token() -> None:
    """Create, list, and revoke tokens: `upload` sends bundles, `read` sees cases, `admin` can do everything."""


@token.command()
@click.argument("name")
@click.option(
    "--scope", "names", multiple=True, required=True, type=click.Choice([str(scope) for scope in Scope]),
    help="A permission of the token; may be given several times.",
)  # fmt: skip
@click.option("--expires", "lasts", callback=_TIME, metavar="TIME", help="The lifetime of the token, such as '90 d'.")
@storage_options
def create(name: str, names: tuple[str, ...], lasts: float | None, place: Place) -> None:
    """Create a token and print it once. NAME describes its owner and purpose."""
    with place.open() as storage:
        now = storage.clock()
        secret, token = mint_token(name, parse_scopes(names), now, None if lasts is None else now + lasts)
        storage.tokens.add(token)
        storage.audit.add(audit_event(now, Action.CREATE_TOKEN, Outcome.DONE, COMMAND_PRINCIPAL, "", token.prefix))
        click.echo(secret)
        shared.print_message(SHOWN_ONCE)


@token.command(name="list")
@storage_options
def list_tokens(place: Place) -> None:
    """List the tokens, oldest first: prefix, scopes, created, last used, expires, name (separated by tabs)."""
    with place.open() as storage:
        for token in storage.tokens.all():
            times = (token.created, token.used, token.expires)
            row = (token.prefix, ",".join(sorted(token.scopes)), *map(_time, times), token.label)
            click.echo("\t".join(map(visible, row)))


@token.command()
@click.argument("prefix")
@storage_options
def revoke(prefix: str, place: Place) -> None:
    """Revoke the token with this PREFIX, including its sessions, from the next request on."""
    with place.open() as storage:
        key = prefix.removeprefix("thpdiag_").partition("_")[0]
        if not storage.tokens.remove(key):
            raise UsageError(f"no token has the prefix {visible(key)}; `thpdiag serve token list` has them")
        storage.audit.add(audit_event(storage.clock(), Action.REVOKE_TOKEN, Outcome.DONE, COMMAND_PRINCIPAL, "", key))


@click.command("check")
@storage_options
@click.option("--repair", is_flag=True, help="Repair problems where possible. Stop the server first.")
@click.option("--content", is_flag=True, help="Read every bundle and compare it with its digest.")
def check_store(place: Place, *, repair: bool, content: bool) -> None:
    """Check the database and the data folder, and print problems and repairs.

    With --repair, bundles that are missing in the database are queued for analysis; a missing database is created.
    Exit code 3 if a problem is not repaired.
    """
    chosen = place.settings({})
    analysis, flaws, unrepaired = Analysis(__version__, digest(rule_set(chosen.rules))), 0, 0
    with ExitStack() as undo:
        if repair and chosen.data.is_dir():
            undo.enter_context(lock_folder(chosen.data))
        storage = undo.enter_context(closing(open_storage(chosen, recreate=repair)))
        for flaw in check(storage, analysis, repair=repair, read=content):
            click.echo(visible(f"{flaw.words}; {flaw.repair}" if flaw.repair else flaw.words))
            flaws, unrepaired = flaws + 1, unrepaired + (not flaw.repair)
    click.echo(f"checked: {flaws} problems, {flaws - unrepaired} repaired")
    if unrepaired:
        raise StoreError(f"{chosen.data}: {unrepaired} problems are left")


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@storage_options
@click.option("--bundles", is_flag=True, help="Include all bundles.")
def back_up_store(file: Path, place: Place, *, bundles: bool) -> None:
    """Write FILE, a tar archive with a consistent copy of the database and the key. The server can run meanwhile.

    For a PostgreSQL database, use pg_dump.
    """
    with place.open() as storage:
        back_up(storage, file, bundles=bundles)


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@storage_options
def restore_store(file: Path, place: Place) -> None:
    """Restore a backup into the data folder, which must have no database. Stop the server first."""
    restore(place.settings({}).data, file)


@click.group(cls=EagerGroup)
def upload() -> None:
    """List and cancel unfinished uploads of all senders."""


@upload.command(name="list")
@storage_options
def list_uploads(place: Place) -> None:
    """List unfinished uploads, oldest first: ID, owner, bytes received, bytes announced, started, expires, name."""
    with place.open() as storage:
        for item in storage.uploads.list_unfinished():
            size = "-" if item.size is None else str(item.size)
            row = (item.id, item.owner, str(item.offset), size, _time(item.begun), _time(item.expires), item.name)
            click.echo("\t".join(map(visible, row)))


@upload.command()
@click.argument("key", metavar="ID")
@storage_options
def end(key: str, place: Place) -> None:
    """Cancel the unfinished upload with this ID, delete the received data, and refuse its sender from then on."""
    with place.open() as storage:
        if not storage.uploads.abandon(key):
            raise UsageError(f"no unfinished upload has the id {visible(key)}; see `thpdiag serve upload list`")
        storage.audit.add(audit_event(storage.clock(), Action.END_UPLOAD, Outcome.DONE, COMMAND_PRINCIPAL, "", key))


@click.group(cls=EagerGroup)
def session() -> None:
    """List and end sessions of users who signed in with OpenID Connect."""


@session.command(name="list")
@storage_options
def list_sessions(place: Place) -> None:
    """List sessions, earliest first: ID, user, scopes, started, expires (separated by tabs)."""
    with place.open() as storage:
        for item in storage.logins.list_active(storage.clock()):
            row = (item.id, item.name, ",".join(sorted(item.scopes)), _time(item.begun), _time(item.expires))
            click.echo("\t".join(map(visible, row)))


@session.command(name="end")
@click.argument("key", metavar="ID")
@storage_options
def end_session(key: str, place: Place) -> None:
    """End the session with this ID from the next request on. The user can sign in again if the provider allows it."""
    with place.open() as storage:
        if not storage.logins.remove(key):
            raise UsageError(f"no session has the id {visible(key)}; see `thpdiag serve session list`")
        storage.audit.add(audit_event(storage.clock(), Action.END_SESSION, Outcome.DONE, COMMAND_PRINCIPAL, "", key))


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%MZ")


COMMANDS: Mapping[str, click.Command] = MappingProxyType(
    {
        **{"run": run_server, "token": token, "session": session, "upload": upload, "prune": prune_now},
        **{"check": check_store, "backup": back_up_store, "restore": restore_store},
    }
)
