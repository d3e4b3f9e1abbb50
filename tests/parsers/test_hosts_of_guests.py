"""What virsh says of the host of virtual machines, and kubectl of the hosts of a cluster."""

from __future__ import annotations

import pytest

from conftest import ROOT
from parse_bytes import readings
from thpdiag.model import Fact, Sample

DOMAIN = """<domain type='kvm'{id}>
  <name>guest1</name>
{backing}
  <vcpu placement='static'>4</vcpu>
</domain>
"""
RESERVED = "  <memoryBacking>\n    <hugepages/>\n  </memoryBacking>"


def apps(text: str) -> list[object]:
    return [r.record.value for r in readings(text.encode(), "x.txt") if isinstance(r.record, Fact)]


@pytest.mark.parametrize(
    ("number", "backing", "found"),
    [(" id='2'", "", ["kvm"]), ("", "", []), (" id='2'", RESERVED, [])],
    ids=["runs", "is only defined", "has reserved huge pages"],
)
def test_a_running_guest_tells_of_its_host(number: str, backing: str, found: list[str]) -> None:
    """One of reserved huge pages says nothing about transparent ones."""
    assert apps(DOMAIN.format(id=number, backing=backing)) == found


def test_two_sizes_of_reserved_pages_are_not_added() -> None:
    """/proc/meminfo would count those of one size."""
    nodes = ROOT / "fixtures" / "readers" / "kubectl_node" / "describe" / "nodes.txt"
    text = nodes.read_text().replace("hugepages-1Gi:      0", "hugepages-1Gi:      4Gi")
    worker, other = (r.record.values for r in readings(text.encode(), "x.txt") if isinstance(r.record, Sample))
    assert "node_memory_HugePages_Total" not in worker
    assert other["node_memory_HugePages_Total"] == 4


def test_each_node_is_a_host() -> None:
    """The short names, as uname prints them."""
    nodes = ROOT / "fixtures" / "readers" / "kubectl_node" / "describe" / "nodes.txt"
    found = readings(nodes.read_bytes(), "nodes.txt")
    assert {r.group[1] for r in found} == {"worker-1", "worker-2"}
