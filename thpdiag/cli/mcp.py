"""`thpdiag mcp`: a Model Context Protocol server that answers questions about bundles."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import rich_click as click

from thpdiag import fleet
from thpdiag.cli import check_linux
from thpdiag.cli import options as shared
from thpdiag.cli.options import Redaction, RuleChoice
from thpdiag.errors import UsageError
from thpdiag.sandbox.preload import start_fork_server


@click.command()
@click.argument("roots", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="ROOT...")
@shared.redaction_options
@shared.rule_options
@shared.REQUIRE_SANDBOX
def command(*, roots: tuple[Path, ...], redaction: Redaction, chosen: RuleChoice, require_sandbox: bool | None) -> None:
    """Answer an agent's questions about the bundles at ROOT..., over the Model Context Protocol on stdin and stdout.

    ROOT is a bundle or a folder of bundles; nothing beside it can be read. Answers come from the result of a bundle
    only, each statement with file and line.
    """
    check_linux("mcp")
    try:
        from thpdiag.mcp.server import serve
    except ImportError as missing:
        package = str(missing.name).partition(".")[0]
        if package in ("None", "thpdiag"):
            raise
        text = f"the server for agents needs packages that are not installed ({package} is missing or too old)"
        raise UsageError(f"{text}: pip install 'thpdiag[mcp]'") from missing
    from thpdiag.mcp.bundles import Bundles, Redact, Roots
    from thpdiag.redact.document import redact_result
    from thpdiag.sandbox.outcome import Limits
    from thpdiag.sandbox.preload import check_layers

    if require_sandbox:
        check_layers()
    start_fork_server(fleet.preloaded_modules)
    folders = tuple(folder.absolute() for folder in chosen.folders)
    with redaction.names() as names:
        redact: Redact = partial(redact_result, names=names) if redaction else dict
        bundles = Bundles(Roots(roots), folders, chosen.changes, Limits(every_layer=bool(require_sandbox)), redact)
        try:
            serve(bundles)
        finally:
            bundles.close()
