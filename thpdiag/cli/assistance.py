"""`thpdiag help` and `thpdiag completion`: the help of a command, and the completion script of a shell."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

import rich_click as click
from click.exceptions import UsageError as ClickUsageError
from click.shell_completion import get_completion_class

from thpdiag.cli import DeferredGroup, similar_command

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_THPDIAG_COMPLETE"


@click.command("help")
@click.argument("names", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def help_(context: click.Context, names: tuple[str, ...]) -> None:
    """Show the help of COMMAND, like `COMMAND --help`; without COMMAND, list the commands."""
    from thpdiag.cli import cli

    words, command, path = list(names), cast("Any", cli), "thpdiag"
    while words:
        known = command.list_commands(context) if isinstance(command, click.Group) else []
        if words[0] not in known:
            raise ClickUsageError(f"no command {' '.join(names)!r}{similar_command(words[0], known)}", context)
        path = f"{path} {words[0]}"
        word = words.pop(0)
        command = command.load(word) if isinstance(command, DeferredGroup) else command.get_command(context, word)
    with command.make_context(path, ["--help"], resilient_parsing=True) as help_context:
        click.echo(help_context.get_help())


@click.command("completion")
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS, case_sensitive=False))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    bash: `thpdiag completion bash > ~/.local/share/bash-completion/completions/thpdiag`. fish: `thpdiag completion
    fish > ~/.config/fish/completions/thpdiag.fish`. zsh: `source <(thpdiag completion zsh)` in ~/.zshrc.
    """
    from thpdiag.cli import cli

    completion_class = get_completion_class(shell)
    if completion_class is not None:
        click.echo(completion_class(cli, {}, "thpdiag", VARIABLE).source())


COMMANDS: Mapping[str, click.Command] = MappingProxyType({"help": help_, "completion": completion})
