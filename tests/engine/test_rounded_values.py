"""What a source rounded away is never decided: facts, ratios of changes, CPU use of processes, memory left."""

from __future__ import annotations

import pytest

from test_series_sources import FREE, rows, scene
from thpdiag.engine.check_result import NO, UNKNOWN, YES
from thpdiag.engine.checks import judge
from thpdiag.engine.schema import Change, ChangeCheck, FactCheck, Process, ProcessCheck
from thpdiag.host.memory import memory_shares
from thpdiag.model import Citation, Sample, Verdict3

GIB = 2.0**30
ANON, RSS = "node_memory_AnonPages_bytes", "node_memory_AnonHugePages_bytes"


@pytest.mark.parametrize(("above", "value"), [("19.8 GiB", UNKNOWN), ("20.2 GiB", UNKNOWN), ("18 GiB", YES),
                                              ("22 GiB", NO)])  # fmt: skip
def test_a_rounded_fact_near_a_bound_is_unknown(above: str, value: Verdict3) -> None:
    """The latest value of a metric, as a rule's fact."""
    given = scene(*rows(FREE, [20 * GIB], resolution=GIB))
    assert judge(FactCheck(fact=FREE, above=above), given).value is value


def test_another_value_that_surely_fits_is_enough() -> None:
    """Of several values of a name one that fits beyond rounding decides."""
    given = scene(*rows(FREE, [20 * GIB], resolution=GIB), *rows(FREE, [40 * GIB], "b.txt"))
    assert judge(FactCheck(fact=FREE, above="19.8 GiB"), given).value is YES


@pytest.mark.parametrize(("bound", "value"), [(0.9, UNKNOWN), (1.1, UNKNOWN), (0.5, YES), (2, NO)])
def test_a_ratio_of_rounded_changes_near_a_bound_is_unknown(bound: float, value: Verdict3) -> None:
    """Two readings above and two below the line, each right to a quantum."""
    samples = [
        Sample(
            "system", {ANON: at * GIB, RSS: at * GIB}, Citation("a.txt", at + 1), "x", resolution={ANON: GIB, RSS: GIB}
        )
        for at in range(24)
    ]
    check = ChangeCheck(change=Change(of=ANON, per=RSS, above=bound, at_least="8 GiB"))
    assert judge(check, scene(*samples)).value is value
    less = ChangeCheck(change=Change(of=ANON, at_least="24 GiB", above="1 GiB"))
    assert judge(less, scene(*samples)).value is UNKNOWN


@pytest.mark.parametrize(("above", "value"), [("19 %", UNKNOWN), ("21 %", UNKNOWN), ("10 %", YES), ("30 %", NO)])
def test_a_rounded_use_of_the_cpu_near_a_bound_is_unknown(above: str, value: Verdict3) -> None:
    """A column of whole tenths."""
    name = (("pid", "60"), ("comm", "khugepaged"))
    row = Sample("process", {"process_cpu_ratio": 0.2}, Citation("top.txt", 9), "top", name,
                 resolution={"process_cpu_ratio": 0.05})  # fmt: skip
    check = ProcessCheck(process=Process(comm="khugepaged", cpu_above=above))
    assert judge(check, scene(row)).value is value


def test_memory_that_was_printed_in_gigabytes_is_left_open_near_a_bound() -> None:
    """Of 16G, 1G free and 0G cached may be more than a tenth or less; what other columns were rounded to is nothing."""
    names = [f"node_memory_{part}_bytes" for part in ("MemTotal", "MemFree", "Cached")]
    row = Sample("system", dict(zip(names, (16 * GIB, GIB, 0.0), strict=True)), Citation("a.txt", 3), "x",
                 resolution={names[1]: GIB, names[2]: GIB, "cpu_ratio.busy": 0.01})  # fmt: skip
    (fact,) = memory_shares([row])
    assert fact.label("within") == "0.1250"
    (exact,) = memory_shares([Sample("system", row.values, row.cite, "x")])
    assert exact.labels == ()
