"""`thpdiag triage`: many bundles at once. `thpdiag triage PATH...` is short for `thpdiag triage run PATH...`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import rich_click as click

from thpdiag.cli.deferred import Parts

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "run": "Diagnose many bundles (`run` can be left out).",
        "merge": "Put the results of shards together.",
        "report": "Make the fleet page, pages of hosts and files for CI again.",
        "export": "Write the results as CSV, JSON Lines or Parquet.",
    }
)


@click.group(cls=Parts, known=COMMANDS, prefix="triage_")
def command() -> None:
    """Diagnose many bundles at once; one that is hostile, huge or broken costs itself only.

    `thpdiag triage PATH... --out-dir DIR`: PATHs are archives, folders of archives, patterns or addresses (s3://). The
    results of all go into one store in DIR, with the fleet as one page, DIR/index.html. `thpdiag triage run --help` has
    the options.
    """
