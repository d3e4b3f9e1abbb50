"""`thpdiag serve`: start the server, until Ctrl-C or SIGTERM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from thpdiag.cli.serving import kept, quantity
from thpdiag.reports.visible import visible
from thpdiag.serve.access.modes import Mode
from thpdiag.serve.quantities import duration, size
from thpdiag.serve.running import run
from thpdiag.serve.settings import settings

_SIZE, _TIME = quantity(size), quantity(duration)


@click.command()
@kept
@click.option("--host", help="Where to listen; 127.0.0.1 if not given.")
@click.option("--port", type=click.IntRange(0, 65_535), help="8765 if not given; 0 is a free one.")
@click.option(
    "--workers", type=click.IntRange(1, 256), metavar="N", help="Analyses at a time; half of the CPUs if not given."
)
@click.option(
    "--access", type=click.Choice([str(mode) for mode in Mode]),
    help="Who comes in: `none` without login, on this machine only; `tokens`; `proxy` lets one do the login.",
)  # fmt: skip
@click.option(
    "--origin", "origins", multiple=True, metavar="URL",
    help="How browsers name the server, such as https://thpdiag.example.org; may be given several times.",
)  # fmt: skip
@click.option(
    "--proxy", "proxies", multiple=True, metavar="ADDRESS",
    help="An address or network of proxies whose headers are trusted; may be given several times.",
)  # fmt: skip
@click.option("--user-header", metavar="NAME", help="The header with the user; x-forwarded-user if not given.")
@click.option(
    "--admin", "admins", multiple=True, metavar="USER",
    help="A user of the proxy who may delete and make tokens; may be given several times.",
)  # fmt: skip
@click.option("--upload-limit", callback=_SIZE, metavar="SIZE", help="Of one bundle; 8 GiB if not given.")
@click.option("--quota", callback=_SIZE, metavar="SIZE", help="Of all bundles; as the disk has room if not given.")
@click.option("--spare", callback=_SIZE, metavar="SIZE", help="What stays free on the disk; 1 GiB if not given.")
@click.option("--keep-bundles", callback=_TIME, metavar="TIME", help="Bundles stay so long; 14 d if not given.")
@click.option("--keep-cases", callback=_TIME, metavar="TIME", help="Results stay so long; 180 d if not given.")
@click.option("--keep-audit", callback=_TIME, metavar="TIME", help="Lines of the audit log; 400 d if not given.")
@click.option("--keep-uploads", callback=_TIME, metavar="TIME", help="Unfinished uploads; 1 d if not given.")
def command(config: Path | None, access: str | None, **options: Any) -> None:
    """Start the server; Ctrl-C or SIGTERM ends it. What is uploaded then is whole, and analyses begin again.

    Nobody outside of this machine reaches it unless a --host and a mode of --access are named.
    """
    mode = None if access is None else Mode(access)
    run(settings(config, {**options, "access": mode}), lambda line: click.echo(visible(line)))
