"""`thpdiag serve`: the page for the team. `thpdiag serve OPTIONS` is short for `thpdiag serve run OPTIONS`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, ModuleType

import rich_click as click

from thpdiag.cli.deferred import Parts
from thpdiag.errors import UsageError

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "run": "Start the server (`run` can be left out).",
        "token": "Make, list and end the tokens of the API.",
        "prune": "Remove what is past its time, now.",
    }
)
EXTRA = frozenset(("anyio", "httptools", "python_multipart", "sqlalchemy", "starlette", "uvicorn"))
NOT_INSTALLED = "the server needs packages that are not installed ({} is missing): pip install 'thpdiag[serve]'"


class Served(Parts):
    """Says which extra the commands need where its packages are not installed."""

    def load(self, name: str) -> ModuleType:
        try:
            return super().load(name)
        except ModuleNotFoundError as missing:
            package = str(missing.name).partition(".")[0]
            if package not in EXTRA:
                raise
            raise UsageError(NOT_INSTALLED.format(package)) from missing


@click.group(cls=Served, known=COMMANDS, prefix="serve_", no_args_is_help=False)
def command() -> None:
    """Serve a page where a team uploads bundles and reads what was found.

    `thpdiag serve` alone is enough to try it: it can be reached from this machine only, and needs no login. `thpdiag
    serve run --help` has the options, docs/serve/README.md how to run it for others.
    """
