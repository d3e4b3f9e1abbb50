"""Options that the commands of `serve` share: where the data is, and how they become settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import rich_click as click

from thpdiag.errors import ThpdiagError

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Read = Callable[[str], Any]


def kept(command: _Command) -> _Command:
    """The options that say which server it is about."""
    for option in reversed(
        (
            click.option(
                "--data", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
                help="The folder of bundles and results; thpdiag/serve in your data folder if not given.",
            ),
            click.option(
                "--database", metavar="URL",
                help="postgresql+psycopg://USER@HOST/NAME, in place of a file in DIR.",
            ),
            click.option(
                "--config", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
                help="A TOML file with settings; options win over it.",
            ),
        )
    ):  # fmt: skip
        command = option(command)
    return command


def quantity(read: _Read) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """What turns the text of an option into a number; a mistake names the option."""

    def called(_context: click.Context, parameter: click.Parameter, text: str | None) -> Any:
        try:
            return None if text is None else read(text)
        except ThpdiagError as mistake:
            raise click.BadParameter(str(mistake), param=parameter) from mistake

    return called
