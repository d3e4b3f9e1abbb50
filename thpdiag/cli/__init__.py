"""The command line: one command per file, found by its name, imported only when it runs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import rich_click as click

from thpdiag import __version__
from thpdiag.errors import ThpdiagError

COMMANDS = ("analyze", "render", "explain", "rules", "inputs", "capture-script", "doctor")


class LazyCommands(click.RichGroup):
    """Loads the module of a command when the command is used, so that `--help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"thpdiag.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="thpdiag")
def cli() -> None:
    """Is the kernel's huge-page machinery hurting this host? Reads what a customer sent, proves it, says what to do."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's mistake is one sentence on stderr and its exit code, never a traceback."""
    try:
        cli.main(args=list(arguments) if arguments is not None else None, prog_name="thpdiag", standalone_mode=False)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as mistake:
        mistake.show()
        sys.exit(mistake.exit_code)
    except ThpdiagError as mistake:
        click.echo(f"thpdiag: {mistake}", err=True)
        sys.exit(mistake.exit_code)
