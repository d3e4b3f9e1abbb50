"""`thpdiag triage merge`: the results of the shards of a batch in one folder."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from thpdiag.cli import options as shared
from thpdiag.cli.triage_run import OUT_DIR
from thpdiag.errors import StoreError, UsageError
from thpdiag.reports.verdict import plural
from thpdiag.reports.visible import visible
from thpdiag.triage.store.bundle import Analysis
from thpdiag.triage.store.lock import Busy
from thpdiag.triage.store.reading import Reading
from thpdiag.triage.store.store import Store


@click.command()
@click.argument("shards", nargs=-1, required=True, type=click.Path(path_type=Path))
@OUT_DIR
@click.option("--wait", flag_value="yes", default="", help="Wait for another run that writes to the same folder.")
def command(shards: tuple[Path, ...], out_dir: Path, wait: str) -> None:
    """Put the results of SHARDS (folders of triage, or results.sqlite) into one. Doing it again changes nothing."""
    if any(shard.resolve() == out_dir.resolve() for shard in shards):
        raise UsageError(f"{out_dir} cannot be merged into itself; name another --out-dir")
    analyses = [_last(shard) for shard in shards]
    with Store.open(out_dir, analyses[-1], Busy.WAIT if wait else Busy.REFUSE, shared.complain) as store:
        new = store.merge(shards)
        whole = sum(store.statuses().values())
    told = f"{plural(new, 'new bundle')} of {plural(len(shards), 'shard')}, {whole} in all"
    shared.complain(visible(f"{out_dir}: {told}"))


def _last(shard: Path) -> Analysis:
    """What made the youngest results of a shard; an error if there is no store."""
    with Reading.at(shard) as store:
        runs = list(store.runs())
    if not runs:
        raise StoreError(f"{shard}: the store has no run")
    return Analysis(runs[-1]["tool_version"], runs[-1]["rules_digest"], runs[-1]["options"])
