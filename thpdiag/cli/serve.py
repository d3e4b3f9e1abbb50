"""`thpdiag serve`: the page for the team. `thpdiag serve OPTIONS` is short for `thpdiag serve run OPTIONS`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import rich_click as click

from thpdiag.errors import UsageError

RUN = "run"
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        RUN: "Start the server (`run` can be left out).",
        "token": "Make, list and end the tokens of the API.",
        "prune": "Remove what is past its time, now.",
    }
)
EXTRA = frozenset(("anyio", "httptools", "python_multipart", "sqlalchemy", "starlette", "uvicorn"))
NOT_INSTALLED = "the server needs packages that are not installed ({} is missing): pip install 'thpdiag[serve]'"


class Deferred(click.RichCommand):
    """A part of the command, imported when it is used."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        try:
            module = importlib.import_module(f"thpdiag.cli.serve_{self.name}")
        except ModuleNotFoundError as missing:
            package = str(missing.name).partition(".")[0]
            if package not in EXTRA:
                raise
            raise UsageError(NOT_INSTALLED.format(package)) from missing
        return module.command.make_context(info_name, args, parent, **extra)


class Parts(click.RichGroup):
    """What is no part's name is an option of `run`; nothing at all is `run` too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in COMMANDS and args[0] not in ctx.help_option_names):
            args = [RUN, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return Deferred(name=cmd_name, help=COMMANDS[cmd_name]) if cmd_name in COMMANDS else None


@click.group(cls=Parts)
def command() -> None:
    """Serve a page where a team uploads bundles and reads what was found.

    `thpdiag serve` alone is enough to try it: it can be reached from this machine only, and needs no login. `thpdiag
    serve run --help` has the options, docs/serve/README.md how to run it for others.
    """
