"""Groups of commands that are known by name and one line; the module of one is imported when it is used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import rich_click as click

Load = Callable[[], ModuleType]


class Deferred(click.RichCommand):
    """A command whose module, which has it as `command`, is not imported yet."""

    def __init__(self, load: Load, **told: Any) -> None:
        super().__init__(**told)
        self._load = load

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self._load().command.make_context(info_name, args, parent, **extra)


class Commands(click.RichGroup):
    """`known` are commands with their lines, in the order in which people meet them; modules begin with `prefix`."""

    def __init__(self, *, known: Mapping[str, str], prefix: str = "", **told: Any) -> None:
        super().__init__(**told)
        self.known, self._prefix = known, prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.known:
            return None
        return Deferred(lambda: self.load(cmd_name), name=cmd_name, help=self.known[cmd_name])

    def load(self, name: str) -> ModuleType:
        """The module of a command."""
        return importlib.import_module(f"thpdiag.cli.{self._prefix}{name.replace('-', '_')}")


class Parts(Commands):
    """Of a command with parts the first is meant where none is named: what stands there is its argument or option.

    Nothing at all is the help, or the first part too if that is more use (`no_args_is_help=False`).
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        meant = args[0] not in (*self.known, *ctx.help_option_names) if args else not self.no_args_is_help
        if meant:
            args = [next(iter(self.known)), *args]
        return super().parse_args(ctx, args)
