"""The names of other tools (aliases.yaml) mean what the readers of those tools make of them."""

from __future__ import annotations

import pytest

from thpdiag.knowledge.vocabulary import aliases, term
from thpdiag.parsers.collectl.plot import groups
from thpdiag.parsers.pcp import metric
from thpdiag.parsers.sysstat._tables import METRICS, MODES, SWAP_METRICS

SAR = sorted(name for name in aliases() if name in METRICS or name in MODES)
PCP = sorted(name for name in aliases() if name.count(".") > 1 or name == "mem.physmem")
COLLECTL = sorted(name for name in aliases() if name.startswith("["))
INSTANCES = {"kernel.all.load": "1 minute", "proc": "004711 /usr/bin/java"}


@pytest.mark.parametrize("name", sorted(aliases()))
def test_an_alias_is_of_a_name_that_is_known(name: str) -> None:
    """What it stands for is in the vocabulary."""
    assert term(aliases()[name])


@pytest.mark.parametrize("name", SAR)
def test_a_column_of_sar_is_what_its_reader_reads(name: str) -> None:
    """Without -u ALL the kernel's share has interrupts in it: %system is that sum."""
    read = {found.name for found in METRICS.get(name, ())} | {f"cpu_ratio.{MODES.get(name)}", "cpu_ratio.sys_total"}
    paged = {SWAP_METRICS[name].name} if name in SWAP_METRICS else set()

    assert aliases()[name] in read | paged
    assert (aliases()[name] == "cpu_ratio.sys_total") == (name == "%system")


@pytest.mark.parametrize("name", PCP)
def test_a_metric_of_pcp_is_what_its_reader_reads(name: str) -> None:
    """A counter by its own name."""
    found = metric(name, INSTANCES.get(name, INSTANCES.get(name.partition(".")[0], "")))

    assert found is not None
    assert found.name == aliases()[name]


@pytest.mark.parametrize("name", COLLECTL)
def test_a_column_of_collectl_is_what_its_reader_reads(name: str) -> None:
    """Shares of CPU time by their mode."""
    (group,) = groups([name], "").values()

    assert {f"cpu_ratio.{mode}" for _, mode in group.modes} | {column.metric for _, column in group.columns} == {
        aliases()[name]
    }
