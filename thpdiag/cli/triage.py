"""`thpdiag triage`: many bundles at once. `thpdiag triage PATH...` is short for `thpdiag triage run PATH...`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import rich_click as click

RUN = "run"
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        RUN: "Diagnose many bundles (`run` can be left out).",
        "merge": "Put the results of shards together.",
        "report": "Make the fleet page, pages of hosts and files for CI again.",
        "export": "Write the results as CSV, JSON Lines or Parquet.",
    }
)


class Deferred(click.RichCommand):
    """A part of the command, imported when it is used."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        module = importlib.import_module(f"thpdiag.cli.triage_{self.name}")
        return module.command.make_context(info_name, args, parent, **extra)


class Parts(click.RichGroup):
    """What is no part's name is a path to run, or an option of it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in COMMANDS and args[0] not in ctx.help_option_names:
            args = [RUN, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return Deferred(name=cmd_name, help=COMMANDS[cmd_name]) if cmd_name in COMMANDS else None


@click.group(cls=Parts)
def command() -> None:
    """Diagnose many bundles at once; one that is hostile, huge or broken costs itself only.

    `thpdiag triage PATH... --out-dir DIR`: PATHs are archives, folders of archives, patterns or addresses (s3://). The
    results of all go into one store in DIR, with the fleet as one page, DIR/index.html. `thpdiag triage run --help` has
    the options.
    """
