"""below dump: which sums of CPU time its columns allow, and JSON that ends early."""

from __future__ import annotations

import pytest

from parse_bytes import readings
from thpdiag.model import Problem, Sample
from thpdiag.model.parser import Content, Source
from thpdiag.parsers.below import BULK_PARSER


def sample_of(titles: str, row: str) -> Sample:
    text = f"Datetime,{titles},\n2026-11-20 10:54:16,{row},\n"
    (found,) = (r.record for r in readings(text.encode(), "x.csv") if isinstance(r.record, Sample))
    return found


@pytest.mark.parametrize(
    ("titles", "row", "total"),
    [
        ("Usage,User,System", "20.00%,5.00%,15.00%", 0.15),
        ("Usage,User,System", "75.00%,5.00%,10.00%", None),  # the rest may be soft interrupts
        ("User,System", "5.00%,10.00%", None),
        ("Usage,User,System,Irq,SoftIrq", "75.00%,5.00%,10.00%,0.00%,60.00%", 0.7),
    ],
)
def test_kernel_time_is_known_where_interrupts_are(titles: str, row: str, total: float | None) -> None:
    """Or where Usage leaves no room for them."""
    assert sample_of(titles, row).values.get("cpu_ratio.sys_total") == (total and pytest.approx(total))


def test_raw_sizes_are_bytes_and_raw_pages_are_left_out() -> None:
    """With --raw nothing has a unit."""
    found = sample_of("Free,User,System,Swap In", "1904000,5.1234,15.2,3").values
    assert found["node_memory_MemFree_bytes"] == 1904000
    assert "swap_in_bytes:rate" not in found


def test_an_array_that_ends_early_keeps_its_samples() -> None:
    """And a Problem says that it is cut."""
    data = b'[{"Datetime":"2026-11-20 10:54:16","Free":"1.8 GB","User":"5.00%"},{"Datetime":"2026-11-20 10:5'
    assert BULK_PARSER.claims("system.json", data, len(data))
    found = list(BULK_PARSER.read(Source("system.json"), Content(iter([data]))))
    assert [type(r) for r in found] == [Sample, Problem]
