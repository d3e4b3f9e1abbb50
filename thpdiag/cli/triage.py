"""`thpdiag triage`: many bundles at once. `thpdiag triage PATH...` is short for `thpdiag triage run PATH...`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import rich_click as click

from thpdiag.cli.deferred import Parts
from thpdiag.triage.engines import fork_server

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "run": "Diagnose many bundles (`run` can be left out).",
        "merge": "Put the results of shards together.",
        "report": "Make the fleet page, pages of hosts and files for CI again.",
        "export": "Write the results as CSV, JSON Lines or Parquet.",
    }
)
ELSEWHERE = "--scheduler"  # the work is done by other processes than ours


class Triage(Parts):
    """Has the workers' process load the engine while the command itself is loaded, which takes as long."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name == "run" and not any(word in ctx.help_option_names or word.startswith(ELSEWHERE) for word in rest):
            fork_server.begin()
        return name, command, rest


@click.group(cls=Triage, known=COMMANDS, prefix="triage_")
def command() -> None:
    """Diagnose many bundles at once; one that is hostile, huge or broken costs itself only.

    `thpdiag triage PATH... --out-dir DIR`: PATHs are archives, folders of archives, patterns or addresses (s3://). The
    results of all go into one store in DIR, with the fleet as one page, DIR/index.html. `thpdiag triage run --help` has
    the options.
    """
